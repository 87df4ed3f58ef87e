"""What a reader needs next is fetched on a thread; the reader is told, and errors show when it tries again."""

from __future__ import annotations

import pytest

from headwater.log.partition import Partition
from headwater.log.reader import Reader
from tests.log_material import Machine, append


@pytest.fixture
def machine() -> Machine:
    return Machine(tail_bytes_max=1)


@pytest.fixture
def partition(machine: Machine) -> Partition:
    partition = machine.log()
    for number in range(5):
        append(partition, b"%d" % number + bytes(300))
        machine.store.flush()
    return partition


def test_a_reader_that_met_a_cold_page_is_told_when_to_go_on(machine: Machine, partition: Partition) -> None:
    calls: list[str] = []
    with Reader(partition, 0) as reader:
        machine.files.cold_read_chance = 1.0
        with pytest.raises(BlockingIOError):
            reader.read(wait=False)
        reader.read_ahead(lambda: calls.append("warm"))
        assert calls == []
        machine.store.flush()
        assert calls == ["warm"]
        machine.files.cold_read_chance = 0.0
        assert reader.read(wait=False) is not None


def test_a_reader_may_be_closed_while_its_page_is_fetched(machine: Machine, partition: Partition) -> None:
    calls: list[str] = []
    with Reader(partition, 0) as reader:
        machine.files.cold_read_chance = 1.0
        with pytest.raises(BlockingIOError):
            reader.read(wait=False)
        reader.read_ahead(lambda: calls.append("warm"))
    machine.store.flush()
    assert calls == ["warm"]
    machine.store.close()
    assert machine.files.open_descriptors() == []
