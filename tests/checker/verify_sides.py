"""Streams that come and go: what was answered holds, and nothing of a deleted one comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.checker.history import Event, SideRead, SideStep
from tests.checker.violation import Kind, Violation

__all__ = ["check_side_stream"]


def check_side_stream(history: Iterable[Event]) -> Iterator[Violation]:
    """The history is that of the one client who makes, fills, reads and deletes the stream."""
    before = ""
    for event in history:
        if isinstance(event, SideStep):
            where = f"{event.stream}, incarnation {event.incarnation}"
            if event.step == "missing" and before == "created":
                yield Violation(Kind.STREAM_LOST, where)
            if event.step == "exists" and before in ("", "deleted", "missing"):
                yield Violation(Kind.STREAM_CAME_BACK, where)
            before = "created" if event.step == "exists" else event.step
        elif isinstance(event, SideRead):
            yield from _check_read(event)


def _check_read(read: SideRead) -> Iterator[Violation]:
    where = f"{read.stream}, incarnation {read.incarnation}"
    if strangers := {incarnation for incarnation, _, _ in read.runs} - {read.incarnation}:
        yield Violation(Kind.STREAM_CAME_BACK, f"{where}: messages of {sorted(strangers)}")
        return
    if read.first_offset:
        yield Violation(Kind.NOT_DENSE, f"{where} begins at {read.first_offset}")
    ids = [id_ for _, first, count in read.runs for id_ in range(first, first + count)]
    if ids != list(range(1, read.confirmed + 1)):
        yield Violation(Kind.LOST, f"{where}: {read.confirmed} were confirmed, {read.runs} are there")
