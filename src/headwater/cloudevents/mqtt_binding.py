"""CloudEvents MQTT protocol binding 1.0: events as PUBLISH packets of MQTT 3.1.1 and of MQTT 5.

In MQTT 5 attributes are user properties without a prefix, and datacontenttype is the Content Type. An empty payload is
no data. MQTT 3.1.1 has nothing but a payload, which is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.cloudevents import json_format
from headwater.cloudevents.content_mode import JSON_TYPE, Mode, mode_of, not_readable
from headwater.cloudevents.event import CloudEvent, ExtensionTypes, canonical_text, event_of_texts
from headwater.encoding._cloudevents_text_kernel import NAME, is_allowed

__all__ = ["MqttMessage", "decode", "decode_3", "encode_3", "encode_binary", "encode_structured"]


class MqttMessage(msgspec.Struct, frozen=True, gc=False):
    """What a PUBLISH packet of MQTT 5 says of an event."""

    payload: bytes
    content_type: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()


def encode_binary(event: CloudEvent) -> MqttMessage:
    """The event in properties, its data as the payload (3.1); structured if its data are an event themselves."""
    if mode_of(event.datacontenttype) is not Mode.BINARY:
        return encode_structured(event)
    properties = tuple(
        (name, canonical_text(value)) for name, value in event.attributes.items() if name != "datacontenttype"
    )
    return MqttMessage(event.data or b"", event.datacontenttype, properties)


def encode_structured(event: CloudEvent) -> MqttMessage:
    """The event as JSON (3.2)."""
    return MqttMessage(json_format.encode_event(event), JSON_TYPE)


def encode_3(event: CloudEvent) -> bytes:
    """The payload of an event in MQTT 3.1.1."""
    return json_format.encode_event(event)


def decode(message: MqttMessage, types: ExtensionTypes | None = None) -> CloudEvent:
    """The event that a packet of MQTT 5 carries; raises InvalidCloudEvent if it carries none."""
    match mode_of(message.content_type):
        case Mode.BINARY:
            return event_of_texts(_texts(message), message.payload or None, types)
        case Mode.STRUCTURED:
            return json_format.decode_event(message.payload, types)
        case _:
            raise not_readable(message.content_type)


def decode_3(payload: bytes, types: ExtensionTypes | None = None) -> CloudEvent:
    """The event that a payload of MQTT 3.1.1 is; raises InvalidCloudEvent if it is none."""
    return json_format.decode_event(payload, types)


def _texts(message: MqttMessage) -> Iterable[tuple[str, str]]:
    for name, text in message.user_properties:
        # Without a prefix, what cannot be the name of an attribute is taken for a property of somebody else.
        if name != "datacontenttype" and is_allowed(NAME, name.encode("utf-8", "replace")):
            yield name, text
    if message.content_type is not None:
        yield "datacontenttype", message.content_type
