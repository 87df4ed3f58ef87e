"""What a request brings in: CloudEvents in any content mode, or a plain body, as messages that can be appended.

They are stored in binary mode of the CloudEvents AMQP binding, which clients of all doors read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgspec
from multidict import MultiMapping

from headwater.cloudevents import amqp_binding, http_binding, json_format
from headwater.cloudevents.content_mode import Mode, media_type_of, mode_of
from headwater.cloudevents.event import CloudEvent, canonical_text
from headwater.encoding._cloudevents_json_kernel import write_events
from headwater.encoding._key_kernel import NONE
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Message, Properties, data_section, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidCloudEvent, InvalidValue

__all__ = ["Incoming", "NotACloudEvent", "UnknownFormat", "incoming_events", "plain_message"]

_PREFIXES = ("ce-", "Ce-", "CE-", "cE-")
_NO_DATA = b"\x00\x53\x77\x40"
_encode = msgspec.json.Encoder().encode
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_ROOM_FACTOR = 3
"""A message takes at most so many times the room of its event in JSON, but for a few."""
_ROOM_BYTES = 1024


class NotACloudEvent(Exception):
    """The body has nothing around it that makes it an event."""


class UnknownFormat(Exception):
    """The body is an event, or events, in a format that is not read here."""


class Incoming(msgspec.Struct, frozen=True):
    """Messages in one buffer, with the keys that say where they go."""

    buffer: ReadableBuffer
    spans: array[int]
    """Those of `_span_kernel`."""
    keys: array[int]
    """Where in the buffer each key begins and ends; `NONE` twice for none."""

    @property
    def count(self) -> int:
        """Of the messages."""
        return len(self.keys) // 2

    @property
    def has_keys(self) -> bool:
        """Whether one of them has a key."""
        return any(start != NONE for start in self.keys[::2])


def incoming_events(headers: MultiMapping[str], body: bytes, key_attribute: str) -> Incoming:
    """The events of a request; raises `InvalidCloudEvent`, `NotACloudEvent`, `UnknownFormat`."""
    content_type = headers.get("Content-Type")
    mode = mode_of(content_type)
    if len(headers.getall("Content-Type", ())) > 1:
        raise InvalidCloudEvent("datacontenttype", "is there twice")
    if mode is Mode.OPAQUE or (mode is Mode.BATCH and not _is_json_batch(content_type or "")):
        raise UnknownFormat(media_type_of(content_type or ""))
    if mode is not Mode.BINARY and key_attribute != "datacontenttype":
        return _json_events(list(headers.items()), body, key_attribute, is_batch=mode is Mode.BATCH)
    given = [(name, value) for name, value in headers.items() if name[:3] in _PREFIXES]
    if mode is Mode.BINARY and not given:
        raise NotACloudEvent
    if mode is Mode.BINARY and key_attribute != "datacontenttype":
        found = _binary_event(given, headers, body, key_attribute)
        if found is not None:
            return found
    events = http_binding.decode(headers.items(), body)
    return _gathered((amqp_binding.encode(event), _key_of(event, key_attribute)) for event in events)


def _binary_event(
    given: Sequence[tuple[str, str]], headers: MultiMapping[str], body: bytes, key: str
) -> Incoming | None:
    """An event in binary mode by way of the kernel for JSON, which leaves what is not common; None for that."""
    attributes = {name[3:].lower(): value for name, value in given}
    content_type = headers.get("Content-Type")
    if len(attributes) != len(given) or "datacontenttype" in attributes or "data" in attributes:
        return None
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    try:
        text = _encode(attributes)
    except UnicodeEncodeError:
        return None
    if b"%" in text or b"\\" in text or not text.isascii():
        return None  # it has to be decoded, or was quoted
    spans, keys = array("q", bytes(8 * SPAN_FIELDS)), array("q", bytes(16))
    buffer = bytearray(_ROOM_FACTOR * len(text) + _ROOM_BYTES)
    written, _, end = write_events(text, 0, 1, key.encode(), buffer, 0, spans, keys, 0)
    if not written:
        return None
    if body:
        # In place of the null that stands for no data.
        behind = spans[3] - len(_NO_DATA)
        section = data_section(body)
        value = bytes(buffer[spans[3] : end])
        buffer[behind:] = section + value
        spans[3] = behind + len(section)
        if keys[0] != NONE:
            keys[0], keys[1] = spans[3], spans[3] + len(value)
    return Incoming(buffer, spans, keys)


def plain_message(content_type: str | None, body: bytes) -> Incoming:
    """A body as it is, as one message; raises `InvalidValue` for a content type that is no ASCII."""
    properties = None
    if content_type:
        if not content_type.isascii():
            raise InvalidValue("the content type is not ASCII")
        properties = Properties(content_type=Symbol(content_type))
    return _gathered([(encode_message(Message(properties=properties, body=Data((body,)))), None)])


def _is_json_batch(content_type: str) -> bool:
    return media_type_of(content_type).endswith(("batch", "batch+json"))


def _key_of(event: CloudEvent, attribute: str) -> bytes | None:
    value = event.get(attribute)
    return None if value is None else canonical_text(value).encode()


def _json_events(headers: Sequence[tuple[str, str]], text: bytes, key: str, *, is_batch: bool) -> Incoming:
    """Events in JSON: a kernel writes the common ones, those that it leaves are taken one by one."""
    try:
        text.isascii() or str(text, "utf-8")
        raws = _ARRAY.decode(text) if is_batch else [_VALUE.decode(text)]
    except (ValueError, RecursionError, msgspec.MsgspecError):
        http_binding.decode(headers, text)  # which tells what is wrong
        raise
    count = len(raws)
    position = text.index(b"[") + 1 if is_batch else 0
    spans, keys = array("q", bytes(8 * SPAN_FIELDS * count)), array("q", bytes(16 * count))
    buffer, end, number = bytearray(_ROOM_FACTOR * len(text) + _ROOM_BYTES), 0, 0
    while True:
        written, position, end = write_events(
            text, position, count - number, key.encode(), buffer, end, spans, keys, number
        )
        number += written
        if number == count:
            return Incoming(buffer, spans, keys)
        raw = bytes(raws[number])
        position += len(raw)
        end = _put(buffer, end, spans, keys, number, _decoded(raw, number + 1 if is_batch else None), key)
        number += 1


def _put(
    buffer: bytearray, end: int, spans: array[int], keys: array[int], number: int, event: CloudEvent, key: str
) -> int:
    """Write one event behind the others, as the kernel does; gives where it ends."""
    message, value = amqp_binding.encode(event), _key_of(event, key)
    behind = end + len(message)
    buffer[end:behind] = message
    spans[SPAN_FIELDS * number : SPAN_FIELDS * (number + 1)] = array("q", (end, end, end, behind))
    keys[2 * number] = keys[2 * number + 1] = NONE
    if value is not None:
        buffer[behind : behind + len(value)] = value
        keys[2 * number], keys[2 * number + 1] = behind, behind + len(value)
        behind += len(value)
    return behind


def _decoded(raw: bytes, number: int | None) -> CloudEvent:
    try:
        return json_format.decode_event(raw)
    except InvalidCloudEvent as error:
        if number is None:
            raise
        reason = f"{error.reason} (event {number} of the batch)"
        raise InvalidCloudEvent(error.attribute, reason) from None


def _gathered(messages: Iterable[tuple[bytes, bytes | None]]) -> Incoming:
    buffer, spans, keys = bytearray(), array("q"), array("q")
    for message, key in messages:
        start = len(buffer)
        buffer += message
        spans.extend((start, start, start, len(buffer)))
        if key is None:
            keys.extend((NONE, NONE))
        else:
            keys.extend((len(buffer), len(buffer) + len(key)))
            buffer += key
    assert len(spans) == SPAN_FIELDS * (len(keys) // 2), "a span and a key for each message"
    return Incoming(buffer, spans, keys)
