"""What a partition owes its clients: a record of what was sent and confirmed, and the checks that hold it to that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import StorageError

__all__ = ["Append", "Damage", "Entry", "Opening", "PartitionModel", "Seen", "Values", "Violation", "require"]


class Violation(AssertionError):
    """The engine broke a promise."""


def require(condition: object, reason: str) -> None:
    """Raise `Violation` unless the condition holds."""
    if not condition:
        raise Violation(reason)


@dataclass(slots=True, eq=False)
class Entry:
    """One entry that was handed to a partition, perhaps several times."""

    data: bytes
    records: int
    reference: bytes | None = None
    publishing_id: int = -1
    staged: str | None = None
    """The attempt by which it came, if it was by a staged commit."""
    turns: list[int] = field(default_factory=list)
    """When it was handed over, in the partition's own count."""

    def __str__(self) -> str:
        return self.data[4 if self.data[0] < 0x80 else 15 :][:40].split(b" ")[0].decode("ascii", "replace")


@dataclass(frozen=True, slots=True)
class Damage:
    """What was damaged on purpose, and the bytes that must still be there afterwards."""

    path: Path
    position: int
    offset: int
    """The first offset of the damaged chunk: everything before it must still be served."""
    content: bytes


Seen = list[tuple[int, bytes, int]]
"""Entries as a reader gave them: offset, bytes, records."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What came before a partition was opened again."""

    machine_crash: bool
    clean: bool


class Values:
    """The values that were put under one name, of which one not older than the last known durable must survive."""

    def __init__(self) -> None:
        self.given: list[object] = [None]
        self.durable = 0

    @property
    def last(self) -> object:
        """The value that was put last."""
        return self.given[-1]

    def put(self, value: object) -> int:
        """Note a value; the number tells `is_durable` which."""
        self.given.append(value)
        return len(self.given) - 1

    def is_durable(self, number: int) -> None:
        """The value of this number, or a later one, must be there after any crash."""
        self.durable = max(self.durable, number)

    def told(self, name: object, value: object) -> None:
        """The engine answered with this value: none older than those known durable, and from now on durable itself."""
        later = self.given[self.durable :]
        require(value in later, f"{name!r} is told to be {value!r}, allowed were {later!r}")
        self.is_durable(self.durable + later.index(value))

    def adopt(self, name: object, value: object) -> None:
        """Check what an opening found, and go on from there."""
        allowed = self.given[self.durable :]
        require(value in allowed, f"{name!r} is {value!r} after opening, allowed were {allowed!r}")
        self.given, self.durable = [value], 0


@dataclass(slots=True, eq=False)
class Append:
    """One call that handed entries over, until it is answered; `answer` is the engine's `on_done`."""

    model: PartitionModel
    placed: list[tuple[int, Entry]]
    duplicates: list[tuple[bytes, int]] = field(default_factory=list)
    offsets_before: dict[bytes, int] = field(default_factory=dict)
    answered: bool = False
    error: StorageError | None = None

    def answer(self, error: StorageError | None) -> None:
        """The engine says what became of it."""
        require(not self.answered, f"{self.model.name}: an append was answered twice")
        self.answered, self.error = True, error
        if error is None:
            self.model.confirm(self)
        else:
            self.model.refuse(self)


class PartitionModel:
    """What was handed to one partition, and what of it may, or must, be seen."""

    def __init__(self, name: str, *, durable: bool) -> None:
        self.name = name
        self.durable = durable
        self.damage: Damage | None = None
        self.sync_failed = False
        self.first_offset = 0
        self.drop_limit = 0
        """Up to this offset retention or truncation may have removed events."""
        self.confirmed: dict[int, Entry] = {}
        self.pending: list[Append] = []
        self.sent: dict[bytes, Entry] = {}
        """All that may yet be seen, by its bytes."""
        self.sequences: dict[bytes, int] = {}
        self.offsets: dict[bytes, Values] = {}
        self.turn = 0
        self.confirmed_end = 0
        """The offset behind the last entry that must be there."""

    # What clients do.

    def append(self, first_offset: int, entries: Iterable[Entry]) -> Append:
        """Entries are about to be handed over; the first gets this offset."""
        call = Append(self, [])
        for entry in entries:
            self.turn += 1
            self.sent.setdefault(entry.data, entry).turns.append(self.turn)
            call.placed.append((first_offset, self.sent[entry.data]))
            first_offset += entry.records
        call.offsets_before = {reference: len(v.given) - 1 for reference, v in self.offsets.items()}
        self.pending.append(call)
        return call

    def stage(self, entries: Iterable[Entry]) -> None:
        """Entries may come by a staged commit."""
        for entry in entries:
            self.sent[entry.data] = entry

    def store_offset(self, reference: bytes, offset: int) -> None:
        """An offset is stored; nobody answers that."""
        self.offsets.setdefault(reference, Values()).put(offset)

    def gathered_sequence(self, reference: bytes) -> int:
        """The highest id of a publisher that is confirmed or under way."""
        ids = [
            entry.publishing_id
            for call in self.pending
            for _, entry in call.placed
            if entry.reference == reference
        ]
        return max([self.sequences.get(reference, -1), *ids])

    # What the engine answers.

    def confirm(self, call: Append) -> None:
        """All entries of a call are promised from now on."""
        for offset, entry in call.placed:
            self._hold(offset, entry)
        for reference, publishing_id in call.duplicates:
            require(
                self.sequences.get(reference, -1) >= publishing_id,
                f"{self.name}: duplicate {publishing_id} of {reference!r} was confirmed before its original",
            )
        earlier = self.pending[: self.pending.index(call)]
        require(
            not call.placed or not any(other.placed for other in earlier),
            f"{self.name}: confirmed out of order",
        )
        self.pending.remove(call)
        if call.placed:
            for reference, number in call.offsets_before.items():
                self.offsets[reference].is_durable(number)

    def refuse(self, call: Append) -> None:
        """Nothing of a call is promised, but a crash may yet show it."""
        self.pending.remove(call)

    def withdraw(self, call: Append) -> None:
        """The engine raised, so the call never happened."""
        require(not call.answered, f"{self.name}: an append raised after it was answered")
        self.pending.remove(call)
        for _, entry in call.placed:
            entry.turns.pop()
            if not entry.turns:
                del self.sent[entry.data]

    def committed(self, offset: int) -> None:
        """The engine shows everything before an offset to readers, so it must stay."""
        for call in self.pending:
            for first, entry in call.placed:
                if first + entry.records <= offset:
                    self._hold(first, entry)

    def check_first(self, first_offset: int) -> None:
        """A partition may begin where nothing was removed that had to stay, and nothing came back that had to go."""
        limit = max(self.drop_limit, self.first_offset)
        require(
            self.first_offset <= first_offset <= limit,
            f"{self.name}: starts at {first_offset}, was {self.first_offset}, up to {limit} may go",
        )

    def removed_before(self, first_offset: int) -> None:
        """A removal was answered: what lies before is gone, and stays gone."""
        self.check_first(first_offset)
        self.first_offset = first_offset
        self.confirmed_end = max(self.confirmed_end, first_offset)
        self.confirmed = {o: e for o, e in self.confirmed.items() if o >= first_offset}

    def _hold(self, offset: int, entry: Entry) -> None:
        there = self.confirmed.get(offset)
        require(
            there is None or there is entry, f"{self.name}: offset {offset} was confirmed for two entries"
        )
        self.confirmed[offset] = entry
        self.confirmed_end = max(self.confirmed_end, offset + entry.records)
        if entry.reference is not None:
            self.sequences[entry.reference] = max(
                self.sequences.get(entry.reference, -1), entry.publishing_id
            )

    # What readers see.

    def check_seen(self, seen: Seen, first_offset: int, end: int) -> None:
        """A reader of the running engine gave these entries, from the first to the committed offset."""
        self.committed(end)
        self.check_first(first_offset)
        self._check_dense(seen, first_offset, end)
        for offset, data, _ in seen:
            entry = self.sent.get(data)
            require(entry is not None, f"{self.name}: offset {offset} holds what nobody sent")
            assert entry is not None
            if entry.staged is not None:
                self._hold(offset, entry)
        self._check_confirmed(seen, first_offset)
        extra = {offset for offset, _, _ in seen} - self.confirmed.keys()
        require(not extra, f"{self.name}: offsets {sorted(extra)} are shown but were never confirmed")

    def adopt(self, seen: Seen, first_offset: int, end: int, opening: Opening) -> None:
        """An opening shows these entries: check them, and go on with them as the truth."""
        self.check_first(first_offset)
        self._check_dense(seen, first_offset, end)
        if self.keeps_confirmed(opening):
            self._check_confirmed(seen, first_offset)
        else:
            self.sequences.clear()
        self._check_origin(seen, opening)
        self.pending.clear()
        self.confirmed.clear()
        self.first_offset = self.drop_limit = self.confirmed_end = first_offset
        for offset, data, _ in seen:
            self._hold(offset, self.sent[data])
        staged = {data: entry for data, entry in self.sent.items() if entry.staged is not None}
        self.sent = staged | {entry.data: entry for entry in self.confirmed.values()}
        self.sync_failed = False

    def keeps_confirmed(self, opening: Opening) -> bool:
        """In `memory` mode a crash of the machine, or a failed sync, may take what was confirmed."""
        return self.durable or not (opening.machine_crash or self.sync_failed)

    def _check_dense(self, seen: Seen, first_offset: int, end: int) -> None:
        expected = first_offset
        for offset, _, records in seen:
            require(offset == expected, f"{self.name}: offset {offset} where {expected} belongs")
            expected += records
        require(expected == end, f"{self.name}: ends at {expected}, says {end}")

    def _check_confirmed(self, seen: Seen, first_offset: int) -> None:
        shown = {offset: data for offset, data, _ in seen}
        for offset, entry in self.confirmed.items():
            if offset < first_offset:
                continue
            require(
                offset in shown,
                f"{self.name}: confirmed {entry} at offset {offset} is lost (first {first_offset})",
            )
            require(
                shown[offset] == entry.data,
                f"{self.name}: offset {offset} holds {shown[offset][:30]!r}, not {entry}",
            )

    def _check_origin(self, seen: Seen, opening: Opening) -> None:
        last_turn, shown = 0, set[bytes]()
        for offset, data, records in seen:
            entry = self.sent.get(data)
            require(
                entry is not None, f"{self.name}: offset {offset} holds what nobody may see: {data[:40]!r}"
            )
            assert entry is not None
            require(records == entry.records, f"{self.name}: offset {offset} has {records} records")
            require(data not in shown, f"{self.name}: {entry} is there twice, again at offset {offset}")
            shown.add(data)
            if offset not in self.confirmed:
                self._check_unconfirmed(offset, entry, opening)
            if entry.staged is None:
                turns = [turn for turn in entry.turns if turn > last_turn]
                require(turns, f"{self.name}: {entry} at offset {offset} is out of order")
                last_turn = min(turns)

    def _check_unconfirmed(self, offset: int, entry: Entry, opening: Opening) -> None:
        if opening.clean and not self.sync_failed and entry.staged is None:
            raise Violation(f"{self.name}: {entry} at offset {offset} was refused, a clean opening shows it")
