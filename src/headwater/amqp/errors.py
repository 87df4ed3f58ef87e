"""AMQP 1.0: what a peer does wrong with headers and frames, each with the condition that says so.

Values and fields that are wrong are MalformedValue and InvalidField, with conditions of theirs.
"""

from __future__ import annotations

from typing import ClassVar

from headwater.amqp.definitions import Condition
from headwater.errors import MalformedFrame, PeerError

__all__ = ["FrameTooLarge", "FramingError", "UnknownProtocol"]


class UnknownProtocol(PeerError):
    """A protocol header other than those of this version; it is answered with ours alone (2.2)."""

    def __init__(self, header: bytes) -> None:
        self.header = header
        super().__init__(
            f"the peer began with {header!r}, which is no header of AMQP 1.0; use an AMQP 1.0 client"
        )


class FramingError(MalformedFrame):
    """Bytes that no frame header can be formed from."""

    condition: ClassVar[Condition] = Condition.CONNECTION_FRAMING_ERROR


class FrameTooLarge(FramingError):
    """A frame above what was agreed on."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(f"{size_bytes} bytes are above the maximum frame size of {size_bytes_max}")
        self.size_bytes, self.size_bytes_max = size_bytes, size_bytes_max
