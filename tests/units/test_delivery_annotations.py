"""What is said of an event on its way out, byte by byte, and the message that goes out with it."""

from __future__ import annotations

import pytest

from headwater.encoding.amqp_message import decode_message
from headwater.encoding.amqp_types import Array, Symbol
from headwater.encoding.delivery_annotations import (
    annotations_before_offset,
    message_to_send,
    offset_digits,
)

KEYS = [b"event-streams-source-partition", b"event-streams-timestamp", b"event-streams-offset"]
HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
BODY = b"\x00\x53\x75\xa0\x03abc"


def items_of(section: bytes) -> list[bytes]:
    """The values of the map, with the format codes of those that are no symbols."""
    assert section[:3] == b"\x00\x53\x71"
    short = section[3] == 0xC1
    width, position = (1, 4) if short else (4, 4)
    assert section[3] in (0xC1, 0xD1)
    size, count = (int.from_bytes(section[at : at + width], "big") for at in (position, position + width))
    position += width
    assert size == len(section) - position
    position += width
    items = []
    while position < len(section):
        code = section[position]
        if code == 0x83:
            items.append(section[position : position + 9])
            position += 9
            continue
        width = {0xA3: 1, 0xB3: 4}[code]
        start = position + 1 + width
        position = start + int.from_bytes(section[position + 1 : start], "big")
        items.append(section[start:position])
    assert len(items) == count
    return items


def test_the_section_is_a_map_of_symbols_that_ends_with_the_offset() -> None:
    section = annotations_before_offset(1_700_000_000_123, "orders-0") + offset_digits(0xABC)
    timestamp = b"\x83" + (1_700_000_000_123).to_bytes(8, "big")
    assert items_of(section) == [KEYS[0], b"orders-0", KEYS[1], timestamp, KEYS[2], b"0000000000000abc"]
    assert section[3] == 0xC1


def test_the_partition_may_be_left_out() -> None:
    items = items_of(annotations_before_offset(-1, None) + offset_digits(0))
    assert items == [KEYS[1], b"\x83" + b"\xff" * 8, KEYS[2], b"0" * 16]


@pytest.mark.parametrize("ids", [[], ["0"], ["0", "1", "orders-2"], [str(number) for number in range(1000)]])
def test_a_changed_set_of_partitions_is_an_array_of_symbols_before_the_rest(ids: list[str]) -> None:
    section = annotations_before_offset(7, "1", ids) + offset_digits(5)
    annotations = decode_message(section + BODY, 0, len(section + BODY)).delivery_annotations
    assert annotations is not None
    changed = Array(tuple(map(Symbol, ids)), Symbol)
    assert next(iter(annotations.items())) == ("event-streams-associated-partitions-changed", changed)
    assert annotations[Symbol("event-streams-offset")] == "0000000000000005"
    assert section.endswith((annotations_before_offset(7, "1") + offset_digits(5))[6:])


@pytest.mark.parametrize("size", [0, 1, 144, 145, 146, 147, 255, 256, 70_000])
def test_a_partition_may_have_a_name_of_any_length(size: int) -> None:
    section = annotations_before_offset(0, "p" * size) + offset_digits(1)
    assert items_of(section)[1] == b"p" * size
    assert (section[3] == 0xC1) == (len(section) <= 5 + 255)


def test_the_order_of_the_digits_is_that_of_all_offsets() -> None:
    offsets = [0, 1, 9, 10, 255, 256, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    digits = [offset_digits(offset) for offset in offsets]
    assert digits == sorted(digits)
    assert {len(each) for each in digits} == {16}
    assert offset_digits(2**64 - 1) == b"f" * 16


@pytest.mark.parametrize(
    ("record", "sent"),
    [
        (BODY, b"<own>" + BODY),
        (HEADER + BODY, HEADER + b"<own>" + BODY),
        (b"\x00\x53\x71\xc1\x01\x00" + BODY, b"<own>" + BODY),
        (HEADER + b"\x00\x53\x71\xc1\x01\x00" + BODY, HEADER + b"<own>" + BODY),
        (b"plain text", b"<own>\x00\x53\x75\xa0\x0aplain text"),
        (b"", b"<own>\x00\x53\x75\xa0\x00"),
        (b"x" * 256, b"<own>\x00\x53\x75\xb0\x00\x00\x01\x00" + b"x" * 256),
    ],
)
def test_annotations_stand_behind_the_header_and_in_place_of_others(record: bytes, sent: bytes) -> None:
    assert message_to_send(record, b"<own>") == sent
