"""CloudEvents HTTP protocol binding 1.0: events as headers and bodies, of requests or responses.

Attributes are headers with the prefix `ce-`, datacontenttype is the Content-Type, and data are the body. An empty body
is no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headwater.cloudevents import json_format
from headwater.cloudevents.content_mode import (
    JSON_BATCH_TYPE,
    JSON_TYPE,
    Mode,
    media_type_of,
    mode_of,
    not_readable,
)
from headwater.cloudevents.event import CloudEvent, ExtensionTypes, canonical_text, event_of_texts
from headwater.cloudevents.header_text import from_header, to_header
from headwater.errors import InvalidCloudEvent

__all__ = ["HttpMessage", "content_type_in", "decode", "encode_batch", "encode_binary", "encode_structured"]

_PREFIX = "ce-"
_CONTENT_TYPE = "Content-Type"


class HttpMessage(msgspec.Struct, frozen=True, gc=False):
    """What a request or response carries."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


def encode_binary(event: CloudEvent) -> HttpMessage:
    """The event in headers, its data as the body (3.1); structured if its data are an event themselves."""
    if mode_of(event.datacontenttype) is not Mode.BINARY:
        return encode_structured(event)
    headers = [
        (_CONTENT_TYPE, str(value)) if name == "datacontenttype" else (_PREFIX + name, _header_of(value))
        for name, value in event.attributes.items()
    ]
    return HttpMessage(tuple(headers), event.data or b"")


def encode_structured(event: CloudEvent) -> HttpMessage:
    """The event as JSON (3.2)."""
    return HttpMessage(((_CONTENT_TYPE, JSON_TYPE),), json_format.encode_event(event))


def encode_batch(events: Sequence[CloudEvent]) -> HttpMessage:
    """Events as a JSON batch (3.3), for those who asked for one."""
    return HttpMessage(((_CONTENT_TYPE, JSON_BATCH_TYPE),), json_format.encode_batch(events))


def decode(
    headers: Iterable[tuple[str, str]], body: bytes, types: ExtensionTypes | None = None
) -> list[CloudEvent]:
    """The event that a message carries in any mode, or the events of a batch; raises InvalidCloudEvent."""
    given = list(headers)
    content_type = content_type_in(given)
    match mode_of(content_type):
        case Mode.BINARY:
            return [event_of_texts(_texts(given, content_type), body or None, types)]
        case Mode.STRUCTURED:
            return [json_format.decode_event(body, types)]
        case Mode.BATCH if media_type_of(content_type or "").endswith(("batch", "batch+json")):
            return json_format.decode_batch(body, types)
        case _:
            raise not_readable(content_type)


def content_type_in(headers: Iterable[tuple[str, str]]) -> str | None:
    """The content type of a message, of which there is one at most."""
    found = [value for name, value in headers if name.lower() == "content-type"]
    if len(found) > 1:
        raise InvalidCloudEvent("datacontenttype", "is there twice")
    return found[0].strip(" \t") if found else None


def _header_of(value: bool | int | str | bytes) -> str:
    return to_header(canonical_text(value))


def _texts(headers: Iterable[tuple[str, str]], content_type: str | None) -> Iterable[tuple[str, str]]:
    for header, value in headers:
        name = header.lower()
        # The Content-Type is the only place of datacontenttype.
        if name.startswith(_PREFIX) and name != "ce-datacontenttype":
            attribute = name.removeprefix(_PREFIX)
            yield attribute, from_header(attribute, value)
    if content_type is not None:
        yield "datacontenttype", content_type
