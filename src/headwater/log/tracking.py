"""Publisher sequences and stored offsets of a partition: as gathered, and as committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors import ReferenceTooLong, TooManyOffsets

__all__ = ["KEY_PREFIX", "REFERENCE_BYTES_MAX", "Publisher", "Tracking"]

REFERENCE_BYTES_MAX = 255
KEY_PREFIX = b"\x00key:"
"""References that begin so stand for one append each, and have bounds of their own: they take no room of publishers."""


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

    __slots__ = (
        "_entries_max",
        "_expiry_ms",
        "_keys",
        "_keys_expiry_ms",
        "_keys_max",
        "_offsets",
        "_publishers",
        "unwritten",
    )

    def __init__(
        self, entries_max: int, expiry_ms: int, keys_max: int = 0, keys_expiry_ms: int | None = None
    ) -> None:
        """Without bounds for keys, these are the same as for publishers."""
        self._entries_max = entries_max
        self._expiry_ms = expiry_ms
        self._keys_max = keys_max or entries_max
        self._keys_expiry_ms = expiry_ms if keys_expiry_ms is None else keys_expiry_ms
        self._publishers: dict[bytes, Publisher] = {}
        self._keys: dict[bytes, Publisher] = {}
        """Those whose references begin with `KEY_PREFIX`."""
        self._offsets: dict[bytes, tuple[int, int]] = {}
        """Those on disk, each with the time of its last use."""
        self.unwritten: dict[bytes, int] = {}
        """Offsets that were stored and stand in no chunk yet."""

    def publisher(self, reference: bytes) -> Publisher:
        """The publisher of a reference, made if it is new."""
        publishers = self._like(reference)
        found = publishers.get(reference)
        if found is None:
            check_reference(reference)
            found = publishers[reference] = Publisher(reference)
        return found

    def forget(self, publisher: Publisher) -> None:
        """Nothing of this publisher was taken, so it need not be remembered."""
        del self._like(publisher.reference)[publisher.reference]

    @property
    def crowded(self) -> bool:
        """Whether a snapshot is due because far more references came than may be kept."""
        offsets = len(self._offsets) + len(self.unwritten)
        return (
            max(len(self._publishers), offsets) > self._entries_max * 5 // 4 + 16
            or len(self._keys) > self._keys_max * 5 // 4 + 16
        )

    def sequence(self, reference: bytes) -> int | None:
        """The last publishing id on disk, or None."""
        found = self._like(reference).get(reference)
        return None if found is None or found.committed < 0 else found.committed

    def gathered_sequence(self, reference: bytes) -> int | None:
        """The last publishing id that was taken, on disk or on its way there, or None."""
        found = self._like(reference).get(reference)
        return None if found is None or found.sequence < 0 else found.sequence

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
        for publishers in (self._publishers, self._keys):
            for reference, publisher in list(publishers.items()):
                publisher.sequence = publisher.committed
                if publisher.committed < 0:
                    del publishers[reference]

    def snapshot(self, now_ms: int) -> tuple[dict[bytes, tuple[int, int]], dict[bytes, tuple[int, int]]]:
        """What is on disk, less what expired or exceeds the bound, which is forgotten."""
        kept_publishers = self._snapshot_of(self._publishers, now_ms, self._entries_max, self._expiry_ms)
        kept_publishers |= self._snapshot_of(self._keys, now_ms, self._keys_max, self._keys_expiry_ms)
        kept_offsets = _kept(self._offsets, now_ms, self._entries_max, self._expiry_ms)
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

    def _like(self, reference: bytes) -> dict[bytes, Publisher]:
        return self._keys if reference.startswith(KEY_PREFIX) else self._publishers

    def _snapshot_of(
        self, publishers: dict[bytes, Publisher], now_ms: int, entries_max: int, expiry_ms: int
    ) -> dict[bytes, tuple[int, int]]:
        on_disk = {p.reference: (p.committed, p.used_ms) for p in publishers.values() if p.committed >= 0}
        kept = _kept(on_disk, now_ms, entries_max, expiry_ms)
        for reference in on_disk.keys() - kept.keys():
            forgotten = publishers[reference]
            if forgotten.sequence == forgotten.committed:
                del publishers[reference]
        return kept


def _kept(
    values: dict[bytes, tuple[int, int]], now_ms: int, entries_max: int, expiry_ms: int
) -> dict[bytes, tuple[int, int]]:
    kept = {r: v for r, v in values.items() if v[1] > now_ms - expiry_ms}
    if len(kept) > entries_max:
        newest = sorted(kept.items(), key=lambda item: item[1][1], reverse=True)
        kept = dict(newest[:entries_max])
    return kept


def check_reference(reference: bytes) -> None:
    """Refuse a reference that no trailer can hold."""
    if not 1 <= len(reference) <= REFERENCE_BYTES_MAX:
        raise ReferenceTooLong(len(reference))
