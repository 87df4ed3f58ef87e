"""Logs that are declared to hold CloudEvents: what the AMQP door and the stream door say to what is none."""

from __future__ import annotations

import struct

import pytest

from headwater.amqp.definitions import Condition
from headwater.amqp.messaging import Accepted, DeliveryState, Rejected
from headwater.cloudevents import amqp_binding
from headwater.cloudevents.event import CloudEvent
from headwater.encoding.amqp_message import Data, Message, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.streams import commands as c
from headwater.streams.codec import decode_response
from headwater.streams.commands import ResponseCode
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, transfer
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.listening import HOST
from tests.conformance.wire import OK, Wire, opened, publish_frame

NO_TYPE = encode_message(
    Message(
        application_properties={
            "cloudEvents:specversion": "1.0",
            "cloudEvents:id": "1",
            "cloudEvents:source": "/s",
        },
        body=Data((b"",)),
    )
)
FAILED = ResponseCode.PRECONDITION_FAILED


def event(number: int) -> bytes:
    return amqp_binding.encode(
        CloudEvent({"specversion": "1.0", "id": f"e{number}", "source": "/s", "type": "t"})
    )


def send(peer: AmqpWire, *records: bytes, first_id: int = 0) -> list[DeliveryState | None]:
    """What became of each."""
    ids = range(first_id, first_id + len(records))
    peer.send(b"".join(transfer(id_, record) for id_, record in zip(ids, records, strict=True)))
    outcomes = peer.outcomes(ids)
    return [outcomes[id_] for id_ in ids]


def stored(peer: AmqpWire, log: str, count: int) -> list[bytes]:
    peer.receiver(log, handle=9, filter=FIRST)
    return [each.record for each in peer.messages(count)]


@pytest.mark.clause("CE-9", "CE-1")
@pytest.mark.parametrize("partition_count", [1, 3])
def test_amqp_rejects_what_is_no_event_and_takes_what_stands_around_it(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, partition_count: int
) -> None:
    amqp_door.super_stream(log, partition_count, content="cloudevents")
    peer.sender(log)
    outcomes = send(peer, event(1), NO_TYPE, event(2), b"\0Sw\xa1\5plain", event(3))
    assert [type(each) for each in outcomes] == [Accepted, Rejected, Accepted, Rejected, Accepted]
    words = []
    for each in outcomes[1::2]:
        assert isinstance(each, Rejected)
        assert each.error is not None
        assert each.error.condition == Condition.INVALID_FIELD
        words.append(str(each.error.description))
    assert "its type is missing" in words[0]
    assert "is missing" in words[1]
    assert sum(amqp_door.counts(log)) == 3


@pytest.mark.clause("CE-9")
def test_keyed_messages_are_rejected_where_they_stand(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 4, content="cloudevents")
    peer.sender(log)
    key = Symbol("event-streams-group-key")

    def keyed(number: int, **wrong: str) -> bytes:
        core = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", **wrong}
        return encode_message(
            Message(
                message_annotations={key: f"key {number}"},
                application_properties={f"cloudEvents_{name}": value for name, value in core.items()},
                body=Data((b"",)),
            )
        )

    records = [keyed(number) if number % 5 else keyed(number, type="") for number in range(40)]
    outcomes = send(peer, *records)
    assert [type(each) is Rejected for each in outcomes] == [number % 5 == 0 for number in range(40)]
    assert sum(amqp_door.counts(log)) == 32


def test_a_settled_message_that_is_no_event_ends_its_link_with_the_reason(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, content="cloudevents")
    peer.sender(log)
    peer.send(transfer(0, NO_TYPE, settled=True))
    error = peer.assert_detaches(Condition.INVALID_FIELD)
    assert "its type is missing" in str(error.description)


def test_duplicates_are_accepted_and_stored_once(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, content="cloudevents", duplicates_window_count=10)
    peer.sender(log)
    other = connect_amqp()
    other.sender(log)
    assert set(map(type, send(peer, event(1), event(2), event(1)))) == {Accepted}
    assert set(map(type, send(other, event(2), event(3), NO_TYPE))) == {Accepted, Rejected}
    assert stored(peer, log, 3) == [event(1), event(2), event(3)]
    peer.assert_nothing_came()


def answers(wire: Wire, count: int) -> tuple[list[tuple[int, int]], list[int]]:
    """What was refused, and what was confirmed, of so many; a commit may end between two turns of one frame."""
    refused: list[tuple[int, int]] = []
    confirmed: list[int] = []
    while len(refused) + len(confirmed) < count:
        frame = wire.frame()
        told = decode_response(frame, 4, len(frame))
        if isinstance(told, c.PublishError):
            refused += [(each.publishing_id, each.code) for each in told.publishing_errors]
        else:
            assert isinstance(told, c.PublishConfirm)
            confirmed += struct.unpack(f">{told.count}Q", frame[told.start : told.end])
    return refused, confirmed


def test_a_frame_that_takes_long_goes_on_in_the_next_turn(
    amqp_door: ListeningAmqp, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.streams.publishing.PUBLISH_S_MAX", -1.0)
    amqp_door.super_stream(log, 1, content="cloudevents", duplicates_window_count=100)
    with opened(HOST, amqp_door.port) as wire:
        wire.declare(1, f"{log}-0")
        batches = [
            pack_sub_batch([event(number), event(number + 1)], Compression.ZSTD) for number in range(50)
        ]
        messages = list(enumerate([*batches, b"x", event(60), *map(event, range(5)), event(61)]))
        wire.send(publish_frame(1, messages))
        refused, confirmed = answers(wire, len(messages))
        assert refused == [(50, FAILED)]
        assert confirmed == [number for number, _ in messages if number != 50]
    assert amqp_door.counts(log) == [53]


@pytest.mark.clause("CE-9", "SP-4")
@pytest.mark.parametrize("reference", [None, "named"])
def test_a_stream_publisher_hears_which_messages_are_no_events_and_the_others_are_confirmed(
    amqp_door: ListeningAmqp, log: str, reference: str | None
) -> None:
    amqp_door.super_stream(log, 1, content="cloudevents", duplicates_window_count=10)
    with opened(HOST, amqp_door.port) as wire:
        wire.declare(1, f"{log}-0", reference)
        good = pack_sub_batch([event(3), event(1), event(4)], Compression.GZIP)
        bad = pack_sub_batch([event(5), b"x"], Compression.NONE)
        messages = [
            (1, event(1)),
            (2, b"x"),
            (3, event(2)),
            (4, event(1)),
            (5, good),
            (6, bad),
            (7, event(6)),
        ]
        wire.send(publish_frame(1, messages))
        assert answers(wire, len(messages)) == ([(2, FAILED), (6, FAILED)], [1, 3, 4, 5, 7])
        wire.subscribe(1, f"{log}-0")
        chunk = wire.chunk()
        kept = pack_sub_batch([event(3), event(4)], Compression.GZIP)
        assert list(chunk.messages) == [event(1), event(2), kept, event(6)]
        if reference is not None:
            request = c.QueryPublisherSequenceRequest(wire.id(), reference, f"{log}-0")
            answer = wire.ask(request, c.QueryPublisherSequenceResponse)
            assert (answer.response_code, answer.sequence) == (OK, 7)
