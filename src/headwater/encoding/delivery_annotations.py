"""AMQP 1.0 section 3.2.2 and Event Stream Extensions, sections 4.6.4 and 5.1: what is said of an event on its way out.

The section is a map with symbols as keys, in this order:

    event-streams-associated-partitions-changed
                                       array          of symbols; on one event alone, after a link got other partitions
    event-streams-source-partition     symbol         the same for all events of a link on one partition
    event-streams-timestamp            timestamp      the same for all events of a chunk
    event-streams-offset               symbol         16 hexadecimal digits; the section ends with them

`_span_kernel.write_transfers` counts the digits up from event to event, so that one section does for a run of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from headwater.encoding._amqp_kernel import skim_message
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_message import (
    Header,
    Message,
    data_section,
    decode_message,
    encode_message,
)
from headwater.encoding.amqp_types import Array, Symbol
from headwater.errors import InvalidField, MalformedValue

__all__ = ["annotations_before_offset", "message_to_send", "offset_digits"]


def annotations_before_offset(
    timestamp_ms: int, source_partition: str | None, changed_partitions: Sequence[str] | None = None
) -> bytes:
    """The section without the digits of the offset, which are to follow; without a partition if that is None.

    `changed_partitions` are those of a link which has others than before.
    """
    pairs, pair_items = b"", 4
    if changed_partitions is not None:
        pairs += _CHANGED_PARTITIONS + encode(Array(tuple(map(Symbol, changed_partitions)), Symbol))
        pair_items += 2
    if source_partition is not None:
        pairs += _SOURCE_PARTITION + _symbol(source_partition.encode("ascii"))
        pair_items += 2
    pairs += _TIMESTAMP + b"\x83" + timestamp_ms.to_bytes(8, "big", signed=True) + _OFFSET
    size = len(pairs) + _DIGITS
    if size < 255:
        return b"\x00\x53\x71\xc1" + bytes((size + 1, pair_items)) + pairs
    return b"\x00\x53\x71\xd1" + (size + 4).to_bytes(4, "big") + pair_items.to_bytes(4, "big") + pairs


def offset_digits(offset: int) -> bytes:
    """An offset as consumers see it: the order of the digits is that of the log."""
    return b"%016x" % offset


def message_to_send(record: bytes, annotations: bytes, delivery_count: int = 0) -> bytes:
    """The payload of a delivery, as `write_transfers` writes it too: a stored record with delivery annotations.

    What is no AMQP message goes out as the data of one. Annotations that the record brings give way to these. A
    delivery count goes into the header, on top of what it was sent with.
    """
    is_message, head_end, rest_start = skim_message(record, 0, len(record))
    if not is_message:
        head = _head_with(b"", delivery_count) if delivery_count else b""
        return head + annotations + data_section(record)
    head = _head_with(record[:head_end], delivery_count) if delivery_count else record[:head_end]
    return head + annotations + record[rest_start:]


def _head_with(head: bytes, delivery_count: int) -> bytes:
    """A header of a failed delivery, which is no first one, by the header that was sent, or by none."""
    header = Header()
    if head:
        with contextlib.suppress(MalformedValue, InvalidField):  # then nobody could have read it before
            header = decode_message(head, 0, len(head)).header or header
    count = min(header.delivery_count + delivery_count, _COUNT_MAX)
    counted = msgspec.structs.replace(header, delivery_count=count, first_acquirer=False)
    return encode_message(Message(header=counted))


def _symbol(value: bytes) -> bytes:
    if len(value) < 256:
        return b"\xa3" + len(value).to_bytes(1, "big") + value
    return b"\xb3" + len(value).to_bytes(4, "big") + value


_COUNT_MAX = 0xFFFFFFFF
_DIGITS = 16
_CHANGED_PARTITIONS = _symbol(b"event-streams-associated-partitions-changed")
_SOURCE_PARTITION = _symbol(b"event-streams-source-partition")
_TIMESTAMP = _symbol(b"event-streams-timestamp")
_OFFSET = _symbol(b"event-streams-offset") + b"\xa3\x10"
