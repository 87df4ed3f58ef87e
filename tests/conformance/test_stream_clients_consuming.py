"""What stream clients need of Subscribe, Credit, Deliver, filters and stored offsets."""

from __future__ import annotations

import struct
import time

import pytest

from headwater.streams import commands as c
from headwater.streams.commands import OffsetSpecification, OffsetType, ResponseCode
from tests.conformance.conftest import Connect
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened, publish_frame, sub_batch

LAST = OffsetSpecification(OffsetType.LAST)
NEXT = OffsetSpecification(OffsetType.NEXT)
FAILED = ResponseCode.PRECONDITION_FAILED


def at(offset: int) -> OffsetSpecification:
    return OffsetSpecification(OffsetType.OFFSET, offset)


def since(timestamp_ms: int) -> OffsetSpecification:
    return OffsetSpecification(OffsetType.TIMESTAMP, timestamp_ms)


def fill(wire: Wire, stream: str, chunks: int, records: int = 3) -> None:
    """Chunks of so many records each, which say their offset."""
    wire.declare(1, stream)
    for first in range(0, chunks * records, records):
        wire.publish(1, [(offset, b"%d" % offset) for offset in range(first, first + records)])


@pytest.mark.clause("Deliver 1", "SP-7")
def test_the_answer_comes_before_the_first_chunk_and_properties_may_be_absent(
    wire: Wire, stream: str
) -> None:
    wire.create(stream)
    fill(wire, stream, 1)
    name = struct.pack(">H", len(stream)) + stream.encode()
    absent = struct.pack(">HHIB", 7, 1, 99, 5) + name + struct.pack(">HH", 1, 10)
    offset = struct.pack(">HHIB", 7, 1, 99, 6) + name + struct.pack(">HQH", 4, 1, 10)
    empty = struct.pack(">HHIB", 7, 1, 99, 7) + name + struct.pack(">HHI", 1, 10, 0)
    for body in (absent, offset, empty):
        wire.send(len(body).to_bytes(4, "big") + body)
        assert wire.frame() == struct.pack(">IHHIH", 10, 0x8007, 1, 99, OK)
        assert wire.chunk().first_offset == 0


@pytest.mark.clause("Deliver 2", "SP-8")
def test_a_chunk_is_its_header_and_its_data_and_nothing_behind(wire: Wire, stream: str) -> None:
    wire.create(stream, stream_filter_size_bytes="32")
    wire.declare(1, stream, "ada")
    wire.send(publish_frame(1, [(1, b"abc")], ["red"]))
    wire.take_confirms(1, [1])
    before_ms = time.time_ns() // 1_000_000
    wire.send(c.SubscribeRequest(wire.id(), 9, stream, FIRST, 1))
    wire.take(c.SubscribeResponse)
    frame = wire.frame()
    assert frame[4:11] == bytes.fromhex("0008 0001 09 50 00")
    header = frame[9:57]
    entries, in_all, timestamp_ms = struct.unpack_from(">HIq", header, 2)
    data_bytes, trailer_bytes, bloom_bytes = struct.unpack_from(">IIB", header, 36)
    assert (entries, in_all, data_bytes, bloom_bytes) == (1, 1, 7, 32)
    assert trailer_bytes > 0, "the header keeps the size of what is not sent"
    assert 0 <= before_ms - timestamp_ms < 60_000
    assert frame[57:] == b"\0\0\0\3abc"


@pytest.mark.clause("Deliver 3", "SP-8")
def test_a_sub_batch_counts_once_as_an_entry_and_there_is_no_empty_chunk(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream, "ada")
    wire.send(c.StoreOffset("ada", stream, 7))
    data = b"\0\0\0\1a" * 10
    wire.publish(1, [(1, sub_batch(10, data)), (1, b"duplicate")])
    wire.publish(1, [(1, b"duplicates alone make no chunk")])
    wire.send(c.StoreOffset("ada", stream, 8))
    wire.publish(1, [(2, b"x")])
    wire.subscribe(1, stream)
    entries = records = 0
    while records < 11:
        chunk = wire.chunk()
        assert chunk.entries > 0
        entries += chunk.entries
        records += chunk.records
    assert (entries, records) == (2, 11)
    wire.assert_nothing_came()


@pytest.mark.clause("Deliver 3")
def test_the_javascript_client_which_reads_one_sub_batch_a_chunk_gets_each_in_its_own(
    connect: Connect, stream: str
) -> None:
    writer = connect()
    writer.create(stream)
    writer.declare(1, stream)
    batch = sub_batch(2, b"\0\0\0\1a\0\0\0\1b")
    writer.publish(1, [(1, b"x"), (2, batch), (3, batch), (4, b"y"), (5, b"z")])
    reader = connect(properties={"platform": "javascript"})
    reader.subscribe(1, stream)
    chunks = [reader.chunk()]
    while chunks[-1].first_offset + chunks[-1].records < 7:
        chunks.append(reader.chunk())
    for chunk in chunks:
        assert chunk.entries == 1 or not any(message[:1] == b"\x80" for message in chunk.messages)
    assert [message for chunk in chunks for message in chunk.messages] == [b"x", batch, batch, b"y", b"z"]


@pytest.mark.clause("Deliver 4", "SP-7")
def test_each_kind_of_offset_begins_at_its_chunk(connect: Connect, stream: str) -> None:
    wire = connect()
    wire.create(stream)
    fill(wire, stream, 2)
    time.sleep(0.01)
    between_ms = time.time_ns() // 1_000_000
    for first in (6, 9):
        wire.publish(1, [(offset, b"%d" % offset) for offset in range(first, first + 3)])
    cases = [
        (FIRST, 0),
        (at(0), 0),
        (at(4), 3),
        (at(11), 9),
        (LAST, 9),
        (since(0), 0),
        (since(between_ms), 6),
    ]
    for where, first_offset in cases:
        reader = connect()
        reader.subscribe(1, stream, where)
        assert reader.chunk().first_offset == first_offset, where
    future_ms = time.time_ns() // 1_000_000 + 3_600_000
    waiting = [(NEXT, 12), (at(12), 12), (since(future_ms), 12), (at(14), 12)]
    readers = []
    for where, first_offset in waiting:
        reader = connect()
        reader.subscribe(1, stream, where)
        reader.assert_nothing_came()
        readers.append((reader, first_offset))
    wire.publish(1, [(offset, b"%d" % offset) for offset in range(12, 15)])
    for reader, first_offset in readers:
        assert reader.chunk().first_offset == first_offset


@pytest.mark.clause("Deliver 4", "SP-7")
def test_below_the_first_offset_is_the_first(door: ListeningDoor, connect: Connect, stream: str) -> None:
    wire = connect()
    wire.create(stream, stream_max_segment_size_bytes="65536", max_length_bytes="100000")
    wire.declare(1, stream)
    for number in range(1, 12):
        wire.publish(1, [(number, bytes(30_000))])
    door.call(door.store.enforce_retention)
    first = door.partition(stream).first_offset
    assert first > 0
    for where in (at(0), FIRST):
        reader = connect()
        reader.subscribe(1, stream, where, credit=1)
        assert reader.chunk().first_offset == first


@pytest.mark.clause("Deliver 4", "SP-7")
def test_an_empty_stream_waits_from_wherever(connect: Connect, stream: str) -> None:
    wire = connect()
    wire.create(stream)
    readers = []
    for where in (FIRST, LAST, NEXT, at(0), since(0)):
        reader = connect()
        reader.subscribe(1, stream, where)
        reader.assert_nothing_came()
        readers.append(reader)
    fill(wire, stream, 1, records=1)
    for reader in readers:
        assert reader.messages(1) == [(0, b"0")]


@pytest.mark.clause("Deliver 5", "SP-9")
def test_credit_counts_chunks_and_is_answered_on_errors_alone(wire: Wire, stream: str) -> None:
    wire.create(stream)
    fill(wire, stream, 6)
    wire.subscribe(1, stream, credit=2)
    assert [wire.chunk().first_offset for _ in range(2)] == [0, 3]
    wire.assert_nothing_came()
    wire.send(c.Credit(1, 0))
    wire.assert_nothing_came()
    wire.send(c.Credit(1, 1), c.Credit(1, 2))
    assert [wire.chunk().first_offset for _ in range(3)] == [6, 9, 12]
    wire.assert_nothing_came()
    wire.send(c.Credit(8, 1))
    assert wire.frame() == bytes.fromhex("00000007 8009 0001 0004 08")


@pytest.mark.clause("SP-11", "SP-7")
def test_subscriptions_have_an_id_each_and_end(wire: Wire, stream: str) -> None:
    wire.create(stream)
    fill(wire, stream, 2)
    wire.subscribe(1, stream, credit=1)
    wire.chunk()
    again = c.SubscribeRequest(wire.id(), 1, stream, FIRST, 1)
    assert wire.code(again, c.SubscribeResponse) == ResponseCode.SUBSCRIPTION_ID_ALREADY_EXISTS
    missing = c.SubscribeRequest(wire.id(), 2, "missing", FIRST, 1)
    assert wire.code(missing, c.SubscribeResponse) == ResponseCode.STREAM_DOES_NOT_EXIST
    for code in (OK, ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST):
        assert wire.code(c.UnsubscribeRequest(wire.id(), 1), c.UnsubscribeResponse) == code
    wire.publish(1, [(100, b"after")])
    wire.send(c.Credit(1, 5))
    assert wire.take(c.CreditResponse).response_code == ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST
    wire.subscribe(1, stream, at(3), credit=1)
    assert wire.chunk().first_offset == 3


@pytest.mark.clause("SP-7")
def test_many_subscriptions_of_one_connection_each_get_all(wire: Wire, stream: str) -> None:
    wire.create(stream)
    for id_ in range(256):
        wire.subscribe(id_, stream)
    fill(wire, stream, 1, records=1)
    assert {wire.chunk().subscription_id for _ in range(256)} == set(range(256))


@pytest.mark.clause("Deliver 6", "SP-18", "SP-3")
@pytest.mark.parametrize("filter_bytes", ["16", "255"])
def test_filters_let_chunks_through_by_their_values(
    door: ListeningDoor, stream: str, filter_bytes: str
) -> None:
    with opened(HOST, door.port) as wire:
        wire.create(stream, stream_filter_size_bytes=filter_bytes)
        wire.declare(1, stream)
        values = ["red", "green", None, "blue", ""]
        for number, value in enumerate(values):
            wire.send(publish_frame(1, [(number, b"%s" % str(value).encode())], [value]))
            wire.take_confirms(1, [number])
        cases = [
            ({"filter.0": "red"}, {0}),
            ({"filter.0": "red", "filter.1": "blue"}, {0, 3}),
            ({"filter.0": "green", "match-unfiltered": "true"}, {1, 2, 4}),
            ({"filter.0": "nothing"}, set()),
        ]
        for id_, (properties, wanted) in enumerate(cases):
            wire.subscribe(id_, stream, properties={**properties, "filter.9": "end"})
            wire.send(publish_frame(1, [(100 + id_, b"end")], ["end"]))
            offsets = set()
            while (offset := wire.until(c.Deliver).header.first_offset) < len(values) + id_:
                offsets.add(offset)
            offsets = {offset for offset in offsets if offset < len(values)}
            # A bloom filter may let too much through, never too little.
            assert wanted <= offsets
            assert len(offsets - wanted) <= 1
            wire.send(c.UnsubscribeRequest(wire.id(), id_))
            assert wire.until(c.UnsubscribeResponse).response_code == OK


@pytest.mark.clause("Deliver 6", "SP-18")
def test_match_unfiltered_alone_is_no_filter(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    wire.send(publish_frame(1, [(1, b"a")], ["red"]))
    wire.take_confirms(1, [1])
    wire.subscribe(1, stream, properties={"match-unfiltered": "true"})
    assert wire.messages(1) == [(0, b"a")]


@pytest.mark.clause("Deliver 6", "SP-18")
def test_a_filter_costs_no_credit_for_what_it_passes_over(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    for number in range(200):
        value = "wanted" if number == 199 else "other"
        wire.send(publish_frame(1, [(number, b"x")], [value]))
        wire.take_confirms(1, [number])
    wire.subscribe(1, stream, credit=1, properties={"filter.0": "wanted"})
    assert wire.chunk().first_offset == 199


@pytest.mark.clause("SP-10")
def test_offsets_are_stored_by_reference_and_stream(connect: Connect, stream: str) -> None:
    wire, other = connect(), connect()
    wire.create(stream)
    wire.create(f"{stream}-other")
    wire.send(c.StoreOffset("ada", stream, 41), c.StoreOffset("ada", stream, 2**64 - 1))
    wire.send(c.StoreOffset("grace", stream, 0))
    cases = {
        ("ada", stream): (OK, 2**64 - 1),
        ("grace", stream): (OK, 0),
        ("ada", f"{stream}-other"): (ResponseCode.NO_OFFSET, 0),
        ("nobody", stream): (ResponseCode.NO_OFFSET, 0),
    }
    wire.assert_nothing_came()
    for (reference, name), expected in cases.items():
        answer = other.ask(c.QueryOffsetRequest(other.id(), reference, name), c.QueryOffsetResponse)
        assert (answer.response_code, answer.offset) == expected
