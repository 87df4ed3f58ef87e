"""The parsers of what the log keeps on disk: segments, indexes, journals, staging files, definitions, state."""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

from fuzz.targets import CHUNKS, check, target
from headwater.encoding._kernel import walk_entries
from headwater.encoding.compression import Compression, pack_sub_batch, unpack_entry
from headwater.errors import ForeignFile, MalformedChunk, MalformedIndex, NewerFormat, StorageError
from headwater.log.commit import PartitionId
from headwater.log.files import Files
from headwater.log.folder import read_store_definition
from headwater.log.index import IndexFooter, entry_at, find_offset, find_time, is_ordered
from headwater.log.journal import encode_journal_header, read_records
from headwater.log.log import PARTITIONS_MAX, read_definition
from headwater.log.scan import SegmentScan
from headwater.log.segment import SegmentHeader, decode_segment_header, encode_segment_header
from headwater.log.staging import StagedBlock, encode_block, encode_staging_header, read_blocks
from headwater.log.state import decode_record, encode_record

__all__: list[str] = []

_FD = 3
_PATH = Path("input")


class _Bytes(Files):
    """A disk of one file that is the input."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        return _FD

    def close(self, fd: int) -> None:
        pass

    def size(self, fd: int) -> int:
        return len(self.data)

    def read(self, fd: int, position: int, count: int) -> bytes:
        return self.data[position : position + count]


def _with_crc(data: bytes, size: int) -> bytes:
    """The input with the CRC of its header made to hold, for hardly a changed header passes it."""
    if len(data) < size + 4:
        return data
    return data[:size] + struct.pack(">I", zlib.crc32(data[:size])) + data[size + 4 :]


SEGMENT = encode_segment_header(SegmentHeader(1, 2, 3, 4, 5, 0))


@target("segment_header", MalformedChunk, seeds=[SEGMENT])
def fuzz_segment_header(data: bytes) -> None:
    with contextlib.suppress(NewerFormat):
        header = decode_segment_header(_with_crc(data, 60), _PATH)
        check(
            decode_segment_header(encode_segment_header(header), _PATH) == header,
            "another header was written",
        )


@target("segment_scan", MalformedChunk, seeds=[CHUNKS[0], b"".join(CHUNKS), CHUNKS[1] + CHUNKS[0] * 2])
def fuzz_segment_scan(data: bytes) -> None:
    for salt in (0, None):
        scan = SegmentScan(_Bytes(data), _FD, len(data), salt)
        for position in range(0, len(data), 64):
            check(scan.synced_position_behind(position) <= len(data), "a position outside of the segment")
    chunk = SegmentScan(_Bytes(data), _FD, len(data), 0).chunk(0)
    check(0 < chunk.end <= len(data), "a chunk reaches beyond the segment")


_ENTRY = struct.pack(">QqQIB", 5, 6, 7, 64, 0)


def _sealed(entries: bytes) -> bytes:
    return entries + IndexFooter(len(entries) // 29, 500, 64, zlib.crc32(entries)).encode()


@target("index_file", MalformedIndex, seeds=[_sealed(_ENTRY * 3), _sealed(b"")])
def fuzz_index_file(data: bytes) -> None:
    entries = data[: len(data) - len(data) % 29]
    is_ordered(entries)
    count = len(entries) // 29
    for wanted in (0, 5, 2**63 - 1):
        for found in (find_offset(entries, wanted), find_time(entries, wanted)):
            check(found is None or 0 <= found < count, "an entry that is not there was found")
            if found is not None:
                entry_at(entries, found)
    footer = IndexFooter.decode(data[-40:], len(data))
    footer.check(data[:-40])
    check(footer.encode() == data[-40:], "another footer was written")


def _record(data: bytes, synced: int) -> bytes:
    body = struct.pack(">QIIQQQ", 1, 0, len(data), 0, 64, synced) + data
    return struct.pack(">I", zlib.crc32(body)) + body


_JOURNAL = encode_journal_header(0) + _record(b"first", 20) + _record(b"second", 69)


@target("journal", NewerFormat, seeds=[_JOURNAL, _JOURNAL[:-3], encode_journal_header(0)])
def fuzz_journal(data: bytes) -> None:
    for held in (data, _with_crc(data, 16)):
        records, _ = read_records(held, _PATH)
        check(sum(record.byte_count for record in records) <= len(held), "more records than bytes")
        for record in records:
            check(record.data in held, "a record holds other bytes")


_BLOCKS = [StagedBlock(PartitionId(1, 0), 1, 1, b"\0\0\0\1x"), StagedBlock(PartitionId(2**63, 9), 2, 7, b"")]
_STAGED = encode_staging_header(5) + b"".join(map(encode_block, _BLOCKS))


@target("staging_file", MalformedChunk, seeds=[_STAGED, encode_staging_header(0)])
def fuzz_staging_file(data: bytes) -> None:
    with contextlib.suppress(NewerFormat):
        blocks = list(read_blocks(_Bytes(_with_crc(data, 20)), _FD, _PATH))
        check(data[24:] == b"".join(map(encode_block, blocks)), "other blocks were read")


@target("state_record", MalformedChunk, seeds=[encode_record(b"key", b"value"), encode_record(b"key", None)])
def fuzz_state_record(data: bytes) -> None:
    check(encode_record(*decode_record(data)) == data, "another record was written")


_LOG = (
    b'{"format":1,"id":7,"vhost":"/","name":"a","kind":"super_stream",'
    b'"partitions":[{"name":"a","key":"k"},{"name":"b"}],"settings":{"max_bytes":5}}'
)


@target("log_json", ForeignFile, seeds=[_LOG])
def fuzz_log_json(data: bytes) -> None:
    with contextlib.suppress(NewerFormat):
        definition = read_definition(_Bytes(data), Path(os.curdir))
        check(len(definition.partitions) <= PARTITIONS_MAX, "more partitions than a log may have")
        check(definition.kind == "super_stream" or len(definition.partitions) == 1, "a stream in parts")


@target("store_json", ForeignFile, seeds=[b'{"format":1,"epoch":12,"next_log_id":8}'])
def fuzz_store_json(data: bytes) -> None:
    with contextlib.suppress(NewerFormat):
        definition = read_store_definition(_Bytes(data), Path("store.json"))
        check(definition.epoch >= 0 and definition.next_log_id > 0, "an epoch or an id below the first")


@target(
    "unpack_entry",
    StorageError,
    seeds=[pack_sub_batch([b"one", b"", b"three"], compression) for compression in Compression],
)
def fuzz_unpack_entry(data: bytes) -> None:
    if data[:1] < b"\x80":
        return
    plain, records = unpack_entry(data, 0, len(data))
    check(walk_entries(plain, 0, len(plain), records) == (len(plain), records), "other records were unpacked")
