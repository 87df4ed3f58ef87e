"""The load generator: made from its source, run, and held to exact counts and no protocol error."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.doors.servers import Server

__all__ = ["Load", "LoadFailed", "Loader", "Percentiles", "build_program", "read_load"]

_CAP_S = 180


class LoadFailed(Exception):
    """A run met a protocol error, or its counts are not what they must be."""


class Percentiles(msgspec.Struct, frozen=True):
    """Times in microseconds."""

    p50: float
    p99: float


class Load(msgspec.Struct, frozen=True):
    """What one run reports, as far as it is used here."""

    published: int = 0
    confirmed: int = 0
    """Confirmed in words of the stream protocol, accepted in those of AMQP."""
    accepted: int = 0
    pub_settled: int = 0
    """Whether messages were sent settled, so that nothing is said of them."""
    consumed: int = 0
    pub_msgs_s: float = 0
    con_msgs_s: float = 0
    pub_s: float = 0
    con_s: float = 0
    chunks: int = 0
    recs_per_chunk: float = 0
    wire_mb: float = msgspec.field(name="wire_MB", default=0)
    confirm_us: Percentiles | None = None
    deliver_us: Percentiles | None = None
    broker_cpu_s: float = 0
    broker_cpu_s_per_million: float = msgspec.field(name="broker_cpu_s_per_M", default=0)
    broker_cores: float = 0
    broker_rss_mib: float = msgspec.field(name="broker_rss_MiB", default=0)
    other_cores: float = 0
    error: str | None = None


def read_load(line: bytes, exit_code: int) -> Load:
    """The report of a run that ended well; raises `LoadFailed` else."""
    try:
        load = msgspec.json.decode(line, type=Load)
    except msgspec.DecodeError as error:
        raise LoadFailed(
            f"the load generator ended with {exit_code} and reported {line!r}: {error}"
        ) from error
    if exit_code or load.error is not None:
        raise LoadFailed(f"the load generator ended with {exit_code}: {load.error or line!r}")
    confirmed = load.published if load.pub_settled else load.confirmed + load.accepted
    if confirmed != load.published:
        raise LoadFailed(f"{confirmed} of {load.published} messages were confirmed")
    return load


def build_program(tools: Path, folder: Path, name: str) -> Path:
    """Compile a load generator into a folder, unless a newer one is there."""
    source, program = tools / f"{name}.c", folder / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-O2", "-o", str(program), str(source), "-lpthread"]
        subprocess.run(command, check=True)
    return program


class Loader:
    """Runs the load generator, and remembers how fast each server took each load."""

    def __init__(
        self, program: Path, *, fresh: Callable[[Server], Sequence[str]], verify: Sequence[str]
    ) -> None:
        """`fresh` gives the options for a stream that is empty, `verify` are those that check what is consumed."""
        self.fresh = fresh
        self._program = program
        self._verify = verify
        self._rates: dict[tuple[str, ...], int] = {}
        self.other_cores: list[float] = []
        """What other programs took of the machine, run by run."""

    def run(self, server: Server, mode: str, *options: str, consumed: int | None = None) -> Load:
        """One run to its end; with `consumed` it must have delivered exactly so many."""
        with self._started(server, mode, options) as process:
            line, _ = process.communicate()
        load = read_load(line, process.returncode)
        if consumed is not None and load.consumed != consumed:
            raise LoadFailed(f"{load.consumed} of {consumed} messages were consumed")
        self.other_cores.append(load.other_cores)
        return load

    def run_for(
        self, server: Server, seconds: float, mode: str, *options: str, pilot: int, each: int = 1
    ) -> Load:
        """One run of about so many seconds on fresh streams; how many messages that takes, two short runs find out.

        With `both` each message is consumed `each` times, and the first run checks every chunk and record.
        """
        key = (server.name, mode, *options)
        if key not in self._rates:
            verify = self._verify if mode == "both" else ()
            for count, further in ((pilot, verify), (0, ())):
                load = self._counted(server, mode, (*options, *further), count or self._rates[key], each)
                self._rates[key] = max(1, int(load.pub_msgs_s * (count or self._rates[key]) / load.published))
        return self._counted(server, mode, options, max(1, int(self._rates[key] * seconds)), each)

    @contextlib.contextmanager
    def beside(self, server: Server, mode: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """A run that goes on while something else is measured, and is then ended."""
        with self._started(server, mode, options) as process:
            yield process

    @contextlib.contextmanager
    def repeated_beside(self, server: Server, times: int, mode: str, *options: str) -> Iterator[list[Load]]:
        """So many runs one after the other while something else is measured; gives their reports at the end."""
        loads: list[Load] = []
        failures: list[Exception] = []

        def work() -> None:
            try:
                loads.extend(self.run(server, mode, *options) for _ in range(times))
            except (LoadFailed, OSError) as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield loads
        finally:
            thread.join()
        if failures:
            raise failures[0]

    def _counted(self, server: Server, mode: str, options: Sequence[str], count: int, each: int) -> Load:
        load = self.run(server, mode, *self.fresh(server), "--n", str(count), *options)
        if mode == "both" and load.consumed != load.published * each:
            raise LoadFailed(f"{load.consumed} of {load.published * each} messages were consumed")
        return load

    @contextlib.contextmanager
    def _started(
        self, server: Server, mode: str, options: Sequence[str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = [str(self._program), mode, "--port", str(server.port), "--pid", str(server.pid)]
        command += ["--seconds", str(_CAP_S), *server.load_options, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
