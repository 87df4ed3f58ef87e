"""CloudEvents NATS protocol binding 1.0.3: events as messages.

Attributes, datacontenttype too, are headers with the prefix `ce-`, and data are the payload; an empty one is no data. A
message without headers, as servers before 2.2 have them, is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headwater.cloudevents import json_format
from headwater.cloudevents.content_mode import JSON_TYPE, Mode, mode_of, not_readable
from headwater.cloudevents.event import CloudEvent, ExtensionTypes, canonical_text, event_of_texts
from headwater.cloudevents.header_text import from_header, to_header

__all__ = ["NatsMessage", "decode", "encode_binary", "encode_structured"]

_PREFIX = "ce-"
_CONTENT_TYPE = "Content-Type"


class NatsMessage(msgspec.Struct, frozen=True, gc=False):
    """What a message says of an event."""

    headers: Mapping[str, str]
    payload: bytes


def encode_binary(event: CloudEvent) -> NatsMessage:
    """The event in headers, its data as the payload (3.1)."""
    headers = {_PREFIX + name: to_header(canonical_text(value)) for name, value in event.attributes.items()}
    return NatsMessage(headers, event.data or b"")


def encode_structured(event: CloudEvent, *, has_headers: bool = True) -> NatsMessage:
    """The event as JSON (3.2), for servers before 2.2 without headers."""
    headers = {_CONTENT_TYPE: JSON_TYPE} if has_headers else {}
    return NatsMessage(headers, json_format.encode_event(event))


def decode(message: NatsMessage, types: ExtensionTypes | None = None) -> CloudEvent:
    """The event that a message carries; raises InvalidCloudEvent if it carries none."""
    found = (value for name, value in message.headers.items() if name.lower() == "content-type")
    content_type = next(found, None)
    mode = mode_of(content_type) if message.headers else Mode.STRUCTURED
    match mode:
        case Mode.BINARY:
            return event_of_texts(_texts(message.headers), message.payload or None, types)
        case Mode.STRUCTURED:
            return json_format.decode_event(message.payload, types)
        case _:
            raise not_readable(content_type)


def _texts(headers: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for header, value in headers.items():
        name = header.lower()
        if name.startswith(_PREFIX):
            attribute = name.removeprefix(_PREFIX)
            yield attribute, from_header(attribute, value)
