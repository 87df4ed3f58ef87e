"""What stream clients need of a replay whose chunks go from their files to the socket: whole frames, in order."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.settings import StoreSettings
from headwater.streams import commands as c
from headwater.streams.commands import Key
from tests.certificates import make_keys
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened

CHUNKS = 24
MESSAGES = 9
MESSAGE_BYTES = 90_000
STREAM = "large"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningDoor]:
    """A door with a stream of large chunks, and of a small one after each, none of which is kept in memory."""
    data = tmp_path_factory.mktemp("large") / "data"
    with ListeningDoor(data, settings=StoreSettings(tail_bytes_max=1)) as door:
        with opened(HOST, door.port) as wire:
            fill(wire)
        yield door


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    make_keys(folder, "guest")
    return folder


def fill(wire: Wire) -> None:
    wire.create(STREAM)
    wire.declare(1, STREAM)
    for number in range(CHUNKS):
        first = number * (MESSAGES + 1)
        wire.publish(1, [(first + each, message(first + each)) for each in range(MESSAGES)])
        wire.publish(1, [(first + MESSAGES, b"small")])


def message(offset: int) -> bytes:
    return offset.to_bytes(4, "big") * (MESSAGE_BYTES // 4)


def narrow(door: ListeningDoor) -> Wire:
    """A client whose socket is soon full."""
    return opened(HOST, door.port, receive_buffer_bytes=1 << 16)


def frames_until(wire: Wire, end_offset: int) -> tuple[list[int], list[int]]:
    """The keys of all frames until the chunk before an offset has come, and the first offset of each chunk."""
    keys, offsets = [], []
    behind = 0
    while behind < end_offset:
        frame = wire.frame()
        keys.append(int.from_bytes(frame[4:6], "big"))
        if keys[-1] == Key.DELIVER:
            chunk = frame[9:]
            first, records = int.from_bytes(chunk[24:32], "big"), int.from_bytes(chunk[4:8], "big")
            assert first == behind
            if records > 1:
                assert message(first) in chunk
                assert message(first + records - 1) in chunk
            offsets.append(first)
            behind = first + records
    return keys, offsets


def test_a_slow_client_gets_whole_chunks_and_its_answers_between_them(filled: ListeningDoor) -> None:
    with narrow(filled) as wire:
        wire.subscribe(1, STREAM, credit=10 * CHUNKS)
        for _ in range(5):
            wire.send(c.Heartbeat(), c.MetadataRequest(wire.id(), (STREAM,)))
        keys, offsets = frames_until(wire, CHUNKS * (MESSAGES + 1))
        assert offsets == sorted(offsets)
        assert keys.count(0x8000 | Key.METADATA) == 5


def test_who_unsubscribes_in_the_middle_of_a_chunk_gets_the_rest_of_it_first(filled: ListeningDoor) -> None:
    with narrow(filled) as wire:
        wire.subscribe(1, STREAM, credit=10 * CHUNKS)
        wire.send(c.UnsubscribeRequest(wire.id(), 1))
        frame = b""
        while int.from_bytes(frame[4:6], "big") != 0x8000 | Key.UNSUBSCRIBE:
            frame = wire.frame()
        wire.assert_nothing_came()


def test_who_closes_in_the_middle_of_a_chunk_gets_the_rest_of_it_and_the_answer(
    filled: ListeningDoor,
) -> None:
    with narrow(filled) as wire:
        wire.subscribe(1, STREAM, credit=10 * CHUNKS)
        wire.send(c.CloseRequest(wire.id(), OK, "enough"))
        frame = b""
        while int.from_bytes(frame[4:6], "big") != 0x8000 | Key.CLOSE:
            frame = wire.frame()
        wire.assert_ended()


def test_who_vanishes_in_the_middle_of_a_chunk_leaves_nothing_behind(filled: ListeningDoor) -> None:
    wire = narrow(filled)
    wire.subscribe(1, STREAM, credit=10 * CHUNKS)
    wire.frame()
    wire.vanish()
    with narrow(filled) as other:
        other.subscribe(1, STREAM, credit=10 * CHUNKS)
        frames_until(other, CHUNKS * (MESSAGES + 1))


def test_two_subscriptions_of_one_connection_take_turns(filled: ListeningDoor) -> None:
    with narrow(filled) as wire:
        wire.send(*(c.SubscribeRequest(wire.id(), id_, STREAM, FIRST, 10 * CHUNKS, {}) for id_ in (1, 2)))
        behind = {1: 0, 2: 0}
        while min(behind.values()) < CHUNKS * (MESSAGES + 1):
            frame = wire.frame()
            if frame[5] != Key.DELIVER:
                continue
            chunk = frame[9:]
            first, records = int.from_bytes(chunk[24:32], "big"), int.from_bytes(chunk[4:8], "big")
            assert first == behind[frame[8]]
            behind[frame[8]] = first + records


def test_behind_tls_a_slow_client_gets_whole_chunks_too(keys: Path, tmp_path: Path) -> None:
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(keys / "server.pem", keys / "server.key")
    theirs = ssl.create_default_context(cafile=str(keys / "ca.pem"))
    settings = StoreSettings(tail_bytes_max=1)
    with ListeningDoor(tmp_path / "data", settings=settings, tls=ours) as door:
        with opened(HOST, door.port, tls=theirs) as wire:
            fill(wire)
        with opened(HOST, door.port, tls=theirs, receive_buffer_bytes=1 << 16) as wire:
            wire.subscribe(1, STREAM, credit=10 * CHUNKS)
            _, offsets = frames_until(wire, CHUNKS * (MESSAGES + 1))
            assert offsets == sorted(offsets)
