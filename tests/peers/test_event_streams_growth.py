"""Qpid Proton on a super stream that grows: new partitions come by themselves, and a delivery says that they did."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Array, Data, Message, symbol
from proton.utils import BlockingReceiver

from tests.http_api import Api
from tests.peers.proton_clients import connected, receive_from, send_all
from tests.peers.servers import Server

CHANGED = symbol("event-streams-associated-partitions-changed")


def bind(api: Api, log: str, key: str) -> None:
    """Make a stream a partition of a log, as tools for RabbitMQ do."""
    api.do("POST", f"/bindings/%2F/e/{log}/q/{log}-{key}", {"routing_key": key})


def next_of(receiver: BlockingReceiver) -> tuple[Any, Any, list[str] | None]:
    """The body and partition of the next message, and the partitions that it says there are now."""
    message: Message = receiver.receive()
    receiver.accept()
    changed = message.instructions.get(CHANGED)
    if changed is None:
        return message.body, str(message.instructions["event-streams-source-partition"]), None
    assert isinstance(changed, Array)
    assert changed.type == Data.SYMBOL
    return message.body, str(message.instructions["event-streams-source-partition"]), list(changed.elements)


@pytest.mark.clause("ES-17")
def test_proton_learns_of_a_partition_that_is_added_and_reads_it_from_its_first_event(
    server: Server, stream: str
) -> None:
    api = Api(server.http_port)
    api.do("PUT", f"/exchanges/%2F/{stream}", {"type": "direct", "arguments": {"x-super-stream": True}})
    for key in ("eu", "us", "asia"):
        api.do("PUT", f"/queues/%2F/{stream}-{key}", {"arguments": {"x-queue-type": "stream"}})
    for key in ("eu", "us"):
        bind(api, stream, key)
    with connected(server) as connection:
        send_all(connection, f"{stream}-asia", ["asia 0", "asia 1"])
        receiver = receive_from(connection, stream, "next", 10)
        send_all(connection, f"{stream}-eu", ["eu 0"])
        assert next_of(receiver) == ("eu 0", "eu", None)
        bind(api, stream, "asia")
        assert next_of(receiver) == ("asia 0", "asia", ["eu", "us", "asia"])
        assert next_of(receiver) == ("asia 1", "asia", None)
        api.do("DELETE", f"/queues/%2F/{stream}-eu")
        send_all(connection, f"{stream}-us", ["us 0", "us 1"])
        assert next_of(receiver) == ("us 0", "us", ["us", "asia"])
        assert next_of(receiver) == ("us 1", "us", None)
