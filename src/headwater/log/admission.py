"""What a partition takes whose log is declared to hold CloudEvents: events that are valid, and not in it already.

A kernel looks at a block of messages at once, and Python at those alone in which it found something to say. What has
been looked at is taken up to the first message that is not, so that each is parsed once; blocks shrink where many are
refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from headwater.cloudevents.stored import first_fault
from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._kernel import walk_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer
from headwater.encoding.compression import Compression, pack_sub_batch, unpack_entry
from headwater.errors import InvalidCloudEvent, UnreadableSubBatch
from headwater.log.duplicates import Digest, DuplicateWindow, digests_of
from headwater.log.settings import LogSettings

__all__ = ["BLOCK_MAX", "SUB_BATCH_GROWTH_MAX", "SUB_BATCH_UNPACKED_MAX", "Admission", "admission_of"]

BLOCK_MAX = 1024
"""So many messages are looked at together."""
_BLOCK_GROWTH = 4
SUB_BATCH_GROWTH_MAX = 100
"""A sub-batch that unpacks to more than so many times its size is refused: unpacking takes the time of all."""
SUB_BATCH_UNPACKED_MAX = 16 << 20
"""And one of more bytes."""
_SUB_BATCH_BYTES_FREE = 4096
"""What any sub-batch may unpack to."""


class Admission:
    """Looks at messages before they are appended; what it let through is noted when it is taken."""

    __slots__ = ("_pending", "block", "dropped_count", "refused_count", "replacement", "window")

    def __init__(self, window: DuplicateWindow | None) -> None:
        self.window = window
        """Of what sources and ids duplicates are known; None where all are let through."""
        self.block = BLOCK_MAX
        """So many messages are looked at next."""
        self.replacement: tuple[bytes, int] | None = None
        """What is stored in place of the sub-batch that was let through, and how many records it has."""
        self.refused_count = 0
        self.dropped_count = 0
        self._pending: list[Digest | None] = []

    def admit(self, buffer: ReadableBuffer, spans: array[int], first: int, count: int) -> int:
        """How many of the messages, from the `first` one on, can be taken; none, but below 0, are duplicates.

        The spans are those of `_span_kernel`. Raises `InvalidCloudEvent` if the first one is not valid.
        """
        count = min(count, self.block)
        fault = first_fault(buffer, spans, first, count)
        if fault is None:
            self.block = min(_BLOCK_GROWTH * self.block, BLOCK_MAX)
        else:
            count, error = fault
            if not count:
                self.block = 1
                self.refused_count += 1
                raise error
        if self.window is None:
            return count
        digests = digests_of(buffer, spans, first, count)
        new, known = self.window.leading(digests)
        self._pending = digests[:new]
        self.dropped_count += known
        return new or -known

    def admit_entries(self, buffer: ReadableBuffer, start: int, end: int, count: int) -> int:
        """The same of entries of chunk data, of which each is a message or a sub-batch."""
        self.replacement = None
        spans = array("q", bytes(8 * SPAN_FIELDS * count))
        found, _ = skim_entries(buffer, start, end, count, spans)
        return self.admit(buffer, spans, 0, found) if found else self._admit_sub_batch(buffer, start, end)

    def check(self, buffer: ReadableBuffer, spans: array[int]) -> None:
        """Raise `InvalidCloudEvent` for the first of all these messages that is none; duplicates are valid."""
        fault = first_fault(buffer, spans, 0, len(spans) // SPAN_FIELDS)
        if fault is not None:
            self.refused_count += 1
            raise fault[1]

    def offsets_of(self, buffer: ReadableBuffer, spans: array[int], first_offset: int) -> Sequence[int]:
        """Where all these messages are that were appended, or were there, the first one that was new at an offset."""
        count = len(spans) // SPAN_FIELDS
        if self.window is None:
            return range(first_offset, first_offset + count)
        offsets = []
        for digest in digests_of(buffer, spans, 0, count):
            known = None if digest is None else self.window.offset_of(digest)
            offsets.append(first_offset if known is None else known)
            first_offset = max(first_offset, offsets[-1] + 1)
        return offsets

    def taken(self, first_offset: int, count: int) -> None:
        """So many of the messages that were let through last are appended, from this offset on."""
        if self.window is not None:
            self.window.add(first_offset, self._pending[:count])
            self._pending = []

    def go_back(self, end_offset: int) -> None:
        """What was taken from this offset on is not stored."""
        if self.window is not None:
            self.window.go_back(end_offset)

    def forget_before(self, offset: int) -> None:
        """What is before this offset is no longer in the partition."""
        if self.window is not None:
            self.window.forget_before(offset)

    def _admit_sub_batch(self, buffer: ReadableBuffer, start: int, end: int) -> int:
        entry_end, _ = walk_entries(buffer, start, end, 1)
        try:
            plain, count, spans = _unpacked(buffer, start, entry_end)
            fault = first_fault(plain, spans, 0, count)
            if fault is not None:
                number, error = fault
                reason = f"{error.reason} (record {number} of the sub-batch)"
                raise InvalidCloudEvent(error.attribute, reason)
        except InvalidCloudEvent:
            self.block = 1
            self.refused_count += 1
            raise
        if self.window is None:
            return 1
        digests = digests_of(plain, spans, 0, count)
        kept = self.window.new_among(digests)
        self.dropped_count += count - len(kept)
        self._pending = [digests[number] for number in kept]
        if not kept:
            return -1
        if len(kept) < count:
            compression = Compression((buffer[start] >> 4) & 7)
            records = [_record(plain, spans, number) for number in kept]
            self.replacement = pack_sub_batch(records, compression), len(records)
        return 1


def admission_of(
    settings: LogSettings, now_ms: Callable[[], int], before: Admission | None
) -> Admission | None:
    """What these settings ask for, going on from what was asked for before; None if it is nothing."""
    if settings.content != "cloudevents":
        return None
    admission = before or Admission(None)
    count, age_ms = settings.duplicates_window_count, settings.duplicates_window_ms
    if not count:
        admission.window = None
    elif admission.window is None:
        admission.window = DuplicateWindow(count, age_ms, now_ms)
    else:
        admission.window.change(count, age_ms)
    return admission


def _unpacked(buffer: ReadableBuffer, start: int, end: int) -> tuple[ReadableBuffer, int, array[int]]:
    """The records of a sub-batch, their number, and their spans."""
    unpacked_bytes = int.from_bytes(buffer[start + 3 : start + 7], "big")
    if unpacked_bytes > _SUB_BATCH_BYTES_FREE + SUB_BATCH_GROWTH_MAX * (end - start):
        raise InvalidCloudEvent(
            None, f"is in a sub-batch that unpacks to more than {SUB_BATCH_GROWTH_MAX} times its size"
        )
    if unpacked_bytes > SUB_BATCH_UNPACKED_MAX:
        raise InvalidCloudEvent(
            None, f"is in a sub-batch that unpacks to more than {SUB_BATCH_UNPACKED_MAX} bytes"
        )
    try:
        plain, count = unpack_entry(buffer, start, end)
    except UnreadableSubBatch:
        raise InvalidCloudEvent(None, "is in a sub-batch that does not unpack") from None
    spans = array("q", bytes(8 * SPAN_FIELDS * count))
    skim_entries(plain, 0, len(plain), count, spans)
    return plain, count, spans


def _record(buffer: ReadableBuffer, spans: Sequence[int], number: int) -> bytes:
    head, _, rest, end = spans[SPAN_FIELDS * number : SPAN_FIELDS * (number + 1)]
    return bytes(buffer[rest if head < 0 else head : end])
