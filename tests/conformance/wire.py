"""A blocking connection to the stream door that shows every byte, for tests that say what must stand on the wire."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from headwater.streams import commands as c
from headwater.streams.codec import decode_response, encode
from headwater.streams.commands import Command, OffsetSpecification, OffsetType, ResponseCode
from tests.conformance.peer_socket import PeerSocket

__all__ = ["FIRST", "OK", "Chunk", "Wire", "opened", "plain", "publish_frame", "sub_batch"]

FRAME_MAX = 1 << 20
OK = ResponseCode.OK
FIRST = OffsetSpecification(OffsetType.FIRST)

_SIZE = struct.Struct(">I")
_CHUNK = struct.Struct(">BBHIqQQIIII")

CommandT = TypeVar("CommandT", bound=Command)
ResponseT = TypeVar("ResponseT", bound=c.Response)


class Chunk(msgspec.Struct, frozen=True):
    """A delivered chunk, read by hand as the protocol draws it."""

    subscription_id: int
    committed_chunk_id: int | None
    first_byte: int
    entries: int
    records: int
    timestamp_ms: int
    first_offset: int
    messages: tuple[bytes, ...]
    """Plain entries; a sub-batch stands as it came, its five fields before its data."""


class Wire(PeerSocket):
    """Sends commands or bytes, and takes what comes frame by frame; everything is checked against its layout."""

    def __init__(self, host: str, port: int, **socket_options: Any) -> None:
        super().__init__(host, port, **socket_options)
        self._correlation_ids = itertools.count(1)

    def id(self) -> int:
        """A correlation id that was not used here."""
        return next(self._correlation_ids)

    def send(self, *parts: Command | bytes) -> None:
        """All of it in one write."""
        self.send_bytes(b"".join(part if isinstance(part, bytes) else encode(part) for part in parts))

    def frame(self) -> bytes:
        """The next frame whole, its size included."""
        size = self.exactly(_SIZE.size)
        return size + self.exactly(_SIZE.unpack(size)[0])

    def next(self) -> Command:
        """The next command that is no heartbeat; its frame holds what its layout says, and no byte more."""
        while True:
            frame = self.frame()
            command = decode_response(frame, _SIZE.size, len(frame))
            if not isinstance(command, c.Heartbeat):
                return command

    def take(self, kind: type[CommandT]) -> CommandT:
        """The next command, which must be of this kind."""
        command = self.next()
        assert isinstance(command, kind), f"{command} came instead of a {kind.__name__}"
        return command

    def until(self, kind: type[CommandT]) -> CommandT:
        """The next command of this kind, whatever comes before it."""
        while not isinstance(command := self.next(), kind):
            pass
        return command

    def ask(self, request: c.Request, kind: type[CommandT]) -> CommandT:
        """Send a request; the very next thing that comes must be the answer to it."""
        self.send(request)
        answer = self.take(kind)
        assert getattr(answer, "correlation_id", None) == request.correlation_id
        return answer

    def code(self, request: c.Request, kind: type[ResponseT]) -> int:
        """Send a request, and give the code of its answer."""
        return self.ask(request, kind).response_code

    def assert_nothing_came(self) -> None:
        """All that was sent is dealt with, and nothing came of it: a question is answered before anything else."""
        self.ask(c.MetadataRequest(self.id(), ()), c.MetadataResponse)

    def greet(self, properties: dict[str, str] | None = None) -> tuple[str, ...]:
        """The first two steps; gives the mechanisms offered."""
        self.ask(c.PeerPropertiesRequest(self.id(), properties or {}), c.PeerPropertiesResponse)
        return self.ask(c.SaslHandshakeRequest(self.id()), c.SaslHandshakeResponse).mechanisms

    def create(self, stream: str, **arguments: str) -> None:
        """Make a stream."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        assert self.code(c.CreateRequest(self.id(), stream, named), c.CreateResponse) == OK

    def declare(self, publisher_id: int, stream: str, reference: str | None = None) -> None:
        """Make a publisher."""
        request = c.DeclarePublisherRequest(self.id(), publisher_id, reference, stream)
        assert self.code(request, c.DeclarePublisherResponse) == OK

    def publish(self, publisher_id: int, messages: Sequence[tuple[int, bytes]]) -> None:
        """Send messages with their ids, and see each confirmed once, in whatever frames."""
        self.send(publish_frame(publisher_id, messages))
        self.take_confirms(publisher_id, [publishing_id for publishing_id, _ in messages])

    def take_confirms(self, publisher_id: int, wanted: Sequence[int]) -> None:
        """Until just these are confirmed."""
        confirmed: list[int] = []
        while len(confirmed) < len(wanted):
            frame = self.frame()
            command = decode_response(frame, _SIZE.size, len(frame))
            assert isinstance(command, c.PublishConfirm), command
            assert command.publisher_id == publisher_id
            confirmed += struct.unpack(f">{command.count}Q", frame[command.start : command.end])
        assert sorted(confirmed) == sorted(wanted)

    def subscribe(
        self,
        id_: int,
        stream: str,
        where: OffsetSpecification = FIRST,
        credit: int = 100,
        properties: dict[str, str] | None = None,
    ) -> None:
        """Subscribe; the answer must come before anything else."""
        request = c.SubscribeRequest(self.id(), id_, stream, where, credit, properties or {})
        assert self.code(request, c.SubscribeResponse) == OK

    def chunk(self) -> Chunk:
        """The next frame, which must be a Deliver."""
        frame = self.frame()
        deliver = decode_response(frame, _SIZE.size, len(frame))
        assert isinstance(deliver, c.Deliver), deliver
        return _read_chunk(deliver, frame)

    def messages(self, count: int) -> list[tuple[int, bytes]]:
        """Plain messages with their offsets, from as many chunks as it takes."""
        taken: list[tuple[int, bytes]] = []
        while len(taken) < count:
            chunk = self.chunk()
            taken += [(chunk.first_offset + number, body) for number, body in enumerate(chunk.messages)]
        assert len(taken) == count
        return taken


def opened(
    host: str,
    port: int,
    *,
    user: str = "guest",
    password: str | None = None,
    vhost: str = "/",
    properties: dict[str, str] | None = None,
    tune: tuple[int, int] = (FRAME_MAX, 0),
    versions: Sequence[c.CommandVersion] | None = None,
    **socket_options: Any,
) -> Wire:
    """A connection after its handshake; a password that is not given is the user's name."""
    wire = Wire(host, port, **socket_options)
    wire.greet(properties)
    login = plain(wire, user, user if password is None else password)
    assert wire.ask(login, c.SaslAuthenticateResponse).response_code == OK
    wire.take(c.TuneRequest)
    wire.send(c.TuneResponse(*tune))
    assert wire.ask(c.OpenRequest(wire.id(), vhost), c.OpenResponse).response_code == OK
    if versions is not None:
        wire.ask(
            c.ExchangeCommandVersionsRequest(wire.id(), tuple(versions)), c.ExchangeCommandVersionsResponse
        )
    return wire


def plain(wire: Wire, user: str = "guest", password: str = "guest") -> c.SaslAuthenticateRequest:
    """The one message of the mechanism PLAIN."""
    return c.SaslAuthenticateRequest(wire.id(), "PLAIN", f"\0{user}\0{password}".encode())


def publish_frame(
    publisher_id: int, messages: Sequence[tuple[int, bytes]], values: Sequence[str | None] | None = None
) -> bytes:
    """A Publish; of version 2 if there are filter values. What begins with bit 1 is taken for a sub-batch."""
    out = bytearray()
    for number, (publishing_id, body) in enumerate(messages):
        out += struct.pack(">Q", publishing_id)
        if values is not None:
            value = values[number]
            out += b"\xff\xff" if value is None else struct.pack(">H", len(value)) + value.encode()
        out += body if body[:1] >= b"\x80" else _SIZE.pack(len(body)) + body
    version = 1 if values is None else 2
    return struct.pack(">IHHBI", 9 + len(out), 2, version, publisher_id, len(messages)) + out


def sub_batch(count: int, data: bytes, *, compression: int = 0, uncompressed: int | None = None) -> bytes:
    """A sub-batch as a client sends it; its data is taken as it is."""
    length = len(data) if uncompressed is None else uncompressed
    return struct.pack(">BHII", 0x80 | compression << 4, count, length, len(data)) + data


def _read_chunk(deliver: c.Deliver, frame: bytes) -> Chunk:
    first_byte, kind, entries, records, timestamp_ms, _, offset, crc, data_bytes, _, _ = _CHUNK.unpack_from(
        frame, deliver.start
    )
    data = frame[deliver.start + _CHUNK.size : deliver.end]
    assert kind == 0
    assert len(data) == data_bytes
    assert zlib.crc32(data) == crc
    messages = tuple(_entries(data))
    assert len(messages) == entries
    return Chunk(
        deliver.subscription_id,
        deliver.committed_chunk_id,
        first_byte,
        entries,
        records,
        timestamp_ms,
        offset,
        messages,
    )


def _entries(data: bytes) -> list[bytes]:
    found = []
    position = 0
    while position < len(data):
        start = position
        if data[start] & 0x80:
            position += 11 + _SIZE.unpack_from(data, start + 7)[0]
            found.append(data[start:position])
        else:
            position += _SIZE.size + _SIZE.unpack_from(data, start)[0]
            found.append(data[start + _SIZE.size : position])
    return found
