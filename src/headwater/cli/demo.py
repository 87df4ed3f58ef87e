"""`headwater demo`: the log by itself, then a server that is killed under load and loses nothing; with figures."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headwater.cli.connecting import EXIT_CODE, USAGE_EXIT_CODE, fail, refusals

if TYPE_CHECKING:  # imported when the demo runs, so that other commands start fast
    from rich.console import Console

    from headwater.cli.demo_shop import Published

__all__ = ["demo"]

KILL_AFTER_SHARE = 0.6
"""Of the time that publishing took before."""
ORDERS_SHOWN = 3

_Result = TypeVar("_Result")


def demo(
    seconds: Annotated[
        float, typer.Option(min=0.1, max=60, help="How long to append, and to publish.")
    ] = 2.0,
    data: Annotated[
        Path | None, typer.Option(help="A new folder to work in; kept. Default: a temporary one.")
    ] = None,
) -> None:
    """Append, publish, read back, pull the plug, recover: what is promised, seen on this machine."""
    from rich.console import Console

    if data is not None and data.exists():
        fail(f"{data} exists already; name a folder that does not", USAGE_EXIT_CODE)
    folder = data or Path(tempfile.mkdtemp(prefix="headwater-demo-", dir=Path.cwd()))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with refusals():
            _Demo(Console(highlight=False, soft_wrap=True), folder, seconds).run()
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


class _Demo:
    """The steps in their order; each says one line, or a few."""

    def __init__(self, console: Console, folder: Path, seconds: float) -> None:
        from headwater.cli.demo_server import DemoServer

        self._console = console
        self._folder = folder
        self._seconds = seconds
        self._server: DemoServer = DemoServer(folder / "server")

    def run(self) -> None:
        """Show everything; fails if something that was confirmed is not there."""
        self._console.print(
            "[bold]Headwater[/]: one durable event log. All of this happens on a real disk.\n"
        )
        self._show_log()
        try:
            self._start()
            published = self._publish()
            self._tail()
            self._show_amqp(published)
            self._show_http()
            published = self._kill()
            self._recover(published)
            self._send_again(published)
            self._stop()
        finally:
            self._server.end()
        self._check()

    # The log by itself

    def _show_log(self) -> None:
        from headwater.cli.demo_log import append, read_all

        folder, started = self._folder / "log", time.perf_counter()
        with self._busy("append"):
            events, commits = _run(append(folder, self._seconds))
        rate = events / (time.perf_counter() - started)
        self._say(
            "append",
            f"{_shown(events)} events of 100 B to the log itself, each confirmed after fdatasync: "
            f"[bold]{_rate(rate)}[/] in {commits:,} commits",
        )
        started = time.perf_counter()
        with self._busy("read"):
            found = read_all(folder)
        rate = found / (time.perf_counter() - started)
        self._say("read", f"{_shown(found)} from the first to the last, CRCs checked: [bold]{_rate(rate)}[/]")
        self._demand(found == events, "Events are missing.")

    # The stream door

    def _start(self) -> None:
        with self._busy("serve"):
            took = self._server.start()
        self._say(
            "serve",
            f"process {self._server.pid}, ready after {took:.1f} s: RabbitMQ Stream clients on "
            f"127.0.0.1:{self._server.stream_port}, AMQP 1.0 clients on :{self._server.amqp_port}, "
            f"HTTP on :{self._server.http_port}",
        )

    def _publish(self) -> Published:
        from headwater.cli.demo_shop import publish_for

        with self._busy("publish"):
            done = _run(publish_for(self._server.stream_port, self._seconds))
        waited = (
            f", p50 {done.confirm.p50_ms:.1f} ms, p99 {done.confirm.p99_ms:.1f} ms" if done.confirm else ""
        )
        self._say(
            "publish",
            f"{_shown(done.sent)} orders through the door, all confirmed: "
            f"[bold]{_rate(done.sent / done.seconds)}[/]{waited}",
        )
        return done

    def _tail(self) -> None:
        from headwater.cli.demo_shop import ORDERS, last_messages

        last = _run(last_messages(self._server.stream_port, ORDERS, ORDERS_SHOWN))
        for index, (offset, body) in enumerate(last):
            # A body is data: markup in it would be none of ours.
            self._say("" if index else "tail", f"[dim]{offset:>11,}[/]  ", body)

    def _show_amqp(self, published: Published) -> None:
        from headwater.cli.demo_amqp import RETURNS, read_over_amqp, send_over_amqp
        from headwater.cli.demo_shop import ORDERS, last_messages

        server = self._server
        with self._busy("amqp"):
            took = _run(read_over_amqp(server.amqp_port, ORDERS, published.sent))
        self._say(
            "amqp",
            f"the same {_shown(published.sent)} orders, read by an AMQP 1.0 client from the first: "
            f"[bold]{_rate(published.sent / took)}[/]",
        )
        with self._busy("amqp"):
            accepted, took = _run(send_over_amqp(server.amqp_port, self._seconds / 2))
            ((offset, body),) = _run(last_messages(server.stream_port, RETURNS, 1))
        self._say(
            "",
            f"{_shown(accepted)} returns sent over AMQP 1.0, each accepted from disk: "
            f"[bold]{_rate(accepted / took)}[/]; a stream client reads the last one:",
        )
        self._say("", f"[dim]{offset:>11,}[/]  ", body)
        self._demand(offset + 1 == accepted, "Returns are missing.")

    def _show_http(self) -> None:
        from headwater.cli.demo_http import Curl, NoCurl, answer_over_amqp_and_streams, read_at_all_doors

        server = self._server
        try:
            curl = Curl(server.http_port)
        except NoCurl:
            self._say("curl", "is not installed here; what it would show is in docs/http.md")
            return
        self._say("curl", "", curl.posting)
        self._say("", "[dim]answered from disk:[/]  ", curl.post().strip())
        for reader in _run(read_at_all_doors(server.stream_port, server.amqp_port)):
            self._say("", f"{reader.client} reads it:  ", reader.event)
        _run(answer_over_amqp_and_streams(server.stream_port, server.amqp_port))
        events = curl.read()
        self._say("", "both of them answer, and curl reads the log:")
        for event in events:
            self._say("", "[dim]·[/] ", event)
        self._demand(len(events) == 3, "Events are missing.")

    def _kill(self) -> Published:
        from headwater.cli.demo_shop import publish_until_lost

        after = KILL_AFTER_SHARE * self._seconds
        with self._busy("kill -9"):
            done = _run(publish_until_lost(self._server.stream_port, after, self._server.kill))
        self._say(
            "kill -9",
            f"the server under load: {_shown(done.confirmed_through)} orders were confirmed, "
            f"{_shown(done.last_sent - done.confirmed_through)} more on their way",
        )
        return done

    def _recover(self, published: Published) -> None:
        from headwater.cli.demo_shop import read_back

        with self._busy("recover"):
            took = self._server.start()
            found = _run(read_back(self._server.stream_port))
        lost = max(published.confirmed_through - found.count, 0)
        self._say(
            "recover",
            f"ready after {took:.1f} s; {_shown(found.count)} orders read back, each once and in its place: "
            f"[bold]{lost} of the confirmed ones lost[/], {_shown(max(found.count - published.confirmed_through, 0))} "
            "more had reached the disk",
        )
        self._demand(lost == 0 and found.is_exact, "Orders are missing, or not what was sent.")

    def _send_again(self, published: Published) -> None:
        from headwater.cli.demo_shop import read_back, send

        first, last = published.confirmed_through + 1, published.last_sent
        if first > last:
            return
        with self._busy("again"):
            before, behind = _run(send(self._server.stream_port, first, last))
            found = _run(read_back(self._server.stream_port, first))
        self._say(
            "again",
            f"the {_shown(last - first + 1)} orders whose fate the shop does not know, sent once more: "
            f"{_shown(last - first + 1 - (behind - before))} recognised, {_shown(behind - before)} stored, none twice",
        )
        self._demand(found.is_exact and found.count == last, "Orders are missing, or stored twice.")

    def _stop(self) -> None:
        started = time.monotonic()
        code = self._server.stop()
        self._say("stop", f"SIGTERM, exit code {code} after {time.monotonic() - started:.1f} s")
        self._demand(code == 0, "The server did not stop in good order.")

    def _check(self) -> None:
        from headwater.log.check import check_folder

        with self._busy("check"):
            report = check_folder(self._folder / "server")
        chunks = sum(partition.chunks for partition in report.partitions)
        verdict = "something is damaged" if report.is_corrupt else "[green]nothing is damaged[/]"
        self._say("check", f"{_shown(chunks)} chunks read offline: {verdict}")
        self._demand(not report.is_corrupt, "The data folder is damaged.")

    # How it is shown

    def _say(self, what: str, text: str, verbatim: str = "") -> None:
        from rich.table import Table
        from rich.text import Text

        said = Text.from_markup(text).append(verbatim)
        if not self._console.is_terminal:
            self._console.print(f"{what:>9}  {said.plain}", markup=False)
            return
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(width=9, justify="right", style="bold cyan")
        row.add_column(overflow="fold")
        row.add_row(what, said)
        self._console.print(row)

    def _demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            fail(f"{otherwise} Please report this.", EXIT_CODE)

    @contextlib.contextmanager
    def _busy(self, what: str) -> Iterator[None]:
        """Something that moves in a terminal while a step takes its time."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(f"[bold cyan]{what}[/] …"):
            yield


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _shown(count: int) -> str:
    return f"{count:,}"


def _rate(per_second: float) -> str:
    return f"{per_second / 1e6:.1f} M/s" if per_second >= 1e5 else f"{per_second:,.0f}/s"
