"""AMQP 1.0 part 2, section 2.4: connections. Takes bytes, gives events; what is to be sent gathers until asked for.

bytes ──> frame ──> connection ──> session ──> link ──> event
"""

from __future__ import annotations

import enum
from array import array
from collections import deque

import msgspec

from headwater.amqp.definitions import FRAME_SIZE_BYTES_MIN_MAX, Condition, ErrorValue
from headwater.amqp.errors import FramingError, UnknownProtocol
from headwater.amqp.events import Closed, Event, Opened, SessionBegun
from headwater.amqp.faults import ConnectionFault, EndpointGone, NoNumberLeft, SessionFault
from headwater.amqp.frames import (
    EMPTY_FRAME,
    PROTOCOL_HEADER_BYTES,
    Frame,
    FrameType,
    ProtocolId,
    encode_frame,
    protocol_header,
    read_frame,
    read_protocol_header,
)
from headwater.amqp.performatives import (
    Begin,
    Close,
    End,
    Open,
    Performative,
    decode_performative,
    without_words,
)
from headwater.amqp.session import Session, SessionState
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.ranges import RangeBudget
from headwater.errors import InvalidField, MalformedValue, PeerError

__all__ = ["Connection", "Limits", "PartialBudget", "State"]


class State(enum.Enum):
    """Section 2.4.6: how far opening and closing have come."""

    START = "start"
    HEADER_RECEIVED = "header received"
    HEADER_SENT = "header sent"
    HEADERS_EXCHANGED = "headers exchanged"
    OPEN_PIPE = "open pipelined"
    OPEN_RECEIVED = "open received"
    OPEN_SENT = "open sent"
    OPENED = "opened"
    CLOSE_RECEIVED = "close received"
    CLOSE_SENT = "close sent"
    END = "end"


class _Step(enum.Enum):
    RECEIVE_HEADER = enum.auto()
    SEND_HEADER = enum.auto()
    RECEIVE_OPEN = enum.auto()
    SEND_OPEN = enum.auto()
    RECEIVE_CLOSE = enum.auto()
    SEND_CLOSE = enum.auto()


# Section 2.4.7. Nothing is closed before both headers and our open are out, so no state is needed for that.
_STATES: dict[tuple[State, _Step], State] = {
    (State.START, _Step.RECEIVE_HEADER): State.HEADER_RECEIVED,
    (State.START, _Step.SEND_HEADER): State.HEADER_SENT,
    (State.HEADER_RECEIVED, _Step.SEND_HEADER): State.HEADERS_EXCHANGED,
    (State.HEADER_SENT, _Step.RECEIVE_HEADER): State.HEADERS_EXCHANGED,
    (State.HEADER_SENT, _Step.SEND_OPEN): State.OPEN_PIPE,
    (State.HEADERS_EXCHANGED, _Step.RECEIVE_OPEN): State.OPEN_RECEIVED,
    (State.HEADERS_EXCHANGED, _Step.SEND_OPEN): State.OPEN_SENT,
    (State.OPEN_PIPE, _Step.RECEIVE_HEADER): State.OPEN_SENT,
    (State.OPEN_RECEIVED, _Step.SEND_OPEN): State.OPENED,
    (State.OPEN_SENT, _Step.RECEIVE_OPEN): State.OPENED,
    (State.OPEN_SENT, _Step.SEND_CLOSE): State.CLOSE_SENT,
    (State.OPENED, _Step.RECEIVE_CLOSE): State.CLOSE_RECEIVED,
    (State.OPENED, _Step.SEND_CLOSE): State.CLOSE_SENT,
    (State.CLOSE_RECEIVED, _Step.SEND_CLOSE): State.END,
    (State.CLOSE_SENT, _Step.RECEIVE_CLOSE): State.END,
}


class PartialBudget:
    """What deliveries of several frames may hold before they are whole, for all connections that share it."""

    __slots__ = ("bytes_left",)

    def __init__(self, bytes_max: int = 64 << 20) -> None:
        self.bytes_left = bytes_max

    def take(self, byte_count: int) -> bool:
        """Whether there is so much left; then it is taken."""
        if byte_count > self.bytes_left:
            return False
        self.bytes_left -= byte_count
        return True

    def give_back(self, byte_count: int) -> None:
        """What was held is let go."""
        self.bytes_left += byte_count


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What this end of a connection takes."""

    frame_size_bytes_max: int = 1 << 20
    opening_frame_bytes_max: int = 16 * 1024
    """Before both sides have opened."""
    channel_max: int = 255
    handle_max: int = 1023
    incoming_window: int = 8192
    """Transfer frames that may be on their way to us in one session."""
    idle_time_out_ms: int | None = None
    """What the peer is told: it should let us hear of it within this time."""
    run_count_max: int = 1024
    """Messages that one event tells of."""
    performative_bytes_max: int = 64 * 1024
    """Of a frame without the payload of a transfer; what takes longer to read would be felt by others."""
    attach_bytes_max: int = 4 << 20
    """What the links that a peer has attached may take together."""
    unsettled_ranges_max: int = 16 * 1024
    """What is unsettled, in ranges of delivery ids; then nothing more is sent until the peer settles."""
    message_size_bytes_max: int = 0
    """What every receiver of ours announces as its max-message-size; 0 is none."""


class Connection:
    """One end of a connection, be it a client's or a server's."""

    def __init__(
        self,
        container_id: str,
        limits: Limits | None = None,
        *,
        budget: PartialBudget | None = None,
        spans: array[int] | None = None,
    ) -> None:
        """`spans` is room for the places of messages, which connections of one thread may share."""
        self.container_id = container_id
        self.limits = limits or Limits()
        self.budget = budget or PartialBudget()
        self.spans = spans or array("q", bytes(8 * SPAN_FIELDS * self.limits.run_count_max))
        self.state = State.START
        self.remote: Open | None = None
        """What the peer opened with."""
        self.sessions: dict[int, Session] = {}
        """By our channel."""
        self.unsettled_budget = RangeBudget(self.limits.unsettled_ranges_max)
        self.attach_bytes = 0
        """What the links take that the peer has attached."""
        self._by_remote_channel: dict[int, Session] = {}
        self._out = bytearray()
        self._unflushed: dict[Session, None] = {}
        self._is_lost = False
        """Whether where frames begin is no longer known, so that the peer's close will not be found."""
        self._told: deque[Event] = deque()
        """Events that came of what our owner did; of each session one at most."""

    # What the peer sent

    def next_event(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[Event | None, int]:
        """The next event of the bytes from a position on, and where what was not looked at yet begins.

        Without an event more bytes are needed, behind those that are left. Never raises, whatever the bytes.
        """
        if self._told:
            return self._told.popleft(), position
        while self.state is not State.END:
            frame = None
            try:
                if not self._has_header:
                    if not self._receive_header(buffer, position, end):
                        return None, position
                    event = None
                    position += PROTOCOL_HEADER_BYTES
                elif self._is_lost:
                    if position < end:
                        self.state = State.END
                    return None, end
                else:
                    frame = read_frame(buffer, position, end, self.frame_size_bytes_max)
                    if frame is None:
                        return None, position
                    event, position = self._receive_frame(frame, buffer, position, end)
            except PeerError as error:
                self._is_lost = frame is None
                return self._broken(error), end if frame is None else frame.end
            if event is not None:
                return event, position
        return None, end

    @property
    def frame_size_bytes_max(self) -> int:
        """The largest frame that is taken now."""
        if self.remote is None:
            return self.limits.opening_frame_bytes_max
        return self.limits.frame_size_bytes_max

    @property
    def remote_frame_size_bytes_max(self) -> int:
        """The largest frame that the peer takes; section 2.4.1 for what holds before it has said so."""
        return FRAME_SIZE_BYTES_MIN_MAX if self.remote is None else self.remote.max_frame_size

    @property
    def is_open(self) -> bool:
        """Whether sessions can be begun and used."""
        return self.state is State.OPENED or self.state in (State.OPEN_PIPE, State.OPEN_SENT)

    # What is to be sent

    def data_to_send(self) -> bytearray:
        """What goes out, once; whoever takes it owns it."""
        for session in self._unflushed:
            session.flush()
        self._unflushed.clear()
        out, self._out = self._out, bytearray()
        return out

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait to be taken."""
        return len(self._out)

    def send_header(self) -> None:
        """Say that AMQP is spoken; a client begins with this, a server's goes out by itself."""
        self._step(_Step.SEND_HEADER)
        self._out += protocol_header(ProtocolId.AMQP)

    def open(
        self,
        *,
        hostname: str | None = None,
        offered_capabilities: tuple[Symbol, ...] = (),
        desired_capabilities: tuple[Symbol, ...] = (),
        properties: dict[Symbol, object] | None = None,
    ) -> None:
        """Open our end."""
        self._step(_Step.SEND_OPEN)
        limits = self.limits
        said = Open(
            self.container_id,
            hostname=hostname,
            max_frame_size=limits.frame_size_bytes_max,
            channel_max=limits.channel_max,
            idle_time_out=limits.idle_time_out_ms,
            offered_capabilities=offered_capabilities,
            desired_capabilities=desired_capabilities,
            properties=properties,
        )
        if not self.write(0, said):
            # Until the peer has opened this must fit into the smallest frame, and properties are for people to read.
            self._out += encode_frame(0, msgspec.structs.replace(said, properties=None))

    def close(self, error: ErrorValue | None = None) -> None:
        """Close our end, or answer the peer's close; once is enough, and what was not opened is opened first."""
        if self.state in (State.CLOSE_SENT, State.END):
            return
        if self.state is State.HEADER_RECEIVED:
            self.send_header()
        if self.state in (State.HEADERS_EXCHANGED, State.OPEN_RECEIVED):
            self.open()
        if self.state in (State.OPENED, State.OPEN_SENT, State.CLOSE_RECEIVED):
            for session in self.sessions.values():
                session.flush()
            self.write(0, Close(error=error))
            self._step(_Step.SEND_CLOSE)
        else:
            self.state = State.END
        self._drop_sessions()

    def begin(self) -> Session:
        """Begin a session."""
        if not self.is_open:
            raise EndpointGone("the connection")
        channel = self._free_channel()
        if channel is None:
            raise NoNumberLeft("channel")
        session = Session(self, channel)
        self.sessions[session.channel] = session
        session.begin()
        return session

    def heartbeat(self) -> None:
        """Let the peer hear of us: a frame without a body. Behind a close nothing is sent."""
        if self.state not in (State.CLOSE_SENT, State.END):
            self._out += EMPTY_FRAME

    def write(self, channel: int, performative: Performative, payload: ReadableBuffer = b"") -> bool:
        """Queue one frame, if need be without the words of an error; False if it is larger than the peer takes."""
        frame = encode_frame(channel, performative, payload)
        if len(frame) > self.remote_frame_size_bytes_max:
            frame = encode_frame(channel, without_words(performative), payload)
            if len(frame) > self.remote_frame_size_bytes_max:
                return False
        self._out += frame
        return True

    def tell(self, event: Event) -> None:
        """The owner hears of this first when it asks for the next event."""
        self._told.append(event)

    @property
    def out(self) -> bytearray:
        """For kernels that write frames themselves: they go behind what is there."""
        return self._out

    def has_unflushed(self, session: Session) -> None:
        """A session gathers something that is to be written before the next bytes go out."""
        self._unflushed[session] = None

    # Sessions

    def session_ended(self, session: Session) -> None:
        """Both ends of a session have ended, so our channel is free."""
        self.sessions.pop(session.channel, None)
        self.attach_bytes -= sum(link.attach_bytes for link in session.links.values())

    def channel_free(self, session: Session) -> None:
        """The peer has ended a session, and may use its channel for another one."""
        if session.remote_channel is not None:
            del self._by_remote_channel[session.remote_channel]

    def _free_channel(self) -> int | None:
        # Section 2.4.1: there is channel 0 alone until the peer has said more.
        channels = range(1 if self.remote is None else self.remote.channel_max + 1)
        return next((channel for channel in channels if channel not in self.sessions), None)

    def drop(self) -> None:
        """The socket is gone, and the connection with it."""
        self.state = State.END
        self._drop_sessions()

    def _drop_sessions(self) -> None:
        for session in self.sessions.values():
            session.drop()
        self.sessions.clear()
        self._by_remote_channel.clear()

    # Steps

    def _step(self, step: _Step) -> None:
        following = _STATES.get((self.state, step))
        if following is None:
            if step in (_Step.SEND_HEADER, _Step.SEND_OPEN, _Step.SEND_CLOSE):
                raise EndpointGone("the connection")
            said = step.name.removeprefix("RECEIVE_").lower()
            raise ConnectionFault(
                Condition.ILLEGAL_STATE, f"{said} cannot come in the state '{self.state.value}'"
            )
        self.state = following

    @property
    def _has_header(self) -> bool:
        return self.state not in (State.START, State.HEADER_SENT, State.OPEN_PIPE)

    def _receive_header(self, buffer: ReadableBuffer, position: int, end: int) -> bool:
        """Take the peer's header; False while it is not whole."""
        protocol = read_protocol_header(buffer, position, end)
        if protocol is None:
            return False
        if protocol is not ProtocolId.AMQP:
            raise UnknownProtocol(protocol_header(protocol))
        self._step(_Step.RECEIVE_HEADER)
        if self.state is State.HEADER_RECEIVED:
            self.send_header()
        return True

    def _receive_frame(
        self, frame: Frame, buffer: ReadableBuffer, position: int, end: int
    ) -> tuple[Event | None, int]:
        behind = frame.end
        if frame.type is not FrameType.AMQP:
            raise FramingError("a frame of SASL came behind the header of AMQP")
        if frame.position == behind:
            return None, behind  # a heartbeat
        session = self._by_remote_channel.get(frame.channel)
        if session is not None and self.state is State.OPENED:
            event, after = session.receive_run(buffer, position, end)
            if after != position:
                return event, after
        if self.state is State.CLOSE_SENT:
            return self._receive_while_closing(frame, buffer), behind
        try:
            performative, payload = self._decode(frame, buffer)
        except InvalidField as error:
            return self._invalid(session, error), behind
        return self._receive(frame, session, performative, buffer, payload), behind

    def _receive_while_closing(self, frame: Frame, buffer: ReadableBuffer) -> Event | None:
        """Section 2.4.6: what comes behind our close is passed over, whatever it is, up to the peer's."""
        try:
            performative, _ = self._decode(frame, buffer)
        except PeerError:
            return None
        return self._receive_close(performative) if isinstance(performative, Close) else None

    def _decode(self, frame: Frame, buffer: ReadableBuffer) -> tuple[Performative, int]:
        bytes_max = self.limits.performative_bytes_max
        if frame.end - frame.position <= bytes_max:
            return decode_performative(buffer, frame.position, frame.end)
        try:
            return decode_performative(buffer, frame.position, frame.position + bytes_max)
        except InvalidField:
            raise
        except MalformedValue as error:
            raise ConnectionFault(
                Condition.RESOURCE_LIMIT_EXCEEDED,
                f"a performative has {bytes_max} bytes at most: {error.reason}",
            ) from None

    def _invalid(self, session: Session | None, error: InvalidField) -> Event | None:
        """A field is wrong, of which no more need suffer than the session that it was sent to."""
        is_of_session = error.field.partition(".")[0] not in ("open", "close", "begin")
        if session is None or not is_of_session or self.state is not State.OPENED:
            raise error
        if session.state is not SessionState.MAPPED:
            return None
        return session.fail(SessionFault(Condition.INVALID_FIELD, str(error)))

    def _receive(
        self,
        frame: Frame,
        session: Session | None,
        performative: Performative,
        buffer: ReadableBuffer,
        payload: int,
    ) -> Event | None:
        channel = frame.channel
        if isinstance(performative, Open):
            if channel:
                raise ConnectionFault(Condition.NOT_ALLOWED, "open is sent on channel 0")
            return self._receive_open(performative)
        if isinstance(performative, Close):
            return self._receive_close(performative)
        if self.state is not State.OPENED:
            raise ConnectionFault(
                Condition.ILLEGAL_STATE, f"a frame of a session came in the state '{self.state.value}'"
            )
        if channel > self.limits.channel_max:
            raise ConnectionFault(
                Condition.CONNECTION_FRAMING_ERROR, f"channel {channel} is above {self.limits.channel_max}"
            )
        if isinstance(performative, Begin):
            return self._receive_begin(channel, performative)
        if session is None:
            if isinstance(performative, End):
                return None  # go-amqp ends sessions that it gave up before it began them
            raise ConnectionFault(Condition.NOT_ALLOWED, f"no session was begun on channel {channel}")
        try:
            return session.receive(performative, payload - frame.position, buffer, payload, frame.end)
        except SessionFault as fault:
            return session.fail(fault)

    def _receive_open(self, performative: Open) -> Event | None:
        self._step(_Step.RECEIVE_OPEN)
        if performative.max_frame_size < FRAME_SIZE_BYTES_MIN_MAX:
            raise ConnectionFault(
                Condition.INVALID_FIELD,
                f"max-frame-size is {performative.max_frame_size}, below {FRAME_SIZE_BYTES_MIN_MAX}",
            )
        self.remote = performative
        return Opened(performative)

    def _receive_close(self, performative: Close) -> Event | None:
        self._step(_Step.RECEIVE_CLOSE)
        for session in self.sessions.values():
            session.cut_short()
        return Closed(performative.error, is_answered=self.state is State.END)

    def _receive_begin(self, channel: int, performative: Begin) -> Event | None:
        if channel in self._by_remote_channel:
            raise ConnectionFault(Condition.NOT_ALLOWED, f"channel {channel} has a session already")
        if performative.remote_channel is None:
            ours = self._free_channel()
            if ours is None:
                raise ConnectionFault(Condition.RESOURCE_LIMIT_EXCEEDED, "you leave us no channel")
            session = Session(self, ours)
            self.sessions[ours] = session
        else:
            begun = self.sessions.get(performative.remote_channel)
            if begun is None or begun.remote_channel is not None:
                raise ConnectionFault(
                    Condition.NOT_ALLOWED, f"no session of ours waits on {performative.remote_channel}"
                )
            session = begun
        self._by_remote_channel[channel] = session
        session.receive_begin(channel, performative)
        return SessionBegun(session) if session.state is SessionState.MAPPED else None

    def _broken(self, error: PeerError) -> Event:
        """The connection ends because of what the peer sent."""
        if isinstance(error, UnknownProtocol):
            # Section 2.2: the answer is our header, then the socket closes.
            if self.state is State.START:
                self.send_header()
            self.state = State.END
        if self.state is State.CLOSE_SENT:
            self.state = State.END
        value = ErrorValue(Symbol(getattr(error, "condition", Condition.DECODE_ERROR)), str(error))
        self.close(value)
        return Closed(value, is_answered=True)
