"""Links that read a log and of which no account is kept, as operators see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headwater.log.partition import Partition

__all__ = ["LiveReceiver", "LiveReceivers", "connection_of"]

ID_SEPARATOR = "#"


@dataclass(frozen=True, slots=True)
class LiveReceiver:
    """One of them, as long as it is attached."""

    connection: str
    name: str
    """Of the link."""
    container: str
    user: str
    vhost: str
    log: str
    offsets: Callable[[], Mapping[Partition, int]]
    """Of each partition: all events before it are sent, or not wanted."""
    filters: Callable[[], Mapping[str, str]]
    """By name, as text."""
    is_there: Callable[[], bool]
    """Whether it is still attached."""
    end: Callable[[], None]
    """Tell the client that an operator ended it."""

    @property
    def id(self) -> str:
        """What names it at all doors."""
        return f"{self.connection}{ID_SEPARATOR}{self.name}"


class LiveReceivers(Protocol):
    """Finds them."""

    def __call__(self, connection: str | None = None) -> Iterable[LiveReceiver]:
        """Those of all connections, or of one, one after the other."""
        ...


def connection_of(id_: str) -> str:
    """The connection that an id names."""
    return id_.partition(ID_SEPARATOR)[0]
