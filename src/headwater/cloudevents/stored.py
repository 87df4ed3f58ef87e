"""Stored messages as CloudEvents: attributes on demand, and why a message is no event.

A kernel finds where attributes stand. Their names, their types and whether all are there that must be is looked at
before one is given; the characters of their texts are looked at for a log that holds CloudEvents alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from headwater.cloudevents import json_format
from headwater.cloudevents.content_mode import Mode, mode_of, not_readable
from headwater.cloudevents.event import (
    CORE_TYPES,
    EMPTY,
    KINDS,
    NAME_SHOWN_MAX,
    OTHER_VERSION,
    REASONS,
    TOO_WIDE,
    WRONG_NAME,
    AttributeType,
    CloudEvent,
    ExtensionTypes,
)
from headwater.encoding import _cloudevents_text_kernel as text_kernel
from headwater.encoding._cloudevents_kernel import (
    ATTRIBUTE_FIELDS,
    ATTRIBUTES_MAX,
    FAULTS,
    SLOTS,
    STRUCTURED,
    MessageAttributes,
    find_attributes,
)
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import SectionCode, decode_section, read_sections
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidCloudEvent, MalformedValue

__all__ = ["StoredAttributes", "data_of", "fault_of", "faults_among", "first_fault", "structured_event"]


class StoredAttributes(MessageAttributes):
    """The attributes of a stored message, and of another one when it moves there; what is no CloudEvent has none."""

    __slots__ = ()

    def parse(self) -> CloudEvent | dict[str, str]:
        """The event of a message in structured mode, which is parsed when one of its attributes is asked for."""
        try:
            return structured_event(*self.span)
        except InvalidCloudEvent:
            return {}


def structured_event(
    buffer: ReadableBuffer, start: int, end: int, types: ExtensionTypes | None = None
) -> CloudEvent:
    """The event in the body of a message in structured mode; raises InvalidCloudEvent if there is none."""
    attributes = MessageAttributes(buffer, start, end)
    if mode_of(attributes.content_type) is not Mode.STRUCTURED:
        raise not_readable(attributes.content_type)
    return json_format.decode_event(data_of(buffer, start, end) or b"", types)


def data_of(buffer: ReadableBuffer, start: int, end: int) -> bytes | None:
    """The bytes of a body, in however many data sections (CE-10); raises InvalidCloudEvent if it is something else.

    Text as an amqp-value counts as its UTF-8, and null as no data: JMS sends a TextMessage and a Message so.
    """
    if end - start >= 5 and buffer[start : start + 4] == _SHORT_DATA and end - start - 5 == buffer[start + 4]:
        return bytes(buffer[start + 5 : end])
    parts: list[bytes] = []
    try:
        for section in read_sections(buffer, start, end):
            if section.code not in _BODIES:
                continue
            value = decode_section(buffer, section)
            if value is None:
                return None
            if type(value) not in (bytes, str):
                raise InvalidCloudEvent("data", _NO_BYTES)
            parts.append(value.encode() if isinstance(value, str) else value)
    except MalformedValue as error:
        raise InvalidCloudEvent(None, f"is no AMQP message: {error.reason}") from None
    return b"".join(parts) if parts else None


# What a log refuses that is declared to hold CloudEvents.


def fault_of(buffer: ReadableBuffer, start: int, end: int) -> InvalidCloudEvent | None:
    """Why a message is no valid CloudEvent, None if it is one, or is in a format that is not known here."""
    return dict(faults_among(buffer, array("q", (start, start, start, end)), 0, 1)).get(0)


def faults_among(
    buffer: ReadableBuffer, spans: array[int], first: int, count: int
) -> list[tuple[int, InvalidCloudEvent]]:
    """Which of `count` messages from the `first` one on are no valid CloudEvents, by their place among them, and why.

    The spans are those of `_span_kernel`.
    """
    return list(_faults(buffer, spans, first, count))


def first_fault(
    buffer: ReadableBuffer, spans: array[int], first: int, count: int
) -> tuple[int, InvalidCloudEvent] | None:
    """The first of these, None if all are valid; nothing behind it is parsed."""
    return next(_faults(buffer, spans, first, count), None)


def _faults(
    buffer: ReadableBuffer, spans: array[int], first: int, count: int
) -> Iterator[tuple[int, InvalidCloudEvent]]:
    found = array("q", bytes(8 * ATTRIBUTE_FIELDS * count))
    if find_attributes(buffer, spans, first, count, found, is_strict=True) == 0:
        return
    statuses = found[::ATTRIBUTE_FIELDS]
    for number, status in enumerate(statuses):
        if status:
            at = SPAN_FIELDS * (first + number)
            fields = found[ATTRIBUTE_FIELDS * number : ATTRIBUTE_FIELDS * (number + 1)]
            fault = _fault(buffer, spans[at + 2], spans[at + 3], fields)
            if fault is not None:
                yield number, fault


def _fault(buffer: ReadableBuffer, start: int, end: int, fields: array[int]) -> InvalidCloudEvent | None:
    if fields[0] != STRUCTURED:
        return _fault_in_binary(buffer, fields)
    if mode_of(MessageAttributes(buffer, start, end).content_type) is Mode.OPAQUE:
        return None
    try:
        structured_event(buffer, start, end)
    except InvalidCloudEvent as error:
        attribute, reason = error.attribute, error.reason
    else:
        return None
    # Another one, for the traceback of the first holds the buffer, which could not be resized as long.
    return InvalidCloudEvent(attribute, reason)


def _fault_in_binary(buffer: ReadableBuffer, fields: array[int]) -> InvalidCloudEvent:
    name = _name_at(buffer, fields)
    match FAULTS[-1 - fields[0]]:
        case "missing":
            return InvalidCloudEvent(name, "is missing")
        case "name":
            return InvalidCloudEvent(name[:NAME_SHOWN_MAX], WRONG_NAME)
        case "type":
            return InvalidCloudEvent(name, "has an AMQP type that it cannot have")
        case "value":
            return InvalidCloudEvent(name, _wrong_value(buffer, fields[2], name))
        case "twice":
            return InvalidCloudEvent(name, "is there twice")
        case "body":
            return InvalidCloudEvent("data", _NO_BYTES)
        case "mixed":
            return InvalidCloudEvent(
                None, "has attributes with the prefix cloudEvents_ and with cloudEvents:"
            )
        case "too many":
            return InvalidCloudEvent(None, f"has more than {ATTRIBUTES_MAX} attributes")
        case _:
            return InvalidCloudEvent(None, "is no AMQP message")


def _name_at(buffer: ReadableBuffer, fields: array[int]) -> str:
    if fields[1] < 0:
        return _NAMES.get(fields[2], "")
    return str(buffer[fields[1] : fields[2]], "utf-8", "replace")


def _wrong_value(buffer: ReadableBuffer, at: int, name: str) -> str:
    """What is wrong with the value at the position, in the words for an event that is made of it."""
    if name == "datacontenttype":
        return REASONS[text_kernel.MEDIA_TYPE]
    code = buffer[at]
    if code in _INTEGERS and name != "time":
        return TOO_WIDE
    if code in _TEXT_SIZES and name in CORE_TYPES and not any(buffer[at + 1 : at + 1 + _TEXT_SIZES[code]]):
        return EMPTY
    if name == "specversion":
        return OTHER_VERSION
    if code == _TIMESTAMP:
        return REASONS[text_kernel.TIMESTAMP]
    return REASONS[KINDS.get(CORE_TYPES.get(name, AttributeType.STRING), text_kernel.STRING)]


_SHORT_DATA = b"\x00\x53\x75\xa0"
_BODIES = (SectionCode.DATA, SectionCode.AMQP_SEQUENCE, SectionCode.AMQP_VALUE)
_NO_BYTES = "is an AMQP value or sequence that stands for no bytes"
_NAMES = {slot: name for name, slot in SLOTS.items()}
_TEXT_SIZES = {0xA1: 1, 0xA3: 1, 0xB1: 4, 0xB3: 4}
_INTEGERS = frozenset((0x70, 0x80, 0x81))
_TIMESTAMP = 0x83
