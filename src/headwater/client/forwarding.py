"""Event Stream Extensions, sections 4.6.4 and 4.6.5: what a consumer takes off a message that it sends on."""

from __future__ import annotations

from headwater.amqp.event_streams import PARTITIONS_CHANGED, SOURCE_PARTITION
from headwater.encoding.amqp_message import (
    Message,
    SectionCode,
    decode_section,
    encode_message,
    read_sections,
)
from headwater.errors import InvalidField, MalformedValue

__all__ = ["to_send_on"]

_OF_THE_LINK = frozenset({SOURCE_PARTITION, *PARTITIONS_CHANGED})
"""They say where a message came from, and to whom, which is nobody else's business."""


def to_send_on(message: bytes) -> bytes:
    """A message as it came, without the delivery annotations that hold for the link alone that it came on."""
    try:
        sections = read_sections(message, 0, len(message))
        found = next((each for each in sections if each.code is SectionCode.DELIVERY_ANNOTATIONS), None)
        annotations = None if found is None else decode_section(message, found)
    except (MalformedValue, InvalidField):
        return message
    if found is None or not annotations or _OF_THE_LINK.isdisjoint(annotations):
        return message
    kept = {name: value for name, value in annotations.items() if name not in _OF_THE_LINK}
    section = encode_message(Message(delivery_annotations=kept)) if kept else b""
    return message[: found.start] + section + message[found.end :]
