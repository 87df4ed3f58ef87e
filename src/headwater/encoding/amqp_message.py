"""AMQP 1.0 part 3, section 3.2: the format of a message, a run of sections.

A section is a described value. They stand in the order of their codes, each once at most, data and sequences excepted:

    70  header  71  delivery annotations  72  message annotations  73  properties  74  application properties
    75  data, any number   or   76  amqp-sequence, any number   or   77  amqp-value                78  footer

What is stored and delivered passes through as bytes; a Message is for those who look into one or make one.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from headwater.encoding.amqp_composite import Composite, read_descriptor
from headwater.encoding.amqp_decoder import skip
from headwater.encoding.amqp_encoder import encoded
from headwater.encoding.amqp_fields import (
    FieldType,
    Map,
    annotation_map,
    anything,
    binary,
    boolean,
    list_of_anything,
    message_id,
    string,
    symbol,
    timestamp,
    ubyte,
    uint,
)
from headwater.encoding.amqp_types import Symbol, Ulong
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidField, MalformedValue

__all__ = [
    "AmqpSequence",
    "AmqpValue",
    "Body",
    "Data",
    "Header",
    "Message",
    "MessageId",
    "Properties",
    "Section",
    "SectionCode",
    "body_of",
    "data_section",
    "decode_message",
    "decode_section",
    "encode_message",
    "read_sections",
]

MessageId: TypeAlias = int | UUID | bytes | str


class SectionCode(enum.IntEnum):
    """What a section is."""

    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    AMQP_SEQUENCE = 0x76
    AMQP_VALUE = 0x77
    FOOTER = 0x78


class Header(msgspec.Struct, frozen=True, gc=False):
    """How a message is to be delivered (3.2.1); the time to live is in milliseconds."""

    durable: bool = False
    priority: int = 4
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0


class Properties(msgspec.Struct, frozen=True, gc=False):
    """What a sender says of a message, never changed on its way (3.2.4); times in milliseconds since 1970."""

    message_id: MessageId | None = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: MessageId | None = None
    content_type: Symbol | None = None
    content_encoding: Symbol | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


class Data(msgspec.Struct, frozen=True, gc=False):
    """A body of bytes (3.2.6), of one section or several."""

    sections: tuple[bytes, ...]


class AmqpSequence(msgspec.Struct, frozen=True, gc=False):
    """A body of values in a row (3.2.7), of one section or several."""

    sections: tuple[list[Any], ...]


class AmqpValue(msgspec.Struct, frozen=True, gc=False):
    """A body of one value (3.2.8)."""

    value: Any


Body: TypeAlias = Data | AmqpSequence | AmqpValue


class Message(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A message; None is a section that is not there."""

    header: Header | None = None
    delivery_annotations: dict[Symbol | Ulong, Any] | None = None
    message_annotations: dict[Symbol | Ulong, Any] | None = None
    properties: Properties | None = None
    application_properties: dict[str, Any] | None = None
    body: Body | None = None
    footer: dict[Symbol | Ulong, Any] | None = None


class Section(msgspec.Struct, frozen=True, gc=False):
    """Where a section stands: from `start` to `end`, what it describes beginning at `position`."""

    code: SectionCode
    start: int
    position: int
    end: int


def read_sections(buffer: ReadableBuffer, position: int, end: int) -> list[Section]:
    """The sections that fill `position` to `end`, of which no more is read than how long they are.

    Raises MalformedValue unless they are sections, whole and in order.
    """
    sections: list[Section] = []
    last = 0
    while position < end:
        descriptor, value_position = read_descriptor(buffer, position, end)
        code = _CODES.get(descriptor) if isinstance(descriptor, Ulong | Symbol) else None
        if code is None:
            raise MalformedValue("what stands in a message is no section of one")
        if not _may_follow(code, last):
            raise MalformedValue(f"a message has {_NAMES[code]} where it cannot be")
        behind = skip(buffer, value_position, end)
        sections.append(Section(code, position, value_position, behind))
        position, last = behind, code
    return sections


def decode_section(buffer: ReadableBuffer, section: Section) -> Any:  # noqa: ANN401 - what the section describes
    """The Header, Properties, map, bytes, list or value of a section; raises MalformedValue if it is none."""
    code = section.code
    if code is SectionCode.HEADER:
        return _HEADER.decode(buffer, section.position, section.end)[0]
    if code is SectionCode.PROPERTIES:
        return _PROPERTIES.decode(buffer, section.position, section.end)[0]
    try:
        return _TYPES[code].read(buffer, section.position, section.end, 1)[0]
    except InvalidField as error:
        raise InvalidField(_NAMES[code], error.reason) from None


def decode_message(buffer: ReadableBuffer, position: int, end: int) -> Message:
    """The message that fills `position` to `end`; raises MalformedValue if none does."""
    found: dict[str, Any] = {}
    bodies: list[Any] = []
    for section in read_sections(buffer, position, end):
        value = decode_section(buffer, section)
        if section.code in _BODIES:
            bodies.append(value)
            found["body"] = section.code
        else:
            found[section.code.name.lower()] = value
    match found.get("body"):
        case SectionCode.DATA:
            found["body"] = Data(tuple(bodies))
        case SectionCode.AMQP_SEQUENCE:
            found["body"] = AmqpSequence(tuple(bodies))
        case SectionCode.AMQP_VALUE:
            found["body"] = AmqpValue(bodies[0])
    return Message(**found)


def encode_message(message: Message) -> bytes:
    """The bytes of a message; raises InvalidValue if a part of it has none."""
    return encoded(_write_message, message)


def data_section(body: bytes) -> bytes:
    """A message of one data section."""
    if len(body) < 256:
        return b"\x00\x53\x75\xa0" + len(body).to_bytes(1, "big") + body
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def body_of(message: bytes) -> bytes | None:
    """The bytes of the data sections, or of a value that is text or bytes; None for all that is no such message."""
    parts = []
    try:
        for section in read_sections(message, 0, len(message)):
            if section.code in _BODIES:
                value = decode_section(message, section)
                parts.append(value.encode() if type(value) is str else value)
    except MalformedValue:
        return None
    return b"".join(parts) if parts and all(type(part) is bytes for part in parts) else None


def _may_follow(code: SectionCode, last: int) -> bool:
    if last in _BODIES and code in _BODIES:
        return code == last and code is not SectionCode.AMQP_VALUE
    return code > last


def _write_message(out: bytearray, message: Message) -> None:
    if message.header is not None:
        _HEADER.write(out, message.header)
    _write_section(out, SectionCode.DELIVERY_ANNOTATIONS, message.delivery_annotations)
    _write_section(out, SectionCode.MESSAGE_ANNOTATIONS, message.message_annotations)
    if message.properties is not None:
        _PROPERTIES.write(out, message.properties)
    _write_section(out, SectionCode.APPLICATION_PROPERTIES, message.application_properties)
    _write_body(out, message.body)
    _write_section(out, SectionCode.FOOTER, message.footer)


def _write_body(out: bytearray, body: Body | None) -> None:
    match body:
        case Data(sections):
            for part in sections:
                _write_section(out, SectionCode.DATA, part)
        case AmqpSequence(sequences):
            for items in sequences:
                _write_section(out, SectionCode.AMQP_SEQUENCE, items)
        case AmqpValue(value):
            out += bytes((0, 0x53, SectionCode.AMQP_VALUE))
            anything.write(out, value)


def _write_section(out: bytearray, code: SectionCode, value: object) -> None:
    if value is not None:
        out += bytes((0, 0x53, code))
        _TYPES[code].write(out, value)


_BODIES = (SectionCode.DATA, SectionCode.AMQP_SEQUENCE, SectionCode.AMQP_VALUE)
_HEADER = Composite(
    0x70,
    "header",
    Header,
    durable=boolean,
    priority=ubyte,
    ttl=uint,
    first_acquirer=boolean,
    delivery_count=uint,
)
_PROPERTIES = Composite(
    0x73,
    "properties",
    Properties,
    message_id=message_id,
    user_id=binary,
    to=string,
    subject=string,
    reply_to=string,
    correlation_id=message_id,
    content_type=symbol,
    content_encoding=symbol,
    absolute_expiry_time=timestamp,
    creation_time=timestamp,
    group_id=string,
    group_sequence=uint,
    reply_to_group_id=string,
)
_TYPES: dict[SectionCode, FieldType] = {
    SectionCode.DELIVERY_ANNOTATIONS: annotation_map,
    SectionCode.MESSAGE_ANNOTATIONS: annotation_map,
    SectionCode.APPLICATION_PROPERTIES: Map(string, (str,), anything),
    SectionCode.DATA: binary,
    SectionCode.AMQP_SEQUENCE: list_of_anything,
    SectionCode.AMQP_VALUE: anything,
    SectionCode.FOOTER: annotation_map,
}
_NAMES = {code: code.name.lower().replace("_", "-") for code in SectionCode}
_FORMS = {
    SectionCode.HEADER: "list",
    SectionCode.PROPERTIES: "list",
    SectionCode.DATA: "binary",
    SectionCode.AMQP_SEQUENCE: "list",
    SectionCode.AMQP_VALUE: "*",
}
_CODES: dict[int | str, SectionCode] = {
    **{int(code): code for code in SectionCode},
    **{f"amqp:{_NAMES[code]}:{_FORMS.get(code, 'map')}": code for code in SectionCode},
}
