"""What is measured at a door: cases, their metrics, and the aim of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from bench.doors.loading import Loader
from bench.doors.servers import Server
from bench.figure import Aim

__all__ = ["Bench", "Case", "Metric", "Values", "cpu_ratio", "memory", "no_slower"]

Values = Mapping[str, float]
"""What one round of a case gave, by the name of the metric."""


class Metric(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    unit: str
    smaller_is_better: bool = False
    aim: Aim | None = None
    goal: float | None = None
    """Beyond the aim, what would be good."""


class Bench(msgspec.Struct, frozen=True):
    """What a case works with."""

    loader: Loader
    seconds: float
    """How long one round of a load lasts."""
    scale: float = 1.0
    """Below 1 it makes logs and crowds smaller; figures then mean little."""

    def scaled(self, count: int, floor: int = 1) -> int:
        """A count or size, smaller where the scale says so."""
        return max(floor, int(count * self.scale))


def _nothing(_bench: Bench, _server: Server) -> None:
    """Most cases need nothing before or after."""


class Case(msgspec.Struct, frozen=True):
    """One load, the metrics it gives, and what it needs before and after all its rounds."""

    name: str
    title: str
    metrics: Sequence[Metric]
    run: Callable[[Bench, Server], Values]
    prepare: Callable[[Bench, Server], None] = _nothing
    clean: Callable[[Bench, Server], None] = _nothing
    rounds_max: int | None = None


def no_slower(
    aim: float = 1.0, *, goal: float | None = None, unit: str = "k/s", name: str = "rate"
) -> Metric:
    """A rate whose ratio to RabbitMQ's is to reach the aim."""
    return Metric(name, unit, aim=Aim(aim, is_floor=True, of_ratio=True), goal=goal)


def cpu_ratio(aim: float | None = None) -> Metric:
    """The server's CPU for a million messages, at most so many times RabbitMQ's."""
    bound = None if aim is None else Aim(aim, is_floor=False, of_ratio=True)
    return Metric("CPU", "s/million", smaller_is_better=True, aim=bound)


def memory() -> Metric:
    """What the server's process holds at the end."""
    return Metric("memory", "MiB", smaller_is_better=True)
