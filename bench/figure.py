"""What all measurements share: how long they may take, what they give, and the table of it."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

__all__ = [
    "Aim",
    "Figure",
    "Options",
    "at_least",
    "at_most",
    "figure_of",
    "percentile",
    "ratio_of",
    "say",
    "table",
]


class Options(msgspec.Struct, frozen=True):
    """How a measurement is to be taken."""

    seconds: float
    """How long the load of one case lasts, all rounds together."""
    rounds: int
    """Best and median are those of so many rounds."""
    data: Path
    """A folder on a disk, for what the measurements store."""
    scale: float = 1.0
    """Below 1 it makes counts and sizes smaller; figures then mean little."""
    large: bool = False

    def scaled(self, count: int, floor: int) -> int:
        """A count or size, smaller where the scale says so."""
        return max(floor, int(count * self.scale))

    @property
    def round_seconds(self) -> float:
        """How long one round lasts."""
        return self.seconds / self.rounds


class Aim(msgspec.Struct, frozen=True):
    """What a figure, or its ratio to the yardstick, is meant to reach."""

    bound: float
    is_floor: bool
    of_ratio: bool

    def __str__(self) -> str:
        return f"{'ratio ' if self.of_ratio else ''}{'>=' if self.is_floor else '<='} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.bound if self.is_floor else value <= self.bound


class Figure(msgspec.Struct, frozen=True):
    """One line of the table."""

    case: str
    best: float
    median: float
    unit: str
    yardstick: str = ""
    ratio: float | None = None
    aim: Aim | None = None

    @property
    def verdict(self) -> str:
        """Whether the aim is reached: by the median round, by the best one alone, or not at all."""
        if self.aim is None:
            return ""
        if self.aim.of_ratio:
            return "yes" if self.ratio is not None and self.aim.holds(self.ratio) else "no"
        if self.aim.holds(self.median):
            return "yes"
        return "best round" if self.aim.holds(self.best) else "no"


def at_least(bound: float) -> Aim:
    """The figure is to reach this."""
    return Aim(bound, is_floor=True, of_ratio=False)


def at_most(bound: float) -> Aim:
    """The figure is not to exceed this."""
    return Aim(bound, is_floor=False, of_ratio=False)


def ratio_of(bound: float) -> Aim:
    """The ratio to the yardstick is to reach this."""
    return Aim(bound, is_floor=True, of_ratio=True)


def figure_of(
    case: str,
    values: Sequence[float],
    unit: str,
    *,
    smaller_is_better: bool = False,
    yardstick: str = "",
    ratio: float | None = None,
    aim: Aim | None = None,
) -> Figure:
    """The figure of some rounds."""
    best = min(values) if smaller_is_better else max(values)
    return Figure(case, best, statistics.median(values), unit, yardstick, ratio, aim)


def percentile(ordered: Sequence[int], share: float) -> int:
    """The value below which this share of sorted values lies; 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


def say(text: str) -> None:
    """A line of progress, beside the figures."""
    print(text, file=sys.stderr, flush=True)


def table(figures: Iterable[Figure]) -> str:
    """All figures, one a line."""
    head = ("case", "best", "median", "unit", "yardstick", "ratio", "aim", "met")
    rows = [head, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    align: list[Callable[[str, int], str]] = [str.ljust, str.rjust, str.rjust, *[str.ljust] * 5]
    lines = [
        "  ".join(place(cell, width) for place, cell, width in zip(align, row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        figure.case,
        _short(figure.best),
        _short(figure.median),
        figure.unit,
        figure.yardstick,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.aim is None else str(figure.aim),
        figure.verdict,
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
