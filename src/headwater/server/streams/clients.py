"""The clients of the stream door, as management shows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from headwater.server.management.clients import Client, Figures
from headwater.streams.connection import State

if TYPE_CHECKING:
    from headwater.server.streams.connection import StreamProtocol
    from headwater.server.streams.door import Door

__all__ = ["PROTOCOL", "stream_clients"]

PROTOCOL = "stream"


def stream_clients(door: Door) -> Iterator[Client]:
    """Those that have opened."""
    for connection in list(door.connections):
        session = connection.session
        if session is not None:
            figures = partial(_figures, connection)
            yield Client(
                connection.name, session.identity, session.vhost, PROTOCOL, figures, connection.force_close
            )


def _figures(connection: StreamProtocol) -> Figures:
    machine = connection.machine
    host, port = connection.address("sockname")
    peer_host, peer_port = connection.address("peername")
    return Figures(
        host=host,
        port=port,
        peer_host=peer_host,
        peer_port=peer_port,
        is_running=machine.state is State.OPENED,
        is_encrypted=connection.is_encrypted,
        mechanism=machine.mechanism,
        connected_at_ms=connection.connected_at_ms,
        properties=machine.peer_properties,
        given_name=machine.peer_properties.get("connection_name", ""),
        frame_bytes_max=machine.frame_size_bytes_max,
        timeout_s=machine.heartbeat_s,
        session_count=0,
        received_bytes=connection.received_bytes,
        sent_bytes=connection.sent_bytes,
    )
