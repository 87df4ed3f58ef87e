"""Deliver: the header before a chunk, and the chunk's own."""

from __future__ import annotations

import pytest

from headwater.encoding.chunk import ChunkType, read_header, seal_chunk
from headwater.errors import MalformedFrame
from headwater.streams.codec import decode_response
from headwater.streams.commands import Deliver
from headwater.streams.deliver import (
    DELIVER_HEADER_BYTES,
    DELIVER_HEADER_BYTES_V2,
    decode_deliver,
    deliver_header,
)
from headwater.streams.errors import UnknownFrame

DATA = b"\0\0\0\3abc\0\0\0\2de"


def stored() -> bytes:
    """A chunk as the log has it, less the trailer."""
    buffer = bytearray(48) + DATA
    seal_chunk(
        buffer,
        len(buffer),
        type=ChunkType.USER,
        entries=2,
        records=2,
        timestamp_ms=5,
        epoch=6,
        first_offset=7,
        bloom=bytes(16),
        publishers={b"p": 1},
        offsets={},
        synced_position=64,
        timestamp_ms_max=5,
    )
    return bytes(buffer[: 48 + len(DATA)])


@pytest.mark.parametrize("committed", [None, 0, 2**64 - 1])
def test_a_chunk_goes_out_as_it_lies_on_disk(committed: int | None) -> None:
    chunk = stored()
    header = deliver_header(255, len(chunk), committed)
    assert len(header) == (DELIVER_HEADER_BYTES if committed is None else DELIVER_HEADER_BYTES_V2)
    frame = header + chunk
    deliver = decode_response(frame, 4, len(frame))
    assert deliver == Deliver(255, committed, read_header(chunk, 0), len(header), len(frame))


@pytest.mark.parametrize(("position", "value"), [(0, 0x51), (1, 3), (36, 1), (39, 0)])
def test_a_chunk_that_cannot_be_is_malformed(position: int, value: int) -> None:
    chunk = bytearray(stored())
    chunk[position] = value
    with pytest.raises(MalformedFrame):
        decode_deliver(b"\1" + chunk, 1, 0, 1 + len(chunk))


def test_a_cut_chunk_is_malformed() -> None:
    data = b"\1" + stored()
    for end in range(len(data)):
        with pytest.raises(MalformedFrame):
            decode_deliver(data, 1, 0, end)


def test_versions_are_known() -> None:
    data = b"\1" + stored()
    with pytest.raises(UnknownFrame):
        decode_deliver(data, 3, 0, len(data))
