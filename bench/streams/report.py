"""The table of both servers: best and median, their ratios, and which aims are met."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

import msgspec

from bench.streams.case import Case, Metric, Values

__all__ = ["Row", "rows_of", "table"]

_HEAD = ("case", "unit", "ours", "median", "RabbitMQ", "median", "ratio", "median", "aim", "goal", "met")


class Row(msgspec.Struct, frozen=True):
    """One metric of one case, all rounds of both servers."""

    case: str
    metric: Metric
    ours: Sequence[float]
    theirs: Sequence[float] = ()

    @property
    def best_ratio(self) -> float | None:
        """Of the best rounds, ours to theirs."""
        return _ratio(self.best(self.ours), self.best(self.theirs)) if self.theirs else None

    @property
    def median_ratio(self) -> float | None:
        """Of the median rounds."""
        return _ratio(statistics.median(self.ours), statistics.median(self.theirs)) if self.theirs else None

    @property
    def verdict(self) -> str:
        """Whether the aim is met by the median, by the best round alone, or missed; empty if that cannot be told."""
        aim = self.metric.aim
        if aim is None:
            return ""
        median, best = self.median_ratio, self.best_ratio
        if not aim.of_ratio:
            median, best = statistics.median(self.ours), self.best(self.ours)
        if median is None or best is None:
            return "no peer"
        if aim.holds(median):
            return "met"
        return "best round" if aim.holds(best) else "MISSED"

    def best(self, values: Sequence[float]) -> float:
        """The best of some rounds."""
        return min(values) if self.metric.smaller_is_better else max(values)


def rows_of(case: Case, ours: Sequence[Values], theirs: Sequence[Values]) -> list[Row]:
    """The lines of one case."""
    return [
        Row(
            case.title,
            metric,
            [values[metric.name] for values in ours],
            [values[metric.name] for values in theirs],
        )
        for metric in case.metrics
    ]


def table(rows: Iterable[Row]) -> str:
    """All lines; a case is named on its first one."""
    lines: list[tuple[str, ...]] = [_HEAD]
    case = ""
    for row in rows:
        if row.case != case:
            lines.append((row.case, *[""] * (len(_HEAD) - 1)))
            case = row.case
        lines.append(_cells(row))
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    align: list[Callable[[str, int], str]] = [str.ljust, str.ljust, *[str.rjust] * 6, *[str.ljust] * 3]
    shown = [
        "  ".join(place(cell, width) for place, cell, width in zip(align, line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([shown[0], "-" * max(map(len, shown)), *shown[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    metric = row.metric
    theirs = (_short(row.best(row.theirs)), _short(statistics.median(row.theirs))) if row.theirs else ("", "")
    return (
        f"  {metric.name}",
        metric.unit,
        _short(row.best(row.ours)),
        _short(statistics.median(row.ours)),
        *theirs,
        _times(row.best_ratio),
        _times(row.median_ratio),
        "" if metric.aim is None else str(metric.aim),
        "" if metric.goal is None else f"{metric.goal:g}",
        row.verdict,
    )


def _ratio(ours: float, theirs: float) -> float | None:
    return ours / theirs if theirs else None


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
