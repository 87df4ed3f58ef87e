"""The journal file: records read back, torn and missing ones told apart, replay that may be repeated."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from headwater.errors import MalformedChunk, NewerFormat
from headwater.log.journal import (
    JournalRecord,
    decode_journal_header,
    encode_journal_header,
    read_records,
    replay_journals,
)
from tests.log_material import DATA, Machine, append
from tests.log_material import read_records as records_of
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.rig import new_disk

PATH = Path("1.journal")
SALT = 0xDEADBEEF


def record(position: int, data: bytes, synced: int, log_id: int = 1) -> bytes:
    body = struct.pack(">QIIQQQ", log_id, 0, len(data), 0, position, synced) + data
    return struct.pack(">I", zlib.crc32(body, SALT)) + body


def journal(*datas: bytes) -> bytes:
    """Each record says that all before it is durable."""
    held = encode_journal_header(SALT)
    for number, data in enumerate(datas):
        held += record(100 * number, data, len(held))
    return held


def put(files: FaultyFiles, path: Path, data: bytes) -> None:
    fd = files.open(path, create=True)
    files.write_and_sync(fd, 0, [data], sync=True)
    files.close(fd)


def test_a_header_reads_as_it_was_written() -> None:
    data = encode_journal_header(SALT)
    assert len(data) == 20
    assert decode_journal_header(data + b"behind", PATH) == SALT


@pytest.mark.parametrize("position", range(20))
def test_every_flipped_byte_of_the_header_is_found(position: int) -> None:
    data = bytearray(encode_journal_header(SALT))
    data[position] ^= 4
    with pytest.raises(MalformedChunk, match="journal header"):
        decode_journal_header(bytes(data), PATH)


def test_a_newer_format_is_refused() -> None:
    header = struct.pack(">8sHHI", b"HDWTRJNL", 2, 0, SALT)
    data = header + struct.pack(">I", zlib.crc32(header))
    for read in (decode_journal_header, read_records):
        with pytest.raises(NewerFormat, match=r"1\.journal has format 2"):
            read(data, PATH)


def test_records_read_as_they_were_written() -> None:
    data = journal(b"one", b"", b"three")
    records, damaged = read_records(data, PATH)
    assert not damaged
    assert [(r.log_id, r.partition, r.segment_offset, r.position, r.data) for r in records] == [
        (1, 0, 0, 0, b"one"),
        (1, 0, 0, 100, b""),
        (1, 0, 0, 200, b"three"),
    ]
    assert sum(r.byte_count for r in records) == len(data) - 20


@pytest.mark.parametrize("cut", range(1, 49))
def test_a_torn_last_record_is_not_there_and_nothing_is_missing(cut: int) -> None:
    records, damaged = read_records(journal(b"one", b"torn")[:-cut], PATH)
    assert [r.data for r in records] == [b"one"]
    assert not damaged


@pytest.mark.parametrize("position", range(20, 20 + 47))
def test_a_flipped_byte_before_a_record_that_says_it_was_durable_is_damage(position: int) -> None:
    data = bytearray(journal(b"one", b"two", b"three"))
    data[position] ^= 1
    records, damaged = read_records(bytes(data), PATH)
    assert damaged
    assert [r.data for r in records] == [b"two", b"three"]


def test_records_of_one_round_that_were_lost_together_are_no_damage() -> None:
    head = encode_journal_header(SALT)
    first, second = record(0, b"lost", 20), record(100, b"kept", 20)
    data = bytearray(head + first + second)
    data[30] ^= 1
    records, damaged = read_records(bytes(data), PATH)
    assert not damaged
    assert [r.data for r in records] in ([], [b"kept"])


def test_a_record_of_another_journal_is_none() -> None:
    foreign = encode_journal_header(SALT + 1) + journal(b"one")[20:]
    assert read_records(foreign, PATH) == ([], False)


@pytest.mark.parametrize(("data", "damaged"), [(b"", False), (bytes(20), False), (bytes(21), True)])
def test_a_journal_without_a_header_is_torn_unless_there_is_something_behind(
    data: bytes, damaged: bool
) -> None:
    assert read_records(data, PATH) == ([], damaged)


def test_replay_writes_to_segments_that_exist_and_removes_the_journals() -> None:
    files = new_disk(1)
    put(files, DATA / "1.journal", journal(b"old", b"here"))
    put(files, DATA / "2.journal", journal(b"new"))
    put(files, DATA / "note", b"not a journal")
    put(files, DATA / "target", bytes(3))

    def segment_of(found: JournalRecord) -> Path:
        return DATA / ("target" if found.position == 0 else "gone")

    replay = replay_journals(files, DATA, segment_of)
    assert files.read_file(DATA / "target") == b"new"
    assert files.names(DATA) == ["note", "target"]
    assert (replay.record_count, replay.next_number, replay.damaged) == (3, 3, [])
    assert files.open_descriptors() == []


def test_a_damaged_journal_is_reported_and_kept() -> None:
    machine = Machine(direct_files_max=1)
    for number in range(3):
        append(machine.log(f"log{number}"), b"first")
    machine.store.flush()
    for record_ in (b"second", b"third"):
        for number in range(3):
            append(machine.log(f"log{number}"), record_)
        machine.store.flush()
    (name,) = machine.files.names(DATA / "journal")
    machine.files.damage(DATA / "journal" / name, 70, 1)
    machine.crash()
    kept = DATA / "journal" / name.replace(".journal", ".damaged")
    assert machine.files.names(DATA / "journal") == [kept.name]
    assert machine.store.damaged == [f"{kept}: records that were confirmed are missing in it"]
    assert records_of(machine.log("log2")) == [b"first", b"second", b"third"]


def test_a_journal_of_a_newer_format_stops_opening_and_stays() -> None:
    machine = Machine()
    machine.store.close()
    header = struct.pack(">8sHHI", b"HDWTRJNL", 2, 0, SALT)
    path = DATA / "journal" / "00000000000000000001.journal"
    put(machine.files, path, header + struct.pack(">I", zlib.crc32(header)))
    with pytest.raises(NewerFormat) as caught:
        machine.open()
    assert caught.value.path == str(path)
    assert machine.files.exists(path)
    assert machine.files.open_descriptors() == []
