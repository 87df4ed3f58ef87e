"""AMQP 1.0 part 3, section 3.2.3: annotations that are added to a stored message, of which the rest stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.encoding.amqp_message import (
    Message,
    SectionCode,
    data_section,
    decode_section,
    encode_message,
    read_sections,
)
from headwater.encoding.amqp_types import Symbol, Ulong
from headwater.errors import InvalidField, MalformedValue

__all__ = ["annotated"]


def annotated(record: bytes, annotations: Mapping[Symbol | Ulong, Any]) -> bytes:
    """A stored record with these message annotations; what is no AMQP message becomes the data of one."""
    try:
        sections = read_sections(record, 0, len(record))
        before: dict[Any, Any] = {}
        start = end = next(
            (each.start for each in sections if each.code >= SectionCode.MESSAGE_ANNOTATIONS), len(record)
        )
        for section in sections:
            if section.code is SectionCode.MESSAGE_ANNOTATIONS:
                before, end = decode_section(record, section) or {}, section.end
    except (MalformedValue, InvalidField):
        return encode_message(Message(message_annotations=dict(annotations))) + data_section(record)
    changed = encode_message(Message(message_annotations={**before, **annotations}))
    return record[:start] + changed + record[end:]
