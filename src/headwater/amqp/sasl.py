"""AMQP 1.0 part 5, section 5.3: the SASL layer before a connection, at both ends; mechanisms are the owner's."""

from __future__ import annotations

import enum
from typing import TypeAlias

from headwater.amqp.definitions import Condition
from headwater.amqp.errors import FramingError
from headwater.amqp.faults import ConnectionFault
from headwater.amqp.frames import (
    PROTOCOL_HEADER_BYTES,
    SASL_FRAME_SIZE_BYTES_MAX,
    FrameType,
    ProtocolId,
    encode_sasl_frame,
    protocol_header,
    read_frame,
    read_protocol_header,
)
from headwater.amqp.sasl_frames import (
    SaslBody,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    decode_sasl,
)
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import PeerError

__all__ = ["SaslClient", "SaslEvent", "SaslFailed", "SaslServer", "SaslSkipped"]

SASL_HEADER = protocol_header(ProtocolId.SASL)


class SaslSkipped:
    """The peer began with AMQP: it has nobody to present."""


class SaslFailed:
    """The peer sent what it must not send; our header, where one is due, is on its way."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


SaslEvent: TypeAlias = SaslBody | SaslSkipped | SaslFailed


class _State(enum.Enum):
    HEADER = "header"
    INIT = "init"
    ASKED = "asked"
    ANSWERED = "answered"
    OVER = "over"


_EXPECTED: dict[_State, type[SaslBody]] = {_State.INIT: SaslInit, _State.ASKED: SaslResponse}
"""What a client may say next."""
_ANSWERS: dict[_State, tuple[type[SaslBody], ...]] = {
    _State.INIT: (SaslMechanisms,),
    _State.ANSWERED: (SaslChallenge, SaslOutcome),
}
"""What a server may say next; while it has asked, it waits for the client."""


class _Sasl:
    """What both ends share: the header, frames, and what is to be sent."""

    def __init__(self) -> None:
        self._state = _State.HEADER
        self._out = bytearray()

    def data_to_send(self) -> bytearray:
        """What goes out, once."""
        out, self._out = self._out, bytearray()
        return out

    def _write(self, frame: SaslBody) -> None:
        self._out += encode_sasl_frame(frame)

    def _frame(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[SaslEvent | None, int]:
        frame = read_frame(buffer, position, end, SASL_FRAME_SIZE_BYTES_MAX)
        if frame is None:
            return None, position
        if frame.type is not FrameType.SASL:
            raise FramingError("a frame of AMQP came before SASL was over")
        return decode_sasl(buffer, frame.position, frame.end), frame.end

    def _failed(self, reason: str) -> SaslFailed:
        self._state = _State.OVER
        return SaslFailed(reason)


class SaslServer(_Sasl):
    """The server's end: offers mechanisms, and hands on what the client says."""

    def __init__(self, mechanisms: tuple[str, ...]) -> None:
        super().__init__()
        self._mechanisms = mechanisms

    def next_event(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[SaslEvent | None, int]:
        """The next thing that the client said, and where what was not looked at yet begins. Never raises."""
        try:
            if self._state is _State.HEADER:
                protocol = read_protocol_header(buffer, position, end)
                if protocol is not ProtocolId.SASL:
                    event = self._without_sasl(protocol)
                    return event, end if isinstance(event, SaslFailed) else position
                position += PROTOCOL_HEADER_BYTES
                self._out += SASL_HEADER
                self._write(SaslMechanisms(tuple(map(Symbol, self._mechanisms))))
                self._state = _State.INIT
            event, position = self._frame(buffer, position, end)
        except PeerError as error:
            if self._state is _State.HEADER:
                self._out += SASL_HEADER
            return self._failed(str(error)), end
        if event is None:
            return None, position
        if not isinstance(event, _EXPECTED.get(self._state, ())):
            return self._failed(f"{type(event).__name__} came out of turn"), end
        self._state = _State.ANSWERED
        return event, position

    def _without_sasl(self, protocol: ProtocolId | None) -> SaslEvent | None:
        if protocol is None:
            return None
        if protocol is ProtocolId.AMQP:
            self._state = _State.OVER
            return SaslSkipped()
        self._out += SASL_HEADER
        return self._failed("TLS is spoken on a port of its own")

    def require(self) -> None:
        """Answer a client that skipped this layer: it is spoken here (section 5.3.2)."""
        self._out += SASL_HEADER

    def challenge(self, data: bytes) -> None:
        """Ask the client for more."""
        self._state = _State.ASKED
        self._write(SaslChallenge(data))

    def finish(self, code: SaslCode, data: bytes | None = None) -> None:
        """Say how it ended; the layer is over."""
        self._state = _State.OVER
        self._write(SaslOutcome(code, data))


class SaslClient(_Sasl):
    """The client's end: hears of mechanisms, and says what the owner's mechanism says."""

    def __init__(self) -> None:
        super().__init__()
        self._out += SASL_HEADER

    def next_event(self, buffer: ReadableBuffer, position: int, end: int) -> tuple[SaslEvent | None, int]:
        """The next thing that the server said, and where what was not looked at yet begins; raises `PeerError`."""
        if self._state is _State.HEADER:
            protocol = read_protocol_header(buffer, position, end)
            if protocol is None:
                return None, position
            if protocol is not ProtocolId.SASL:
                raise ConnectionFault(Condition.NOT_ALLOWED, "the server takes no SASL")
            position += PROTOCOL_HEADER_BYTES
            self._state = _State.INIT
        event, position = self._frame(buffer, position, end)
        if event is None:
            return None, position
        if not isinstance(event, _ANSWERS.get(self._state, ())):
            raise ConnectionFault(Condition.NOT_ALLOWED, f"{type(event).__name__} came out of turn")
        self._state = _State.OVER if isinstance(event, SaslOutcome) else _State.ASKED
        return event, position

    @property
    def is_over(self) -> bool:
        """Whether what follows is AMQP, or nothing."""
        return self._state is _State.OVER

    def start(self, mechanism: str, data: bytes | None, hostname: str | None) -> None:
        """Choose a mechanism, with its first message if it has one."""
        self._state = _State.ANSWERED
        self._write(SaslInit(Symbol(mechanism), data, hostname))

    def respond(self, data: bytes) -> None:
        """Answer a challenge."""
        self._state = _State.ANSWERED
        self._write(SaslResponse(data))
