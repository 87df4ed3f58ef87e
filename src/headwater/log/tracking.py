"""Publisher sequences and stored offsets of a partition: as gathered, and as committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors import ReferenceTooLong, TooManyOffsets

__all__ = ["REFERENCE_BYTES_MAX", "Publisher", "Tracking"]

REFERENCE_BYTES_MAX = 255


class Publisher:
    """The last publishing id of one reference; -1 before the first."""

    __slots__ = ("committed", "reference", "sequence", "used_ms")

    def __init__(self, reference: bytes) -> None:
        self.reference = reference
        self.sequence = -1
        """Of what was gathered: a lower or equal id is a duplicate."""
        self.committed = -1
        """Of what is on disk: to this it goes back when a commit fails."""
        self.used_ms = 0


class Tracking:
    """What a partition remembers by reference, bounded in number and age."""

    __slots__ = ("_entries_max", "_expiry_ms", "_offsets", "_publishers", "unwritten")

    def __init__(self, entries_max: int, expiry_ms: int) -> None:
        self._entries_max = entries_max
        self._expiry_ms = expiry_ms
        self._publishers: dict[bytes, Publisher] = {}
        self._offsets: dict[bytes, tuple[int, int]] = {}
        """Those on disk, each with the time of its last use."""
        self.unwritten: dict[bytes, int] = {}
        """Offsets that were stored and stand in no chunk yet."""

    def publisher(self, reference: bytes) -> Publisher:
        """The publisher of a reference, made if it is new."""
        found = self._publishers.get(reference)
        if found is None:
            check_reference(reference)
            found = self._publishers[reference] = Publisher(reference)
        return found

    def forget(self, publisher: Publisher) -> None:
        """Nothing of this publisher was taken, so it need not be remembered."""
        del self._publishers[publisher.reference]

    @property
    def crowded(self) -> bool:
        """Whether a snapshot is due because far more references came than may be kept."""
        offsets = len(self._offsets) + len(self.unwritten)
        return max(len(self._publishers), offsets) > self._entries_max * 5 // 4 + 16

    def sequence(self, reference: bytes) -> int | None:
        """The last publishing id on disk, or None."""
        found = self._publishers.get(reference)
        return None if found is None or found.committed < 0 else found.committed

    def store_offset(self, reference: bytes, offset: int) -> None:
        """Remember an offset; it is written with the next chunk."""
        check_reference(reference)
        if len(self.unwritten) >= self._entries_max and reference not in self.unwritten:
            raise TooManyOffsets(self._entries_max)
        self.unwritten[reference] = offset

    def stored_offset(self, reference: bytes) -> int | None:
        """The last offset stored under a reference that is on disk, or None."""
        found = self._offsets.get(reference)
        return None if found is None else found[0]

    def committed(self, publishers: Mapping[bytes, int], offsets: Mapping[bytes, int], now_ms: int) -> None:
        """A chunk with these updates is on disk."""
        for reference, sequence in publishers.items():
            publisher = self.publisher(reference)
            publisher.committed = sequence
            publisher.used_ms = now_ms
            if publisher.sequence < sequence:
                publisher.sequence = sequence
        for reference, offset in offsets.items():
            self._offsets[reference] = (offset, now_ms)

    def give_back(self, updates: Iterable[Mapping[bytes, int]]) -> None:
        """A commit with these stored offsets failed: they wait for the next chunk again."""
        again: dict[bytes, int] = {}
        for update in updates:
            again.update(update)
        self.unwritten = again | self.unwritten

    def roll_back(self) -> None:
        """What was gathered is refused: the sequences are those on disk again."""
        for reference, publisher in list(self._publishers.items()):
            publisher.sequence = publisher.committed
            if publisher.committed < 0:
                del self._publishers[reference]

    def snapshot(self, now_ms: int) -> tuple[dict[bytes, tuple[int, int]], dict[bytes, tuple[int, int]]]:
        """What is on disk, less what expired or exceeds the bound, which is forgotten."""
        publishers = {
            p.reference: (p.committed, p.used_ms) for p in self._publishers.values() if p.committed >= 0
        }
        kept_publishers = self._kept(publishers, now_ms)
        kept_offsets = self._kept(self._offsets, now_ms)
        for reference in publishers.keys() - kept_publishers.keys():
            forgotten = self._publishers[reference]
            if forgotten.sequence == forgotten.committed:
                del self._publishers[reference]
        self._offsets = dict(kept_offsets)
        return kept_publishers, kept_offsets

    def restore(
        self, publishers: Mapping[bytes, tuple[int, int]], offsets: Mapping[bytes, tuple[int, int]]
    ) -> None:
        """Take over what a snapshot held."""
        for reference, (sequence, used_ms) in publishers.items():
            self.committed({reference: sequence}, {}, used_ms)
        for reference, (offset, used_ms) in offsets.items():
            self.committed({}, {reference: offset}, used_ms)

    def replay(
        self, publishers: Mapping[bytes, int], offsets: Mapping[bytes, int], timestamp_ms: int
    ) -> None:
        """Take over the updates of a chunk that recovery read."""
        self.committed(publishers, offsets, timestamp_ms)

    def _kept(self, values: dict[bytes, tuple[int, int]], now_ms: int) -> dict[bytes, tuple[int, int]]:
        kept = {r: v for r, v in values.items() if v[1] > now_ms - self._expiry_ms}
        if len(kept) > self._entries_max:
            newest = sorted(kept.items(), key=lambda item: item[1][1], reverse=True)
            kept = dict(newest[: self._entries_max])
        return kept


def check_reference(reference: bytes) -> None:
    """Refuse a reference that no trailer can hold."""
    if not 1 <= len(reference) <= REFERENCE_BYTES_MAX:
        raise ReferenceTooLong(len(reference))
