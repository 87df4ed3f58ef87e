"""A stream client for tests that says just what it is told: a blocking socket, frames out, commands in."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headwater.encoding.chunk import ChunkHeader
from headwater.streams import commands as c
from headwater.streams.codec import decode_response, encode
from headwater.streams.commands import OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.publish import encode_publish

__all__ = ["FIRST", "NEXT", "Chunk", "Confirmed", "Ended", "Peer", "at_offset", "eventually", "plain"]

STEP_TIMEOUT_S = 20.0
FIRST = OffsetSpecification(OffsetType.FIRST)
NEXT = OffsetSpecification(OffsetType.NEXT)

_IDS = itertools.count(1)
C = TypeVar("C")


class Ended(Exception):
    """The server closed the socket."""


class Confirmed(c.Command, frozen=True):
    """A PublishConfirm with its ids."""

    publisher_id: int
    ids: tuple[int, ...]


class Chunk(c.Command, frozen=True):
    """A Deliver with its chunk."""

    subscription_id: int
    header: ChunkHeader
    data: bytes

    @property
    def offsets(self) -> range:
        """Of its records."""
        return range(self.header.first_offset, self.header.first_offset + self.header.records)

    @property
    def records(self) -> list[bytes]:
        """Its entries, none of which is a sub-batch."""
        found, position = [], 0
        while position < len(self.data):
            size = int.from_bytes(self.data[position : position + 4], "big")
            found.append(self.data[position + 4 : position + 4 + size])
            position += 4 + size
        return found


class Peer:
    """One connection. `send` frames, `receive` the next command, `ask` for the answer to a request."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        tls: ssl.SSLContext | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        raw = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if receive_buffer_bytes is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            raw.settimeout(STEP_TIMEOUT_S)
            raw.connect(address)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket = raw if tls is None else tls.wrap_socket(raw, server_hostname="localhost")
        except BaseException:
            raw.close()
            raise
        self._data = bytearray()
        self._waiting: list[c.Command] = []

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection."""
        self.socket.close()

    def vanish(self) -> None:
        """End the connection by a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # Out

    def send(self, *frames: c.Command | bytes) -> None:
        """All of these in one write."""
        data = b"".join(frame if isinstance(frame, bytes) else encode(frame) for frame in frames)
        self.socket.sendall(data)

    def publish(self, publisher_id: int, ids: Sequence[int], size: int = 0) -> None:
        """Messages that say their id, in one frame."""
        self.send(encode_publish(publisher_id, [(id_, b"%d" % id_ + bytes(size)) for id_ in ids]))

    # In

    def receive(self, timeout_s: float = STEP_TIMEOUT_S) -> c.Command:
        """The next command that nobody has taken yet; raises `Ended`, or TimeoutError."""
        if self._waiting:
            return self._waiting.pop(0)
        return self._read(timeout_s)

    def next(self, kind: type[C], timeout_s: float = STEP_TIMEOUT_S) -> C:
        """The next command of a kind; others wait."""
        for command in self._waiting:
            if isinstance(command, kind):
                self._waiting.remove(command)
                return command
        while True:
            command = self._read(timeout_s)
            if isinstance(command, kind):
                return command
            self._waiting.append(command)

    def ask(self, request: c.Request | c.MetadataRequest) -> Any:
        """The answer to a request; what comes before it waits."""
        self.send(request)
        return self.answer(request.correlation_id)

    def answer(self, correlation_id: int) -> Any:
        """The answer under this id."""
        while True:
            command = self._read(STEP_TIMEOUT_S)
            if getattr(command, "correlation_id", None) == correlation_id and not isinstance(
                command, c.Request
            ):
                return command
            self._waiting.append(command)

    def confirmed(self, count: int, publisher_id: int | None = None) -> list[int]:
        """So many confirmed ids, in their order; a PublishError instead fails."""
        found: list[int] = []
        while len(found) < count:
            command = self.next(Confirmed | c.PublishError)  # type: ignore[arg-type]
            assert isinstance(command, Confirmed), command
            assert publisher_id in (None, command.publisher_id)
            found += command.ids
        return found

    def records(self, count: int) -> list[bytes]:
        """So many records, from chunks in their order."""
        found: list[bytes] = []
        while len(found) < count:
            found += self.next(Chunk).records
        return found

    def silent_for(self, seconds: float) -> list[c.Command]:
        """What comes within this time."""
        with contextlib.suppress(TimeoutError):
            while True:
                self._waiting.append(self._read(seconds))
        waiting, self._waiting = self._waiting, []
        return waiting

    def rest(self) -> list[c.Command]:
        """All that comes until the server closes the socket."""
        found, self._waiting = self._waiting, []
        with contextlib.suppress(Ended):
            while True:
                found.append(self._read(STEP_TIMEOUT_S))
        return found

    # Conversations

    def open(self, user: str = "guest", password: str | None = None, vhost: str = "/", **tune: int) -> Peer:
        """The whole handshake, which must succeed; gives itself."""
        self.authenticate("PLAIN", plain(user, user if password is None else password))
        self.tune(**tune)
        answer = self.ask(c.OpenRequest(next_id(), vhost))
        assert answer.response_code == ResponseCode.OK, answer
        return self

    def greet(self, properties: dict[str, str] | None = None) -> tuple[str, ...]:
        """The first two steps; gives the mechanisms offered."""
        self.ask(c.PeerPropertiesRequest(next_id(), properties or {}))
        found: tuple[str, ...] = self.ask(c.SaslHandshakeRequest(next_id())).mechanisms
        return found

    def authenticate(self, mechanism: str, data: bytes | None) -> None:
        """The steps up to Tune, which must succeed."""
        self.greet()
        answer = self.ask(c.SaslAuthenticateRequest(next_id(), mechanism, data))
        assert answer.response_code == ResponseCode.OK, answer

    def tune(self, frame_max: int | None = None, heartbeat: int | None = None) -> c.TuneRequest:
        """Answer what the server proposes, by the same where nothing else is asked for; gives the proposal."""
        proposed = self.next(c.TuneRequest)
        self.send(
            c.TuneResponse(
                proposed.frame_max if frame_max is None else frame_max,
                proposed.heartbeat if heartbeat is None else heartbeat,
            )
        )
        return proposed

    def create(self, *streams: str, **arguments: str) -> None:
        """Make streams."""
        for stream in streams:
            answer = self.ask(c.CreateRequest(next_id(), stream, arguments))
            assert answer.response_code == ResponseCode.OK, answer

    def declare(self, publisher_id: int, stream: str, reference: str | None = None) -> int:
        """Declare a publisher; gives the code."""
        request = c.DeclarePublisherRequest(next_id(), publisher_id, reference, stream)
        return int(self.ask(request).response_code)

    def subscribe(
        self,
        subscription_id: int,
        stream: str,
        offset: OffsetSpecification = FIRST,
        credit: int = 10,
        **properties: str,
    ) -> int:
        """Subscribe; underscores in names of properties stand for dashes. Gives the code."""
        named = {name.replace("_", "-"): value for name, value in properties.items()}
        request = c.SubscribeRequest(next_id(), subscription_id, stream, offset, credit, named)
        return int(self.ask(request).response_code)

    def _read(self, timeout_s: float) -> c.Command:
        end = time.monotonic() + timeout_s
        while len(self._data) < 4 or len(self._data) < 4 + (size := int.from_bytes(self._data[:4], "big")):
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 18)
            except (ConnectionError, ssl.SSLError) as error:
                if isinstance(error, ssl.SSLWantReadError):
                    continue
                raise Ended(str(error)) from None
            if not data:
                assert not self._data, f"the server closed within a frame: {bytes(self._data)!r}"
                raise Ended("closed")
            self._data += data
        frame = bytes(self._data[: 4 + size])
        del self._data[: 4 + size]
        return _standing_alone(decode_response(frame, 4, len(frame)), frame)


def _standing_alone(command: c.Command, frame: bytes) -> c.Command:
    if isinstance(command, c.PublishConfirm):
        ids = struct.unpack_from(f">{command.count}Q", frame, command.start)
        return Confirmed(command.publisher_id, ids)
    if isinstance(command, c.Deliver):
        return Chunk(command.subscription_id, command.header, frame[command.start + 48 : command.end])
    return command


def next_id() -> int:
    """A correlation id that no other request has."""
    return next(_IDS)


def plain(user: str, password: str) -> bytes:
    """The message of SASL PLAIN."""
    return f"\0{user}\0{password}".encode()


def at_offset(offset: int) -> OffsetSpecification:
    """From this offset on."""
    return OffsetSpecification(OffsetType.OFFSET, offset)


def eventually(holds: Callable[[], object], timeout_s: float = STEP_TIMEOUT_S) -> None:
    """Wait until something holds; whoever waits in vain fails."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.005)


assert issubclass(c.Command, msgspec.Struct)
