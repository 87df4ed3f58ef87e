"""Qpid Proton with the Event Stream Extensions: bound links, routed messages, what deliveries say, and `$info`."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from proton import Delivery, Described, Link, Message, symbol
from proton.reactor import Filter, LinkOption
from proton.utils import BlockingConnection, BlockingSender, LinkDetached, SyncRequestResponse

from tests.peers.programs import Program, publish
from tests.peers.proton_clients import STEP_TIMEOUT_S, Raw, bodies, connected, from_offset, receive_from
from tests.peers.servers import Server

PARTITION = symbol("event-streams-partition")
TARGET = symbol("event-streams-target-partition")
GROUP_KEY = symbol("event-streams-group-key")
COUNT = 8

_LINKS = itertools.count(1)


class Bound(LinkOption):
    """Asks for a partition."""

    def __init__(self, partition_id: str) -> None:
        self._partition_id = partition_id

    def apply(self, link: Link) -> None:
        link.properties = {PARTITION: symbol(self._partition_id)}


def make_log(connection: BlockingConnection, name: str, partition_count: int, **policies: object) -> None:
    management = SyncRequestResponse(connection, "$management")
    create = {"operation": "CREATE", "type": "headwater.log", "name": name}
    response = management.call(
        Message(properties=create, body={"partition_count": partition_count, **policies})
    )
    assert response.properties["statusCode"] == 201, response


def sender_to(connection: BlockingConnection, address: str, *options: LinkOption) -> BlockingSender:
    return connection.create_sender(address, name=f"{address}-{next(_LINKS)}", options=list(options))


def offsets(connection: BlockingConnection, log: str) -> dict[str, tuple[Any, Any]]:
    """What `$info` says."""
    receiver = connection.create_receiver(f"{log}/$info", name=f"info-{next(_LINKS)}", credit=1)
    told = receiver.receive().body
    receiver.close()
    assert list(told) == ["partitions"]
    return {
        each["partition"]: (each["earliest-offset"], each["latest-offset"]) for each in told["partitions"]
    }


def send_keyed(connection: BlockingConnection, log: str, texts: list[str]) -> None:
    """Send messages whose first word is their key, and see them accepted."""
    sender = sender_to(connection, log)
    deliveries = [
        sender.link.send(Message(annotations={GROUP_KEY: text.split()[0]}, body=text)) for text in texts
    ]
    connection.wait(lambda: all(each.remote_state == Delivery.ACCEPTED for each in deliveries))


def read_places(
    connection: BlockingConnection, log: str, count: int
) -> tuple[dict[str, set[str]], list[str]]:
    """The partitions of each key, and what was read."""
    raw = Raw()
    raw.receiver = connection.create_receiver(
        log, credit=count, handler=raw, name=f"raw-{next(_LINKS)}", options=[from_offset()]
    )
    connection.wait(lambda: len(raw.payloads) == count)
    places: dict[str, set[str]] = {}
    seen = []
    for payload in raw.payloads:
        message = Message()
        message.decode(payload)
        body = message.body if isinstance(message.body, str) else bytes(message.body).decode()
        key = body.split()[0]
        assert (message.annotations or {GROUP_KEY: key}) == {GROUP_KEY: key}
        places.setdefault(key, set()).add(message.instructions["event-streams-source-partition"])
        seen.append(body)
    return places, seen


@pytest.mark.clause("ES-1", "ES-32")
def test_proton_sees_the_capability(server: Server) -> None:
    desired = [symbol("AMQP_EVENT_STREAMS_V1_0")]
    with connected(server, desired_capabilities=desired) as connection:
        assert symbol("AMQP_EVENT_STREAMS_V1_0") in list(connection.conn.remote_offered_capabilities)


@pytest.mark.clause("ES-9")
def test_messages_of_proton_that_say_nothing_are_spread(server: Server, stream: str) -> None:
    """One by one each is a run of its own, and so goes to the next partition."""
    with connected(server) as connection:
        make_log(connection, stream, 4)
        sender = sender_to(connection, stream)
        for number in range(4 * COUNT):
            sender.send(Message(body=number))
        ends = [end for _, end in offsets(connection, stream).values()]
        assert ends == [symbol(f"{COUNT - 1:016x}")] * 4


@pytest.mark.clause("ES-5", "ES-10", "ES-11", "ES-21", "ES-23")
def test_links_of_proton_are_bound_by_a_property(server: Server, stream: str) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 3)
        started = time.time_ns() // 1_000_000
        sender = sender_to(connection, stream, Bound("2"))
        assert sender.link.remote_properties == {PARTITION: "2"}
        for number in range(3):
            sender.send(Message(body=f"message {number}"))
        sender_to(connection, stream, Bound("1")).send(Message(body="elsewhere"))
        receiver = receive_from(connection, stream, "first", 10, Bound("2"))
        assert receiver.link.remote_properties == {PARTITION: "2"}
        for number in range(3):
            message = receiver.receive()
            assert message.body == f"message {number}"
            assert message.instructions["event-streams-source-partition"] == symbol("2")
            assert message.instructions["event-streams-offset"] == symbol(f"{number:016x}")
            assert started <= message.instructions["event-streams-timestamp"] <= time.time_ns() // 1_000_000
            receiver.accept()
        assert offsets(connection, stream) == {
            "0": (None, None),
            "1": (f"{0:016x}", f"{0:016x}"),
            "2": (f"{0:016x}", f"{2:016x}"),
        }


@pytest.mark.clause("ES-5", "ES-10")
def test_proton_hears_which_partitions_there_are(server: Server, stream: str) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 3)
        words = rf"amqp:not-found.*'{stream}' has no partition '7'; it has 0, 1, 2"
        with pytest.raises(LinkDetached, match=words):
            sender_to(connection, stream, Bound("7"))
        with pytest.raises(LinkDetached, match=words):
            receive_from(connection, stream, "first", 10, Bound("7"))


@pytest.mark.clause("ES-6")
def test_proton_is_told_which_partitions_its_links_were_bound_to(server: Server, stream: str) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 3, partition_binding="assign")
        senders = [sender_to(connection, stream) for _ in range(3)]
        assert [each.link.remote_properties for each in senders] == [{PARTITION: str(n)} for n in range(3)]
        for number, sender in enumerate(senders):
            sender.send(Message(body=f"message {number}"))
        for number in range(3):
            receiver = receive_from(connection, stream, "first", 10)
            assert receiver.link.remote_properties == {PARTITION: str(number)}
            assert bodies(receiver, 1) == [f"message {number}"]


@pytest.mark.clause("ES-7")
def test_messages_of_proton_name_their_partition(server: Server, stream: str) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 3)
        sender = sender_to(connection, stream)
        for name in ("2", "0", "2"):
            sender.send(Message(instructions={TARGET: symbol(name)}, body=f"for {name}"))
        delivery = sender.send(Message(instructions={TARGET: symbol("3")}, body="lost"), error_states=[])
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:not-found"
        assert delivery.remote.condition.description == f"'{stream}' has no partition '3'; it has 0, 1, 2"
        receiver = receive_from(connection, f"{stream}-2", "first", 10)
        message = receiver.receive()
        assert message.body == "for 2"
        assert TARGET not in message.instructions
        receiver.accept()
        assert bodies(receiver, 1) == ["for 2"]


@pytest.mark.clause("ES-8")
def test_keys_of_proton_stay_together_in_order(server: Server, stream: str) -> None:
    texts = [f"customer-{number % 13} {number}" for number in range(200)]
    with connected(server) as connection:
        make_log(connection, stream, COUNT)
        send_keyed(connection, stream, texts)
        places, seen = read_places(connection, stream, len(texts))
        assert all(len(each) == 1 for each in places.values()), places
        assert len(set().union(*places.values())) > 1
        for key in places:
            assert [text for text in seen if text.split()[0] == key] == [
                text for text in texts if text.split()[0] == key
            ]


@pytest.mark.peers
@pytest.mark.clause("ES-8")
def test_a_key_lands_where_hashing_stream_clients_put_it(peer: Program, server: Server, stream: str) -> None:
    texts = [f"kunde-{number}-ü {number}" for number in range(60)]
    with connected(server) as connection:
        make_log(connection, stream, COUNT)
        peer("producer", **{"as": "p", "super": stream, "route": "hash"})
        publish(peer, "p", texts)
        send_keyed(connection, stream, texts)
        places, seen = read_places(connection, stream, 2 * len(texts))
        assert sorted(seen) == sorted(2 * texts)
        assert all(len(each) == 1 for each in places.values()), places
        assert len(set().union(*places.values())) > 1


@pytest.mark.clause("ES-29")
def test_proton_asks_for_what_is_not_there(server: Server, stream: str) -> None:
    with connected(server) as connection:
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            offsets(connection, stream)
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            receive_from(connection, stream)


@pytest.mark.clause("ES-28")
def test_proton_chooses_by_properties(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = sender_to(connection, stream)
        for number in range(6):
            sender.send(Message(subject=f"order-{number}", properties={"odd": bool(number % 2)}, body=number))
        for descriptor, value, wanted in (
            ("amqp:properties-filter", {symbol("subject"): "&s:-4"}, [4]),
            ("amqp:application-properties-filter", {"odd": True}, [1, 3, 5]),
            ("amqp:sql-filter", "odd AND p.subject <> 'order-3'", [1, 5]),
        ):
            chosen = {
                symbol("wanted"): Described(symbol(descriptor), value),
                symbol("rabbitmq:stream-offset-spec"): Described(
                    symbol("rabbitmq:stream-offset-spec"), "first"
                ),
            }
            receiver = connection.create_receiver(stream, credit=10, name=descriptor, options=Filter(chosen))
            assert [receiver.receive(STEP_TIMEOUT_S).body for _ in wanted] == wanted
            receiver.close()
