"""What a partition takes whose log is declared to hold CloudEvents: spans, Publish bodies, sub-batches; duplicates."""

from __future__ import annotations

import errno
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cloudevents import amqp_binding, json_format, stored
from headwater.cloudevents.event import CloudEvent
from headwater.encoding.amqp_message import Data, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.errors import EntryTooLarge, InvalidCloudEvent
from headwater.log import admission as admission_module
from headwater.log.partition import Partition
from headwater.log.reader import Reader
from headwater.log.settings import LogSettings
from headwater.log.store import Store
from headwater.server.record_source import RecordSource
from tests.failing_files import FailingFiles
from tests.log_material import Machine

DECLARED: dict[str, Any] = {"content": "cloudevents"}
WINDOWED: dict[str, Any] = {**DECLARED, "duplicates_window_count": 100}


def event(number: int, source: str = "/s") -> bytes:
    return amqp_binding.encode(
        CloudEvent({"specversion": "1.0", "id": f"e{number}", "source": source, "type": "t"})
    )


def structured(text: bytes, content_type: str = "application/cloudevents+json") -> bytes:
    return encode_message(
        Message(properties=Properties(content_type=Symbol(content_type)), body=Data((text,)))
    )


def with_properties(**attributes: object) -> bytes:
    properties = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}
    named = {f"cloudEvents_{name}": value for name, value in properties.items() if value is not None}
    return encode_message(Message(application_properties=named, body=Data((b"",))))


IN_JSON = structured(
    json_format.encode_event(CloudEvent({"specversion": "1.0", "id": "j", "source": "/s", "type": "t"}))
)
FAULTY = {
    "no AMQP message": (b"plain text", "is no AMQP message"),
    "nothing": (b"", "is missing"),
    "no event": (encode_message(Message(body=Data((b"x",)))), "is missing"),
    "no id": (with_properties(id=None), "its id is missing"),
    "an empty source": (with_properties(source=""), "its source"),
    "another version": (with_properties(specversion="0.3"), "its specversion"),
    "a type of another type": (with_properties(type=7), "its type"),
    "a bad name": (with_properties(Colour="red"), "Colour"),
    "no time": (with_properties(time="yesterday"), "its time"),
    "broken JSON": (structured(b"{"), "JSON"),
    "JSON without a type": (structured(b'{"specversion":"1.0","id":"1","source":"/s"}'), "its type"),
    "a batch": (structured(b"[]", "application/cloudevents-batch+json"), "cloudevents-batch"),
}
OPAQUE = structured(b"\0\1\2", "application/cloudevents+avro")


def spans_of(records: Sequence[bytes]) -> tuple[bytes, array[int]]:
    spans, at = array("q"), 0
    for record in records:
        spans.extend((at, at, at, at + len(record)))
        at += len(record)
    return b"".join(records), spans


class Sender:
    """Appends as doors do, and remembers what became of what."""

    def __init__(self, machine: Machine, partition: Partition, way: str) -> None:
        self.machine = machine
        self.partition = partition
        self.way = way
        self.refused: dict[int, str] = {}
        self.confirmed: list[int] = []
        self.failed: list[int] = []
        self._id = 0

    def send(self, *records: bytes) -> None:
        first = self._id
        self._id += len(records)
        if self.way == "spans":
            self._send_spans(records, first)
        else:
            self._send_published(records, first)

    def _send_spans(self, records: Sequence[bytes], first: int) -> None:
        buffer, spans = spans_of(records)
        at = 0
        while at < len(records):
            try:
                taken = self.partition.append_some_spans(buffer, spans, at, len(records) - at)
            except InvalidCloudEvent as error:
                self.refused[first + at] = str(error)
                at += 1
                continue
            self._wait(range(first + at, first + at + taken))
            at += taken

    def _send_published(self, records: Sequence[bytes], first: int) -> None:
        entries = [
            record if self.way == "entries" else struct.pack(">I", len(record)) + record for record in records
        ]
        reference = b"named" if self.way == "named" else None
        body = b"".join(struct.pack(">Q", number) + each for number, each in enumerate(entries, first))
        position, at = 0, 0
        while at < len(records):
            ids = bytearray(8 * len(records))
            try:
                position, taken = self.partition.append_some_published(
                    body, position, len(body), len(records) - at, reference, ids, filtered=False
                )
            except InvalidCloudEvent as error:
                self.refused[first + at] = str(error)
                position += 8 + len(entries[at])
                at += 1
                continue
            assert list(struct.unpack(f">{taken}Q", ids[: 8 * taken])) == list(
                range(first + at, first + at + taken)
            )
            self._wait(range(first + at, first + at + taken))
            at += taken

    def _wait(self, ids: range) -> None:
        self.partition.when_settled(lambda error: (self.failed if error else self.confirmed).extend(ids))

    def stored(self) -> list[bytes]:
        self.machine.store.flush()
        source, found = RecordSource(self.partition, 0, "0"), []
        while source.records or source.fill(lambda: None) or source.is_waiting:
            if source.is_waiting:
                self.machine.store.flush()
                continue
            found.append(source.records[0].first_record())
            source.take(1)
        return found


WAYS = ["spans", "published", "named"]


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.clause("CE-9", "CE-1", "CE-4")
@pytest.mark.parametrize("way", WAYS)
def test_a_declared_log_takes_what_is_valid_and_says_of_the_rest_what_is_wrong(
    machine: Machine, way: str
) -> None:
    sender = Sender(machine, machine.log(**DECLARED), way)
    records, wrong = [event(0), IN_JSON], {}
    for bad, said in FAULTY.values():
        wrong[len(records)] = said
        records += [bad, event(len(records)), OPAQUE]
    sender.send(*records)
    assert sender.stored() == [each for number, each in enumerate(records) if number not in wrong]
    assert sorted(sender.confirmed) == [number for number in range(len(records)) if number not in wrong]
    assert list(sender.refused) == list(wrong)
    assert [said for number, said in wrong.items() if said not in sender.refused[number]] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_is_not_declared_takes_everything(machine: Machine, way: str) -> None:
    sender = Sender(machine, machine.log(), way)
    records = [bad for bad, _ in FAULTY.values()]
    sender.send(*records)
    assert (sender.stored(), sender.refused) == (records, {})


@pytest.mark.parametrize("way", WAYS)
def test_many_faults_are_each_looked_at_alone(
    machine: Machine, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    first_fault = stored.first_fault

    def counting(
        buffer: bytes, spans: array[int], first: int, count: int
    ) -> tuple[int, InvalidCloudEvent] | None:
        looked_at.append(count)
        return first_fault(buffer, spans, first, count)

    monkeypatch.setattr(admission_module, "first_fault", counting)
    sender = Sender(machine, machine.log(**DECLARED), way)
    sender.send(*[b"faulty"] * 500, *(event(number) for number in range(5_000)))
    assert (len(sender.refused), len(sender.stored())) == (500, 5_000)
    assert sum(looked_at) <= 500 + 5_000 + 2 * admission_module.BLOCK_MAX
    assert max(looked_at) == admission_module.BLOCK_MAX


def batch(records: Sequence[bytes], compression: Compression = Compression.GZIP) -> bytes:
    return pack_sub_batch(records, compression)


@pytest.mark.parametrize("compression", list(Compression))
def test_sub_batches_are_looked_into(machine: Machine, compression: Compression) -> None:
    sender = Sender(machine, machine.log(**DECLARED), "entries")
    good, bad = [event(number) for number in range(100)], [event(100), b"bad", event(101)]
    alone = struct.pack(">I", len(event(102))) + event(102)
    sender.send(alone, batch(good, compression), batch(bad, compression), alone)
    assert sender.stored() == [event(102), *good, event(102)]
    assert sender.confirmed == [0, 1, 3]
    assert "record 1 of the sub-batch" in sender.refused[2]


def test_a_sub_batch_that_would_take_all_time_to_unpack_is_refused(machine: Machine) -> None:
    sender = Sender(machine, machine.log(**DECLARED), "entries")
    record = with_properties(subject="x" * 65_000)
    sender.send(batch([record] * 100, Compression.ZSTD), batch([event(1)]))
    assert sender.stored() == [event(1)]
    assert "100 times its size" in sender.refused[0]
    torn = bytearray(batch([event(2)]))
    torn[-4:] = b"torn"
    sender.send(bytes(torn))
    assert "does not unpack" in sender.refused[2]


def test_a_sub_batch_that_is_too_large_to_look_into_is_refused(machine: Machine) -> None:
    sender = Sender(machine, machine.log(**DECLARED), "entries")
    data, rng = bytearray(1 << 20), Random(1)
    records = []
    for number in range(17):
        data[::64] = rng.randbytes(len(data) // 64)
        core = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}
        records.append(amqp_binding.encode(CloudEvent({**core}, bytes(data))))
    sender.send(batch(records, Compression.ZSTD), batch(records[:2], Compression.ZSTD))
    assert sender.stored() == records[:2]
    assert f"more than {admission_module.SUB_BATCH_UNPACKED_MAX} bytes" in sender.refused[0]


# Duplicates


@pytest.mark.parametrize("way", WAYS)
def test_duplicates_are_confirmed_and_not_stored(machine: Machine, way: str) -> None:
    sender = Sender(machine, machine.log(**WINDOWED), way)
    sender.send(event(1), event(2), event(1), OPAQUE, OPAQUE, event(1), event(1, "/other"))
    sender.send(event(2), event(3), event(2), event(4))
    assert sender.stored() == [event(1), event(2), OPAQUE, OPAQUE, event(1, "/other"), event(3), event(4)]
    assert sorted(sender.confirmed) == list(range(11))
    sender.send(event(4), event(5))
    assert sender.stored()[-1] == event(5)
    assert sorted(sender.confirmed) == list(range(13))


def test_a_duplicate_of_one_in_flight_is_confirmed_with_its_original(machine: Machine) -> None:
    partition = machine.log(**WINDOWED)
    sender = Sender(machine, partition, "spans")
    sender.send(event(1))
    sender.send(event(1))
    assert sender.confirmed == []
    machine.store.flush()
    assert sender.confirmed == [0, 1]


def test_modes_are_compared_by_source_and_id(machine: Machine) -> None:
    sender = Sender(machine, machine.log(**WINDOWED), "spans")
    same = amqp_binding.encode(CloudEvent({"specversion": "1.0", "id": "j", "source": "/s", "type": "other"}))
    sender.send(IN_JSON, same)
    assert sender.stored() == [IN_JSON]


@pytest.mark.parametrize("compression", list(Compression))
def test_duplicates_in_sub_batches_are_taken_out_of_them(machine: Machine, compression: Compression) -> None:
    sender = Sender(machine, machine.log(**WINDOWED), "entries")
    sender.send(batch([event(1), event(2)], compression), batch([event(2), event(3), event(3)], compression))
    sender.send(batch([event(1), event(3)], compression), batch([event(4)], compression))
    assert sender.stored() == [event(1), event(2), event(3), event(4)]
    assert sorted(sender.confirmed) == [0, 1, 2, 3]
    assert sender.partition.committed_offset == 4


def test_the_window_has_an_end_in_number(machine: Machine) -> None:
    sender = Sender(machine, machine.log(**DECLARED, duplicates_window_count=3), "spans")
    sender.send(event(1), event(2), event(3), event(1), event(4), event(1))
    assert sender.stored() == [event(1), event(2), event(3), event(4), event(1)]


def test_the_window_has_an_end_in_time(machine: Machine) -> None:
    sender = Sender(machine, machine.log(**WINDOWED, duplicates_window_ms=1_000), "spans")
    sender.send(event(1))
    machine.clock.now_ms += 600
    sender.send(event(2), event(1))
    machine.clock.now_ms += 600
    sender.send(event(1), event(2))
    assert sender.stored() == [event(1), event(2), event(1)]


@pytest.mark.parametrize("way", ["spans", "entries"])
def test_the_window_is_there_again_after_a_crash(machine: Machine, way: str) -> None:
    partition = machine.log(**DECLARED, duplicates_window_count=4, duplicates_window_ms=10_000)
    sender = Sender(machine, partition, way)

    def send(*numbers: int) -> None:
        if way == "spans":
            sender.send(*(event(number) for number in numbers))
        else:
            sender.send(batch([event(number) for number in numbers]))

    send(1)
    send(2, 3)
    machine.store.flush()
    machine.clock.now_ms += 20_000
    send(4)
    send(5, 6)
    assert len(sender.stored()) == 6
    machine.crash()
    sender.partition = machine.log()
    send(4, 5)
    send(3)
    send(6)
    assert sender.stored() == [event(number) for number in (1, 2, 3, 4, 5, 6, 3)]


def test_what_was_truncated_is_no_original_any_more(machine: Machine) -> None:
    partition = machine.log(**WINDOWED)
    sender = Sender(machine, partition, "spans")
    sender.send(event(1))
    machine.store.flush()
    partition.truncate(1, lambda error: None)
    machine.store.flush()
    sender.send(event(1))
    machine.store.flush()
    assert partition.committed_offset == 2


def test_a_log_is_declared_while_it_is_used(machine: Machine) -> None:
    partition = machine.log()
    sender = Sender(machine, partition, "spans")
    sender.send(b"plain", event(1))
    machine.store.change_settings("log", LogSettings(content="cloudevents", duplicates_window_count=10))
    sender.send(b"plain", event(1), event(1))
    assert sender.stored() == [b"plain", event(1), event(1)]
    machine.store.change_settings("log", LogSettings())
    sender.send(b"plain", event(1))
    assert sender.stored() == [b"plain", event(1), event(1), b"plain", event(1)]
    with Reader(partition, 0) as reader:
        assert reader.read() is not None


def test_what_a_failed_commit_took_back_is_no_original(tmp_path: Path) -> None:
    files = FailingFiles()
    store = Store.open(tmp_path, files=files)
    partition = store.create_log("log", settings=LogSettings(**WINDOWED)).partitions[0]
    buffer, spans = spans_of([event(1), event(2), event(1)])
    answers: list[bool] = []

    def append(first: int, count: int) -> None:
        assert partition.append_some_spans(buffer, spans, first, count) == count
        partition.when_settled(lambda error: answers.append(error is None))

    append(0, 1)
    store.flush()
    files.write_error = errno.ENOSPC
    append(1, 1)
    store.dispatch()
    append(1, 1)
    store.flush()
    assert answers == [True, False, False], "a duplicate of one that is refused is refused"
    append(1, 1)
    append(2, 1)
    store.flush()
    assert answers[3:] == [True, True]
    assert partition.committed_offset == 2
    store.close()


def test_an_event_that_was_too_large_is_no_original(machine: Machine) -> None:
    partition = machine.log(**WINDOWED, entry_bytes_max=400)
    core = {"specversion": "1.0", "id": "j", "source": "/s", "type": "t"}
    large = amqp_binding.encode(CloudEvent({**core, "subject": "x" * 400}))
    buffer, spans = spans_of([large])
    with pytest.raises(EntryTooLarge):
        partition.append_some_spans(buffer, spans, 0, 1)
    plain = b"what the server writes"
    partition.append(struct.pack(">I", len(plain)) + plain, 1, 1, lambda error: None)
    sender = Sender(machine, partition, "spans")
    sender.send(IN_JSON)
    assert sender.stored() == [plain, IN_JSON]


MATERIAL = [event(1), IN_JSON, OPAQUE, with_properties(time="2026-01-01T00:00:00Z", flag=True, number=3)]


@given(seed=st.integers(0, 2**32), way=st.sampled_from([*WAYS, "entries"]))
@settings(max_examples=150, deadline=None)
def test_whatever_is_sent_is_stored_or_refused(seed: int, way: str) -> None:
    rng, records = Random(seed), []
    for _ in range(rng.randint(1, 12)):
        record = bytearray(rng.choice(MATERIAL) if rng.random() < 0.9 else rng.randbytes(rng.randint(0, 60)))
        for _ in range(rng.choice([0, 0, 1, 3])):
            if record:
                record[rng.randrange(len(record))] = rng.randrange(256)
        records.append(bytes(record))
    if way == "entries":
        packed = bytearray(batch(records, rng.choice(list(Compression))))
        for _ in range(rng.choice([0, 0, 1])):
            packed[rng.randrange(11, len(packed))] = rng.randrange(256)
        records = [bytes(packed)]
    machine = Machine()
    sender = Sender(machine, machine.log(**WINDOWED), way)
    sender.send(*records)
    stored_records = sender.stored()
    assert sorted([*sender.confirmed, *sender.refused]) == list(range(len(records)))
    buffer, spans = spans_of(stored_records)
    assert stored.faults_among(buffer, spans, 0, len(stored_records)) == []
