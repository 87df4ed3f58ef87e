"""Uploads of staged commits: blocks go in, sealing makes them durable, what nobody commits goes away."""

from __future__ import annotations

import errno
import struct
import zlib
from pathlib import Path

import pytest

from headwater.errors import (
    DiskFull,
    EntryTooLarge,
    InvalidStagedCommit,
    LogBusy,
    MalformedChunk,
    NewerFormat,
    UnknownAttempt,
    UnknownPartition,
    WriteFailed,
)
from headwater.log.commit import PartitionId
from headwater.log.staging import (
    StagedBlock,
    decode_staging_header,
    encode_block,
    encode_staging_header,
    read_blocks,
)
from tests.log_material import DATA, Answers, Machine, entry, sub_batch

FOLDER = DATA / "staging"
ID = PartitionId(1, 0)


@pytest.fixture
def machine() -> Machine:
    machine = Machine(staging_bytes_max=2000, staging_expiry_ms=1000)
    assert machine.log().id == ID
    return machine


def block(data: bytes = b"x") -> StagedBlock:
    return StagedBlock(ID, 1, 1, entry(data))


def upload(machine: Machine, attempt: str, *blocks: StagedBlock) -> None:
    for each in blocks or (block(),):
        machine.store.staging.upload(attempt, each, machine.clock.now_ms)


def seal(machine: Machine, attempt: str) -> Answers:
    answers = Answers()
    machine.store.staging.seal(attempt, answers)
    machine.store.flush()
    return answers


def names(machine: Machine) -> list[str]:
    return machine.files.names(FOLDER)


def put(machine: Machine, name: str, data: bytes) -> None:
    fd = machine.files.open(FOLDER / name, create=True)
    machine.files.write_and_sync(fd, 0, [data], sync=True)
    machine.files.close(fd)


@pytest.mark.parametrize("created_ms", [0, 1_700_000_000_000, 2**64 - 1])
def test_a_header_reads_as_it_was_written(created_ms: int) -> None:
    data = encode_staging_header(created_ms)
    assert len(data) == 24
    assert decode_staging_header(data, Path()) == created_ms


@pytest.mark.parametrize("position", range(24))
def test_every_flipped_byte_of_a_header_is_found(position: int) -> None:
    data = bytearray(encode_staging_header(5))
    data[position] ^= 1
    with pytest.raises(MalformedChunk, match="header of a staging file"):
        decode_staging_header(data, Path())


def test_what_was_uploaded_and_sealed_reads_back_in_order_and_is_there_after_a_crash(
    machine: Machine,
) -> None:
    blocks = [block(b"one"), StagedBlock(ID, 1, 3, sub_batch(b"x", 3)), block(b"")]
    upload(machine, "a", *blocks)
    assert names(machine) == ["a.upload"]
    assert not machine.store.staging.is_sealed("a")
    assert seal(machine, "a") == [None]
    for _ in range(2):
        assert machine.store.staging.is_sealed("a")
        assert list(machine.store.staging.blocks("a")) == blocks
        assert machine.store.staging.byte_count == machine.files.size_of(FOLDER / "a.staged")
        machine.files = machine.files.after_crash(machine.files.rng)
        machine.open()


def test_an_upload_that_was_not_sealed_is_gone_after_opening_again(machine: Machine) -> None:
    upload(machine, "a")
    machine.crash()
    assert names(machine) == []
    with pytest.raises(UnknownAttempt, match="there is no sealed upload 'a'"):
        machine.store.staging.seal("a", Answers())


def test_a_sealed_upload_takes_no_more_and_may_be_sealed_again(machine: Machine) -> None:
    upload(machine, "a")
    seal(machine, "a")
    with pytest.raises(InvalidStagedCommit, match="attempt 'a' is sealed already"):
        upload(machine, "a")
    assert seal(machine, "a") == [None]


def test_an_upload_that_is_being_sealed_takes_no_more_and_answers_all_that_seal_it(
    machine: Machine,
) -> None:
    upload(machine, "a")
    answers = Answers()
    machine.store.staging.seal("a", answers)
    with pytest.raises(InvalidStagedCommit):
        upload(machine, "a")
    machine.store.staging.seal("a", answers)
    assert answers == []
    machine.store.flush()
    assert answers == [None, None]


def test_a_seal_that_fails_is_told_and_all_is_sent_again(machine: Machine) -> None:
    upload(machine, "a", block(b"first"))
    machine.files.fail_sync("*.upload")
    assert [type(answer) for answer in seal(machine, "a")] == [WriteFailed]
    assert not machine.store.staging.is_sealed("a")
    upload(machine, "a", block(b"again"))
    assert seal(machine, "a") == [None]
    assert list(machine.store.staging.blocks("a")) == [block(b"again")]


@pytest.mark.parametrize("after_bytes", [0, 10, 30])
@pytest.mark.parametrize("first", [True, False])
def test_a_block_that_could_not_be_written_is_not_there_and_may_be_sent_again(
    machine: Machine, after_bytes: int, first: bool
) -> None:
    if not first:
        upload(machine, "a", block(b"before"))
    machine.files.fail_write("*.upload", errno.ENOSPC, after_bytes=after_bytes)
    with pytest.raises(DiskFull):
        upload(machine, "a", block(b"refused"))
    upload(machine, "a", block(b"again"))
    seal(machine, "a")
    expected = [block(b"again")] if first else [block(b"before"), block(b"again")]
    assert list(machine.store.staging.blocks("a")) == expected


def test_uploads_are_bounded_in_all(machine: Machine) -> None:
    upload(machine, "a", block(bytes(900)))
    seal(machine, "a")
    upload(machine, "b", block(bytes(900)))
    with pytest.raises(LogBusy, match="the bound is 2000"):
        upload(machine, "c", block(bytes(200)))
    machine.reopen()
    upload(machine, "c", block(bytes(900)))
    with pytest.raises(LogBusy):
        upload(machine, "c", block(bytes(200)))
    machine.store.staging.remove("a")
    upload(machine, "c", block(bytes(200)))


@pytest.mark.parametrize("attempt", ["", ".hidden", "a/b", "a b", "ä", "x" * 201, "../lock"])
def test_a_name_that_is_no_file_name_is_refused(machine: Machine, attempt: str) -> None:
    with pytest.raises(InvalidStagedCommit, match="is no name of an attempt: 1 to 200 of"):
        upload(machine, attempt)
    assert names(machine) == []


def test_a_name_of_200_characters_is_taken(machine: Machine) -> None:
    upload(machine, "x" * 200)
    assert seal(machine, "x" * 200) == [None]


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (StagedBlock(PartitionId(1, 1), 1, 1, entry(b"x")), UnknownPartition),
        (StagedBlock(PartitionId(9, 0), 1, 1, entry(b"x")), UnknownPartition),
        (StagedBlock(ID, 1, 1, entry(bytes(1 << 20))), EntryTooLarge),
        (StagedBlock(ID, 65_536, 65_536, bytes(4 * 65_536)), EntryTooLarge),
        (StagedBlock(ID, 0, 0, b""), InvalidStagedCommit),
        (StagedBlock(ID, 2, 2, entry(b"x")), InvalidStagedCommit),
        (StagedBlock(ID, 1, 2, entry(b"x")), InvalidStagedCommit),
        (StagedBlock(ID, 1, 1, entry(b"x") + b"more"), InvalidStagedCommit),
        (StagedBlock(ID, 1, 1, b"\0\0\0\5cut"), InvalidStagedCommit),
    ],
)
def test_a_block_that_its_partition_could_not_take_is_refused(
    machine: Machine, refused: StagedBlock, error: type[Exception]
) -> None:
    with pytest.raises(error):
        upload(machine, "a", refused)
    assert names(machine) == []


def test_what_nobody_commits_goes_after_its_time(machine: Machine) -> None:
    upload(machine, "sealed")
    seal(machine, "sealed")
    upload(machine, "open")
    machine.clock.now_ms += 1000
    machine.store.enforce_retention()
    assert names(machine) == ["open.upload", "sealed.staged"]
    upload(machine, "young")
    machine.clock.now_ms += 1
    machine.store.enforce_retention()
    assert names(machine) == ["young.upload"]
    assert machine.store.staging.byte_count == machine.files.size_of(FOLDER / "young.upload")


def test_foreign_files_are_left_alone_and_told(machine: Machine) -> None:
    for name in ("note.txt", "a b.staged"):
        put(machine, name, b"by hand")
    machine.reopen()
    machine.clock.now_ms *= 2
    assert machine.store.enforce_retention() == []
    assert names(machine) == ["a b.staged", "note.txt"]
    assert len(machine.store.notices) == 2
    assert all("not a file of headwater, left alone" in notice for notice in machine.store.notices)


def test_a_newer_format_stops_opening(machine: Machine) -> None:
    header = struct.pack(">8sHHQ", b"HDWTRSTG", 2, 0, 5)
    put(machine, "a.staged", header + struct.pack(">I", zlib.crc32(header)))
    machine.store.close()
    with pytest.raises(NewerFormat, match=r"a\.staged has format 2, this version reads up to 1"):
        machine.open()


@pytest.mark.parametrize("cut", [1, 5, 28, 32, 33])
def test_a_file_that_is_cut_off_is_damage_for_it_was_durable(machine: Machine, cut: int) -> None:
    data = encode_staging_header(1) + encode_block(block()) + encode_block(block())
    put(machine, "a.staged", data[:-cut])
    fd = machine.files.open(FOLDER / "a.staged")
    if cut == 33:  # just the second block is gone
        assert len(list(read_blocks(machine.files, fd, FOLDER))) == 1
    else:
        with pytest.raises(MalformedChunk, match="is cut off") as caught:
            list(read_blocks(machine.files, fd, FOLDER))
        assert caught.value.position == 24 + 33


@pytest.mark.parametrize("position", range(24, 24 + 33))
def test_every_flipped_byte_of_a_block_is_found(machine: Machine, position: int) -> None:
    data = bytearray(encode_staging_header(1) + encode_block(block()))
    data[position] ^= 0x80
    put(machine, "a.staged", bytes(data))
    with pytest.raises(MalformedChunk):
        list(read_blocks(machine.files, machine.files.open(FOLDER / "a.staged"), FOLDER))
