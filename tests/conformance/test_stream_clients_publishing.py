"""What stream clients need of Publish: entries and sub-batches as they came, confirms, errors, deduplication."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest

from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.conformance.conftest import Connect
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import OK, Wire, opened, publish_frame, sub_batch

FAILED = ResponseCode.PRECONDITION_FAILED
UNKNOWN = ResponseCode.PUBLISHER_DOES_NOT_EXIST


def records(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def errors(wire: Wire) -> list[tuple[int, int]]:
    """Ids and codes of the next frame, which must be a PublishError."""
    return [(each.publishing_id, each.code) for each in wire.take(c.PublishError).publishing_errors]


def sequence(wire: Wire, reference: str, stream: str) -> int:
    request = c.QueryPublisherSequenceRequest(wire.id(), reference, stream)
    answer = wire.ask(request, c.QueryPublisherSequenceResponse)
    assert answer.response_code == OK
    return answer.sequence


@pytest.mark.clause("Publish 1", "SP-3", "SP-4")
@pytest.mark.parametrize("compression", list(Compression))
def test_a_sub_batch_is_one_entry_one_confirm_and_as_many_offsets_as_records(
    wire: Wire, stream: str, compression: Compression
) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    batch = pack_sub_batch([b"one", b"two", b"three"], compression)
    wire.publish(1, [(1, b"before"), (2, batch), (3, b"behind")])
    wire.subscribe(1, stream)
    found: list[bytes] = []
    offset = 0
    while len(found) < 3:
        chunk = wire.chunk()
        assert chunk.first_offset == offset
        found += chunk.messages
        offset += chunk.records
    assert found == [b"before", batch, b"behind"], "byte for byte"
    assert offset == 5


@pytest.mark.clause("Publish 1", "SP-3")
@pytest.mark.parametrize(
    "bad",
    [
        sub_batch(0, b""),
        sub_batch(3, records(b"a"), uncompressed=11),
        sub_batch(1, records(b"a"), compression=1, uncompressed=(64 << 20) + 1),
        sub_batch(1, records(b"a"), compression=5),
        sub_batch(1, records(b"a"), compression=7),
    ],
    ids=["no records", "too short for them", "above 64 MiB", "code 5", "code 7"],
)
def test_a_bad_sub_batch_is_refused_with_what_stands_behind_it(wire: Wire, stream: str, bad: bytes) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    wire.send(publish_frame(1, [(1, b"before"), (2, bad), (3, b"behind")]))
    assert errors(wire) == [(2, FAILED), (3, FAILED)]
    wire.take_confirms(1, [1])
    wire.publish(1, [(3, b"again")])
    wire.subscribe(1, stream)
    assert wire.messages(2) == [(0, b"before"), (1, b"again")]


@pytest.mark.clause("Publish 2", "SP-2", "SP-6")
def test_publishers_are_declared_once_by_id_and_reference(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.create(f"{stream}-other")

    def declare(id_: int, reference: str | None, name: str = stream) -> int:
        request = c.DeclarePublisherRequest(wire.id(), id_, reference, name)
        return wire.code(request, c.DeclarePublisherResponse)

    assert declare(0, "ada") == OK
    assert declare(0, "other") == FAILED, "the id is taken"
    assert declare(1, "ada") == FAILED, "the reference is taken"
    assert declare(1, "ada", f"{stream}-other") == OK, "on another stream it is not"
    assert declare(2, "") == declare(3, "") == declare(4, None) == declare(255, None) == OK, (
        "no reference at all"
    )
    assert declare(5, "grace", "missing") == ResponseCode.STREAM_DOES_NOT_EXIST
    for code in (OK, UNKNOWN):
        assert wire.code(c.DeletePublisherRequest(wire.id(), 0), c.DeletePublisherResponse) == code
    assert declare(0, "ada") == OK
    wire.publish(2, [(7, b"a"), (7, b"b"), (3, b"c")])
    wire.subscribe(1, stream)
    assert wire.messages(3) == [(0, b"a"), (1, b"b"), (2, b"c")], "nothing is a duplicate without a reference"


@pytest.mark.clause("Publish 2", "SP-4")
@pytest.mark.parametrize("values", [None, ["red", None]])
def test_an_unknown_publisher_is_told_with_every_id(wire: Wire, values: list[str | None] | None) -> None:
    batch = sub_batch(2, records(b"a", b"b"))
    wire.send(publish_frame(7, [(10, b"x"), (11, batch)], values))
    assert errors(wire) == [(10, UNKNOWN), (11, UNKNOWN)]


@pytest.mark.clause("SP-4")
def test_a_deleted_publisher_is_unknown_and_what_it_sent_before_is_confirmed(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    delete = c.DeletePublisherRequest(wire.id(), 1)
    wire.send(publish_frame(1, [(1, b"a")]), delete, publish_frame(1, [(2, b"b")]))
    came = [wire.next() for _ in range(3)]
    confirmed = [each.count for each in came if isinstance(each, c.PublishConfirm)]
    refused = [each.publishing_errors for each in came if isinstance(each, c.PublishError)]
    assert confirmed == [1]
    assert [(each.publishing_id, each.code) for (each,) in refused] == [(2, UNKNOWN)]


@pytest.mark.clause("SP-4")
def test_confirms_are_gathered(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    wire.send(b"".join(publish_frame(1, [(number, b"x")]) for number in range(1, 1001)))
    frames, confirmed = 0, 0
    while confirmed < 1000:
        confirmed += wire.take(c.PublishConfirm).count
        frames += 1
    assert confirmed == 1000
    assert frames <= 100


@pytest.mark.clause("Publish 3", "SP-5")
def test_an_id_at_or_below_the_last_is_dropped_and_confirmed(connect: Connect, stream: str) -> None:
    wire = connect()
    wire.create(stream)
    wire.create(f"{stream}-other")
    assert sequence(wire, "ada", stream) == 0
    wire.declare(1, stream, "ada")
    wire.declare(2, f"{stream}-other", "ada")
    wire.publish(1, [(5, b"five"), (5, b"again"), (3, b"late"), (900, b"gap")])
    wire.publish(1, [(900, b"again"), (901, b"next")])
    wire.publish(2, [(1, b"elsewhere")])
    assert (sequence(wire, "ada", stream), sequence(wire, "ada", f"{stream}-other")) == (901, 1)
    again = connect()
    again.declare(1, stream, "ada")
    again.publish(1, [(901, b"again"), (902, b"more")])
    again.subscribe(1, stream)
    assert again.messages(4) == list(enumerate([b"five", b"gap", b"next", b"more"]))


@pytest.mark.clause("Publish 3", "SP-3", "SP-5")
def test_a_sub_batch_is_dropped_as_a_whole_when_its_id_is_known(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream, "ada")
    batch = sub_batch(2, records(b"a", b"b"))
    for _ in range(2):
        wire.publish(1, [(1, batch)])
    wire.publish(1, [(2, b"end")])
    wire.subscribe(1, stream)
    assert [wire.chunk().first_offset for _ in range(2)] == [0, 2]


@pytest.mark.clause("Publish 3", "SP-5", "SP-10")
def test_eight_bytes_follow_errors_too(wire: Wire) -> None:
    for request in (
        c.QueryPublisherSequenceRequest(1, "ada", "missing"),
        c.QueryOffsetRequest(1, "ada", "missing"),
    ):
        wire.send(request)
        frame = wire.frame()
        assert frame[6:] == struct.pack(">HIHQ", 1, 1, ResponseCode.STREAM_DOES_NOT_EXIST, 0)


@pytest.mark.clause("SP-5")
def test_sequences_and_offsets_are_as_they_were_after_a_restart(tmp_path: Path, stream: str) -> None:
    for start in itertools.count(0, 100):
        with ListeningDoor(tmp_path / "data") as door, opened(HOST, door.port) as wire:
            if start == 0:
                wire.create(stream)
            assert sequence(wire, "ada", stream) == start
            offset = wire.ask(c.QueryOffsetRequest(wire.id(), "ada", stream), c.QueryOffsetResponse).offset
            assert offset == start
            if start == 300:
                break
            wire.declare(1, stream, "ada")
            wire.publish(1, [(number, b"%d" % number) for number in range(max(1, start - 50), start + 101)])
            wire.send(c.StoreOffset("ada", stream, start + 100))
            assert sequence(wire, "ada", stream) == start + 100
    with ListeningDoor(tmp_path / "data") as door, opened(HOST, door.port) as wire:
        wire.subscribe(1, stream)
        assert wire.messages(300) == [(number, b"%d" % (number + 1)) for number in range(300)]


@pytest.mark.clause("SP-3", "SP-19")
@pytest.mark.parametrize(
    "body",
    [
        publish_frame(1, [(1, b"abc")])[4:-1],
        publish_frame(1, [(1, b"abc")])[4:] + b"x",
        publish_frame(1, [(1, b"abc")], ["red"])[4:-5],
        struct.pack(">HHBI", 2, 1, 1, 1_000_000) + bytes(12),
        struct.pack(">HHBI", 2, 2, 1, 1) + bytes(8) + b"\xff\xfe" + bytes(4),
    ],
    ids=[
        "cut message",
        "surplus byte",
        "cut in version 2",
        "count beyond its bytes",
        "filter value of -2 bytes",
    ],
)
def test_a_publish_that_does_not_parse_closes_its_connection_alone(
    connect: Connect, stream: str, body: bytes
) -> None:
    wire, other = connect(), connect()
    wire.create(stream)
    wire.declare(1, stream)
    other.declare(1, stream)
    wire.send(len(body).to_bytes(4, "big") + body)
    assert wire.until(c.CloseRequest).closing_code == ResponseCode.UNKNOWN_FRAME
    other.publish(1, [(1, b"fine")])
