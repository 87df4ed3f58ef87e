"""What was appended to a partition and is not on its way to the disk yet: entries gather into future chunks."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from headwater.encoding._kernel import NOTHING_PUBLISHED, UNNAMED, filter_values, gather_published, new_buffer
from headwater.encoding._span_kernel import SPAN_FIELDS, gather_spans
from headwater.encoding.chunk import CHUNK_HEADER_BYTES, ENTRIES_MAX
from headwater.errors import EntryTooLarge, InvalidEntries, StorageError
from headwater.log.admission import Admission, admission_of
from headwater.log.clock import wall_clock_ms
from headwater.log.files import Buffer
from headwater.log.settings import LogSettings
from headwater.log.tracking import Publisher

__all__ = ["Gathering", "Intake", "OnDone"]

OnDone = Callable[[StorageError | None], None]
"""Called once: with None when all is on disk, with the error when it never will be."""

Copied: TypeAlias = tuple[int, int, int, int, int, int]
"""Of `gather_published`: position in the body, messages, entries, records, position behind them, last sequence."""

_BUFFER_BYTES_MIN = 4096
_EVERYTHING_PUBLISHED = (1 << 64) - 1
"""As the last sequence: all messages are duplicates, whose ids alone are wanted."""
_UNFILTERED = b""

MIXED_ENTRIES_MAX = 32
"""A chunk with more entries is not continued by some that have filter values where it has none, or the reverse: whoever
filters gets whole chunks, and under load one chunk would hold something for everybody."""

_LENGTHS = struct.Struct(">HII")


class Gathering:
    """Entries of one future chunk, in the buffer from which they will be written."""

    __slots__ = (
        "buffer",
        "end",
        "entries",
        "filter_values",
        "first_offset",
        "publishers",
        "records",
        "waiting",
    )

    def __init__(self, first_offset: int, data_bytes: int) -> None:
        self.first_offset = first_offset
        self.buffer = new_buffer(CHUNK_HEADER_BYTES + data_bytes)
        self.end = CHUNK_HEADER_BYTES
        self.entries = 0
        self.records = 0
        self.publishers: dict[bytes, int] = {}
        self.filter_values: set[bytes] | None = None
        """Those of its entries, the empty one for entries without; None while no entry has one."""
        self.waiting: list[OnDone] = []

    @property
    def data_bytes(self) -> int:
        """Bytes of entries so far."""
        return self.end - CHUNK_HEADER_BYTES

    @property
    def is_filtered(self) -> bool:
        """Whether an entry has a filter value."""
        return bool(self.filter_values) and self.filter_values != {_UNFILTERED}

    def grow(self, data_bytes: int) -> None:
        """Make room for this many bytes of entries in all."""
        missing = CHUNK_HEADER_BYTES + data_bytes - len(self.buffer)
        if missing > 0:
            self.buffer.extend(bytes(missing))

    def put(self, data: Buffer) -> None:
        """Copy bytes behind those that are here; there must be room."""
        end = self.end + len(data)
        self.buffer[self.end : end] = data
        self.end = end

    def note_filter_values(self, values: list[bytes | None] | None) -> None:
        """Entries with these filter values are being added."""
        if self.filter_values is None:
            if values is None:
                return
            self.filter_values = {_UNFILTERED} if self.entries else set()
        self.filter_values.update(value or _UNFILTERED for value in values or (None,))


class Intake:
    """The gatherings of one partition, oldest first; the last one is still open."""

    __slots__ = (
        "_complete",
        "_last_bytes",
        "_now_ms",
        "_open",
        "admission",
        "byte_count",
        "next_offset",
        "settings",
    )

    def __init__(self, settings: LogSettings, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.settings = settings
        self._now_ms = now_ms
        self.admission = admission_of(settings, now_ms, None)
        """What looks at messages before they are taken; None if everything is."""
        self._complete: list[Gathering] = []
        self._open: Gathering | None = None
        self._last_bytes = 0
        self.next_offset = 0
        """The offset that the next record gets."""
        self.byte_count = 0
        """Bytes of entries that were not taken yet."""

    def __bool__(self) -> bool:
        return bool(self._complete) or (self._open is not None and self._open.entries > 0)

    def change_settings(self, settings: LogSettings) -> None:
        """Go on with these."""
        self.settings = settings
        self.admission = admission_of(settings, self._now_ms, self.admission)

    def go_back(self, end_offset: int) -> None:
        """What was taken from this offset on is not stored."""
        self.next_offset = end_offset
        if self.admission is not None:
            self.admission.go_back(end_offset)

    def forget_before(self, offset: int) -> None:
        """What is before this offset is no longer there."""
        if self.admission is not None:
            self.admission.forget_before(offset)

    def add(
        self, entries: Buffer, count: int, records: int, publisher: Publisher | None, sequence: int
    ) -> None:
        """Take ready entries into one gathering; the size of each is checked only where it comes alone."""
        size = len(entries)
        if not 0 < count <= min(records, ENTRIES_MAX):
            raise InvalidEntries(count, records, ENTRIES_MAX)
        if size > (self.settings.entry_bytes_max if count == 1 else self.settings.chunk_data_bytes_max):
            raise EntryTooLarge(size, self.settings.entry_bytes_max)
        self._keep_apart(is_filtered=False)
        gathering = self._with_room(size, count)
        gathering.note_filter_values(None)
        gathering.put(entries)
        self._took(gathering, size, count, records)
        if publisher is not None:
            publisher.sequence = gathering.publishers[publisher.reference] = sequence

    def add_published(
        self,
        body: Buffer,
        start: int,
        end: int,
        count: int,
        publisher: Publisher | None,
        ids: bytearray,
        ids_start: int,
        *,
        filtered: bool,
    ) -> int:
        """Take messages of a Publish body, less duplicates; gives the position behind them.

        A malformed message raises `MalformedFrame`; messages before it may have been taken.
        """
        position = start
        while True:
            position, taken = self.add_some_published(
                body, position, end, count, publisher, ids, ids_start, filtered=filtered
            )
            count -= taken
            if not count:
                return position
            ids_start += 8 * taken

    def add_some_published(
        self,
        body: Buffer,
        start: int,
        end: int,
        count: int,
        publisher: Publisher | None,
        ids: bytearray,
        ids_start: int,
        *,
        filtered: bool,
    ) -> tuple[int, int]:
        """Take as many of the messages as go into one gathering; gives the position behind them, and their number.

        That is one at least, unless `count` is none. A malformed message raises `MalformedFrame` if it is the first,
        one that the log does not take `InvalidCloudEvent`. Duplicates are taken, and not stored.
        """
        admission = self.admission
        if admission is not None:
            count = min(count, admission.block)
        if end - start > min(self.settings.chunk_data_bytes_max, self.settings.entry_bytes_max):
            self._check_entry_sizes(body, start, end, count, filtered)
        values = filter_values(body, start, end, count) if filtered else None
        self._keep_apart(is_filtered=values is not None and any(values))
        last_sequence = _last_sequence(publisher)

        gathering, copied = self._gather(body, start, end, filtered, ids, ids_start, last_sequence, count)
        if admission is not None and copied[2]:
            again = partial(self._gather, body, start, end, filtered, ids, ids_start)
            gathering, copied = self._admitted(admission, gathering, copied, again, last_sequence)
        position, taken, entries, records, behind, last = copied
        if entries:
            gathering.note_filter_values(values)
            if admission is not None:
                admission.taken(self.next_offset, records)
            self._took(gathering, behind - gathering.end, entries, records)
            gathering.end = behind
            if publisher is not None:
                publisher.sequence = gathering.publishers[publisher.reference] = last
        return position, taken

    def make_room_for_whole(self, spans: array[int], first: int, count: int) -> None:
        """See to it that one gathering takes all of these records; raises `EntryTooLarge` if none can."""
        size = _gathered_bytes(spans, first, count)
        if size > self.settings.chunk_data_bytes_max or count > ENTRIES_MAX:
            raise EntryTooLarge(size, self.settings.chunk_data_bytes_max)
        for number in range(first, first + count):
            if size > self.settings.entry_bytes_max < _gathered_bytes(spans, number, 1):
                raise EntryTooLarge(_gathered_bytes(spans, number, 1), self.settings.entry_bytes_max)
        self._keep_apart(is_filtered=False)
        self._with_room(size, count)

    def add_some_spans(
        self,
        buffer: Buffer,
        spans: array[int],
        first: int,
        count: int,
        publishers: Iterable[tuple[Publisher, int]] = (),
    ) -> int:
        """Take as many of the records that spans of a buffer tell of as go into one gathering; gives their number.

        That is one at least, unless `count` is none. A record that is too large raises `EntryTooLarge` if it is the
        first, one that the log does not take `InvalidCloudEvent`. Duplicates are taken, and not stored. Publishers get
        the sequences that stand beside them.
        """
        if self.admission is not None and count:
            admitted = self.admission.admit(buffer, spans, first, count)
            if admitted < 0:
                return -admitted
            count = admitted
        entry_bytes_max = self.settings.entry_bytes_max
        self._keep_apart(is_filtered=False)
        while True:
            gathering = self._open or self._start(_gathered_bytes(spans, first, count))
            taken, behind = gather_spans(
                buffer,
                spans,
                first,
                count,
                entry_bytes_max,
                gathering.buffer,
                gathering.end,
                len(gathering.buffer),
                ENTRIES_MAX - gathering.entries,
            )
            if taken:
                gathering.note_filter_values(None)
                if self.admission is not None:
                    self.admission.taken(self.next_offset, taken)
                self._took(gathering, behind - gathering.end, taken, taken)
                gathering.end = behind
                for publisher, sequence in publishers:
                    publisher.sequence = gathering.publishers[publisher.reference] = sequence
            if taken or not count:
                return taken
            size = _gathered_bytes(spans, first, 1)
            if size > entry_bytes_max:
                raise EntryTooLarge(size, entry_bytes_max)
            self._make_room(gathering, _gathered_bytes(spans, first, count), size)

    def wait(self, on_done: OnDone) -> bool:
        """Call back when all that was taken so far is durable; False if nothing is here to wait for."""
        gathering = self._open if self._open is not None and self._open.entries else None
        if gathering is None and self._complete:
            gathering = self._complete[-1]
        if gathering is None:
            return False
        gathering.waiting.append(on_done)
        return True

    def take(self, byte_count_max: int | None = None) -> list[Gathering]:
        """The oldest gatherings, up to a number of bytes but at least one; all of them without a bound."""
        if self._open is not None and self._open.entries:
            self._close(self._open)
        self._open = None
        taken = self._complete
        self._complete = []
        byte_count = 0
        for number, gathering in enumerate(taken):
            if number and byte_count_max is not None and byte_count + gathering.data_bytes > byte_count_max:
                taken, self._complete = taken[:number], taken[number:]
                break
            byte_count += gathering.data_bytes
        self.byte_count -= byte_count
        return taken

    def _gather(
        self,
        body: Buffer,
        start: int,
        end: int,
        filtered: bool,
        ids: bytearray,
        ids_start: int,
        last_sequence: int,
        count: int,
    ) -> tuple[Gathering, Copied]:
        """Copy messages behind what is in a gathering, one at least if there are any; they are not counted yet."""
        while True:
            gathering = self._open or self._start(end - start)
            copied = gather_published(
                body,
                start,
                end,
                count,
                filtered,
                last_sequence,
                gathering.buffer,
                gathering.end,
                len(gathering.buffer),
                ENTRIES_MAX - gathering.entries,
                ids,
                ids_start,
            )
            if copied[1] or not count:
                return gathering, copied
            self._make_room(gathering, end - start, _entry_span(body, start, end, filtered)[1])

    def _admitted(
        self,
        admission: Admission,
        gathering: Gathering,
        copied: Copied,
        again: Callable[[int, int], tuple[Gathering, Copied]],
        last_sequence: int,
    ) -> tuple[Gathering, Copied]:
        """Of messages that were copied those, from the first one on, that the log takes; duplicates are not copied."""
        while 0 < copied[2] < copied[1]:
            # Some are duplicates by their ids: fewer, until messages and entries are the same.
            gathering, copied = again(last_sequence, copied[1] // 2)
        entries = copied[2]
        if not entries:
            return gathering, copied
        admitted = admission.admit_entries(gathering.buffer, gathering.end, copied[4], entries)
        if admitted < 0:
            return again(_EVERYTHING_PUBLISHED, -admitted)
        if admitted < entries:
            gathering, copied = again(last_sequence, admitted)
        if admission.replacement is not None:
            return self._replaced(copied, *admission.replacement)
        return gathering, copied

    def _replaced(self, copied: Copied, entry: bytes, records: int) -> tuple[Gathering, Copied]:
        """Another entry in place of the only one that was copied."""
        if len(entry) > self.settings.entry_bytes_max:
            raise EntryTooLarge(len(entry), self.settings.entry_bytes_max)
        gathering = self._with_room(len(entry), 1)
        end = gathering.end + len(entry)
        gathering.buffer[gathering.end : end] = entry
        position, taken, _, _, _, last = copied
        return gathering, (position, taken, 1, records, end, last)

    def _check_entry_sizes(self, body: Buffer, start: int, end: int, count: int, filtered: bool) -> None:
        """Refuse a body with an entry that no chunk may hold, before any of it is taken."""
        limit = self.settings.entry_bytes_max
        position = start
        for _ in range(count):
            position, size = _entry_span(body, position, end, filtered)
            if size > limit and position + size <= end:
                raise EntryTooLarge(size, limit)
            position += size

    def _keep_apart(self, *, is_filtered: bool) -> None:
        gathering = self._open
        if (
            gathering is not None
            and gathering.entries > MIXED_ENTRIES_MAX
            and gathering.is_filtered is not is_filtered
        ):
            self._close(gathering)

    def _with_room(self, size: int, count: int) -> Gathering:
        gathering = self._open
        if gathering is not None and gathering.entries:
            full = gathering.data_bytes + size > self.settings.chunk_data_bytes_max
            if full or gathering.entries + count > ENTRIES_MAX:
                self._close(gathering)
                gathering = None
        if gathering is None:
            return self._start(size)
        gathering.grow(gathering.data_bytes + size)
        return gathering

    def _start(self, size: int) -> Gathering:
        # As large as the chunk before it became: under load a gathering then never moves, idle ones stay small.
        size = max(size, self._last_bytes, _BUFFER_BYTES_MIN)
        self._open = Gathering(self.next_offset, min(size, self.settings.chunk_data_bytes_max))
        return self._open

    def _close(self, gathering: Gathering) -> None:
        self._last_bytes = gathering.data_bytes
        self._complete.append(gathering)
        self._open = None

    def _make_room(self, gathering: Gathering, rest: int, next_entry: int) -> None:
        """The next message found no room: a larger buffer, another chunk, or one of its own size."""
        capacity = len(gathering.buffer) - CHUNK_HEADER_BYTES
        capacity_max = self.settings.chunk_data_bytes_max
        if capacity < capacity_max and gathering.entries < ENTRIES_MAX:
            gathering.grow(min(max(2 * capacity, gathering.data_bytes + rest), capacity_max))
        elif gathering.entries:
            self._close(gathering)
        else:
            gathering.grow(next_entry)

    def _took(self, gathering: Gathering, byte_count: int, entries: int, records: int) -> None:
        self.byte_count += byte_count
        gathering.entries += entries
        gathering.records += records
        self.next_offset += records


def _last_sequence(publisher: Publisher | None) -> int:
    if publisher is None:
        return UNNAMED
    return publisher.sequence if publisher.sequence >= 0 else NOTHING_PUBLISHED


def _gathered_bytes(spans: array[int], first: int, count: int) -> int:
    """What the entries of so many records take."""
    start, end = SPAN_FIELDS * first, SPAN_FIELDS * (first + count)
    starts, ends = sum(spans[start:end:2]), sum(spans[start + 1 : end : 2])
    return 4 * count + ends - starts


def _entry_span(body: Buffer, position: int, end: int, filtered: bool) -> tuple[int, int]:
    """Position and bytes of the entry of the message at a position, as far as its lengths can be read."""
    position += 8
    if filtered and position + 2 <= end:
        length = int.from_bytes(body[position : position + 2], "big", signed=True)
        position += 2 + max(length, 0)
    if end - position < 11:
        return position, 4
    if body[position] < 0x80:
        return position, 4 + int.from_bytes(body[position : position + 4], "big")
    return position, 11 + int(_LENGTHS.unpack_from(body, position + 1)[2])
