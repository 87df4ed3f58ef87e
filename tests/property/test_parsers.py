"""Any bytes that a disk may hold parse, or raise the one error that is documented."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import ForeignFile, MalformedChunk, MalformedIndex, NewerFormat
from headwater.log.folder import read_store_definition
from headwater.log.index import IndexFooter, entry_at, find_offset, find_time, is_ordered
from headwater.log.journal import decode_journal_header, encode_journal_header, read_records
from headwater.log.log import read_definition
from headwater.log.scan import SegmentScan
from headwater.log.segment import decode_segment_header, segment_offset
from headwater.log.staging import decode_staging_header, encode_staging_header, read_blocks
from headwater.log.state import decode_record, encode_record
from tests.log_material import DATA, Machine, append
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.rig import new_disk

PATH = Path("file")
BYTES = st.binary(max_size=200)


def with_crc(head: bytes) -> bytes:
    return head + struct.pack(">I", zlib.crc32(head))


def disk_with(data: bytes, name: str = "file") -> tuple[FaultyFiles, int]:
    files = new_disk(1)
    fd = files.open(DATA / name, create=True)
    files.write(fd, 0, data)
    return files, fd


def segment() -> bytes:
    machine = Machine()
    for number in range(3):
        append(machine.log(), b"%d" % number)
        machine.store.flush()
    return machine.files.read_file(machine.log().segments[0].path)


SEGMENT = segment()
SALT = decode_segment_header(SEGMENT, PATH).salt

HEADERS = [
    (decode_segment_header, b"HDWTRSEG", 60),
    (decode_journal_header, b"HDWTRJNL", 16),
    (decode_staging_header, b"HDWTRSTG", 20),
]


@pytest.mark.parametrize(("decode", "magic", "size"), HEADERS)
@given(data=BYTES, valid=st.booleans())
def test_any_bytes_are_a_header_or_malformed_or_newer(
    decode: object, magic: bytes, size: int, data: bytes, valid: bool
) -> None:
    assert callable(decode)
    if valid:
        data = with_crc((magic + data).ljust(size, b"\0")[:size])
    newer = int.from_bytes(data[8:10], "big") > 1
    try:
        decode(data, PATH)
    except NewerFormat:
        assert (valid, newer) == (True, True)
    except MalformedChunk:
        assert not valid
    else:
        assert (valid, newer) == (True, False)


@given(BYTES, st.integers(0, 300), st.booleans())
def test_any_bytes_are_a_footer_or_malformed(data: bytes, file_bytes: int, valid: bool) -> None:
    if valid:
        data = with_crc((b"HDWTRIDX" + data).ljust(36, b"\0")[:36])
    try:
        footer = IndexFooter.decode(data, file_bytes)
    except MalformedIndex:
        return
    assert footer.encode() == data
    assert footer.count * 29 + 40 == file_bytes


@given(BYTES, st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1))
def test_any_entries_can_be_looked_up_in(data: bytes, offset: int, time: int) -> None:
    count = len(data) // 29
    for found in (find_offset(data, offset), find_time(data, time)):
        assert found is None or 0 <= found < count
    for number in range(count):
        assert entry_at(data, number).position == int.from_bytes(data[29 * number + 24 :][:4], "big")
    assert is_ordered(data[: 29 * count]) in (True, False)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20), st.integers(-1, 60))
def test_look_ups_agree_with_a_plain_search(steps: list[tuple[int, int]], wanted: int) -> None:
    entries, offset, time = b"", 0, 0
    rows = []
    for number, (records, milliseconds) in enumerate(steps):
        time += milliseconds
        rows.append((offset, time))
        entries += struct.pack(">QqQIB", offset, time, 1, 64 + number, 0)
        offset += records
    assert find_offset(entries, wanted) == max(
        (n for n, row in enumerate(rows) if row[0] <= wanted), default=None
    )
    assert find_time(entries, wanted) == min(
        (n for n, row in enumerate(rows) if row[1] >= wanted), default=None
    )


@given(BYTES, st.booleans())
def test_any_journal_gives_records_that_stand_in_it(data: bytes, valid: bool) -> None:
    if valid:
        data = encode_journal_header(7) + data
    records, damaged = read_records(data, PATH)
    assert sum(record.byte_count for record in records) <= len(data)
    assert damaged in (True, False)


@given(BYTES, st.booleans())
def test_any_staging_file_gives_blocks_or_is_malformed(data: bytes, valid: bool) -> None:
    if valid:
        data = encode_staging_header(1) + data
    files, fd = disk_with(data)
    try:
        blocks = list(read_blocks(files, fd, PATH))
    except MalformedChunk:
        assert data[24:] or not valid
    else:
        assert 24 + sum(28 + len(block.data) for block in blocks) == len(data)


@given(BYTES)
def test_any_bytes_are_a_record_of_state_or_malformed(data: bytes) -> None:
    try:
        key, value = decode_record(data)
    except MalformedChunk:
        return
    assert encode_record(key, value) == data


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
@example(b'{"format": 1, "a":' + b"[" * 100_000)
@example(b'{"format": 2}')
def test_any_definition_reads_or_is_foreign_or_newer(data: bytes) -> None:
    files, _ = disk_with(data, "log.json")
    for read in (
        lambda: read_definition(files, DATA),
        lambda: read_store_definition(files, DATA / "log.json"),
    ):
        with contextlib.suppress(ForeignFile, NewerFormat):
            read()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("format", "id", "vhost", "name", "kind", "partitions", "settings", "epoch"), JSON
        ),
    )
)
def test_any_fields_of_a_definition_read_or_are_foreign_or_newer(fields: dict[str, object]) -> None:
    files, _ = disk_with(json.dumps(fields).encode(), "log.json")
    with pytest.raises((ForeignFile, NewerFormat)):
        read_definition(files, DATA)


@given(
    st.lists(st.tuples(st.integers(0, len(SEGMENT) - 1), st.integers(0, 255)), max_size=3),
    st.integers(0, len(SEGMENT) + 10),
    st.integers(0, len(SEGMENT)),
)
def test_any_place_of_any_segment_has_a_whole_chunk_or_none(
    changes: list[tuple[int, int]], position: int, size: int
) -> None:
    data = bytearray(SEGMENT)
    for at, byte in changes:
        data[at] = byte
    files, fd = disk_with(bytes(data[:size]))
    scan = SegmentScan(files, fd, size, SALT)
    try:
        chunk = scan.chunk(position)
    except MalformedChunk:
        pass
    else:
        assert position < chunk.end <= size
        assert SEGMENT[position : chunk.end] == data[position : chunk.end]
    assert scan.synced_position_behind(position) <= size


@given(st.text(max_size=40))
def test_any_file_name_is_that_of_a_segment_or_none(name: str) -> None:
    offset = segment_offset(name)
    assert offset is None or name == f"{offset:020d}.segment"
