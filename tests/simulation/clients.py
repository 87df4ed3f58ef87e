"""A producer with a name: ids in rising order with gaps, duplicates now and then, and again what was not confirmed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from headwater.errors import HeadwaterError, StorageError
from headwater.log.partition import Partition
from tests.simulation.model import Append, Entry, PartitionModel, require
from tests.simulation.payloads import Message, make_entry, publish_body

__all__ = ["ENTRY_BYTES", "FILTER_VALUES", "Producer", "send_plain"]

ENTRY_BYTES = (0, 20, 20, 60, 60, 200, 450)
"""Few sizes, so that chunks of equal length come to lie on the places of others."""
FILTER_VALUES = (None, b"", b"eu", b"us", b"x" * 40)


class Producer:
    """One publisher reference on one partition."""

    def __init__(self, model: PartitionModel, reference: bytes) -> None:
        self.model = model
        self.reference = reference
        self.entries: dict[int, Entry] = {}
        self.kept: set[int] = set()
        """Ids that were confirmed, or seen."""
        self.again: list[int] = []
        """Ids to send again before any new one."""
        self.next_id = 0

    def choose_ids(self, rng: Random) -> list[int]:
        """The ids of the next batch, rising."""
        ids = self.again[: rng.choice((3, 10, 1000))]
        if len(ids) == len(self.again):
            for _ in range(rng.choice((1, 1, 2, 4))):
                ids.append(self.next_id)
                self.next_id += rng.choice((1, 1, 1, 1, 7))
        if rng.random() < 0.25:
            earlier = [i for i in self.entries if i < ids[0]]
            ids = sorted(rng.sample(earlier, min(len(earlier), 3))) + ids
        return ids

    def publish(self, partition: Partition, ids: list[int], rng: Random) -> HeadwaterError | None:
        """Send messages of these ids; the error if they were refused at once."""
        messages = [Message(i, self._entry(i, rng).data, rng.choice(FILTER_VALUES)) for i in ids]
        filtered = rng.random() < 0.3
        body = publish_body(messages, filtered=filtered)
        last = self.model.gathered_sequence(self.reference)
        call = self.model.append(partition.next_offset, [self.entries[i] for i in ids if i > last])
        call.duplicates = [(self.reference, i) for i in ids if i <= last]
        self.again = [i for i in self.again if i not in ids]
        answered = bytearray(8 * len(ids))

        def done(error: StorageError | None) -> None:
            call.answer(error)
            self._note(ids, error)

        try:
            end = partition.append_published(
                body, 0, len(body), len(ids), self.reference, answered, 0, done, filtered=filtered
            )
        except HeadwaterError as error:
            self.model.withdraw(call)
            self._note(ids, error)
            return error
        require(end == len(body), f"{partition.name}: took {end} of {len(body)} bytes")
        require(
            bytes(answered) == b"".join(i.to_bytes(8, "big") for i in ids),
            f"{partition.name}: answered other ids than {ids}",
        )
        return None

    def after_opening(self) -> None:
        """All that is neither confirmed nor to be seen is to be sent again."""
        self.kept |= {e.publishing_id for e in self.model.confirmed.values() if e.reference == self.reference}
        self.again = sorted(self.entries.keys() - self.kept)

    def _note(self, ids: list[int], error: HeadwaterError | None) -> None:
        held = self.model.sequences.get(self.reference, -1)
        self.kept.update(i for i in ids if i <= held)
        if error is not None:
            self.again = sorted({*self.again, *ids} - self.kept)

    def _entry(self, publishing_id: int, rng: Random) -> Entry:
        if publishing_id not in self.entries:
            identity = b"%s#%05d" % (self.reference, publishing_id)
            records = 3 if rng.random() < 0.1 else 1
            data = make_entry(identity, rng.choice(ENTRY_BYTES), records)
            self.entries[publishing_id] = Entry(data, records, self.reference, publishing_id)
        return self.entries[publishing_id]


def send_plain(
    partition: Partition,
    model: PartitionModel,
    entries: list[Entry],
    then: Callable[[], None] | None = None,
) -> HeadwaterError | None:
    """Append entries without a name, and do something in the answer; the error if they were refused at once."""
    call: Append = model.append(partition.next_offset, entries)

    def done(error: StorageError | None) -> None:
        call.answer(error)
        if then is not None:
            then()

    try:
        partition.append(
            b"".join(entry.data for entry in entries),
            len(entries),
            sum(entry.records for entry in entries),
            done,
        )
    except HeadwaterError as error:
        model.withdraw(call)
        return error
    return None
