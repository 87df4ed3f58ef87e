"""A consumer that stays: one reader over many steps, through rolls and removals: each event once, in order."""

from __future__ import annotations

from random import Random

from headwater.log.partition import Partition, PartitionState
from headwater.log.reader import Reader
from tests.simulation.model import PartitionModel, require
from tests.simulation.payloads import split_chunks, split_entries

__all__ = ["Follower"]

_BUFFER_BYTES = (64, 300, 5000)


class Follower:
    """Reads one partition forward and holds every chunk to the model."""

    def __init__(self, model: PartitionModel, partition: Partition, rng: Random) -> None:
        self.model = model
        self.offset = partition.first_offset
        self._partition = partition
        buffer = bytearray(rng.choice(_BUFFER_BYTES))
        self._reader = Reader(partition, self.offset, buffer=buffer, verify=rng.random() < 0.5)

    @property
    def is_deleted(self) -> bool:
        """Whether the log went away under the reader."""
        return self._partition.state is PartitionState.DELETED

    def go_on(self) -> None:
        """Read once; what comes follows what came before, unless that was removed meanwhile."""
        try:
            run = self._reader.read(wait=False)
        except BlockingIOError:
            run = self._reader.read()
        if run is None:
            require(
                self.offset >= self._partition.committed_offset
                or self._partition.first_offset >= self._partition.committed_offset,
                f"{self.model.name}: a reader at {self.offset} is told that there is no more",
            )
            return
        self.model.committed(self._partition.committed_offset)
        for chunk in split_chunks(b"".join(run.deliveries)):
            removed = self.offset < self._partition.first_offset == chunk.first_offset
            require(
                chunk.first_offset == self.offset or removed,
                f"{self.model.name}: a reader at {self.offset} is given the chunk at {chunk.first_offset}",
            )
            self.offset = chunk.first_offset
            for data, records in split_entries(chunk):
                entry = self.model.confirmed.get(self.offset)
                require(
                    entry is None or entry.data == data,
                    f"{self.model.name}: a reader sees another event at {self.offset}",
                )
                require(data in self.model.sent, f"{self.model.name}: a reader sees what nobody sent")
                self.offset += records

    def close(self) -> None:
        """Give the file back."""
        self._reader.close()
