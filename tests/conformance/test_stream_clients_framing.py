"""What stream clients need, framing: frames to the byte, in one version, however they are cut; nothing after an end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headwater.server.streams.limits import Limits
from headwater.streams import commands as c
from headwater.streams.codec import decode_response, encode
from headwater.streams.commands import CommandVersion, Key, ResponseCode
from tests.conformance.conftest import Connect
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened, plain

FRAMES_BEFORE_OPEN_BYTES_MAX = 8192


def requests(wire: Wire, stream: str) -> list[c.Request]:
    """One of each that has an answer of its own layout, most of them to be refused as well as granted."""
    super_stream, missing = f"{stream}-all", f"{stream}-missing"
    parts = (f"{stream}-a", f"{stream}-b")
    return [
        c.CreateRequest(wire.id(), stream, {"max-age": "1h"}),
        c.DeclarePublisherRequest(wire.id(), 1, "ada", stream),
        c.DeclarePublisherRequest(wire.id(), 2, None, missing),
        c.QueryPublisherSequenceRequest(wire.id(), "ada", stream),
        c.QueryPublisherSequenceRequest(wire.id(), "ada", missing),
        c.DeletePublisherRequest(wire.id(), 1),
        c.SubscribeRequest(wire.id(), 1, stream, FIRST, 1),
        c.SubscribeRequest(wire.id(), 2, missing, FIRST, 1),
        c.QueryOffsetRequest(wire.id(), "ada", stream),
        c.UnsubscribeRequest(wire.id(), 1),
        c.MetadataRequest(wire.id(), (stream, missing)),
        c.StreamStatsRequest(wire.id(), stream),
        c.StreamStatsRequest(wire.id(), missing),
        c.ResolveOffsetSpecRequest(wire.id(), stream, FIRST),
        c.ResolveOffsetSpecRequest(wire.id(), missing, FIRST),
        c.CreateSuperStreamRequest(wire.id(), super_stream, parts, ("a", "b")),
        c.PartitionsRequest(wire.id(), super_stream),
        c.PartitionsRequest(wire.id(), missing),
        c.RouteRequest(wire.id(), "b", super_stream),
        c.RouteRequest(wire.id(), "b", missing),
        c.DeleteSuperStreamRequest(wire.id(), super_stream),
        c.DeleteRequest(wire.id(), stream),
        c.ExchangeCommandVersionsRequest(wire.id(), ()),
        c.CloseRequest(wire.id(), 1, "done"),
    ]


@pytest.mark.clause("Framing 1", "SP-1")
def test_every_answer_has_the_bytes_of_its_layout_and_no_more(wire: Wire, stream: str) -> None:
    for request in requests(wire, stream):
        wire.send(request)
        frame = wire.frame()
        answer = decode_response(frame, 4, len(frame))
        assert encode(answer) == frame
        assert int.from_bytes(frame[4:6], "big") & 0x8000
        assert getattr(answer, "correlation_id", None) == request.correlation_id


@pytest.mark.clause("Framing 2", "SP-8", "SP-17")
def test_frames_have_version_1_and_deliver_version_2_for_those_who_say_that_they_take_it(
    connect: Connect, stream: str
) -> None:
    writer = connect()
    writer.create(stream)
    writer.declare(1, stream)
    writer.publish(1, [(1, b"a")])
    writer.publish(1, [(2, b"b")])
    cases = {None: 1, ((8, 1, 1),): 1, ((2, 1, 2),): 1, ((8, 1, 2),): 2}
    for declared, version in cases.items():
        told = None if declared is None else [CommandVersion(*each) for each in declared]
        wire = connect(versions=told)
        wire.send(c.SubscribeRequest(wire.id(), 1, stream, FIRST, 2))
        answer, first = wire.frame(), wire.frame()
        assert answer[6:8] == b"\0\1"
        assert first[4:8] == bytes((0, Key.DELIVER, 0, version))
        command = decode_response(first, 4, len(first))
        assert isinstance(command, c.Deliver)
        assert command.committed_chunk_id == (1 if version == 2 else None)


@pytest.mark.clause("Framing 3", "SP-7")
def test_subscribe_has_key_7(wire: Wire, stream: str) -> None:
    wire.create(stream)
    name = len(stream).to_bytes(2, "big") + stream.encode()
    body = bytes.fromhex("0007 0001 0000cafe 05") + name + bytes.fromhex("0001 000a")
    wire.send(len(body).to_bytes(4, "big") + body)
    assert wire.frame() == bytes.fromhex("0000000a 8007 0001 0000cafe 0001")


def conversation(wire: Wire, stream: str) -> list[c.Command]:
    """From the first byte to a stream that is there, without a look at any answer."""
    return [
        c.PeerPropertiesRequest(wire.id(), {"product": "test"}),
        c.SaslHandshakeRequest(wire.id()),
        plain(wire),
        c.TuneResponse(1 << 20, 0),
        c.OpenRequest(wire.id(), "/"),
        c.CreateRequest(wire.id(), stream),
        c.DeclarePublisherRequest(wire.id(), 1, "ada", stream),
    ]


ANSWERS = (
    c.PeerPropertiesResponse,
    c.SaslHandshakeResponse,
    c.SaslAuthenticateResponse,
    c.TuneRequest,
    c.OpenResponse,
    c.CreateResponse,
    c.DeclarePublisherResponse,
)


@pytest.mark.clause("Framing 4", "SP-1")
@pytest.mark.parametrize("cut_bytes", [1, 7, 1 << 20])
def test_frames_may_be_cut_anywhere_and_come_before_they_are_asked_for(
    door: ListeningDoor, stream: str, cut_bytes: int
) -> None:
    with Wire(HOST, door.port) as wire:
        data = b"".join(map(encode, conversation(wire, stream)))
        for start in range(0, len(data), cut_bytes):
            wire.send(data[start : start + cut_bytes])
        for kind in ANSWERS:
            answer = wire.take(kind)
            assert getattr(answer, "response_code", OK) == OK


@pytest.mark.clause("Framing 4", "SP-14")
def test_nothing_counts_behind_a_close(connect: Connect, stream: str) -> None:
    wire = connect()
    wire.send(c.CloseRequest(wire.id(), 1, "done"), c.CreateRequest(wire.id(), stream))
    assert wire.take(c.CloseResponse).response_code == OK
    wire.assert_ended()
    assert not exists(connect(), stream)


@pytest.mark.clause("Framing 4", "SP-19")
def test_nothing_counts_behind_a_failure(connect: Connect, stream: str) -> None:
    wire = connect()
    wire.send(unknown_frame(), c.CreateRequest(wire.id(), stream))
    assert wire.take(c.CloseRequest).closing_code == ResponseCode.UNKNOWN_FRAME
    assert not exists(connect(), stream)


@pytest.mark.clause("Framing 5", "SP-19")
@pytest.mark.parametrize("wrong", ["unknown", "out of order", "malformed"])
def test_a_frame_that_must_not_be_is_answered_by_a_close_that_the_client_answers(
    wire: Wire, wrong: str
) -> None:
    frames = {
        "unknown": unknown_frame(),
        "out of order": encode(c.OpenRequest(wire.id(), "/")),
        "malformed": bytes.fromhex("00000009 000d 0001 00000001 00"),
    }
    wire.send(frames[wrong])
    frame = wire.frame()
    assert frame[4:8] == bytes.fromhex("0016 0001")
    assert frame[12:14] == bytes.fromhex("000d")
    close = decode_response(frame, 4, len(frame))
    assert isinstance(close, c.CloseRequest)
    wire.send(c.CloseResponse(close.correlation_id, OK))
    wire.assert_ended()


@pytest.mark.clause("Framing 5", "SP-19")
def test_a_client_that_does_not_answer_a_close_has_some_time(tmp_path: Path) -> None:
    limits = Limits(close_timeout_s=0.3)
    assert Limits().close_timeout_s == 10.0
    with ListeningDoor(tmp_path / "data", limits) as door, opened(HOST, door.port) as wire:
        wire.send(unknown_frame())
        started = time.monotonic()
        wire.take(c.CloseRequest)
        wire.assert_ended()
        assert time.monotonic() - started >= limits.close_timeout_s


@pytest.mark.clause("Framing 5", "SP-19")
def test_a_frame_above_what_was_agreed_on_closes_with_a_code(connect: Connect) -> None:
    for agreed in (1 << 20, 65_536):
        wire = connect(tune=(agreed, 0))
        wire.send((agreed + 1).to_bytes(4, "big"))
        assert wire.take(c.CloseRequest).closing_code == ResponseCode.FRAME_TOO_LARGE


@pytest.mark.clause("Framing 5", "SP-19")
def test_before_open_a_frame_has_8192_bytes_at_most(door: ListeningDoor) -> None:
    def padded(size: int) -> bytes:
        """A PeerProperties whose frame has this size."""
        bare = len(encode(c.PeerPropertiesRequest(1, {"padding": ""}))) - 4
        return encode(c.PeerPropertiesRequest(1, {"padding": "x" * (size - bare)}))

    with Wire(HOST, door.port) as wire:
        wire.send(padded(FRAMES_BEFORE_OPEN_BYTES_MAX))
        wire.take(c.PeerPropertiesResponse)
    with Wire(HOST, door.port) as wire:
        wire.send(padded(FRAMES_BEFORE_OPEN_BYTES_MAX + 1))
        wire.assert_ended()


def unknown_frame() -> bytes:
    return bytes.fromhex("00000008 00ff 0001 00000001")


def exists(wire: Wire, stream: str) -> bool:
    (found,) = wire.ask(c.MetadataRequest(wire.id(), (stream,)), c.MetadataResponse).stream_metadata
    return found.response_code == OK
