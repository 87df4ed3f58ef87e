"""Publish, PublishConfirm and PublishError: spans, and the frames that ids are put in."""

from __future__ import annotations

import pytest

from headwater.errors import MalformedFrame
from headwater.streams.commands import Publish, PublishConfirm, ResponseCode
from headwater.streams.errors import InvalidCommand, UnknownFrame
from headwater.streams.publish import (
    PUBLISH_HEADER_BYTES,
    decode_publish,
    decode_publish_confirm,
    encode_filtered_publish,
    encode_publish,
    publish_confirm,
    publish_error,
    publish_header,
)


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (1, "07 000000"),
        (1, "07 00000001 0000000000000001 000000"),
        (1, "07 ffffffff 0000000000000001 00000000"),
        (1, "07 00000000 00"),
        (2, "07 00000001 0000000000000001 ffff 0000"),
    ],
)
def test_a_count_that_the_bytes_cannot_hold_is_malformed(version: int, fields: str) -> None:
    data = bytes.fromhex(fields)
    with pytest.raises(MalformedFrame):
        decode_publish(data, version, 0, len(data))


@pytest.mark.parametrize(
    "fields", ["07 000000", "07 00000001", "07 00000001 00000000000000", "07 20000000 00"]
)
def test_a_confirm_holds_as_many_ids_as_it_says(fields: str) -> None:
    data = bytes.fromhex(fields)
    with pytest.raises(MalformedFrame):
        decode_publish_confirm(data, 1, 0, len(data))


def test_versions_are_known() -> None:
    data = bytes.fromhex("07 00000000")
    assert decode_publish(data, 1, 0, 5) == Publish(7, 1, 0, 5, 5)
    assert decode_publish(data, 2, 0, 5) == Publish(7, 2, 0, 5, 5)
    assert decode_publish_confirm(data, 1, 0, 5) == PublishConfirm(7, 0, 5, 5)
    for decode, version in ((decode_publish, 3), (decode_publish, 0), (decode_publish_confirm, 2)):
        with pytest.raises(UnknownFrame):
            decode(data, version, 0, 5)


def test_the_header_stands_before_messages_that_are_made_elsewhere() -> None:
    frame = encode_publish(7, [(1, b"abc"), (2, b"")])
    assert publish_header(7, 2, len(frame) - PUBLISH_HEADER_BYTES) == frame[:PUBLISH_HEADER_BYTES]
    filtered = encode_filtered_publish(7, [(1, "", b"abc")])
    assert publish_header(7, 1, len(filtered) - 13, version=2) == filtered[:13]


def test_a_filter_value_has_a_limit() -> None:
    with pytest.raises(InvalidCommand, match="32768"):
        encode_filtered_publish(7, [(1, "x" * 32_768, b"")])


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_ids_may_stand_in_any_buffer(buffer: type[bytes]) -> None:
    ids = buffer(bytes(range(24)))
    assert publish_confirm(1, ids) == publish_confirm(1, bytes(range(24)))
    assert publish_confirm(1, ids, 25) == publish_confirm(1, bytes(range(24)), 25)
    assert publish_error(1, ids, ResponseCode.NO_OFFSET).count(b"\0\x13") == 3


def test_a_frame_never_exceeds_the_maximum_and_wastes_no_room() -> None:
    ids = bytes(8 * 100)
    assert len(publish_confirm(1, ids, 813)) == 813
    assert len(publish_confirm(1, ids, 812)) == 813 + 13
    assert len(publish_error(1, ids, ResponseCode.NO_OFFSET, 1013)) == 1013
    assert len(publish_error(1, ids, ResponseCode.NO_OFFSET, 1012)) == 1013 + 13
