"""What AMQP receivers get: from where they ask for, every message once, in order, annotated, whoever published it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Detach
from headwater.encoding.amqp_message import Data, Header, Message, encode_message
from headwater.encoding.amqp_types import Symbol, Timestamp, Uint, Ulong
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.log.partition import Partition
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, OFFSET_SPEC, AmqpWire, data, from_offset
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.listening import HOST
from tests.conformance.wire import opened

TIMESTAMP = Symbol("event-streams-timestamp")


@pytest.fixture
def writer(connect_amqp: ConnectAmqp) -> AmqpWire:
    return connect_amqp()


def fill(writer: AmqpWire, log: str, chunks: int, messages: int = 10) -> None:
    """Messages by their number, in as many chunks."""
    writer.sender(log)
    for chunk in range(chunks):
        first = chunk * messages
        writer.publish([data(b"%d" % (first + number)) for number in range(messages)], first_id=first)


def partition(door: ListeningAmqp, log: str) -> Partition:
    return door.store.log(log).partitions[0]


@pytest.mark.clause("AMQP logs 9")
@pytest.mark.parametrize("filter", [None, {}, from_offset("next")])
def test_without_a_filter_a_receiver_gets_what_is_accepted_from_now_on(
    peer: AmqpWire, writer: AmqpWire, log: str, filter: dict[Symbol, Any] | None
) -> None:
    fill(writer, log, 3)
    peer.receiver(log, filter=filter)
    peer.assert_nothing_came()
    writer.publish([data(b"new")], first_id=100)
    came = peer.message()
    assert (came.offset, came.record) == (30, data(b"new"))


@pytest.mark.clause("AMQP logs 9")
@pytest.mark.parametrize(
    ("position", "first"),
    [("first", 0), (Ulong(0), 0), (Uint(7), 7), (15, 15), (Ulong(29), 29), ("last", 20), (Timestamp(0), 0)],
)
def test_a_receiver_begins_where_its_filter_says(
    peer: AmqpWire, writer: AmqpWire, log: str, position: object, first: int
) -> None:
    fill(writer, log, 3)
    source = peer.receiver(log, filter=from_offset(position)).source
    assert isinstance(source, Source)
    assert source.filter == from_offset(position)
    came = peer.messages(30 - first)
    assert [(each.offset, each.record) for each in came] == [
        (offset, data(b"%d" % offset)) for offset in range(first, 30)
    ]


@pytest.mark.clause("AMQP logs 9")
def test_a_time_begins_with_the_chunk_that_reached_it(
    peer: AmqpWire, writer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    fill(writer, log, 1)
    time.sleep(0.01)
    now = time.time_ns() // 1_000_000
    writer.publish([data(b"later")], first_id=10)
    peer.receiver(log, filter=from_offset(Timestamp(now)))
    came = peer.message()
    assert came.offset == 10
    assert came.annotations[TIMESTAMP] >= now
    peer.receiver(log, handle=1, filter=from_offset(Timestamp(2**62)))
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP logs 9")
@pytest.mark.parametrize("offset", [30, 31, 1_000, 2**63 - 1, Ulong(2**63), Ulong(2**64 - 1)])
def test_an_offset_that_is_yet_to_come_is_waited_for(
    peer: AmqpWire, writer: AmqpWire, log: str, offset: int
) -> None:
    fill(writer, log, 3)
    peer.receiver(log, filter=from_offset(offset))
    peer.assert_nothing_came()
    writer.publish([data(b"%d" % number) for number in range(30, 40)], first_id=100)
    wanted = [number for number in range(30, 40) if number >= offset]
    assert [each.offset for each in peer.messages(len(wanted))] == wanted
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP logs 9")
def test_an_offset_that_is_gone_begins_with_what_is_left(
    peer: AmqpWire, writer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    fill(writer, log, 3)
    amqp_door.call(lambda: partition(amqp_door, log).truncate(30, lambda _error: None))
    writer.publish([data(b"left")], first_id=100)
    peer.receiver(log, filter=from_offset(Ulong(5)))
    assert peer.message().offset == 30


@pytest.mark.clause("AMQP logs 10")
def test_every_delivery_says_its_offset_its_time_and_its_partition(
    peer: AmqpWire, writer: AmqpWire, log: str
) -> None:
    before = time.time_ns() // 1_000_000
    fill(writer, log, 20)
    after = time.time_ns() // 1_000_000
    peer.receiver(log)
    came = peer.messages(200)
    assert [each.offset for each in came] == list(range(200))
    for each in came:
        assert set(each.annotations) == {
            "event-streams-offset",
            "event-streams-timestamp",
            "event-streams-source-partition",
        }
        assert type(each.annotations[TIMESTAMP]) is Timestamp
        assert before <= each.annotations[TIMESTAMP] <= after
        assert each.partition == "0"


@pytest.mark.clause("AMQP logs 10")
def test_a_header_comes_as_it_was_sent(peer: AmqpWire, writer: AmqpWire, log: str) -> None:
    """Nothing is delivered again on a link to a log, so the count of deliveries is its publisher's to say."""
    headers = [None, Header(), Header(True, 7, 60_000, True, 5), Header(delivery_count=2**32 - 1)]
    payloads = [encode_message(Message(header=each, body=Data((b"x",)))) for each in headers]
    writer.sender(log)
    writer.publish(payloads)
    for handle in (0, 1):
        peer.receiver(log, handle=handle)
        assert [each.record for each in peer.messages(len(payloads))] == payloads


@pytest.mark.clause("AMQP logs 11")
@pytest.mark.parametrize("compression", list(Compression))
def test_messages_of_stream_clients_are_readable_one_by_one_wherever_they_are(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, compression: Compression
) -> None:
    with opened(HOST, amqp_door.port) as stream:
        stream.create(log)
        stream.declare(1, log)
        bodies = [data(b"%d" % number) for number in range(12)]
        batches = [pack_sub_batch(bodies[1:4], compression), pack_sub_batch(bodies[4:10], compression)]
        messages = [bodies[0], *batches, *bodies[10:]]
        stream.publish(1, list(enumerate(messages)))
    for handle, first in enumerate((0, 2, 4, 9, 10)):
        peer.receiver(log, handle=handle, filter=from_offset(Ulong(first)))
        came = peer.messages(12 - first)
        assert [(each.offset, each.record) for each in came] == list(enumerate(bodies))[first:]


@pytest.mark.clause("AMQP logs 11")
def test_entries_that_are_no_message_are_shown_as_the_data_of_one(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    bodies = [b"text", b"", bytes(300), b"\x00\x80", b"A" * 70_000]
    with opened(HOST, amqp_door.port) as stream:
        stream.create(log)
        stream.declare(1, log)
        messages = [*bodies, pack_sub_batch(bodies[:2], Compression.NONE)]
        stream.publish(1, list(enumerate(messages)))
    peer.receiver(log)
    assert [each.record for each in peer.messages(7)] == [data(each) for each in (*bodies, *bodies[:2])]


@pytest.mark.clause("AMQP logs 11")
def test_a_sub_batch_that_cannot_be_read_is_passed_over(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    broken = bytearray(pack_sub_batch([data(b"a"), data(b"b")], Compression.GZIP))
    broken[-12:-4] = bytes(8)
    with opened(HOST, amqp_door.port) as stream:
        stream.create(log)
        stream.declare(1, log)
        stream.publish(1, [(0, data(b"before")), (1, bytes(broken)), (2, data(b"behind"))])
    peer.receiver(log)
    assert [(each.offset, each.record) for each in peer.messages(2)] == [
        (0, data(b"before")),
        (3, data(b"behind")),
    ]


@pytest.mark.clause("AMQP logs 11")
def test_messages_of_amqp_clients_are_readable_by_stream_clients_and_live(
    writer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    writer.sender(log)
    with opened(HOST, amqp_door.port) as stream:
        stream.subscribe(1, log, credit=1_000)
        for number in range(50):
            writer.publish([data(b"%d" % number)], first_id=number)
            assert stream.messages(1) == [(number, data(b"%d" % number))]


@pytest.mark.clause("AMQP logs 12")
def test_many_receivers_of_one_log_each_get_all_of_it_live(
    connect_amqp: ConnectAmqp, writer: AmqpWire, log: str
) -> None:
    writer.sender(log)
    wires = [connect_amqp() for _ in range(10)]
    for wire in wires:
        for handle in range(5):
            wire.receiver(log, handle=handle, name=f"r{handle}", filter=None)
        wire.assert_nothing_came()
    for number in range(20):
        writer.publish([data(b"%d" % number)], first_id=number)
    for wire in wires:
        came = wire.messages(5 * 20)
        assert sorted(each.offset for each in came) == sorted(list(range(20)) * 5)


@pytest.mark.clause("AMQP logs 12")
def test_large_and_small_messages_come_in_order_over_small_windows(
    connect_amqp: ConnectAmqp, writer: AmqpWire, log: str
) -> None:
    sizes = [1, 100_000, 5, 700, 40_000, 2] * 5
    payloads = [data(bytes([number]) * size) for number, size in enumerate(sizes)]
    writer.sender(log)
    writer.publish(payloads)
    wire = connect_amqp(fields={"max_frame_size": 8_192})
    wire.receiver(log, credit=0)
    for number, payload in enumerate(payloads):
        wire.credit(1, delivery_count=number)
        assert wire.message().record == payload
    wire.assert_nothing_came()


@pytest.mark.clause("AMQP logs 6")
def test_who_loses_the_right_to_read_gets_nothing_more(
    connect_amqp: ConnectAmqp, writer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    user = f"reader-{log}"
    amqp_door.add_user(user)
    amqp_door.permit(user, read=log)
    fill(writer, log, 1)
    wire = connect_amqp(user=user, password="pencil")
    wire.receiver(log)
    wire.messages(10)
    amqp_door.permit(user)
    writer.publish([data(b"secret")], first_id=100)
    wire.assert_detaches(Condition.UNAUTHORIZED_ACCESS)
    wire.refused(Condition.UNAUTHORIZED_ACCESS, Role.RECEIVER, Source(log), Target())


@pytest.mark.clause("AMQP logs 9")
def test_a_filter_in_a_name_of_its_own_is_known_by_its_descriptor(
    peer: AmqpWire, writer: AmqpWire, log: str
) -> None:
    fill(writer, log, 1)
    mine = Symbol("where-to-begin")
    given = {mine: from_offset(Ulong(4))[OFFSET_SPEC]}
    source = peer.receiver(log, filter=given).source
    assert isinstance(source, Source)
    assert source.filter == given
    assert peer.message().offset == 4


@pytest.mark.clause("AMQP logs 12")
def test_a_receiver_that_detaches_in_the_middle_gets_no_more(
    peer: AmqpWire, writer: AmqpWire, log: str
) -> None:
    fill(writer, log, 10)
    peer.receiver(log, credit=5, filter=FIRST)
    peer.messages(5)
    peer.credit(3, delivery_count=5)
    peer.send(Detach(0, closed=True))
    while not isinstance(peer.next().performative, Detach):
        pass
    peer.assert_nothing_came()
