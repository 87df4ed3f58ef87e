"""A cursor on one partition: what is settled, what consumers hold unsettled, and what is to be delivered again.

Durable termini, topic subscriptions and consumer groups stand on it. Every offset below `next_offset` is in one state;
those above it were never handed out.

    not handed out ── take ──> unsettled, with a consumer ── accepted, rejected ──> settled (nothing is kept of it)
                                 ^                    │
                                take           released, failed, the consumer vanished
                                 │                    v
                                 └───────────────── due ── failed too often ──> dead letter ── written ──> settled

Nothing is kept per message, only ranges; what is in none of them is settled. The low-water mark is the first offset
that is not. For the shell:

- `take` gives runs to send, due ones first; `settle` what came of them; `vanish` when a link is gone. A filter that
  says no is an `ACCEPTED` of the shell's own; what could not be sent after all is `RELEASED`.
- Each change of what is settled raises `sequence`, which `settle` gives back. Every `cursor_flush_ms` the shell puts
  the value of `begin_flush` into `$state`, and tells `flushed`: a settlement is durable when `durable_sequence` has
  reached what its `settle` gave. With receiver-settle-mode second ours goes out then.
- `take_dead_letters` gives what the shell appends to the dead-letter log, and then tells to be `dead_letters_written`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import Generic, TypeVar

import msgspec

from headwater.encoding.ranges import IdRange, IdRanges, RangeBudget
from headwater.engine.cursor_record import (
    RECORD_OTHERS_MAX,
    RECORD_RANGES_MAX,
    Position,
    encode_position,
)
from headwater.engine.delivery import DeadLetter, Outcome, Reason, Run
from headwater.engine.delivery_counts import DeliveryCounts

__all__ = ["DEFAULT_LIMITS", "RUNS_MAX", "Cursor", "CursorLimits", "Flush"]

RUNS_MAX = 1_024
"""Ranges that one `take` gives at most; there may be more."""

C = TypeVar("C", bound=Hashable)


class CursorLimits(msgspec.Struct, frozen=True):
    """What a cursor may cost, and what becomes of messages that nobody takes."""

    ranges_max: int = RECORD_RANGES_MAX
    """With so many ranges nothing new is handed out, until settling in between has joined a quarter of them."""
    unsettled_max: int = 1 << 20
    """Messages that consumers may hold unsettled together."""
    delivery_count_max: int | None = None
    """A message whose delivery count goes beyond is a dead letter; none without a log for them."""
    keeps_rejected: bool = False
    """Whether a rejected message is a dead letter, and not just settled."""


DEFAULT_LIMITS = CursorLimits()


class Flush(msgspec.Struct, frozen=True):
    """A value to put into `$state`."""

    sequence: int
    value: bytes
    is_complete: bool
    """Whether all that is settled is in it; else nothing is promised by it that was not before."""


class Cursor(Generic[C]):
    """Where the consumers of one terminus, subscription or group stand on one partition."""

    __slots__ = (
        "_barred",
        "_begun",
        "_budget",
        "_changed",
        "_counts",
        "_dead",
        "_due",
        "_due_count",
        "_retained_from",
        "_unsettled",
        "_unsettled_count",
        "_written",
        "durable_sequence",
        "key",
        "limits",
        "lost_count",
        "next_offset",
        "sequence",
    )

    def __init__(
        self,
        offset: int,
        limits: CursorLimits | None = None,
        key: bytes = b"",
        changed: set[Cursor[C]] | None = None,
    ) -> None:
        self.limits = limits or DEFAULT_LIMITS
        self.key = key
        """Of its record."""
        self._changed = changed
        self.next_offset = offset
        """Of the message that is handed out for the first time next."""
        self.lost_count = 0
        """Messages that retention took before they were settled."""
        self.sequence = 1
        """Counts changes that a restart must not undo; a new cursor is one."""
        self.durable_sequence = 0
        """Of the last change that is on disk."""
        self._begun = 0
        self._budget = RangeBudget(self.limits.ranges_max)
        self._unsettled: dict[C, IdRanges] = {}
        self._unsettled_count = 0
        self._barred: dict[C, IdRanges] = {}
        """What a consumer said that it cannot take (`undeliverable-here`)."""
        self._due = IdRanges(self._budget)
        self._due_count = 0
        self._dead: dict[Reason, IdRanges] = {}
        self._written: IdRanges = IdRanges(self._budget)
        """Dead letters that the shell is writing."""
        self._counts = DeliveryCounts(self._budget)
        self._retained_from = 0
        if changed is not None:
            changed.add(self)

    @classmethod
    def restored(
        cls,
        position: Position,
        end: int,
        limits: CursorLimits | None = None,
        key: bytes = b"",
        changed: set[Cursor[C]] | None = None,
    ) -> Cursor[C]:
        """A cursor as it was flushed; the partition ends at `end`, and what is not settled comes again.

        A partition whose log confirms from memory may have lost its last messages: what is beyond `end` is no longer
        settled, because other messages will stand there; this is flushed before they can be taken for settled again.
        """
        cursor: Cursor[C] = cls(min(position.low, end), limits, key, changed)
        cursor.lost_count = position.lost_count
        low = cursor.next_offset
        known = IdRanges()
        for first, stop in position.settled:
            known.add(first, min(stop, end))
        for first, stop in position.rejected:
            known.add(first, min(stop, end))
            if cursor.limits.keeps_rejected:
                cursor._dies(first, min(stop, end), Reason.REJECTED)
        for first, stop, count in position.raised:
            cursor._counts.set(first, min(stop, end), count)
        stops = [position.low, *(run[1] for run in (*position.settled, *position.rejected, *position.raised))]
        cursor.next_offset = min(max(stops), end)
        for run in known.missing(low, cursor.next_offset):
            cursor._again(*run)
        if max(stops) <= end:
            cursor.durable_sequence = cursor._begun = cursor.sequence
            if changed is not None:
                changed.discard(cursor)
        return cursor

    # Where it stands

    @property
    def low(self) -> int:
        """The low-water mark: the first offset that is not settled. Retention holds from here on."""
        firsts = [ranges.first for ranges in self._pending()]
        return min([self.next_offset, *(first for first in firsts if first is not None)])

    @property
    def is_durable(self) -> bool:
        """Whether it is flushed; one that is no more is not, either."""
        return self._changed is not None

    @property
    def unsettled_count(self) -> int:
        """Messages that consumers hold."""
        return self._unsettled_count

    @property
    def due_count(self) -> int:
        """Messages that are to be delivered again."""
        return self._due_count

    @property
    def dead_letter_count(self) -> int:
        """Messages that are to go to the dead-letter log, and are not there yet."""
        return sum(ranges.count for ranges in self._dead.values())

    @property
    def range_count(self) -> int:
        """Ranges, which is what the cursor costs."""
        return self._budget.count

    @property
    def is_fragmented(self) -> bool:
        """Whether nothing new is handed out, because the gaps between what is settled are too many."""
        return self._budget.is_full

    def holds_any(self, consumer: C) -> bool:
        """Whether a consumer holds something."""
        return bool(self._unsettled.get(consumer))

    def has_room_again(self) -> bool:
        """Whether it is no longer fragmented: said once, for consumers that had to wait."""
        return self._budget.has_room_again()

    def unsettled(self, consumer: C) -> list[IdRange]:
        """What a consumer holds."""
        return list(self._unsettled.get(consumer, ()))

    def held_counts(self) -> Iterator[tuple[C, int]]:
        """Consumers that hold messages, and how many."""
        return ((consumer, held.count) for consumer, held in self._unsettled.items())

    def available(self, end: int) -> int:
        """Messages of a partition that ends at `end` which could be handed out to somebody."""
        return self._due_count + max(end - self.next_offset, 0)

    def lag(self, end: int) -> int:
        """Messages of a partition that ends at `end` which are not settled."""
        return self._unsettled_count + self.available(end) + self.dead_letter_count

    # Deliveries

    def take(self, consumer: C, count_max: int, end: int) -> list[Run]:
        """Hand out up to so many messages of a partition that ends at `end`: due ones first, each part in order."""
        ranges: list[IdRange] = []
        for first, stop in self._due_for(consumer):
            if count_max <= 0:
                break
            ranges.append((first, min(stop, first + count_max)))
            count_max -= ranges[-1][1] - first
            self._due_count -= ranges[-1][1] - first
        for run in ranges if consumer in self._barred else [(ranges[0][0], ranges[-1][1])] if ranges else []:
            self._due.take(*run)
        room = self.limits.unsettled_max - self._unsettled_count - sum(stop - first for first, stop in ranges)
        count = min(count_max, end - self.next_offset, room)
        if count > 0 and not self._budget.is_full and len(ranges) < RUNS_MAX:
            ranges.append((self.next_offset, self.next_offset + count))
            self.next_offset += count
        if not ranges:
            return []
        held = self._unsettled.get(consumer)
        if held is None:
            held = self._unsettled[consumer] = IdRanges(self._budget)
        runs = []
        for first, stop in ranges:
            held.add(first, stop)
            self._unsettled_count += stop - first
            runs += [Run(*counted) for counted in self._counts.within(first, stop)]
        return runs

    def settle(
        self, consumer: C, first: int, end: int, outcome: Outcome, *, is_undeliverable_here: bool = False
    ) -> int:
        """What became of offsets that a consumer holds; others change nothing. Durable with the sequence it gives."""
        held = self._unsettled.get(consumer)
        taken = [] if held is None else held.take(first, end)
        if not taken:
            return self.sequence
        if not held:
            del self._unsettled[consumer]
        for one, other in taken:
            self._unsettled_count -= other - one
            if outcome is Outcome.ACCEPTED or (
                outcome is Outcome.REJECTED and not self.limits.keeps_rejected
            ):
                self._is_done(one, other)
            elif outcome is Outcome.REJECTED:
                self._dies(one, other, Reason.REJECTED)
            else:
                if is_undeliverable_here:
                    self._bar(consumer, one, other)
                if outcome is Outcome.FAILED:
                    self._counts.increase(one, other)
                self._again(one, other)
        if outcome is not Outcome.RELEASED:
            self._change()
        return self.sequence

    def vanish(self, consumer: C) -> int:
        """A consumer is gone: all that it held is due again, its delivery counts raised; gives how many."""
        barred = self._barred.pop(consumer, None)
        if barred is not None:
            barred.clear()
        held = self._unsettled.get(consumer, IdRanges())
        count = held.count
        while portion := list(islice(held, RUNS_MAX)):
            self.settle(consumer, portion[0][0], portion[-1][1], Outcome.FAILED)
        if not self._unsettled:
            self._unsettled.clear()  # which gives its memory back: most cursors are idle
        return count

    # Dead letters

    @property
    def has_dead_letters(self) -> bool:
        """Whether `take_dead_letters` gives any."""
        return any(self._written.missing(*run) for ranges in self._dead.values() for run in ranges)

    def take_dead_letters(self, count_max: int) -> list[DeadLetter]:
        """What is to be appended to the dead-letter log, up to so many messages."""
        found: list[DeadLetter] = []
        for reason, ranges in self._dead.items():
            for first, end in ranges:
                for one, other in self._written.missing(first, end):
                    if count_max <= 0 or len(found) >= RUNS_MAX:
                        break
                    stop = min(other, one + count_max)
                    count_max -= stop - one
                    for low, high, count in self._counts.within(one, stop):
                        found.append(DeadLetter(low, high, reason, count))
        for letter in found:
            self._written.add(letter.first, letter.end)
        return found

    def dead_letters_written(self, first: int, end: int) -> int:
        """Dead letters are durable in their log, and so are settled here. Durable with the sequence it gives."""
        for one, other in self._written.take(first, end):
            for ranges in self._dead.values():
                ranges.take(one, other)
            self._is_done(one, other)
            self._change()
        self._forget_empty_reasons()
        return self.sequence

    def dead_letters_failed(self, first: int, end: int) -> None:
        """Dead letters could not be written: they are handed out again."""
        for one, other in self._written.take(first, end):
            self._lose_dead(one, min(other, self._retained_from))

    # Retention, and operators

    def overtake(self, first_retained: int) -> int:
        """Retention took all messages before this offset; gives how many of them were lost by it.

        What a consumer holds is lost only if it gives it back.
        """
        self._retained_from = max(self._retained_from, first_retained)
        before = self.lost_count
        self._lose(self.next_offset, first_retained)
        self.next_offset = max(self.next_offset, first_retained)
        for first, end in self._due.take(0, first_retained):
            self._due_count -= end - first
            self._lose(first, end)
        dead = [run for ranges in self._dead.values() for run in ranges.within(0, first_retained)]
        for run in chain.from_iterable(self._written.missing(*each) for each in dead):
            self._lose_dead(*run)
        return self.lost_count - before

    def reset(self, offset: int) -> None:
        """Go on from another offset, as if everything before it were settled, and nothing behind it."""
        for ranges in chain(self._pending(), self._barred.values(), [self._written]):
            ranges.clear()
        self._unsettled.clear()
        self._dead.clear()
        self._barred.clear()
        self._counts.clear()
        self._unsettled_count = self._due_count = 0
        self.next_offset = max(offset, self._retained_from)
        self._change()

    # To `$state`

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to flush that is not under way."""
        return self._begun < self.sequence

    def position(self, ranges_max: int | None = None, others_max: int | None = None) -> Position:
        """What a restart is to find; of settled ranges and of each other kind so many at most, the lowest first."""
        settled = tuple(islice(self._settled(), ranges_max))
        rejected = tuple(islice(self._dead.get(Reason.REJECTED, ()), others_max))
        raised = tuple(islice(self._counts, others_max))
        return Position(self.low, settled, rejected, raised, self.lost_count)

    def begin_flush(self) -> Flush | None:
        """The value to write now, if there is news."""
        if not self.is_dirty:
            return None
        self._begun = self.sequence
        position = self.position(RECORD_RANGES_MAX + 1, RECORD_OTHERS_MAX + 1)
        is_complete = (
            len(position.settled) <= RECORD_RANGES_MAX and len(position.rejected) <= RECORD_OTHERS_MAX
        )
        written = msgspec.structs.replace(
            position,
            settled=position.settled[:RECORD_RANGES_MAX],
            rejected=position.rejected[:RECORD_OTHERS_MAX],
            raised=position.raised[:RECORD_OTHERS_MAX],
        )
        return Flush(self.sequence, encode_position(written), is_complete)

    def flushed(self, flush: Flush) -> None:
        """A value is on disk."""
        if flush.is_complete:
            self.durable_sequence = max(self.durable_sequence, flush.sequence)

    def flush_failed(self) -> None:
        """A value could not be written: it is to be flushed anew."""
        self._begun = self.durable_sequence
        if self._changed is not None:
            self._changed.add(self)

    def let_go(self) -> None:
        """Its owner is gone: nothing of it is flushed any more."""
        if self._changed is not None:
            self._changed.discard(self)
            self._changed = None

    def _change(self) -> None:
        self.sequence += 1
        if self._changed is not None:
            self._changed.add(self)

    # What happens to ranges

    def _pending(self) -> Iterator[IdRanges]:
        return chain(self._unsettled.values(), self._dead.values(), [self._due])

    def _settled(self) -> Iterator[IdRange]:
        """What is settled above the low-water mark."""
        before: int | None = None
        for first, end in merge(*self._pending(), [(self.next_offset, self.next_offset)]):
            if before is not None and before < first:
                yield before, first
            before = end

    def _due_for(self, consumer: C) -> list[IdRange]:
        barred = self._barred.get(consumer)
        if barred is None:
            return list(islice(self._due, RUNS_MAX))
        runs = chain.from_iterable(barred.missing(first, end) for first, end in self._due)
        return list(islice(runs, RUNS_MAX))

    def _again(self, first: int, end: int) -> None:
        """Messages are due, unless they failed too often or are there no longer."""
        gone = self._lose_gone(first, end)
        most = self.limits.delivery_count_max
        for one, other, count in self._counts.within(gone, end):
            if most is not None and count > most:
                self._dies(one, other, Reason.DELIVERY_COUNT)
            else:
                self._due.add(one, other)
                self._due_count += other - one

    def _dies(self, first: int, end: int, reason: Reason) -> None:
        first = self._lose_gone(first, end)
        if first == end:
            return
        if reason not in self._dead:
            self._dead[reason] = IdRanges(self._budget)
        self._dead[reason].add(first, end)

    def _bar(self, consumer: C, first: int, end: int) -> None:
        """Remember what is not for a consumer; when that would cost too much, it may see it again."""
        if self._budget.is_full:
            return
        if consumer not in self._barred:
            self._barred[consumer] = IdRanges(self._budget)
        self._barred[consumer].add(first, end)

    def _is_done(self, first: int, end: int) -> None:
        self._counts.forget(first, end)
        for ranges in self._barred.values():
            ranges.take(first, end)

    def _lose_gone(self, first: int, end: int) -> int:
        """What retention took is lost; gives where the rest begins."""
        gone = min(max(self._retained_from, first), end)
        self._lose(first, gone)
        return gone

    def _lose(self, first: int, end: int) -> None:
        if first < end:
            self._is_done(first, end)
            self.lost_count += end - first
            self._change()

    def _lose_dead(self, first: int, end: int) -> None:
        for ranges in self._dead.values():
            ranges.take(first, end)
        self._lose(first, end)
        self._forget_empty_reasons()

    def _forget_empty_reasons(self) -> None:
        for reason in [reason for reason, ranges in self._dead.items() if not ranges]:
            del self._dead[reason]
