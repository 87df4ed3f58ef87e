"""What the kernels read of AMQP peers and of chunk data: runs of transfers, dispositions, and entries to be sent."""

from __future__ import annotations

import struct
from array import array

from fuzz.targets import RECORDS, SUB_BATCH, check, target
from headwater.encoding._amqp_kernel import (
    join_dispositions,
    peek_transfer,
    scan_transfers,
    skim_entries,
    skim_message,
)
from headwater.encoding._kernel import walk_records
from headwater.encoding._key_kernel import NONE, UNREADABLE, find_annotations
from headwater.encoding._span_kernel import SPAN_FIELDS, gather_spans, write_transfers
from headwater.encoding.delivery_annotations import annotations_before_offset, offset_digits
from headwater.errors import MalformedChunk

__all__: list[str] = []

_FRAME_SIZE_MAX = 4096
_ROOM = 6
_KEY = b"event-streams-group-key"
_HEADER = b"\0\x53\x70\xc0\x02\x01\x41"
_ANNOTATIONS = b"\0\x53\x71\xc1\x06\x02\xa3\x01k\xa1\0"
_DATA = b"\0\x53\x75\xa0\x03abc"
_OWN_ANNOTATIONS = annotations_before_offset(0, "0") + offset_digits(0xF)


def _frame(body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 1) + body


def _transfer(delivery_id: int, message: bytes) -> bytes:
    fields = b"\x43\x52" + bytes((delivery_id,)) + b"\xa0\x01t\x43\x42"
    return _frame(b"\0\x53\x14\xc0" + bytes((len(fields) + 1, 5)) + fields + message)


_NAMED = _frame(b"\0\xa3\x12amqp:transfer:list\xd0\0\0\0\x0a\0\0\0\x03\x43\x52\x06\xa0\x01t" + _DATA)
_RUN = b"".join(
    _transfer(number, message)
    for number, message in enumerate((_DATA, _HEADER + _DATA, _HEADER + _ANNOTATIONS + _DATA, _ANNOTATIONS))
)


@target("scan_transfers", MalformedChunk, seeds=[_RUN, _transfer(5, _DATA) + _NAMED, _transfer(255, b"\0")])
def fuzz_scan_transfers(data: bytes) -> None:
    spans = array("q", [-1]) * (SPAN_FIELDS * _ROOM + 1)
    start = peek_transfer(data, 0, len(data), _FRAME_SIZE_MAX)
    channel, handle, delivery_id, settled = start or (1, 0, 0, False)
    count, position, annotated = scan_transfers(
        data, 0, len(data), _FRAME_SIZE_MAX, channel, handle, delivery_id, settled, 0, spans
    )
    check(start is None or count > 0, "what was peeked at is not found")
    check(annotated <= count <= _ROOM and position <= len(data), "more was found than there is")
    check(set(spans[SPAN_FIELDS * count :]) == {-1}, "fields behind the messages were changed")
    fields = [0, *spans[: SPAN_FIELDS * count]]
    check(fields == sorted(fields) and fields[-1] == position, "messages overlap")
    out = bytearray(len(data))
    taken, out_end = gather_spans(data, spans, 0, count, len(data), out, 0, len(out), _ROOM)
    check(taken == count, "not all messages have room where their frames had")
    check(walk_records(out, 0, out_end, count) == out_end, "other entries were gathered")


def _disposition(first: int) -> bytes:
    return _frame(b"\0\x53\x15\xc0\x0b\x06\x41\x52" + bytes((first,)) + b"\x40\x41\0\x53\x24\x45\x42")


@target(
    "join_dispositions",
    MalformedChunk,
    seeds=[
        _disposition(1) + _disposition(2) + _disposition(3),
        _frame(b"\0\x53\x15\xc0\x0d\x03\x41\x70\xff\xff\xff\xff\x70\0\0\0\x03") + _disposition(4),
    ],
)
def fuzz_join_dispositions(data: bytes) -> None:
    joined = join_dispositions(data, 0, len(data), _FRAME_SIZE_MAX)
    if joined is not None:
        count, position, _, _, first, last, _, _ = joined
        check(0 < 8 * count < position <= len(data), "more was joined than there is")
        check((last - first) % 2**32 < 2**31, "the range has no order")


@target(
    "write_transfers",
    MalformedChunk,
    seeds=[
        b"\x04" + RECORDS,
        b"\x02" + struct.pack(">I", 22) + _HEADER + _ANNOTATIONS + b"\0\x53\x77\x40" + SUB_BATCH,
    ],
)
def fuzz_write_transfers(data: bytes) -> None:
    if not data:
        return
    spans, out = array("q", bytes(8 * SPAN_FIELDS * _ROOM)), bytearray(3 * len(data) + 1000)
    found, position = skim_entries(data, 1, len(data), data[0], spans)
    check(found <= min(data[0], _ROOM) and position <= len(data), "more was found than there is")
    arguments = (_FRAME_SIZE_MAX, 1, 0, 2**32 - 2, True, _OWN_ANNOTATIONS)
    written, end = write_transfers(data, spans, 0, found, out, 0, len(out) - 16, *arguments)
    check(written <= found and not any(out[end:]), "bytes behind the frames were changed")
    scanned, behind, annotated = scan_transfers(out, 0, end, _FRAME_SIZE_MAX, 1, 0, 2**32 - 2, True, 0, spans)
    check((scanned, behind, annotated) == (written, end, written), "what was written is not read")


def _keyed(name: bytes, value: bytes) -> bytes:
    pair = b"\xa3" + bytes((len(name),)) + name + value
    return b"\0\x53\x72\xc1" + bytes((1 + len(pair), 2)) + pair


@target(
    "find_annotations",
    MalformedChunk,
    seeds=[
        _HEADER + _keyed(_KEY, b"\xa1\x03abc") + _DATA,
        _HEADER + _ANNOTATIONS + _keyed(b"x-opt", b"\x43") + _DATA,
        _keyed(_KEY, b"\0\x53\x01\x40"),
    ],
)
def fuzz_find_annotations(data: bytes) -> None:
    _, head_end, rest = skim_message(data, 0, len(data))
    spans, found = array("q", (0, head_end, rest, len(data))), array("q", (-7, -7))
    for section, start, end in ((0x71, head_end, rest), (0x72, rest, len(data))):
        there, unreadable = find_annotations(data, spans, 0, 1, section, _KEY, found)
        check(there + unreadable == (found[0] != NONE), "what was counted is not what was found")
        check(unreadable == (found[0] == UNREADABLE), "what was counted is not what was found")
        check(not there or start < found[0] <= found[1] <= end, "something was found elsewhere")
