"""A cursor in `$state`: what is settled on one partition.

    [ 1                                      version
      low-water mark                         every offset below is settled, or lost
      lost                                   messages that retention took before they were settled
      [ gap, length,  gap, length, ... ]     settled ranges above the mark, each by its distance from the end before it
      [ gap, length,  gap, length, ... ]     rejected, and not in the dead-letter log yet, likewise
      [ gap, length, count, ... ] ]          delivery counts that were raised, likewise

At most `RECORD_RANGES_MAX` settled ranges and `RECORD_OTHERS_MAX` of each other kind are written, the lowest first, so
that a record stays below `RECORD_BYTES_MAX` whatever consumers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from headwater.encoding.ranges import IdRange
from headwater.engine.delivery_counts import COUNT_MAX, CountedRange
from headwater.engine.state_record import decode, encode
from headwater.errors import MalformedState

__all__ = [
    "OFFSET_MAX",
    "RECORD_BYTES_MAX",
    "RECORD_OTHERS_MAX",
    "RECORD_RANGES_MAX",
    "Position",
    "decode_position",
    "encode_position",
]

OFFSET_MAX = (1 << 63) - 1
RECORD_RANGES_MAX = 16_384
RECORD_OTHERS_MAX = 4_096
RECORD_BYTES_MAX = 512 << 10

_Count = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
_Settled = Annotated[list[_Count], msgspec.Meta(max_length=2 * RECORD_RANGES_MAX)]
_Rejected = Annotated[list[_Count], msgspec.Meta(max_length=2 * RECORD_OTHERS_MAX)]
_Raised = Annotated[list[_Count], msgspec.Meta(max_length=3 * RECORD_OTHERS_MAX)]


class Position(msgspec.Struct, frozen=True):
    """Where a cursor stands, as it survives a restart."""

    low: int
    settled: tuple[IdRange, ...] = ()
    rejected: tuple[IdRange, ...] = ()
    raised: tuple[CountedRange, ...] = ()
    lost_count: int = 0


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    low: _Count
    lost_count: _Count
    settled: _Settled
    rejected: _Rejected
    raised: _Raised


def encode_position(position: Position) -> bytes:
    """The value of a record; the caller keeps to the numbers of ranges."""
    assert len(position.settled) <= RECORD_RANGES_MAX, "the cursor cuts what is too much"
    assert len(position.rejected) <= RECORD_OTHERS_MAX, "the cursor cuts what is too much"
    assert len(position.raised) <= RECORD_OTHERS_MAX, "the cursor cuts what is too much"
    raised: list[int] = []
    before = position.low
    for first, end, count in position.raised:
        raised += (first - before, end - first, count)
        before = end
    settled, rejected = _gaps(position.low, position.settled), _gaps(position.low, position.rejected)
    return encode(_Record(position.low, position.lost_count, settled, rejected, raised))


def decode_position(data: bytes) -> Position:
    """Where a cursor stands by its record; raises `MalformedState`."""
    record = decode(data, _Record)
    settled, rejected = _ranges(record.low, record.settled), _ranges(record.low, record.rejected)
    if len(record.raised) % 3:
        raise MalformedState("a delivery count of a cursor is cut off")
    counts = record.raised[2::3]
    if not all(0 < count <= COUNT_MAX for count in counts):
        raise MalformedState(f"a delivery count that is not 1 to {COUNT_MAX}")
    del record.raised[2::3]
    counted = zip(_ranges(record.low, record.raised), counts, strict=True)
    raised = tuple((first, end, count) for (first, end), count in counted)
    return Position(record.low, settled, rejected, raised, record.lost_count)


def _gaps(before: int, ranges: Iterable[IdRange]) -> list[int]:
    gaps: list[int] = []
    for first, end in ranges:
        gaps += (first - before, end - first)
        before = end
    return gaps


def _ranges(before: int, gaps: list[int]) -> tuple[IdRange, ...]:
    if len(gaps) % 2:
        raise MalformedState("a range of a cursor is cut off")
    ranges: list[IdRange] = []
    for gap, length in zip(gaps[::2], gaps[1::2], strict=True):
        first, before = before + gap, before + gap + length
        if length == 0 or before > OFFSET_MAX:
            raise MalformedState("a range of a cursor is empty, or ends beyond all offsets")
        ranges.append((first, before))
    return tuple(ranges)
