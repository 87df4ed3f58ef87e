"""RabbitMQ Streams protocol, Frame Structure: from bytes to commands and back, for either side."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedFrame
from headwater.streams.commands import Command, Key, TuneResponse
from headwater.streams.deliver import decode_deliver
from headwater.streams.errors import InvalidCommand, UnknownFrame
from headwater.streams.layouts import FROM_CLIENT, FROM_SERVER, Layout
from headwater.streams.publish import decode_publish, decode_publish_confirm

__all__ = ["CLIENT_DECODERS", "SERVER_DECODERS", "Decoder", "decode_request", "decode_response", "encode"]

Decoder: TypeAlias = Callable[[ReadableBuffer, int, int, int], Command]
"""Takes a buffer, the version, and where the fields behind it begin and end."""

_KEY_AND_VERSION = struct.Struct(">HH")


def _decoders(layouts: tuple[Layout, ...], **others: Decoder) -> dict[int, Decoder]:
    found: dict[int, Decoder] = {layout.key: layout.decode for layout in layouts}
    return found | {Key[name]: decode for name, decode in others.items()}


CLIENT_DECODERS = _decoders(FROM_CLIENT, PUBLISH=decode_publish)
"""By key, what a client sends."""
SERVER_DECODERS = _decoders(FROM_SERVER, PUBLISH_CONFIRM=decode_publish_confirm, DELIVER=decode_deliver)
"""By key, what a server sends."""

_LAYOUTS = {layout.kind: layout for layout in (*FROM_CLIENT, *FROM_SERVER)}

# Half of the clients answer a Tune under its own key.
CLIENT_DECODERS[Key.TUNE] = Layout(Key.TUNE, TuneResponse, **_LAYOUTS[TuneResponse].fields).decode


def decode_request(frame: ReadableBuffer, start: int, end: int) -> Command:
    """What a client sent: the frame at `start` to `end`, without its size; raises MalformedFrame unless it is exact."""
    return _decode(CLIENT_DECODERS, frame, start, end)


def decode_response(frame: ReadableBuffer, start: int, end: int) -> Command:
    """What a server sent: the frame at `start` to `end`, without its size; raises MalformedFrame unless it is exact."""
    return _decode(SERVER_DECODERS, frame, start, end)


def encode(command: Command) -> bytes:
    """The whole frame of a command, its size included.

    Publish, PublishConfirm and Deliver stand for spans of a buffer: they are made by `publish.py` and `deliver.py`.
    """
    layout = _LAYOUTS.get(type(command))
    if layout is None:
        raise InvalidCommand(type(command).__name__, "it has a function of its own")
    return layout.encode(command)


def _decode(decoders: dict[int, Decoder], frame: ReadableBuffer, start: int, end: int) -> Command:
    position = start + _KEY_AND_VERSION.size
    if position > end:
        raise MalformedFrame(f"a frame of {end - start} bytes has no key and version")
    key, version = _KEY_AND_VERSION.unpack_from(frame, start)
    decode = decoders.get(key)
    if decode is None:
        raise UnknownFrame(key, version)
    return decode(frame, version, position, end)
