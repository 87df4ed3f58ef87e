"""Bytes that must never change: segments, indexes, journals, staging files and records of state as disks hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.encoding.chunk import ChunkType, decode_snapshot
from headwater.log.commit import Commit, PartitionId
from headwater.log.files import Files
from headwater.log.index import Index, IndexEntry, IndexFooter, entry_at
from headwater.log.journal import (
    Journal,
    JournalRecord,
    decode_journal_header,
    encode_journal_header,
    read_records,
)
from headwater.log.recovery import recover_partition
from headwater.log.scan import SegmentScan
from headwater.log.segment import (
    Segment,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
    segment_path,
)
from headwater.log.segment_syncs import SegmentSyncs
from headwater.log.staging import (
    StagedBlock,
    decode_staging_header,
    encode_block,
    encode_staging_header,
    read_blocks,
)
from headwater.log.state import decode_record, encode_record
from headwater.log.tracking import Tracking

FOLDER = Path(__file__).parent
NOON = 1_700_000_000_000
PATH = Path("file")
SALT = 0xDEADBEEF

ENTRIES = [
    IndexEntry(40, NOON, 2, 64, 2),
    IndexEntry(40, NOON, 2, 189, 0),
    IndexEntry(42, NOON, 2, 289, 1),
    IndexEntry(42, NOON + 9, 3, 380, 0),
]
SEGMENT_BYTES = 482
RECORDS = [
    JournalRecord(7, 0, 40, 64, 20, b"bytes of a segment"),
    JournalRecord(2**63, 2**32 - 1, 2**63 - 1, 2**40, 82, b""),
    JournalRecord(1, 2, 3, 4, 126, bytes(9)),
]
BLOCKS = [
    StagedBlock(PartitionId(7, 0), 2, 2, b"\0\0\0\3one\0\0\0\3two"),
    StagedBlock(PartitionId(2**63, 9), 1, 3, b"\x80\0\3\0\0\0\x0f\0\0\0\x0f" + b"\0\0\0\1a" * 3),
]
STATE = {
    "put": (b"key", b"\0value"),
    "removed": (b"key", None),
    "longest_key": (b"k" * 1024, b""),
}


def vector(name: str) -> bytes:
    """The bytes of a .hex file; from `#` to the end of a line it is words."""
    lines = (FOLDER / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return b"".join(bytes.fromhex(line.partition("#")[0]) for line in lines)


@pytest.mark.parametrize(
    "path",
    [
        path
        for name in ("segment", "index", "journal", "staging", "state")
        for path in sorted((FOLDER / name).iterdir())
    ],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_vector_says_where_it_comes_from(path: Path) -> None:
    assert path.suffix == ".hex"
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# Written field by field from ")
    assert "without any code of headwater" in first


def test_a_segment_header_reads_and_is_written_so() -> None:
    header = SegmentHeader(2**32 + 5, 3, 2**63 - 1, NOON, 9, 2**32 - 1)
    assert decode_segment_header(vector("segment/header"), PATH) == header
    assert encode_segment_header(header) == vector("segment/header")


def test_a_segment_reads_chunk_by_chunk(tmp_path: Path) -> None:
    data = vector("segment/whole")
    assert len(data) == SEGMENT_BYTES
    path = segment_path(tmp_path, 40)
    path.write_bytes(data)
    files = Files()
    fd = files.open(path)
    chunks = list(SegmentScan(files, fd, len(data), SALT).chunks(64, path, 40))
    files.close(fd)
    assert [chunk.index_entry() for chunk in chunks] == ENTRIES
    snapshot, events, delta, batch = chunks
    assert snapshot.header.type == ChunkType.SNAPSHOT
    assert decode_snapshot(snapshot.data) == ({b"p": (5, NOON - 10)}, {b"reader": (39, NOON - 20)})
    assert bytes(events.data) == BLOCKS[0].data
    assert (events.trailer.publishers, delta.trailer.offsets) == ({b"p": 7}, {b"reader": 41})
    assert bytes(batch.data) == BLOCKS[1].data
    assert [chunk.trailer.synced_position for chunk in chunks] == [0, 0, 289, 380]
    assert batch.end_offset == 45


@pytest.mark.parametrize("index", ["sealed", "open", None])
def test_a_partition_recovers_to_what_the_bytes_say(tmp_path: Path, index: str | None) -> None:
    folder = tmp_path / "7" / "0"
    folder.mkdir(parents=True)
    path = segment_path(folder, 40)
    path.write_bytes(vector("segment/whole"))
    if index is not None:
        path.with_suffix(".index").write_bytes(vector(f"index/{index}"))
    tracking = Tracking(10, 10**6)
    found = recover_partition(Files(), folder, tracking)
    assert found.damage is None
    assert (found.end_offset, found.timestamp_ms_max, found.cut_bytes) == (45, NOON + 9, 0)
    assert [segment.size for segment in found.segments] == [SEGMENT_BYTES]
    if index != "sealed":  # sealed, with the snapshot named, promises that nothing came behind it
        assert (tracking.sequence(b"p"), tracking.stored_offset(b"reader")) == (7, 41)
    assert path.read_bytes() == vector("segment/whole")


def test_index_entries_read_and_are_written_so() -> None:
    data = vector("index/open")
    assert [entry_at(data, number) for number in range(4)] == ENTRIES
    index = Index(PATH)
    for entry in ENTRIES:
        index.append(entry)
    assert bytes(index.pending) == data


def test_a_sealed_index_reads_and_is_written_so(tmp_path: Path) -> None:
    data, entries = vector("index/sealed"), vector("index/open")
    footer = IndexFooter.decode(data[-40:], len(data))
    footer.check(data[:-40])
    assert (footer.count, footer.segment_bytes, footer.snapshot_position) == (4, SEGMENT_BYTES, 64)
    assert entries + footer.encode() == data
    segment = Segment(segment_path(tmp_path, 40), 40, SEGMENT_BYTES, SALT)
    for entry in ENTRIES:
        segment.index.append(entry)
    segment.seal_index(Files(), 64)
    assert segment.index.path.read_bytes() == data


def test_a_journal_reads_so() -> None:
    data = vector("journal/three_records")
    assert decode_journal_header(data, PATH) == 0x80000001
    assert encode_journal_header(0x80000001) == data[:20]
    assert read_records(data, PATH) == (RECORDS, False)


def test_a_journal_is_written_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.log.journal.secrets.randbits", lambda bits: 0x80000001)
    journal = Journal(Files(), tmp_path, 1)
    for record in RECORDS:
        segment = Segment(
            segment_path(tmp_path, record.segment_offset), record.segment_offset, record.position, 0
        )
        id_ = PartitionId(record.log_id, record.partition)
        commit = Commit(Files(), SegmentSyncs(Files()), id_, segment, lambda commit: None)
        commit.buffers, commit.end = [record.data], record.position + len(record.data)
        assert journal.append([commit]) == 0
    journal.close()
    assert journal.path.read_bytes() == vector("journal/three_records")


def test_a_staging_file_reads_and_is_written_so(tmp_path: Path) -> None:
    data = vector("staging/two_blocks")
    assert decode_staging_header(data, PATH) == NOON
    assert encode_staging_header(NOON) + b"".join(map(encode_block, BLOCKS)) == data
    (tmp_path / "a.staged").write_bytes(data)
    files = Files()
    fd = files.open(tmp_path / "a.staged")
    assert list(read_blocks(files, fd, PATH)) == BLOCKS
    files.close(fd)


@pytest.mark.parametrize("name", STATE)
def test_a_record_of_state_reads_and_is_written_so(name: str) -> None:
    data = vector(f"state/{name}")
    assert decode_record(data) == STATE[name]
    assert encode_record(*STATE[name]) == data
