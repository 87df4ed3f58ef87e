"""Runs one seed: `python -m tests.checker.run --seed 7 --seconds 60`; a run that fails leaves its folder."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from headwater.client.address import Address
from headwater.client.stream_connection import StreamConnection
from headwater.log.check import CheckReport
from tests.checker.board import UNKNOWN, Board, Phase
from tests.checker.clients import ClientFailed, ClientProcesses
from tests.checker.content import StreamContent, read_stream
from tests.checker.faults import Faults
from tests.checker.history import Event, QueriedOffset, Recorder, load, now
from tests.checker.link import CREDENTIALS
from tests.checker.payload import Payloads
from tests.checker.plan import Plan, make_plan, position_gauge, target_gauge
from tests.checker.report import Figures, Report, figures_of
from tests.checker.server import SERVE, ServerFailed, ServerProcess
from tests.checker.verify import RUNNER, server_facts, target_of_consumer, verify
from tests.checker.violation import Kind, Violation

__all__ = ["SECONDS", "run_seed"]

SECONDS = 40.0
STUCK_AFTER_S = 120.0
LOOK_S = 0.05

Tell = Callable[[str], None]


class Stuck(Exception):
    """Nothing went on for a long time."""


def run_seed(
    folder: Path, seed: int, seconds: float, command: Sequence[str] = SERVE, tell: Tell = lambda _: None
) -> Report:
    """Carry out a run in an empty folder and verify it."""
    run = _Run(folder, make_plan(seed), command, tell)
    violations: list[Violation] = []
    try:
        run.carry_out(seconds)
    except ServerFailed as error:
        violations.append(Violation(Kind.SERVER, str(error)))
    except ClientFailed as error:
        violations.append(Violation(Kind.SERVER, str(error)))
    except Stuck as error:
        violations.append(Violation(Kind.STUCK, str(error)))
    finally:
        run.end()
    violations += run.verify()
    return Report(seed, folder, run.figures(), violations)


class _Run:
    """One server, its clients and what is done to them."""

    def __init__(self, folder: Path, plan: Plan, command: Sequence[str], tell: Tell) -> None:
        self._folder = folder
        self._plan = plan
        self._tell = tell
        self._history = folder / "history"
        self._history.mkdir(parents=True)
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        self._board = Board(folder / "board", plan.gauges())
        self._recorder = Recorder(self._history / f"{RUNNER}.jsonl")
        self._server = ServerProcess(folder, command)
        self._clients = ClientProcesses(folder)
        self._faults = Faults(plan, self._board, self._server, self._clients, self._recorder.record)
        self._contents: dict[str, StreamContent] = {}
        self._check_failures: list[str] = []

    def carry_out(self, seconds: float) -> None:
        """All of it, in order."""
        for name in self._plan.unknown_gauges():
            self._board[name] = UNKNOWN
        self._faults.start_server()
        asyncio.run(self._create_streams())
        for name in self._plan.processes:
            self._clients.begin(name)
        self._tell(f"seed {self._plan.seed}: faults for {seconds:g} s")
        self._faults.run_for(seconds)
        self._drain()
        self._faults.stop_server()
        self._check_folder()

    def end(self) -> None:
        """Leave no process behind."""
        self._clients.end()
        self._server.end()
        self._recorder.close()

    def verify(self) -> list[Violation]:
        """What does not hold, as far as the run came."""
        self._tell("verifying")
        violations = [Violation(Kind.SERVER, complaint) for complaint in self._server.complaints()]
        violations += [Violation(Kind.FOLDER, failure) for failure in self._check_failures]
        if len(self._contents) == len(self._plan.streams):
            facts = server_facts(list(self._events(RUNNER)), frozenset(self._server.given_up()))
            violations += verify(self._plan, self._histories(), self._contents, facts)
        return violations

    def figures(self) -> Figures:
        """What the run came to."""
        figures = figures_of(self._histories(), self._contents)
        figures.lives = self._server.life
        figures.in_flight_max = self._faults.in_flight_max
        figures.faults = dict(self._faults.count)
        return figures

    # The end of a run

    def _drain(self) -> None:
        """Let everything arrive, read all there is, and let everybody end."""
        self._tell("draining")
        plan, board = self._plan, self._board
        board.phase = Phase.DRAIN
        publishing = {publisher.process for publisher in plan.publishers}
        self._wait_until(lambda: self._clients.have_ended(publishing), "publishers have all confirmed")
        asyncio.run(self._read_streams())
        for consumer in plan.consumers:
            target = target_of_consumer(plan, consumer, self._contents[consumer.stream])
            board[target_gauge(consumer.name)] = target
        for subscription, stream in plan.subscriptions.items():
            board[target_gauge(subscription)] = self._contents[stream].end
        others = [name for name in plan.processes if name not in plan.members]
        self._wait_until(lambda: self._clients.have_ended(others), "consumers have come to the end")
        self._wait_until(self._groups_are_done, "groups have come to the end")
        asyncio.run(self._query_offsets())
        board.phase = Phase.STOP
        self._wait_until(lambda: self._clients.have_ended(plan.processes), "members end")

    def _groups_are_done(self) -> bool:
        return all(
            self._board[position_gauge(f"{group.reference}/{stream}")] >= self._contents[stream].end
            for group in self._plan.groups
            for stream in group.streams
        )

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait as long as anything goes on."""
        before, since = self._board.snapshot(), time.monotonic()
        while not condition():
            self._clients.check()
            if self._server.has_ended():
                raise ServerFailed(f"life {self._server.life} has ended by itself")
            if (snapshot := self._board.snapshot()) != before:
                before, since = snapshot, time.monotonic()
            elif time.monotonic() - since > STUCK_AFTER_S:
                raise Stuck(f"nothing went on for {STUCK_AFTER_S:g} s while waiting until {what}")
            time.sleep(LOOK_S)
        self._clients.check()

    async def _connect(self) -> StreamConnection:
        address = Address(port=self._server.port)
        return await StreamConnection.connect(address, CREDENTIALS, request_timeout_s=STUCK_AFTER_S)

    async def _create_streams(self) -> None:
        async with await self._connect() as connection:
            for name in self._plan.super_streams:
                partitions = [stream.name for stream in self._plan.streams if stream.super_stream == name]
                keys = [str(index) for index in range(len(partitions))]
                await connection.create_super_stream(name, partitions, keys)
            for stream in self._plan.streams:
                if stream.super_stream is None:
                    await connection.create_stream(stream.name, stream.arguments)

    async def _read_streams(self) -> None:
        payloads = Payloads(self._plan.seed)
        async with await self._connect() as connection:
            for stream in self._plan.streams:
                try:
                    content = await read_stream(connection, stream.name, payloads)
                except TimeoutError:
                    raise Stuck(f"{stream.name} cannot be read to its end") from None
                self._contents[stream.name] = content

    async def _query_offsets(self) -> None:
        groups = [(group.reference, stream) for group in self._plan.groups for stream in group.streams]
        consumers = [(consumer.name, consumer.stream) for consumer in self._plan.consumers]
        async with await self._connect() as connection:
            for reference, stream in (*groups, *consumers):
                asked_at = now()
                offset = await connection.stored_offset(reference, stream)
                self._recorder.record(QueriedOffset(RUNNER, now(), 0, reference, stream, offset, asked_at))

    def _check_folder(self) -> None:
        """`headwater check` must find nothing, and the offsets that were read."""
        command = [sys.executable, "-m", "headwater.cli.main", "check", "--json", str(self._server.data)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            self._check_failures.append(f"check ends with {done.returncode}: {done.stdout[-2000:]!r}")
            return
        report = msgspec.json.decode(done.stdout, type=CheckReport)
        found = sorted(each.end_offset for each in report.partitions if each.end_offset)
        read = sorted(content.end for content in self._contents.values() if content.end)
        if [end for end in read if end not in found]:
            self._check_failures.append(f"streams of {read} records were read, the folder has {found}")
        self._check_failures += [str(finding) for finding in report.findings]

    # Histories

    def _events(self, process: str) -> list[Event]:
        return list(load(self._history / f"{process}.jsonl"))

    def _histories(self) -> dict[str, list[Event]]:
        """By client; that of a member says when the runner killed it."""
        histories: dict[str, list[Event]] = defaultdict(list)
        for process in (*self._plan.processes, RUNNER):
            for event in self._events(process):
                histories[event.who].append(event)
        for name in self._plan.members:
            histories[name].sort(key=lambda event: event.at)
        return histories


def main() -> int:
    """Zero if the seed holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.checker.run", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--folder", type=Path, help="an empty folder for data, logs and histories")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="headwater-checker-"))
    report = run_seed(folder, arguments.seed, arguments.seconds, tell=lambda text: print(text, flush=True))
    print(report)
    if not report.violations and arguments.folder is None:
        shutil.rmtree(folder)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
