"""Protocol headers and frames: cut out of any buffer, refused as soon as they cannot be."""

from __future__ import annotations

import pytest

from headwater.amqp.definitions import FRAME_SIZE_BYTES_MIN_MAX
from headwater.amqp.errors import FrameTooLarge, FramingError, UnknownProtocol
from headwater.amqp.frames import (
    EMPTY_FRAME,
    Frame,
    FrameType,
    ProtocolId,
    encode_frame,
    encode_sasl_frame,
    frame_bytes_missing,
    protocol_header,
    read_frame,
    read_protocol_header,
)
from headwater.amqp.performatives import End, Transfer, decode_performative
from headwater.amqp.sasl_frames import SaslInit, decode_sasl
from headwater.encoding.amqp_types import Symbol

MAX = FRAME_SIZE_BYTES_MIN_MAX
END = bytes.fromhex("0000000f 02 00 0007 005317 c0020140")


@pytest.mark.clause("AMQP 2.2")
@pytest.mark.parametrize(
    ("protocol", "header"),
    [
        (ProtocolId.AMQP, b"AMQP\x00\x01\x00\x00"),
        (ProtocolId.TLS, b"AMQP\x02\x01\x00\x00"),
        (ProtocolId.SASL, b"AMQP\x03\x01\x00\x00"),
    ],
)
def test_a_protocol_header_is_read_as_it_is_written(protocol: ProtocolId, header: bytes) -> None:
    assert protocol_header(protocol) == header
    assert read_protocol_header(b"before" + header + b"behind", 6, 20) is protocol
    assert [read_protocol_header(header, 0, end) for end in range(8)] == [None] * 8


@pytest.mark.clause("AMQP 2.2")
@pytest.mark.parametrize(
    "header",
    [
        b"G",
        b"GET / HT",
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x01\x01\x09\x01",
        b"AMQP\x01",
        b"AMQP\x00\x01\x00\x01",
    ],
)
def test_another_protocol_is_refused_as_soon_as_it_shows(header: bytes) -> None:
    with pytest.raises(UnknownProtocol) as raised:
        read_protocol_header(header, 0, len(header))
    assert raised.value.header == header


@pytest.mark.clause("AMQP 2.3")
def test_a_frame_is_cut_out_where_it_stands() -> None:
    buffer = b"before" + END + b"behind"
    frame = read_frame(buffer, 6, len(buffer), MAX)
    assert frame == Frame(FrameType.AMQP, 7, 14, 21)
    assert decode_performative(buffer, frame.position, frame.end) == (End(), frame.end)


def test_no_frame_is_given_until_it_is_whole() -> None:
    for end in range(len(END)):
        assert read_frame(END, 0, end, MAX) is None
        assert frame_bytes_missing(END, 0, end) == (8 if end < 8 else len(END)) - end
    assert frame_bytes_missing(END, 0, len(END)) == 0


@pytest.mark.clause("AMQP 2.3")
def test_an_extended_header_is_ignored() -> None:
    frame = bytes.fromhex("00000017 04 00 0007 ffffffffffffffff 005317 c0020140")
    assert read_frame(frame, 0, len(frame), MAX) == Frame(FrameType.AMQP, 7, 16, 23)


@pytest.mark.clause("AMQP 2.3")
def test_a_frame_without_a_body_is_one() -> None:
    assert bytes.fromhex("00000008 02 00 0000") == EMPTY_FRAME
    assert read_frame(EMPTY_FRAME, 0, 8, MAX) == Frame(FrameType.AMQP, 0, 8, 8)


@pytest.mark.clause("AMQP 2.3")
@pytest.mark.parametrize(
    "header",
    [
        "00000007",
        "00000000",
        "00000008 01 00 0000",
        "00000008 00 00 0000",
        "00000008 03 00 0000",
        "00000100 ff 00 0000",
        "00000008 02 02 0000",
        "00000008 02 ff 0000",
    ],
)
def test_bytes_that_no_frame_can_begin_with_are_a_framing_error(header: str) -> None:
    data = bytes.fromhex(header)
    with pytest.raises(FramingError) as raised:
        read_frame(data, 0, len(data), MAX)
    assert raised.value.condition == "amqp:connection:framing-error"


@pytest.mark.clause("AMQP 2.3")
def test_a_frame_above_the_maximum_is_refused_before_it_is_there() -> None:
    size = (MAX + 1).to_bytes(4, "big")
    with pytest.raises(FrameTooLarge) as raised:
        read_frame(size, 0, 4, MAX)
    assert (raised.value.size_bytes, raised.value.size_bytes_max) == (MAX + 1, MAX)
    assert raised.value.condition == "amqp:connection:framing-error"
    whole = MAX.to_bytes(4, "big") + bytes.fromhex("02 00 0000") + bytes(MAX - 8)
    assert read_frame(whole, 0, MAX, MAX) == Frame(FrameType.AMQP, 0, 8, MAX)


def test_a_payload_stands_behind_its_performative() -> None:
    transfer = Transfer(1, 2, b"tag")
    data = encode_frame(0xFFFF, transfer, b"payload")
    frame = read_frame(data, 0, len(data), MAX)
    assert frame is not None
    assert (frame.channel, frame.end) == (0xFFFF, len(data))
    performative, position = decode_performative(data, frame.position, frame.end)
    assert performative == transfer
    assert data[position : frame.end] == b"payload"
    assert encode_frame(7, End()) == END


def test_a_sasl_frame_has_its_type_and_no_channel() -> None:
    body = SaslInit(Symbol("PLAIN"), b"\0user\0secret", "host")
    data = encode_sasl_frame(body)
    frame = read_frame(data, 0, len(data), MAX)
    assert frame == Frame(FrameType.SASL, 0, 8, len(data))
    assert decode_sasl(data, frame.position, frame.end) == body
