"""The clients that have opened their connections, at all doors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from headwater.server.management.viewer import Viewer
from headwater.server.security.identity import Identity

__all__ = ["Client", "Clients", "Figures", "Traffic"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a connection is at this moment, and what was agreed on."""

    host: str
    port: int
    peer_host: str
    peer_port: int
    is_running: bool
    """Whether neither end has begun to close it."""
    is_encrypted: bool
    mechanism: str
    connected_at_ms: int
    properties: Mapping[str, object]
    """What the client says of itself: text, numbers and truth values."""
    given_name: str
    frame_bytes_max: int
    timeout_s: int
    session_count: int
    received_bytes: int
    sent_bytes: int


class Carries(Protocol):
    """A connection that counts."""

    received_bytes: int
    sent_bytes: int


class Traffic:
    """What all connections of a door have carried since the server started."""

    def __init__(self) -> None:
        self._received_bytes = 0
        self._sent_bytes = 0
        """Of those that are gone."""

    def gone(self, connection: Carries) -> None:
        """A connection has ended."""
        self._received_bytes += connection.received_bytes
        self._sent_bytes += connection.sent_bytes

    def total(self, connections: Iterable[Carries]) -> tuple[int, int]:
        """Bytes received and sent, by those that are there too."""
        received_bytes, sent_bytes = self._received_bytes, self._sent_bytes
        for connection in connections:
            received_bytes += connection.received_bytes
            sent_bytes += connection.sent_bytes
        return received_bytes, sent_bytes


@dataclass(frozen=True, slots=True)
class Client:
    """A client that has opened its connection."""

    name: str
    """From where to where; of the connections of a moment no two have the same."""
    identity: Identity
    vhost: str
    protocol: str
    figures: Callable[[], Figures]
    close: Callable[[str], None]
    """Tell the client this reason, and end the connection whether it answers or not."""


class Clients:
    """Those of all doors, each of which adds its own."""

    def __init__(self) -> None:
        self._doors: list[Callable[[], Iterable[Client]]] = []
        self.count_max = 0
        """Connections that all doors together take."""

    def add_door(self, clients: Callable[[], Iterable[Client]], count_max: int) -> None:
        """Have one more door that says who is connected to it when it is asked."""
        self._doors.append(clients)
        self.count_max += count_max

    def __iter__(self) -> Iterator[Client]:
        for clients in self._doors:
            yield from clients()

    def seen_by(self, viewer: Viewer) -> list[Client]:
        """The clients that a user learns of, by their names."""
        seen = [client for client in self if viewer.sees_connection(client.identity)]
        return sorted(seen, key=lambda client: client.name)

    def named(self, name: str) -> Client | None:
        """The client of this name."""
        return next((client for client in self if client.name == name), None)
