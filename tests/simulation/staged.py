"""A staged commit as its caller knows it: all of it once, in order and in one piece on each partition, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.errors import StorageError
from tests.simulation.model import Entry, PartitionModel, Seen, require

__all__ = ["StagedCommit"]


@dataclass(slots=True, eq=False)
class StagedCommit:
    """The uploads of one key (query, batch)."""

    query: str
    batch: int
    attempts: list[str]
    entries: dict[PartitionModel, list[Entry]] = field(default_factory=dict)
    starts: dict[PartitionModel, int] = field(default_factory=dict)
    """The offset before which nothing of it can be, by partition."""
    asked: bool = False
    answered: bool = False

    def answer(self, error: StorageError | None) -> None:
        """The engine says that it is done, or that it is refused."""
        if error is None:
            self.answered = True

    def check(self, seen: dict[PartitionModel, Seen], first_offsets: dict[PartitionModel, int]) -> bool:
        """Hold what is visible to the promise; whether there is nothing more to wait for."""
        found = [
            self._place(model, [data for _, data, _ in seen[model]], entries)
            for model, entries in self.entries.items()
            if first_offsets[model] <= self.starts[model]  # else retention may have taken some of it
        ]
        name = f"staged commit {self.query}/{self.batch}"
        require(all(found) or not any(found), f"{name} is there in part: {found}")
        require(all(found) or not self.answered, f"{name} was answered and is lost")
        return all(found)

    def _place(self, model: PartitionModel, shown: list[bytes], entries: list[Entry]) -> bool:
        """Whether a partition shows the entries; they must be there once and in order."""
        wanted = [entry.data for entry in entries]
        known = set(wanted)
        there = [data for data in shown if data in known]
        require(
            not there or there == wanted,
            f"staged commit {self.query}/{self.batch}: {model.name} shows {len(there)} of {len(wanted)} entries",
        )
        return bool(there)
