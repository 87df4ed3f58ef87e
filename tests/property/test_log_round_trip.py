"""Whatever is written in whatever shapes, flushed, rolled, opened again or cut off: it reads back as a list says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.partition import Partition
from headwater.log.reader import find_timestamp
from tests.log_material import Answers, Machine, entry, read_all, spread
from tests.simulation.payloads import Message, make_entry, publish_body

PARTITIONS = 3

ENTRIES = st.tuples(st.integers(0, 300), st.sampled_from([1, 1, 1, 2, 7]))
"""Filler bytes and records; more than one record make a sub-batch."""

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, PARTITIONS - 1), ENTRIES),
    st.tuples(
        st.just("publish"),
        st.integers(0, PARTITIONS - 1),
        st.tuples(
            st.sampled_from([None, b"a", b"b"]),
            st.lists(st.tuples(st.integers(0, 30), ENTRIES), min_size=1, max_size=8),
            st.sampled_from([None, b"", b"eu", b"us"]),
            st.booleans(),
        ),
    ),
    st.tuples(
        st.just("spans"),
        st.integers(0, PARTITIONS - 1),
        st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9), st.integers(0, 300)), max_size=8),
    ),
    st.tuples(st.just("offset"), st.integers(0, PARTITIONS - 1), st.integers(0, 9)),
    st.tuples(st.just("clock"), st.integers(-50, 50), st.none()),
    st.tuples(st.sampled_from(["flush", "dispatch", "run", "reopen", "crash"]), st.just(0), st.none()),
)

LOG_SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([1024, 3000, 1 << 20]),
        "snapshot_interval_bytes": st.sampled_from([1024, 1 << 20]),
        "chunk_data_bytes_max": st.sampled_from([64, 500, 100_000]),
        "commit_bytes_max": st.sampled_from([1, 1000, 1 << 20]),
        "entry_bytes_max": st.just(100_000),
        "durability": st.sampled_from(["disk", "disk", "memory"]),
    }
)

STORE_SETTINGS = st.fixed_dictionaries(
    {
        "direct_files_max": st.sampled_from([1, 8]),
        "journal_bytes_max": st.sampled_from([1, 2000, 1 << 20]),
        "tail_bytes_max": st.sampled_from([1, 1000, 1 << 20]),
        "open_files_max": st.sampled_from([1, 8]),
        "index_bytes_max": st.sampled_from([1, 1 << 20]),
    }
)


@dataclass
class Model:
    """What one partition must hold."""

    entries: list[tuple[int, bytes]] = field(default_factory=list)
    next_offset: int = 0
    sequences: dict[bytes, int] = field(default_factory=dict)
    offsets: dict[bytes, int] = field(default_factory=dict)

    def take(self, data: bytes, records: int) -> None:
        self.entries.append((self.next_offset, data))
        self.next_offset += records


class Run:
    """The log and its model, step by step; nothing is ever lost, as every step is committed before an end."""

    def __init__(self, store_settings: dict[str, int], log_settings: dict[str, Any]) -> None:
        self.machine = Machine(**store_settings)
        self.log_settings = log_settings
        self.models = [Model() for _ in range(PARTITIONS)]
        self.answers = Answers()
        self.expected_answers = 0

    def partition(self, number: int) -> Partition:
        return self.machine.log(f"log{number}", **self.log_settings)

    def append(self, number: int, shape: tuple[int, int]) -> None:
        data = make_entry(b"%d" % self.models[number].next_offset, *shape)
        self.partition(number).append(data, 1, shape[1], self.answers)
        self.models[number].take(data, shape[1])
        self.expected_answers += 1

    def publish(self, number: int, call: tuple[Any, list[tuple[int, tuple[int, int]]], Any, bool]) -> None:
        reference, shapes, value, filtered = call
        model, messages = self.models[number], []
        for publishing_id, (size, records) in shapes:
            data = make_entry(b"%d" % publishing_id, size, records)
            messages.append(Message(publishing_id, data, value if publishing_id % 2 else None))
            if reference is None or publishing_id > model.sequences.get(reference, -1):
                model.take(data, records)
                if reference is not None:
                    model.sequences[reference] = publishing_id
        body, ids = publish_body(messages, filtered=filtered), bytearray(8 * len(shapes))
        end = self.partition(number).append_published(
            body, 0, len(body), len(shapes), reference, ids, 0, self.answers, filtered=filtered
        )
        assert end == len(body)
        self.expected_answers += 1

    def spans(self, number: int, records: list[tuple[bytes, bytes, int]]) -> None:
        model, partition = self.models[number], self.partition(number)
        buffer, spans = spread([(head, between, bytes(size)) for head, between, size in records])
        for head, _, size in records:
            model.take(entry(head + bytes(size)), 1)
        first = 0
        while first < len(records):
            first += partition.append_some_spans(buffer, spans, first, len(records) - first)
            partition.when_settled(self.answers)
            self.expected_answers += 1

    def offset(self, number: int, value: int) -> None:
        self.partition(number).store_offset(b"reader", value)
        self.models[number].offsets[b"reader"] = value

    def clock(self, step: int, _: None) -> None:
        self.flush()
        self.machine.clock.now_ms += step

    def flush(self, *_: object) -> None:
        self.machine.store.flush()
        assert self.answers == [None] * self.expected_answers

    def dispatch(self, *_: object) -> None:
        self.machine.store.dispatch()

    def run(self, *_: object) -> None:
        self.machine.committer.run_one()
        self.machine.store.collect()

    def reopen(self, *_: object) -> None:
        self.machine.reopen()

    def crash(self, *_: object) -> None:
        self.flush()
        self.machine.crash()

    def check(self) -> None:
        self.flush()
        for number, model in enumerate(self.models):
            partition = self.partition(number)
            assert partition.committed_offset == partition.next_offset == model.next_offset
            assert read_all(partition, buffer_bytes=700, verify=True) == model.entries
            for reference, sequence in model.sequences.items():
                assert partition.sequence(reference) == sequence
            for reference, offset in model.offsets.items():
                assert partition.stored_offset(reference) == offset
            self._check_look_ups(partition, model)
        assert self.machine.store.uncommitted_bytes == 0
        assert self.machine.store.damaged == []

    def _check_look_ups(self, partition: Partition, model: Model) -> None:
        for offset, _ in model.entries[:: max(len(model.entries) // 5, 1)]:
            found = read_all(partition, offset)
            assert found[0][0] <= offset
            assert found == model.entries[len(model.entries) - len(found) :]
        assert find_timestamp(partition, 0) == 0
        assert find_timestamp(partition, self.machine.clock.now_ms + 10**6) == model.next_offset


@settings(max_examples=300)
@given(STORE_SETTINGS, LOG_SETTINGS, st.lists(STEPS, max_size=30))
def test_what_was_written_reads_back(
    store_settings: dict[str, int], log_settings: dict[str, Any], steps: list[tuple[str, int, Any]]
) -> None:
    run = Run(store_settings, log_settings)
    for name, where, what in steps:
        getattr(run, name)(where, what)
    run.check()
    run.crash()
    run.check()
    run.reopen()
    run.check()
