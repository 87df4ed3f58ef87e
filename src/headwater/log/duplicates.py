"""CloudEvents that come again: by source and id, within a window of a partition bounded by count and time.

The window holds no more than what the newest events of the partition say, so it is not written: at open it is made of
them again. What is not durable yet is in it, too, and leaves it when its commit fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NewType

from headwater.cloudevents.stored import StoredAttributes
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.chunk import ReadableBuffer

__all__ = ["Digest", "DuplicateWindow", "digests_of"]

Digest = NewType("Digest", bytes)
"""Of source and id: two events with the same one are taken for one."""
_DIGEST_BYTES = 16


class DuplicateWindow:
    """The digests of the newest events of a partition, with their offsets."""

    def __init__(self, count_max: int, age_ms_max: int, now_ms: Callable[[], int]) -> None:
        self._count_max = count_max
        self._age_ms_max = age_ms_max
        self._now_ms = now_ms
        self._offsets: dict[Digest, int] = {}
        self._order: deque[Digest] = deque()
        """In order of offset."""
        self._times: deque[tuple[int, int]] = deque()
        """Up to which offset events came until which time."""

    def __len__(self) -> int:
        return len(self._order)

    def offset_of(self, digest: Digest) -> int | None:
        """Where the event is that has this digest; None if none has."""
        return self._offsets.get(digest)

    def change(self, count_max: int, age_ms_max: int) -> None:
        """Go on with other bounds."""
        self._count_max, self._age_ms_max = count_max, age_ms_max

    def leading(self, digests: Sequence[Digest | None]) -> tuple[int, int]:
        """How many of the first ones are new, to the window and to those before them; if none, how many are known."""
        self._expire()
        seen: set[Digest] = set()
        known = 0
        for number, digest in enumerate(digests):
            if digest is not None and (digest in self._offsets or digest in seen):
                if number > known:
                    return number, 0
                known += 1
            elif known:
                return 0, known
            elif digest is not None:
                seen.add(digest)
        return (0, known) if known else (len(digests), 0)

    def new_among(self, digests: Sequence[Digest | None]) -> list[int]:
        """The numbers of those that are new, to the window and to those before them."""
        self._expire()
        seen: set[Digest] = set()
        kept = []
        for number, digest in enumerate(digests):
            if digest is not None:
                if digest in self._offsets or digest in seen:
                    continue
                seen.add(digest)
            kept.append(number)
        return kept

    def add(self, first_offset: int, digests: Sequence[Digest | None], now_ms: int | None = None) -> None:
        """These events are appended, or were at another time, from an offset on."""
        for offset, digest in enumerate(digests, first_offset):
            if digest is not None and digest not in self._offsets:
                self._offsets[digest] = offset
                self._order.append(digest)
        now_ms = self._now_ms() if now_ms is None else now_ms
        end = first_offset + len(digests)
        if self._times and self._times[-1][1] >= now_ms:
            self._times[-1] = end, self._times[-1][1]
        else:
            self._times.append((end, now_ms))
        while len(self._order) > self._count_max:
            del self._offsets[self._order.popleft()]

    def go_back(self, end_offset: int) -> None:
        """What is at this offset and behind it was not stored."""
        while self._order and self._offsets[self._order[-1]] >= end_offset:
            del self._offsets[self._order.pop()]
        while self._times and self._times[-1][0] > end_offset:
            _, ms = self._times.pop()
            if not self._times or self._times[-1][0] < end_offset:
                self._times.append((end_offset, ms))

    def forget_before(self, offset: int) -> None:
        """What is before this offset is no longer in the partition."""
        while self._order and self._offsets[self._order[0]] < offset:
            del self._offsets[self._order.popleft()]

    def first_time_ms(self) -> int:
        """What came before this time is not in the window."""
        return self._now_ms() - self._age_ms_max

    @property
    def count_max(self) -> int:
        """So many events are in the window at most."""
        return self._count_max

    def _expire(self) -> None:
        first_ms = self.first_time_ms()
        while self._times and self._times[0][1] < first_ms:
            end, _ = self._times.popleft()
            self.forget_before(end)


def digests_of(buffer: ReadableBuffer, spans: Sequence[int], first: int, count: int) -> list[Digest | None]:
    """Of `count` messages from the `first` one on, whose spans are those of `_span_kernel`; None for no event."""
    attributes = StoredAttributes(b"", 0, 0)
    attributes.open(buffer, 0, 0)
    digests = []
    for at in range(SPAN_FIELDS * first, SPAN_FIELDS * (first + count), SPAN_FIELDS):
        attributes.move(spans[at + 2], spans[at + 3])
        digests.append(_digest_of(attributes))
    return digests


def _digest_of(attributes: StoredAttributes) -> Digest | None:
    source, id_ = attributes.get("source"), attributes.get("id")
    if not isinstance(source, str) or not isinstance(id_, str):
        return None
    # Neither has control characters.
    text = f"{source}\0{id_}".encode("utf-8", "replace")
    return Digest(blake2b(text, digest_size=_DIGEST_BYTES).digest())
