"""RabbitMQ Streams protocol, Frame Structure: what both ends of a connection share.

An end takes bytes and gives events. What is legal stands in the table of `server_connection.py` or
`client_connection.py`: by state, the keys that may come and the state after each. What is absent is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec

from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidSettings, MalformedFrame, PeerError
from headwater.streams.codec import Decoder, encode
from headwater.streams.commands import CloseRequest, CloseResponse, Command, Key, Publish, ResponseCode
from headwater.streams.errors import FrameTooLarge, OutOfOrder, UnknownFrame, code_of
from headwater.streams.layouts import ANSWER, FRAME_HEADER
from headwater.streams.publish import joined

__all__ = [
    "FRAME_SIZE_BYTES_MAX",
    "FRAME_SIZE_BYTES_MAX_BEFORE_OPEN",
    "HEARTBEAT_S",
    "Connection",
    "Event",
    "Failed",
    "Handler",
    "State",
    "Table",
]

FRAME_SIZE_BYTES_MAX = 0x100000
FRAME_SIZE_BYTES_MAX_BEFORE_OPEN = 8_192
HEARTBEAT_S = 60

_SIZE_BYTES = 4
_FRAME_SIZE_BYTES_MIN = 4
_CLOSE_REASON_BYTES_MAX = 1_000
_UINT32_MAX = 0xFFFFFFFF


class State(enum.Enum):
    """What has been reached: the step that comes next, or how the connection ends.

    AUTHENTICATING and OPENING are waits for an answer of the shell, during which nothing more is taken.
    """

    PEER_PROPERTIES = "peer properties"
    SASL_HANDSHAKE = "sasl handshake"
    SASL_AUTHENTICATE = "sasl authenticate"
    AUTHENTICATING = "authenticating"
    TUNE = "tune"
    OPEN = "open"
    OPENING = "opening"
    OPENED = "opened"
    CLOSING = "closing"
    CLOSED = "closed"


class Failed(msgspec.Struct, frozen=True):
    """The peer did what it must not: the state is CLOSING if it is being told, or CLOSED if there is no use in that."""

    error: PeerError


Event: TypeAlias = Command | Failed
Table: TypeAlias = Mapping[State, Mapping[int, State]]
Handler: TypeAlias = Callable[[Any, Command, list[Event]], None]


class Connection:
    """One end, without I/O: `receive` bytes, act on the events, write `data_to_send`.

    In the state CLOSED, what is still to send is sent and the socket closed. In CLOSING the peer has some seconds.
    """

    __slots__ = (
        "_allowed",
        "_correlation_id",
        "_frame_size_bytes_max",
        "_out",
        "_skip_bytes",
        "_state",
        "frame_size_bytes_max",
        "has_more",
        "heartbeat_s",
        "peer_takes_close",
    )

    table: ClassVar[Table]
    decoders: ClassVar[Mapping[int, Decoder]]
    handlers: ClassVar[Mapping[int, Handler]]
    """What the protocol decides by itself, by key; all else becomes an event."""
    last_keys: ClassVar[frozenset[int]] = frozenset({ANSWER | Key.CLOSE})
    """What still counts in the state CLOSING."""
    waits: ClassVar[frozenset[State]] = frozenset({State.AUTHENTICATING, State.OPENING})

    def __init__(self, frame_size_bytes_max: int, heartbeat_s: int) -> None:
        if not FRAME_SIZE_BYTES_MAX_BEFORE_OPEN <= frame_size_bytes_max <= _UINT32_MAX:
            reason = f"{frame_size_bytes_max} is not {FRAME_SIZE_BYTES_MAX_BEFORE_OPEN} to {_UINT32_MAX}"
            raise InvalidSettings("frame_size_bytes_max", reason)
        if not 0 <= heartbeat_s <= _UINT32_MAX:
            raise InvalidSettings("heartbeat_s", f"{heartbeat_s} is not 0 to {_UINT32_MAX}")
        self.frame_size_bytes_max = frame_size_bytes_max
        """The largest frame to send, 0 for any; what was agreed on, once the state is behind TUNE."""
        self.heartbeat_s = heartbeat_s
        """0 is none; what was agreed on, once the state is behind TUNE."""
        self.peer_takes_close = True
        """Whether the peer can be told by a Close that the connection ends."""
        self._frame_size_bytes_max = FRAME_SIZE_BYTES_MAX_BEFORE_OPEN
        self._out: list[bytes] = []
        self._skip_bytes = 0
        self._correlation_id = 0
        self.has_more = False
        """Whether `receive` would take more of what it was given last."""
        self._enter(State.PEER_PROPERTIES)

    @property
    def state(self) -> State:
        """The step that comes next, or how the connection ends."""
        return self._state

    @property
    def is_waiting(self) -> bool:
        """Whether the last event wants an answer before `receive` takes more; it is called again after that."""
        return self._state in self.waits

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can be sent."""
        return self._state is State.CLOSING or self._state is State.CLOSED

    def receive(
        self,
        buffer: ReadableBuffer,
        start: int = 0,
        end: int | None = None,
        frames_max: int | None = None,
    ) -> tuple[int, list[Event]]:
        """Take the whole frames between `start` and `end`; gives how many bytes these were, and what happened.

        The rest is to come again, with more behind it. Spans in events are positions in this buffer, in which small
        Publish frames may have been moved together. A shell that closes on an event lets those behind it be.

        With `frames_max`, about so many are taken, and the end of the connection comes alone, so that what was asked
        before it can be answered before it: while `has_more`, call again.
        """
        if end is None:
            end = len(buffer)
        events: list[Event] = []
        position, frames = start, 0
        self.has_more = False
        while self._allowed:
            found = self._next(buffer, position, end)
            if found is None:
                break
            ends = isinstance(found, PeerError) or self._allowed[found[0]] is State.CLOSED
            if frames == frames_max or (ends and events and frames_max is not None):
                self.has_more = True
                break
            if isinstance(found, PeerError):
                self._refuse(found, events)
                break
            key, command, position = found
            frames += 1
            following = self._allowed[key]
            if following is not self._state:
                self._enter(following)
            elif isinstance(command, Publish) and position < end:
                command, position = joined(command, buffer, position, end)
            handler = self.handlers.get(key)
            if handler is None:
                events.append(command)
            else:
                handler(self, command, events)
        if self.has_ended:
            position = self._receive_ended(buffer, position, end, events)
        return position - start, events

    def frame_bytes_missing(self, buffer: ReadableBuffer, start: int, end: int) -> int:
        """How many bytes more the frame that begins at `start` needs at least, for a shell that keeps a cut one."""
        if end - start < _SIZE_BYTES:
            return _SIZE_BYTES - (end - start)
        size = int.from_bytes(buffer[start : start + _SIZE_BYTES], "big")
        return max(0, start + _SIZE_BYTES + min(size, self._frame_size_bytes_max) - end)

    def data_to_send(self) -> bytes:
        """What is to be written now, once."""
        out = self._out
        if not out:
            return b""
        self._out = []
        return out[0] if len(out) == 1 else b"".join(out)

    def close(self, code: ResponseCode, reason: str) -> None:
        """Tell the peer that the connection ends; without effect when it ends already."""
        if self.has_ended:
            return
        if not self.peer_takes_close:
            self._enter(State.CLOSED)
            return
        shown = reason.encode("utf-8", "replace")[:_CLOSE_REASON_BYTES_MAX].decode("utf-8", "ignore")
        self._out.append(encode(CloseRequest(self._next_correlation_id(), code, shown)))
        self._enter(State.CLOSING)

    def fail(self, error: PeerError) -> None:
        """Close because of what the shell found wrong with a command, such as the messages of a Publish."""
        self.close(code_of(error), str(error))

    def _enter(self, state: State) -> None:
        self._state = state
        self._allowed = self.table.get(state, {})

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & _UINT32_MAX
        return self._correlation_id

    def _next(
        self, buffer: ReadableBuffer, position: int, end: int
    ) -> tuple[int, Command, int] | PeerError | None:
        """Key and command of the frame at the position, and where it ends; what is wrong with it; None if it is cut."""
        if end - position < FRAME_HEADER.size:
            return self._wrong_in_short(buffer, position, end)
        size, key, version = FRAME_HEADER.unpack_from(buffer, position)
        if not _FRAME_SIZE_BYTES_MIN <= size <= self._frame_size_bytes_max:
            return self._wrong_size(size)
        if key not in self._allowed:
            return self._wrong_key(key, version)
        frame_end = position + _SIZE_BYTES + size
        if frame_end > end:
            return None
        try:
            command = self.decoders[key](buffer, version, position + FRAME_HEADER.size, frame_end)
        except MalformedFrame as error:
            return error
        return key, command, frame_end

    def _wrong_in_short(self, buffer: ReadableBuffer, position: int, end: int) -> PeerError | None:
        """A size alone may already be wrong, and a frame without a key would never be longer."""
        if end - position >= _SIZE_BYTES:
            size = int.from_bytes(buffer[position : position + _SIZE_BYTES], "big")
            if not _FRAME_SIZE_BYTES_MIN <= size <= self._frame_size_bytes_max:
                return self._wrong_size(size)
        return None

    def _wrong_size(self, size: int) -> PeerError:
        if size < _FRAME_SIZE_BYTES_MIN:
            return MalformedFrame(f"a frame of {size} bytes has no key and version")
        return FrameTooLarge(size, self._frame_size_bytes_max)

    def _wrong_key(self, key: int, version: int) -> PeerError:
        if key in self.decoders:
            name = Key(key & ~ANSWER).name.lower()
            return OutOfOrder(name, self._state.value)
        return UnknownFrame(key, version)

    def _refuse(self, error: PeerError, events: list[Event]) -> None:
        if isinstance(error, FrameTooLarge) and self._state is not State.OPENED:
            # Whoever sends this before it has opened is no client of this protocol.
            self._enter(State.CLOSED)
        else:
            self.fail(error)
        # A traceback would keep the buffer alive.
        events.append(Failed(error.with_traceback(None)))

    def _answer_close(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, CloseRequest)
        self._out.append(encode(CloseResponse(command.correlation_id, ResponseCode.OK)))
        events.append(command)

    def _ignore(self, _command: Command, _events: list[Event]) -> None:
        """Any byte shows that the peer is alive, so a heartbeat is no event."""

    def _receive_ended(self, buffer: ReadableBuffer, position: int, end: int, events: list[Event]) -> int:
        """Pass over everything but the answer to our Close, whatever sizes it claims; gives the position behind it."""
        while self._state is State.CLOSING:
            passed = min(self._skip_bytes, end - position)
            self._skip_bytes -= passed
            position += passed
            if end - position < FRAME_HEADER.size:
                return position
            size, key, version = FRAME_HEADER.unpack_from(buffer, position)
            if key not in self.last_keys or size > FRAME_SIZE_BYTES_MAX_BEFORE_OPEN:
                self._skip_bytes = _SIZE_BYTES + size
                continue
            frame_end = position + _SIZE_BYTES + size
            if frame_end > end:
                return position
            self._skip_bytes = frame_end - position
            self._receive_last(buffer, key, version, position + FRAME_HEADER.size, frame_end, events)
        return end

    def _receive_last(
        self, buffer: ReadableBuffer, key: int, version: int, position: int, end: int, events: list[Event]
    ) -> None:
        try:
            command = self.decoders[key](buffer, version, position, end)
        except MalformedFrame:
            return
        if key == Key.CLOSE:
            self._answer_close(command, events)
        else:
            events.append(command)
        self._enter(State.CLOSED)
