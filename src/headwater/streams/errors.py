"""RabbitMQ Streams protocol, Response Codes: what a peer does wrong, each with the code that says so."""

from __future__ import annotations

from typing import ClassVar

from headwater.errors import CallerError, MalformedFrame, PeerError
from headwater.streams.commands import ResponseCode

__all__ = ["ConnectionEnded", "FrameTooLarge", "InvalidCommand", "OutOfOrder", "UnknownFrame", "code_of"]


class UnknownFrame(MalformedFrame):
    """A key or a version that this side of a connection does not take."""

    code: ClassVar[ResponseCode] = ResponseCode.UNKNOWN_FRAME

    def __init__(self, key: int, version: int) -> None:
        super().__init__(f"key {key:#06x} in version {version} is unknown here")
        self.key, self.version = key, version


class OutOfOrder(PeerError):
    """A command that is known, but not at this step of the connection."""

    code: ClassVar[ResponseCode] = ResponseCode.UNKNOWN_FRAME

    def __init__(self, command: str, state: str) -> None:
        self.command, self.state = command, state
        super().__init__(f"the peer sent {command} in the state {state}; the peer needs mending")


_OTHER_PROTOCOLS = {
    b"AMQP": "it speaks AMQP, which has a port of its own",
    b"GET ": "it speaks HTTP, which has a port of its own",
    b"POST": "it speaks HTTP, which has a port of its own",
}
"""How clients begin that took the wrong port, read as the size of a frame."""


class FrameTooLarge(PeerError):
    """A frame above what was agreed on."""

    code: ClassVar[ResponseCode] = ResponseCode.FRAME_TOO_LARGE

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        self.size_bytes, self.size_bytes_max = size_bytes, size_bytes_max
        advice = _OTHER_PROTOCOLS.get(
            size_bytes.to_bytes(4, "big"), "send smaller batches, or raise the maximum"
        )
        super().__init__(
            f"the peer sent a frame of {size_bytes} bytes, above the maximum of {size_bytes_max}; {advice}"
        )


class ConnectionEnded(CallerError):
    """Something was to be sent on a connection that is closed, or about to be."""

    def __init__(self, command: str) -> None:
        self.command = command
        super().__init__(f"the connection is closed, so {command} cannot be sent; open another one")


class InvalidCommand(CallerError):
    """A command of ours with a field that cannot be written."""

    def __init__(self, command: str, reason: str) -> None:
        self.command, self.reason = command, reason
        super().__init__(f"a {command} cannot be written: {reason}; correct it and try again")


def code_of(error: PeerError) -> ResponseCode:
    """The code to close with for this error."""
    if isinstance(error, UnknownFrame | OutOfOrder | FrameTooLarge):
        return error.code
    return ResponseCode.UNKNOWN_FRAME
