"""What the server says of itself: its state, its age, and what lies in its data folder."""

from __future__ import annotations

import enum

import msgspec

__all__ = ["DataHealth", "Health", "ServerState"]


class ServerState(enum.StrEnum):
    """Where the server stands between its first moment and its last."""

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    STOPPING = "stopping"

    @property
    def is_serving(self) -> bool:
        """Whether clients may come; a degraded server serves all but its damaged partitions' damaged parts."""
        return self in (ServerState.READY, ServerState.DEGRADED)


class DataHealth(msgspec.Struct, frozen=True):
    """Figures of the data folder."""

    logs: int
    partitions: int
    damaged_partitions: int
    """They are served up to the damage, and refuse writes."""
    read_only_partitions: int
    """Nobody knows what the disk holds of their last commit: they refuse writes until a restart has recovered them."""


class Health(msgspec.Struct, frozen=True):
    """The answer of `GET /health`; there are no data figures while the folder is not open."""

    state: ServerState
    version: str
    uptime_s: float
    data: DataHealth | None
