"""CloudEvents Kafka protocol binding 1.0: events as records.

Attributes are headers with the prefix `ce_` in UTF-8, datacontenttype is the header `content-type`, and no data are no
value. The key of a record says nothing of the event.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.cloudevents import json_format
from headwater.cloudevents.content_mode import JSON_TYPE, Mode, mode_of, not_readable
from headwater.cloudevents.event import CloudEvent, ExtensionTypes, canonical_text, event_of_texts
from headwater.errors import InvalidCloudEvent

__all__ = ["KafkaRecord", "decode", "encode_binary", "encode_structured", "partition_key"]

_PREFIX = "ce_"
_CONTENT_TYPE = "content-type"


class KafkaRecord(msgspec.Struct, frozen=True, gc=False):
    """What a record says of an event."""

    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None
    key: bytes | None = None


def encode_binary(event: CloudEvent, key: bytes | None = None) -> KafkaRecord:
    """The event in headers, its data as the value (3.2); structured if its data are an event themselves."""
    if mode_of(event.datacontenttype) is not Mode.BINARY:
        return encode_structured(event, key)
    headers = tuple(
        (_CONTENT_TYPE if name == "datacontenttype" else _PREFIX + name, canonical_text(value).encode())
        for name, value in event.attributes.items()
    )
    return KafkaRecord(headers, event.data, key)


def encode_structured(event: CloudEvent, key: bytes | None = None) -> KafkaRecord:
    """The event as JSON (3.3)."""
    return KafkaRecord(((_CONTENT_TYPE, JSON_TYPE.encode()),), json_format.encode_event(event), key)


def partition_key(event: CloudEvent) -> bytes | None:
    """The key mapper of section 3.1 for those who want it: the attribute partitionkey."""
    value = event.get("partitionkey")
    return None if value is None else canonical_text(value).encode()


def decode(record: KafkaRecord, types: ExtensionTypes | None = None) -> CloudEvent:
    """The event that a record carries; raises InvalidCloudEvent if it carries none."""
    texts = list(_texts(record.headers))
    content_type = next((text for name, text in texts if name == "datacontenttype"), None)
    match mode_of(content_type):
        case Mode.BINARY:
            return event_of_texts(texts, record.value, types)
        case Mode.STRUCTURED:
            return json_format.decode_event(record.value or b"", types)
        case _:
            raise not_readable(content_type)


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> Iterable[tuple[str, str]]:
    for header, value in headers:
        if header.lower() == _CONTENT_TYPE:
            yield "datacontenttype", _text("datacontenttype", value)
        elif header.startswith(_PREFIX) and header != "ce_datacontenttype":
            name = header.removeprefix(_PREFIX)
            yield name, _text(name, value)


def _text(name: str, value: bytes | None) -> str:
    if value is None:
        raise InvalidCloudEvent(name, "is a header without a value")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise InvalidCloudEvent(name, "is no UTF-8") from None
