"""What a run came to, in figures and in what does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.checker.content import StreamContent
from tests.checker.history import (
    Confirmed,
    Event,
    OutcomeKept,
    QueriedOffset,
    Received,
    ReceivedMessages,
    SideRead,
    StoredOffset,
    Updated,
)
from tests.checker.violation import Violation

__all__ = ["Figures", "Report", "figures_of"]

VIOLATIONS_SHOWN = 20


class Figures(msgspec.Struct):
    """How much of everything there was, so that nobody takes a run in which nothing happened for a good one."""

    stored: int = 0
    confirmed: int = 0
    delivered: int = 0
    delivered_amqp: int = 0
    kept: int = 0
    offsets_stored: int = 0
    offsets_told: int = 0
    turns: int = 0
    side_streams: int = 0
    lives: int = 0
    in_flight_max: int = 0
    faults: dict[str, int] = {}

    def __str__(self) -> str:
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.stored:,} records stored, {self.confirmed:,} ids confirmed, {self.delivered:,} records "
            f"delivered and {self.delivered_amqp:,} over AMQP, {self.kept:,} of them settled in "
            f"subscriptions, {self.offsets_stored} offsets stored and "
            f"{self.offsets_told} told, {self.turns} turns of single active consumers, {self.side_streams} side "
            f"streams, {self.lives} lives of the server, {self.in_flight_max:,} records in flight at a kill; {faults}"
        )


class Report(msgspec.Struct):
    """A run that was carried out."""

    seed: int
    folder: Path
    figures: Figures
    violations: list[Violation]

    def __str__(self) -> str:
        if not self.violations:
            return f"seed {self.seed} holds: {self.figures}"
        shown = [f"  {violation}" for violation in self.violations[:VIOLATIONS_SHOWN]]
        if len(self.violations) > VIOLATIONS_SHOWN:
            shown.append(f"  and {len(self.violations) - VIOLATIONS_SHOWN} more")
        return "\n".join(
            [
                f"seed {self.seed} fails: {self.figures}",
                *shown,
                f"folder and histories: {self.folder}",
                f"repeat it with: python -m tests.checker.run --seed {self.seed}",
            ]
        )


def figures_of(histories: Mapping[str, Sequence[Event]], contents: Mapping[str, StreamContent]) -> Figures:
    """What the histories add up to."""
    figures = Figures(stored=sum(content.end for content in contents.values()))
    for event in (event for history in histories.values() for event in history):
        if isinstance(event, Confirmed):
            figures.confirmed += sum(count for _, count in event.runs)
        elif isinstance(event, Received):
            figures.delivered += event.records
        elif isinstance(event, ReceivedMessages):
            figures.delivered_amqp += event.count
        elif isinstance(event, OutcomeKept):
            figures.kept += event.count
        elif isinstance(event, StoredOffset):
            figures.offsets_stored += 1
        elif isinstance(event, QueriedOffset):
            figures.offsets_told += event.offset is not None
        elif isinstance(event, Updated):
            figures.turns += event.active
        elif isinstance(event, SideRead):
            figures.side_streams += 1
    return figures
