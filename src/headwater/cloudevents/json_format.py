"""CloudEvents JSON event format 1.0, and its batches; data are kept as the bytes that they were.

JSON data stand in `data` as they are, if they are one JSON value and nothing around it. Other text stands there as a
string, and all else in `data_base64`. What is read is the bytes that the members stand for: of JSON data, the text that
was sent. Of a member that is there twice, the last one counts.
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.content_mode import media_type_of
from headwater.cloudevents.event import CloudEvent, ExtensionTypes, typed_value
from headwater.errors import InvalidCloudEvent

__all__ = ["decode_batch", "decode_event", "encode_batch", "encode_event"]

_Parsed = TypeVar("_Parsed")
_IMPLIED_TYPE = "application/json"
_CHARSETS = frozenset(("utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le"))
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BATCH = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_RAW = msgspec.json.Decoder(msgspec.Raw)
_VALUE = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder(enc_hook=str)  # for the classes that are text


def encode_event(event: CloudEvent) -> bytes:
    """The event as a JSON object."""
    return _ENCODER.encode(_members(event))


def encode_batch(events: Iterable[CloudEvent]) -> bytes:
    """The events as a JSON array."""
    return _ENCODER.encode([_members(event) for event in events])


def decode_event(text: bytes, types: ExtensionTypes | None = None) -> CloudEvent:
    """The event that a JSON object is; raises InvalidCloudEvent if it is none."""
    return _event(_parsed(_MEMBERS.decode, text, "object"), types)


def decode_batch(text: bytes, types: ExtensionTypes | None = None) -> list[CloudEvent]:
    """The events of a JSON array; raises InvalidCloudEvent if one of them is none."""
    events = []
    for number, members in enumerate(_parsed(_BATCH.decode, text, "array of objects"), 1):
        try:
            events.append(_event(members, types))
        except InvalidCloudEvent as error:
            raise InvalidCloudEvent(
                error.attribute, f"{error.reason} (event {number} of the batch)"
            ) from None
    return events


# Writing.


def _members(event: CloudEvent) -> dict[str, object]:
    members: dict[str, object] = dict(event.attributes)
    data = event.data
    if data is not None:
        content_type = event.datacontenttype
        if content_type is not None and _is_json(content_type):
            if _is_one_value(data):
                members["data"] = msgspec.Raw(data)
                return members
        elif content_type is not None and (text := _as_text(content_type, data)) is not None:
            members["data"] = text
            return members
        members["data_base64"] = data
    return members


def _is_json(content_type: str) -> bool:
    """Section 3.1.1: whether a media type declares JSON."""
    return media_type_of(content_type).endswith(("/json", "+json"))


def _is_one_value(data: bytes) -> bool:
    """Whether bytes are a JSON value without spaces around it, so that they are the same when they are read."""
    try:
        str(data, "utf-8")
        return len(memoryview(_RAW.decode(data))) == len(data)
    except (ValueError, RecursionError):
        return False


def _as_text(content_type: str, data: bytes) -> str | None:
    media_type = media_type_of(content_type)
    if not (media_type.startswith("text/") or media_type.endswith(("/xml", "+xml"))):
        return None
    if _charset(content_type) not in ("utf-8", "us-ascii"):
        return None
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return None


def _charset(content_type: str) -> str:
    found = _CHARSET.search(content_type)
    return "utf-8" if found is None else found[1].lower()


# Reading.


def _parsed(parse: Callable[[bytes], _Parsed], text: bytes, what: str) -> _Parsed:
    try:
        str(text, "utf-8")
        return parse(text)
    except UnicodeDecodeError:
        raise InvalidCloudEvent(None, "is no UTF-8") from None
    except RecursionError:
        raise InvalidCloudEvent(None, "is JSON that is nested too deep") from None
    except msgspec.MsgspecError as error:
        raise InvalidCloudEvent(None, f"is no JSON {what}: {error}") from None


def _event(members: dict[str, msgspec.Raw], types: ExtensionTypes | None) -> CloudEvent:
    data = members.pop("data", None)
    base64 = members.pop("data_base64", None)
    attributes: dict[str, AttributeValue] = {}
    for name, raw in members.items():
        value = _attribute(name, raw)
        if value is not None:
            attributes[name] = typed_value(name, value, types) if isinstance(value, str) else value
    if base64 is not None and (text := _attribute("data_base64", base64)) is not None:
        if data is not None:
            raise InvalidCloudEvent("data", "is there twice, in data and in data_base64")
        return CloudEvent(attributes, _decoded(text))
    if data is None:
        return CloudEvent(attributes)
    content_type = attributes.setdefault("datacontenttype", _IMPLIED_TYPE)
    if not isinstance(content_type, str):
        raise InvalidCloudEvent("datacontenttype", "is no string")
    if _is_json(content_type):
        return CloudEvent(attributes, bytes(data))
    return CloudEvent(attributes, _encoded(content_type, data))


def _attribute(name: str, raw: msgspec.Raw) -> bool | int | str | None:
    if bytes(raw)[:1] not in (b"[", b"{"):
        value: object = _VALUE.decode(raw)
        if value is None or isinstance(value, bool | int | str):
            return value
    raise InvalidCloudEvent(name, "is no string, boolean, or number without a fraction")


def _decoded(text: object) -> bytes:
    try:
        if isinstance(text, str):
            return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        pass
    raise InvalidCloudEvent("data", "is no Base64 in data_base64")


def _encoded(content_type: str, data: msgspec.Raw) -> bytes | None:
    """The bytes that a string stands for in the charset of its media type."""
    if bytes(data)[:1] != b'"':
        if bytes(data) == b"null":
            return None
        raise InvalidCloudEvent("data", f"is no string, and {media_type_of(content_type)} is no JSON")
    charset = _charset(content_type)
    if charset not in _CHARSETS:
        raise InvalidCloudEvent("data", f"is text in {charset}, which is not known here; send data_base64")
    try:
        return codecs.encode(str(_VALUE.decode(data)), charset)
    except UnicodeEncodeError:
        raise InvalidCloudEvent("data", f"holds characters that {charset} does not have") from None
