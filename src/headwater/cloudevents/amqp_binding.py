"""CloudEvents AMQP protocol binding 1.0: events as AMQP messages, in binary and in structured mode.

In binary mode datacontenttype is the content-type, and every other attribute an application property with a prefix.
Data are one data section; no data are an amqp-value of null, because a message has a body. An event whose data are an
event in some format is always structured, as in the other bindings: its content-type would say so in binary mode, too.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from headwater.cloudevents import json_format
from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.content_mode import JSON_TYPE, Mode, mode_of, not_readable
from headwater.cloudevents.event import (
    CloudEvent,
    ExtensionTypes,
    Timestamp,
    typed_value,
)
from headwater.cloudevents.stored import data_of, fault_of, structured_event
from headwater.encoding._cloudevents_kernel import BINARY, BODY, SLOTS, STRUCTURED, MessageAttributes
from headwater.encoding._cloudevents_text_kernel import timestamp_ms
from headwater.encoding.amqp_encoder import append_compound, write
from headwater.encoding.amqp_encoder import encode as amqp_encode
from headwater.encoding.amqp_message import (
    AmqpValue,
    Data,
    Message,
    Properties,
    data_section,
    encode_message,
)
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.amqp_types import Timestamp as AmqpTimestamp
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidCloudEvent

__all__ = ["AmqpForm", "Separator", "decode", "encode", "message_of"]

KEYS_KEPT = 1_024
"""Names of attributes, and media types, whose bytes are kept."""


class Separator(enum.Enum):
    """What stands between `cloudEvents` and the name of an attribute (3.1.3.1)."""

    UNDERSCORE = "_"
    """Which clients of JMS can read."""
    COLON = ":"


class AmqpForm(msgspec.Struct, frozen=True, kw_only=True):
    """How events are written as AMQP messages."""

    mode: Mode = Mode.BINARY
    separator: Separator = Separator.UNDERSCORE
    properties_beside_structured: bool = False
    """Whether a message in structured mode has the application properties of binary mode, too (3.2.3)."""
    annotations: Mapping[str, Symbol] = {}
    """Extensions that are message annotations as well, by names of their own: secondary mappings (3.1.3)."""


def encode(event: CloudEvent, form: AmqpForm | None = None) -> bytes:
    """The bytes of the message of an event."""
    if form is None and mode_of(event.datacontenttype) is Mode.BINARY:
        return _encode_binary(event)
    return encode_message(message_of(event, form))


def message_of(event: CloudEvent, form: AmqpForm | None = None) -> Message:
    """The message of an event, to which headers and properties may be added."""
    form = form or _DEFAULT
    is_binary = form.mode is Mode.BINARY and mode_of(event.datacontenttype) is Mode.BINARY
    content_type = event.datacontenttype if is_binary else JSON_TYPE
    has_properties = is_binary or form.properties_beside_structured
    data = event.data if is_binary else json_format.encode_event(event)
    annotations: dict[Any, Any] = {
        key: _native(value)
        for name, key in form.annotations.items()
        if (value := event.get(name)) is not None
    }
    return Message(
        message_annotations=annotations or None,
        properties=None if content_type is None else Properties(content_type=Symbol(content_type)),
        application_properties=_properties(event, form.separator) if has_properties else None,
        body=AmqpValue(None) if data is None else Data((data,)),
    )


def decode(buffer: ReadableBuffer, start: int, end: int, types: ExtensionTypes | None = None) -> CloudEvent:
    """The event that a message carries in either mode; raises InvalidCloudEvent if it carries none."""
    message = MessageAttributes(buffer, start, end)
    if message.status == STRUCTURED:
        return structured_event(buffer, start, end, types)
    if message.status != BINARY:
        raise fault_of(buffer, start, end) or not_readable(message.content_type)
    attributes: dict[str, AttributeValue] = {}
    for name, code, value in message.items():
        if value is None:
            raise InvalidCloudEvent(name, "is no UTF-8")
        if code == _TIMESTAMP:
            attributes[name] = Timestamp(value)
        else:
            attributes[name] = typed_value(name, value, types) if isinstance(value, str) else value
    if message.field(SLOTS["datacontenttype"]) >= 0:
        attributes["datacontenttype"] = message.content_type or ""  # what is no UTF-8 is no media type either
    body = message.field(BODY)
    return CloudEvent(attributes, None if body < 0 else data_of(buffer, body, end))


def _encode_binary(event: CloudEvent) -> bytes:
    """What the general way makes, in half its time: most of these bytes are the same from event to event."""
    pairs = bytearray()
    count = 0
    for name, value in event.attributes.items():
        if name != "datacontenttype":
            pairs += _key(name)
            write(pairs, _native(value))
            count += 2
    properties = bytearray(_properties_section(event.datacontenttype))
    properties += _APPLICATION_PROPERTIES
    append_compound(properties, _MAP, count, pairs)
    return bytes(properties) + (_NO_BODY if event.data is None else data_section(event.data))


@lru_cache(maxsize=KEYS_KEPT)
def _key(name: str) -> bytes:
    return amqp_encode(f"cloudEvents_{name}")


@lru_cache(maxsize=KEYS_KEPT)
def _properties_section(content_type: str | None) -> bytes:
    if content_type is None:
        return b""
    return encode_message(Message(properties=Properties(content_type=Symbol(content_type))))


def _properties(event: CloudEvent, separator: Separator) -> dict[str, Any]:
    prefix = f"cloudEvents{separator.value}"
    return {
        prefix + name: _native(value) for name, value in event.attributes.items() if name != "datacontenttype"
    }


def _native(value: AttributeValue) -> object:
    """What is written for a value (3.1.3.2): a time that a timestamp would change stays text (CE-8)."""
    if isinstance(value, Timestamp):
        ms = timestamp_ms(value.encode())
        return str(value) if ms is None else AmqpTimestamp(ms)
    return str(value) if isinstance(value, str) else value


_TIMESTAMP = 0x83
_MAP = 0xC1
_APPLICATION_PROPERTIES = b"\x00\x53\x74"
_NO_BODY = b"\x00\x53\x77\x40"
_DEFAULT = AmqpForm()
