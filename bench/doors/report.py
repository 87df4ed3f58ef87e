"""The table of all servers: best and median, ratios to ours, and which aims are met."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from bench.doors.case import Case, Metric, Values

__all__ = ["Row", "rows_of", "table"]

_FOR_EACH_PEER = ("median", "ratio", "median")


class Row(msgspec.Struct, frozen=True):
    """One metric of one case, all rounds of all servers."""

    case: str
    metric: Metric
    ours: Sequence[float]
    peers: Mapping[str, Sequence[float]] = {}
    """What other servers reached; aims of a ratio are held to the first one."""

    def best_ratio(self, peer: str) -> float | None:
        """Of the best rounds, ours to theirs."""
        theirs = self.peers[peer]
        return _ratio(self.best(self.ours), self.best(theirs)) if theirs else None

    def median_ratio(self, peer: str) -> float | None:
        """Of the median rounds."""
        theirs = self.peers[peer]
        return _ratio(statistics.median(self.ours), statistics.median(theirs)) if theirs else None

    @property
    def verdict(self) -> str:
        """Whether the aim is met by the median, by the best round alone, or missed; empty if that cannot be told."""
        aim = self.metric.aim
        if aim is None:
            return ""
        median: float | None
        best: float | None
        median, best = statistics.median(self.ours), self.best(self.ours)
        if aim.of_ratio:
            first = next(iter(self.peers), None)
            median = None if first is None else self.median_ratio(first)
            best = None if first is None else self.best_ratio(first)
        if median is None or best is None:
            return "no peer"
        if aim.holds(median):
            return "met"
        return "best round" if aim.holds(best) else "MISSED"

    def best(self, values: Sequence[float]) -> float:
        """The best of some rounds."""
        return min(values) if self.metric.smaller_is_better else max(values)


def rows_of(case: Case, values: Mapping[str, Sequence[Values]]) -> list[Row]:
    """The lines of one case, of what each server gave; ours is the first."""
    ours, *peers = values
    return [
        Row(
            case.title,
            metric,
            [round_[metric.name] for round_ in values[ours]],
            {peer: [round_[metric.name] for round_ in values[peer]] for peer in peers},
        )
        for metric in case.metrics
    ]


def table(rows: Sequence[Row]) -> str:
    """All lines; a case is named on its first one."""
    peers = list(dict.fromkeys(peer for row in rows for peer in row.peers))
    columns = [column for peer in peers for column in (peer, *_FOR_EACH_PEER)]
    head = ("case", "unit", "ours", "median", *columns, "aim", "goal", "met")
    lines: list[tuple[str, ...]] = [head]
    case = ""
    for row in rows:
        if row.case != case:
            lines.append((row.case, *[""] * (len(head) - 1)))
            case = row.case
        lines.append(_cells(row, peers))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    numbers = len(head) - 5
    align: list[Callable[[str, int], str]] = [str.ljust, str.ljust, *[str.rjust] * numbers, *[str.ljust] * 3]
    shown = [
        "  ".join(place(cell, width) for place, cell, width in zip(align, line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([shown[0], "-" * max(map(len, shown)), *shown[1:]])


def _cells(row: Row, peers: Iterable[str]) -> tuple[str, ...]:
    metric = row.metric
    return (
        f"  {metric.name}",
        metric.unit,
        _short(row.best(row.ours)),
        _short(statistics.median(row.ours)),
        *(cell for peer in peers for cell in _peer_cells(row, peer)),
        "" if metric.aim is None else str(metric.aim),
        "" if metric.goal is None else f"{metric.goal:g}",
        row.verdict,
    )


def _peer_cells(row: Row, peer: str) -> tuple[str, str, str, str]:
    theirs = row.peers.get(peer)
    if not theirs:
        return "", "", "", ""
    best, median = _short(row.best(theirs)), _short(statistics.median(theirs))
    return best, median, _times(row.best_ratio(peer)), _times(row.median_ratio(peer))


def _ratio(ours: float, theirs: float) -> float | None:
    return ours / theirs if theirs else None


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
