"""A segment: one file of a partition, a header of 64 bytes and chunks behind it.

 0  8  magic "HDWTRSEG"             32  8  time of creation, ms
 8  2  format version               40  8  epoch
10  2  reserved, 0                  48  4  salt, random
12  4  partition                    52  8  reserved, 0
16  8  log id                       60  4  CRC-32 of bytes 0 to 59
24  8  first offset
"""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
from isal.isal_zlib import crc32

from headwater.errors import MalformedChunk, NewerFormat
from headwater.log.files import Files
from headwater.log.index import INDEX_FOOTER_BYTES, Index, IndexFooter

__all__ = [
    "FOREIGN_SUFFIX",
    "INDEX_SUFFIX",
    "REMOVED_SUFFIX",
    "SEGMENT_FORMAT",
    "SEGMENT_HEADER_BYTES",
    "SEGMENT_SUFFIX",
    "Segment",
    "SegmentHeader",
    "check_identity",
    "decode_segment_header",
    "encode_segment_header",
    "is_foreign_start",
    "read_segment_header",
    "segment_offset",
    "segment_path",
]

SEGMENT_HEADER_BYTES = 64
SEGMENT_FORMAT = 1
SEGMENT_SUFFIX = ".segment"
INDEX_SUFFIX = ".index"
REMOVED_SUFFIX = ".removed"
FOREIGN_SUFFIX = ".foreign"

_MAGIC = b"HDWTRSEG"
_LAYOUT = struct.Struct(">8sHHIQQqQIQ")
_CRC = struct.Struct(">I")


class SegmentHeader(msgspec.Struct, frozen=True, gc=False):
    """Which part of which partition a file holds.

    From the salt start the CRCs of its chunks' trailers: what another segment left on the disk, or a user put into
    an event, is never taken for a chunk of this one.
    """

    log_id: int
    partition: int
    first_offset: int
    created_ms: int
    epoch: int
    salt: int


class Segment:
    """A segment as its partition knows it: where it lies, how long it is, and its index."""

    __slots__ = ("first_offset", "index", "path", "salt", "size")

    def __init__(self, path: Path, first_offset: int, size: int, salt: int) -> None:
        self.path = path
        self.first_offset = first_offset
        self.size = size
        self.salt = salt
        self.index = Index(path.with_suffix(INDEX_SUFFIX))

    def seal_index(self, files: Files, snapshot_position: int) -> None:
        """Write what is missing of the index, and its footer; it is a cache, so a failure is none.

        The snapshot position is 0 unless the last snapshot tells all that the segment does.
        """
        index = self.index
        footer = IndexFooter(index.count, self.size, snapshot_position, index.crc)
        try:
            fd = files.open(index.path, write=True, create=not files.exists(index.path))
            try:
                end = index.written_bytes + len(index.pending) + INDEX_FOOTER_BYTES
                files.write(fd, index.written_bytes, index.pending + footer.encode())
                files.truncate(fd, end)
            finally:
                files.close(fd)
        except OSError:
            return
        index.mark_written(len(index.pending))
        index.trusted = index.sealed = True


def encode_segment_header(header: SegmentHeader) -> bytes:
    """The 64 bytes at the start of a segment."""
    body = _LAYOUT.pack(
        _MAGIC,
        SEGMENT_FORMAT,
        0,
        header.partition,
        header.log_id,
        header.first_offset,
        header.created_ms,
        header.epoch,
        header.salt,
        0,
    )
    return body + _CRC.pack(crc32(body))


def decode_segment_header(data: bytes, path: Path) -> SegmentHeader:
    """Read what `encode_segment_header` wrote; raises `MalformedChunk`, or `NewerFormat` for a later version."""
    if len(data) < SEGMENT_HEADER_BYTES or data[:8] != _MAGIC:
        raise MalformedChunk(0, "no segment header")
    _, version, _, partition, log_id, first, created, epoch, salt, _ = _LAYOUT.unpack_from(data)
    if _CRC.unpack_from(data, _LAYOUT.size)[0] != crc32(data[: _LAYOUT.size]):
        raise MalformedChunk(0, "CRC of the segment header")
    if version > SEGMENT_FORMAT:
        raise NewerFormat(path, version, SEGMENT_FORMAT)
    return SegmentHeader(log_id, partition, first, created, epoch, salt)


def check_identity(header: SegmentHeader, path: Path) -> None:
    """Raise `MalformedChunk` unless the header is that of the segment which has this path."""
    named = (path.parent.parent.name, path.parent.name, segment_offset(path.name))
    if named != (str(header.log_id), str(header.partition), header.first_offset):
        where = f"{header.log_id}/{header.partition} at offset {header.first_offset}"
        raise MalformedChunk(0, f"it belongs to partition {where}")


def is_foreign_start(data: bytes) -> bool:
    """Whether a file begins in a way that no segment does, however little of its header reached the disk."""
    start = data[: len(_MAGIC)].rstrip(b"\0")
    return not _MAGIC.startswith(start)


def read_segment_header(files: Files, fd: int, path: Path) -> SegmentHeader:
    """The header of an open segment, checked against its path; raises as `decode_segment_header`."""
    header = decode_segment_header(files.read(fd, 0, SEGMENT_HEADER_BYTES), path)
    check_identity(header, path)
    return header


def segment_path(folder: Path, first_offset: int) -> Path:
    """The path of the segment that starts at an offset."""
    return folder / f"{first_offset:020d}{SEGMENT_SUFFIX}"


def segment_offset(name: str) -> int | None:
    """The first offset that a file name of ours tells, or None for any other name."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != SEGMENT_SUFFIX or len(stem) != 20 or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)
