"""The clients of the AMQP door, as management shows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from headwater.amqp.connection import State
from headwater.amqp.definitions import Condition, ErrorValue
from headwater.server.management.clients import Client, Figures

if TYPE_CHECKING:
    from headwater.server.amqp.connection import AmqpProtocol
    from headwater.server.amqp.door import Door

__all__ = ["PROTOCOL", "amqp_clients"]

PROTOCOL = "AMQP 1-0"
SHOWN_CHARS_MAX = 255


def amqp_clients(door: Door) -> Iterator[Client]:
    """Those that have opened."""
    for connection in list(door.connections):
        container = connection.container
        if container is not None:
            yield Client(
                connection.name,
                container.identity,
                container.vhost,
                PROTOCOL,
                partial(_figures, connection),
                partial(_close, connection),
            )


def _close(connection: AmqpProtocol, reason: str) -> None:
    connection.close(ErrorValue(Condition.CONNECTION_FORCED, reason))


def _figures(connection: AmqpProtocol) -> Figures:
    machine = connection.machine
    assert machine.remote is not None, "the client has opened"
    properties = {str(key): _shown(value) for key, value in (machine.remote.properties or {}).items()}
    properties["container_id"] = machine.remote.container_id
    host, port = connection.address("sockname")
    peer_host, peer_port = connection.address("peername")
    return Figures(
        host=host,
        port=port,
        peer_host=peer_host,
        peer_port=peer_port,
        is_running=machine.state is State.OPENED,
        is_encrypted=connection.is_encrypted,
        mechanism=connection.mechanism,
        connected_at_ms=connection.connected_at_ms,
        properties=properties,
        given_name=str(properties.get("connection_name", machine.remote.container_id)),
        frame_bytes_max=min(machine.limits.frame_size_bytes_max, machine.remote.max_frame_size),
        timeout_s=(machine.remote.idle_time_out or 0) // 1000,
        session_count=len(machine.sessions),
        received_bytes=connection.received_bytes,
        sent_bytes=connection.sent_bytes,
    )


def _shown(value: object) -> str | int | float | bool:
    """A value of a property that JSON has a form for too."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value)
    return str(value)[:SHOWN_CHARS_MAX]
