"""Inodes of a simulated disk: what the page cache shows, what the platter holds, and what a crash makes of the two."""

from __future__ import annotations

from enum import Enum
from random import Random

__all__ = ["PAGE_BYTES", "SECTOR_BYTES", "Change", "FileNode", "FolderNode", "Node", "Survival"]

PAGE_BYTES = 4096
SECTOR_BYTES = 512


class Survival(Enum):
    """How much of what was not synced outlives a crash."""

    NOTHING = "nothing"
    SOME = "some"
    EVERYTHING = "everything"

    @classmethod
    def choose(cls, rng: Random) -> Survival:
        """Each of the two extremes in one crash out of five."""
        return rng.choices(list(cls), (0.2, 0.6, 0.2))[0]


class FileNode:
    """A file: `image` is what reads see, `platter` what is durable, `lost` the pages a failed sync gave up."""

    __slots__ = ("image", "lost", "platter")

    def __init__(self, content: bytearray | None = None) -> None:
        self.image = bytearray() if content is None else content
        self.platter = bytearray(self.image)
        self.lost: set[int] = set()

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Put `data` into the image; its pages are dirty again, those a failed sync gave up included."""
        if not data:
            return
        if position > len(self.image):
            self.image.extend(bytes(position - len(self.image)))
        end = position + len(data)
        self.image[position:end] = data
        if self.lost:
            self.lost.difference_update(range(position // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1))

    def truncate(self, size: int) -> None:
        """Cut the image, or fill it up with zeros."""
        if size > len(self.image):
            self.image.extend(bytes(size - len(self.image)))
        del self.image[size:]
        self.lost = {page for page in self.lost if page * PAGE_BYTES < size}

    def sync(self) -> None:
        """Length and dirty pages are durable; pages that an earlier failed sync gave up are not."""
        self.platter = self._synced()

    def fail_sync(self, rng: Random) -> None:
        """Some pages reach the platter, all are clean afterwards: no later sync will write the others."""
        self.write_back(rng)
        self.lost.update(self._differing_pages(self.platter))

    def write_back(self, rng: Random) -> None:
        """What the kernel writes when it likes: some pages, and perhaps the length."""
        self.platter = self._mixed(rng)

    def evict(self, rng: Random) -> None:
        """The cache drops some clean pages; those a failed sync gave up show what the platter holds."""
        for page in sorted(self.lost):
            if rng.random() < 0.5:
                start, end = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, len(self.image))
                self.image[start:end] = _padded(self.platter[start:end], end - start)
                self.lost.discard(page)

    def after_crash(self, rng: Random, survival: Survival) -> FileNode:
        """The file as a machine finds it when it starts again."""
        if self.image == self.platter or survival is Survival.NOTHING:
            return FileNode(bytearray(self.platter))
        if survival is Survival.EVERYTHING:
            return FileNode(self._synced())
        return FileNode(self._mixed(rng))

    def damage(self, position: int, mask: int) -> None:
        """Flip bits of one byte where it is durable: what no crash may do."""
        self.image[position] ^= mask
        if position < len(self.platter):
            self.platter[position] ^= mask

    def cut(self, size: int) -> None:
        """Lose the end, durably: what no crash may do."""
        del self.image[size:]
        del self.platter[size:]

    def _synced(self) -> bytearray:
        fresh = bytearray(self.image)
        for page in self.lost:
            start, end = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, len(fresh))
            fresh[start:end] = _padded(self.platter[start:end], end - start)
        return fresh

    def _mixed(self, rng: Random) -> bytearray:
        low, high = sorted((len(self.platter), len(self.image)))
        length = rng.choice((low, high, rng.randint(low, high)))
        mixed = _padded(self.platter[:length], length)
        for page in self._differing_pages(mixed):
            if page not in self.lost:
                start, end = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, length)
                mixed[start:end] = _torn(rng, bytes(mixed[start:end]), bytes(self.image[start:end]))
        return mixed

    def _differing_pages(self, other: bytearray) -> list[int]:
        count = -(-max(len(other), len(self.image)) // PAGE_BYTES)
        spans = ((page, page * PAGE_BYTES, (page + 1) * PAGE_BYTES) for page in range(count))
        return [page for page, start, end in spans if other[start:end] != self.image[start:end]]


def _padded(data: bytearray, size: int) -> bytearray:
    return data + bytes(size - len(data))


def _torn(rng: Random, old: bytes, new: bytes) -> bytes:
    """One page of `old`'s size: the old one, the new one, or sectors of both."""
    new += old[len(new) :] if rng.random() < 0.5 else bytes(len(old) - len(new))
    new = new[: len(old)]
    how = rng.randrange(4)
    if how == 0:
        return old
    if how == 1:
        return new
    cut = rng.randrange(1, PAGE_BYTES // SECTOR_BYTES) * SECTOR_BYTES
    return new[:cut] + old[cut:] if how == 2 else old[:cut] + new[cut:]


class Change:
    """One operation on names, atomic: a make adds, a removal removes, a rename does both."""

    __slots__ = ("added", "removed")

    def __init__(
        self, *, removed: tuple[str, Node] | None = None, added: tuple[str, Node] | None = None
    ) -> None:
        self.removed = removed
        self.added = added

    @property
    def names(self) -> set[str]:
        """The names it touches."""
        return {entry[0] for entry in (self.removed, self.added) if entry is not None}

    def apply(self, entries: dict[str, Node]) -> None:
        """Carry it out on the names of a folder."""
        if self.removed is not None:
            entries.pop(self.removed[0], None)
        if self.added is not None:
            entries[self.added[0]] = self.added[1]


class FolderNode:
    """A folder: `entries` is what is seen, `durable` what is on the platter, `pending` the changes in between."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self, entries: dict[str, Node] | None = None) -> None:
        self.entries: dict[str, Node] = {} if entries is None else entries
        self.durable: dict[str, Node] = dict(self.entries)
        self.pending: list[Change] = []

    def change(self, change: Change) -> None:
        """Carry a change out where it is seen; it waits for a sync."""
        change.apply(self.entries)
        self.pending.append(change)

    def sync(self) -> None:
        """All changes of names are durable."""
        self.durable = dict(self.entries)
        self.pending.clear()

    def write_back(self, rng: Random) -> None:
        """Some changes become durable; the others still wait."""
        self.durable, self.pending = self._some(rng)

    def after_crash(self, rng: Random, survival: Survival) -> dict[str, Node]:
        """The names a machine finds when it starts again."""
        if survival is Survival.NOTHING:
            return dict(self.durable)
        if survival is Survival.EVERYTHING:
            return dict(self.entries)
        return self._some(rng)[0]

    def _some(self, rng: Random) -> tuple[dict[str, Node], list[Change]]:
        """Any subset, except that two changes of one name keep their order: a rename never loses a file."""
        entries, left, blocked = dict(self.durable), [], set[str]()
        for change in self.pending:
            if blocked.isdisjoint(change.names) and rng.random() < 0.5:
                change.apply(entries)
            else:
                blocked |= change.names
                left.append(change)
        return entries, left


Node = FileNode | FolderNode
