"""A chunk goes from its file to the socket: at once or as the peer reads, and nothing comes between its bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ChunkHeader, ChunkType
from headwater.log.file_span import FileSpan
from headwater.log.files import Files
from headwater.log.open_files import OpenFiles
from headwater.server.streams.file_sender import FileSender

HEADER = b"deliver: "
BEFORE = 4096
CHUNK = bytes(range(251)) * 16_000
"""More than a socket takes at once."""


class Sending:
    """A sender at one end of a pair of sockets, and what it told."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self.loop = loop
        self.told: list[str] = []
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.sender = FileSender(
            loop, ours.fileno(), lambda: self.told.append("sent"), lambda: self.told.append("failed")
        )
        ours.close()
        self.path = folder / "segment"
        self.path.write_bytes(bytes(BEFORE) + CHUNK)
        self.open_files = OpenFiles(Files(), 1)

    def span(self, byte_count: int) -> FileSpan:
        header = ChunkHeader(ChunkType.USER, 1, 1, 0, 1, 0, 0, byte_count - CHUNK_HEADER_BYTES, 28, 0)
        return FileSpan(self.open_files, self.path, BEFORE, header)

    def read(self, count: int) -> bytes:
        """What the peer gets, while the loop goes on."""

        async def reading() -> bytes:
            parts = bytearray()
            while len(parts) < count:
                parts += await self.loop.sock_recv(self.peer, 1 << 16)
            return bytes(parts)

        return self.loop.run_until_complete(asyncio.wait_for(reading(), 30))


@pytest.fixture
def sending(tmp_path: Path) -> Iterator[Sending]:
    loop = asyncio.new_event_loop()
    made = Sending(loop, tmp_path)
    yield made
    made.sender.close()
    made.peer.close()
    made.open_files.close()
    loop.close()


def test_what_the_socket_takes_is_sent_at_once_behind_its_header(sending: Sending) -> None:
    sending.sender.send(HEADER, sending.span(10_000))
    assert not sending.sender.is_busy
    assert sending.sender.unsent_bytes == 0
    assert sending.read(len(HEADER) + 10_000) == HEADER + CHUNK[:10_000]
    assert sending.told == []


def test_the_rest_goes_as_the_peer_reads_and_what_came_meanwhile_waits_for_it(sending: Sending) -> None:
    sender = sending.sender
    sender.send(HEADER, sending.span(len(CHUNK)))
    before = sender.unsent_bytes
    assert 0 < before < len(CHUNK)
    sender.put_behind(b"heart")
    sender.put_behind(b"beat")
    assert sender.unsent_bytes == before + 9
    assert sending.read(len(HEADER) + len(CHUNK)) == HEADER + CHUNK
    assert sending.told == ["sent"]
    assert sender.take_behind() == b"heartbeat"
    assert sender.take_behind() == b""
    sender.send(HEADER, sending.span(100))
    assert sending.read(len(HEADER) + 100) == HEADER + CHUNK[:100]


def test_a_file_is_held_until_its_chunk_is_out_or_given_up(sending: Sending) -> None:
    span = sending.span(len(CHUNK))
    sending.sender.send(HEADER, span)
    sending.open_files.forget(sending.path)
    sending.path.unlink()
    assert sending.read(len(HEADER) + len(CHUNK)) == HEADER + CHUNK
    with pytest.raises(KeyError):
        span.release()


def test_a_file_that_is_shorter_than_its_chunk_is_told_once_and_nothing_follows(sending: Sending) -> None:
    sending.sender.send(HEADER, sending.span(len(CHUNK) + 1))
    sending.read(len(HEADER) + len(CHUNK))
    assert sending.told == ["failed"]
    assert sending.sender.is_busy


def test_a_peer_that_is_gone_is_told(sending: Sending) -> None:
    sending.peer.close()
    sending.sender.send(HEADER, sending.span(100))
    assert sending.told == ["failed"]
