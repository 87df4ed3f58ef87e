"""Appends of 1 KiB events: the bytes beside those of a bare loop with commits of the same size."""

from __future__ import annotations

from bench.append import APPENDERS, cost_figures, rate_figure, run_rounds
from bench.disk import scratch
from bench.figure import Figure, Options, ratio_of
from bench.load import run_in_loop

__all__ = ["run"]

MESSAGE_BYTES = 1024
AIM_RATIO = 0.8


def run(options: Options) -> list[Figure]:
    """Four publishers on one partition."""
    with scratch(options.data, "append-1k") as folder:
        rounds = run_in_loop(run_rounds(options, folder, 1, APPENDERS, MESSAGE_BYTES))
    return [rate_figure("append, 1 KiB, 1 partition", rounds, ratio_of(AIM_RATIO)), *cost_figures(rounds)]
