"""What consumers of one subscription or group saw, message by message, and what that allows to come next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Generic, TypeAlias, TypeVar

from headwater.engine.delivery import Outcome, Reason
from headwater.log.state import decode_record

__all__ = ["Account", "Disk", "Message", "latest_values"]

Message: TypeAlias = tuple[int, int]
"""A partition and an offset."""

T = TypeVar("T")


class Disk(Generic[T]):
    """Records in order; those that are not synced are on disk after a crash, or not, from some point on."""

    def __init__(self) -> None:
        self.records: list[T] = []
        self._synced = 0
        self._calls: list[tuple[int, Callable[[], None]]] = []

    def when_synced(self, call: Callable[[], None]) -> None:
        """Call when all records that are there now are on disk."""
        self._calls.append((len(self.records), call))
        self._tell()

    def sync(self) -> None:
        self._synced = len(self.records)
        self._tell()

    def take_back(self, count: int) -> None:
        """The last records could not be written."""
        del self.records[len(self.records) - count :]

    def crash(self, random: Random) -> None:
        del self.records[random.randint(self._synced, len(self.records)) :]
        self._synced = len(self.records)
        self._calls.clear()

    def _tell(self) -> None:
        while self._calls and self._calls[0][0] <= self._synced:
            self._calls.pop(0)[1]()


def latest_values(records: Iterable[bytes]) -> dict[bytes, bytes]:
    """What `$state` holds by its records."""
    found: dict[bytes, bytes] = {}
    for record in records:
        key, value = decode_record(record)
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


class Account:
    """One subscription or group from its beginning to its end, over any crashes.

    A message comes once, and again for each time that it came back unsettled; a crash brings back what was held, and
    what was settled since the last flush.
    """

    def __init__(self) -> None:
        self.starts: dict[int, int] = {}
        """By partition, the offset that is to be the first."""
        self.front: dict[int, int] = {}
        """By partition, the offset that is to come next for the first time."""
        self.unready: set[int] = set()
        """Partitions whose start is not on disk yet."""
        self.delivered: Counter[Message] = Counter()
        self.excused: Counter[Message] = Counter()
        """How often a message came back unsettled."""
        self.failures: Counter[Message] = Counter()
        self.settled: set[Message] = set()
        self.told: set[Message] = set()
        """What is settled on disk, as far as consumers were told."""
        self.letters_told: set[Message] = set()
        self.fate: dict[Message, Outcome] = {}
        """What was said of a message last."""
        self.epochs: dict[int, int] = {}
        """By partition, the greatest that its owner was told and did not give back."""

    def start(self, partition: int, offset: int) -> int:
        """Where a partition starts; that of the first time counts."""
        self.front.setdefault(partition, offset)
        return self.starts.setdefault(partition, offset)

    def forget_start(self, partition: int) -> None:
        """A crash took where a partition starts, before anything was delivered from there."""
        assert self.front.pop(partition) == self.starts.pop(partition), (
            "delivered from a start that is not on disk"
        )

    def deliver(self, message: Message, first_retained: int, holders: int) -> None:
        """A message comes to a consumer."""
        partition, offset = message
        assert message not in self.told, "settled on disk, and delivered again"
        assert offset >= first_retained, "what retention took is handed out"
        if not self.delivered[message]:
            assert offset == max(self.front[partition], first_retained), "out of order, or left out"
            self.front[partition] = offset + 1
        self.delivered[message] += 1
        self._check_reasons(message, holders)

    def answer(self, message: Message, outcome: Outcome) -> None:
        """A consumer says what became of a message."""
        self.fate[message] = outcome
        if outcome in {Outcome.ACCEPTED, Outcome.REJECTED}:
            self.settled.add(message)
        else:
            self.excused[message] += 1
            self.failures[message] += outcome is Outcome.FAILED

    def vanish(self, held: Iterable[Message]) -> None:
        """Whoever held these messages does so no longer."""
        for message in held:
            self.answer(message, Outcome.FAILED)

    def write_letter(self, message: Message, reason: Reason, count_max: int) -> None:
        """A message is to become a dead letter."""
        assert message not in self.letters_told, "a dead letter that was settled on disk comes again"
        if reason is Reason.REJECTED:
            assert self.fate.get(message) is Outcome.REJECTED, "a dead letter that nobody rejected"
        else:
            assert self.failures[message] > count_max, "a dead letter that may be tried once more"

    def letter_written(self, message: Message) -> None:
        """A dead letter is on disk; if no rejection settled it, this does."""
        if message not in self.settled:
            self.delivered[message] += 1
            self.settled.add(message)

    def tell(self, message: Message) -> None:
        """What was settled is on disk."""
        self.told.add(message)

    def tell_letter(self, message: Message) -> None:
        """A dead letter is settled on disk."""
        self.told.add(message)
        self.letters_told.add(message)

    def crash(self) -> None:
        """What nobody was told is on disk may come again."""
        self.excused.update(self.settled - self.told)
        self.settled &= self.told

    def left_out(self, ends: dict[int, int], retained: dict[int, int], letters: set[Message]) -> set[Message]:
        """Messages that are neither accepted nor dead letters, and have not been removed."""
        return {
            (partition, offset)
            for partition, end in ends.items()
            for offset in range(max(self.starts[partition], retained[partition]), end)
            if self.fate.get((partition, offset)) is not Outcome.ACCEPTED
            and (partition, offset) not in letters
        }

    def _check_reasons(self, message: Message, holders: int) -> None:
        reasons = self.excused[message] + holders + (message in self.settled)
        assert self.delivered[message] == reasons, "again without a reason"
