"""Staged commit: attempts upload, one durable record names the winners, their bytes are appended exactly once.

    staging file, header 24                  block, 28 and the data
     0  8  magic "HDWTRSTG"                   0  4  CRC-32 of all that follows
     8  2  format version                     4  8  log id
    10  2  reserved, 0                       12  4  partition
    12  8  time of creation, ms              16  4  entries
    20  4  CRC-32 of bytes 0 to 19           20  4  records
                                             24  4  byte count, then chunk data

`<attempt>.upload` grows; sealed, synced and renamed it is `<attempt>.staged`, and only then can it win. A commit is a
record in `$state`: pending while its blocks are appended, done afterwards. Blocks are appended under a publisher
reference of the query's own, with batch and block number as sequence, so that recovery may append all of them again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from isal.isal_zlib import crc32

from headwater.encoding._kernel import walk_entries
from headwater.encoding.chunk import ENTRIES_MAX
from headwater.errors import (
    EntryTooLarge,
    InvalidStagedCommit,
    LogBusy,
    MalformedChunk,
    NewerFormat,
    StorageError,
    UnknownAttempt,
    UnknownPartition,
)
from headwater.log.commit import PartitionId
from headwater.log.committer import Job
from headwater.log.files import Buffer, Files, storage_error
from headwater.log.intake import OnDone
from headwater.log.partition import Partition
from headwater.log.settings import StoreSettings

__all__ = [
    "BATCH_MAX",
    "BLOCK_HEADER_BYTES",
    "STAGED_SUFFIX",
    "STAGING_HEADER_BYTES",
    "UPLOAD_SUFFIX",
    "StagedBlock",
    "StagedCommit",
    "Staging",
    "decode_staging_header",
    "encode_block",
    "encode_staging_header",
    "read_blocks",
]

STAGING_FORMAT = 1
STAGING_HEADER_BYTES = 24
BLOCK_HEADER_BYTES = 28
STAGED_SUFFIX = ".staged"
UPLOAD_SUFFIX = ".upload"
BATCH_MAX = (1 << 31) - 1

_MAGIC = b"HDWTRSTG"
_HEADER = struct.Struct(">8sHHQ")
_BLOCK = struct.Struct(">QIIII")
_CRC = struct.Struct(">I")
_ATTEMPT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")


class StagedBlock(msgspec.Struct, frozen=True, gc=False):
    """Entries for one partition, which go into it as one whole."""

    partition: PartitionId
    entries: int
    records: int
    data: bytes


class StagedCommit(msgspec.Struct, frozen=True):
    """The record of a query's last commit."""

    batch: int
    attempts: tuple[str, ...]
    state: Literal["pending", "done"]
    time_ms: int


class _Seal:
    """Syncs an upload and gives it its final name; on a thread."""

    def __init__(self, files: Files, upload: Path, finished: Callable[[StorageError | None], None]) -> None:
        self._files = files
        self._upload = upload
        self._finished = finished
        self._error: StorageError | None = None

    def run(self) -> None:
        """Do it."""
        try:
            fd = self._files.open(self._upload, write=True)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._files.rename(self._upload, self._upload.with_suffix(STAGED_SUFFIX))
            self._files.sync_folder(self._upload.parent)
        except OSError as error:
            self._error = storage_error(error.errno or 0, self._upload)

    def apply(self) -> None:
        """Tell what came of it."""
        self._finished(self._error)


class Staging:
    """The uploads of a data folder; which of them win is decided in `staged_commit.py`."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        submit: Callable[[Job], None],
        partition_of: Callable[[PartitionId], Partition | None],
        settings: StoreSettings,
    ) -> None:
        self._files = files
        self._partition_of = partition_of
        self._folder = folder
        self._submit = submit
        self._settings = settings
        self._sizes: dict[str, int] = {}
        """Bytes of each upload that is not sealed."""
        self._sealing: dict[str, list[OnDone]] = {}
        self._sealed: dict[str, int] = {}
        self.foreign: list[Path] = []
        """Files that are none of ours; they are left alone."""

    @property
    def byte_count(self) -> int:
        """Bytes of all uploads."""
        return sum(self._sizes.values()) + sum(self._sealed.values())

    def open(self) -> None:
        """Find what was sealed; what was not is removed, as nobody was told that it is there."""
        for name in self._files.names(self._folder):
            path = self._folder / name
            attempt = name.removesuffix(STAGED_SUFFIX)
            if name.endswith(UPLOAD_SUFFIX):
                self._files.remove(path)
            elif attempt == name or not _ATTEMPT.fullmatch(attempt):
                self.foreign.append(path)
            else:
                self._created_ms(attempt, STAGED_SUFFIX)
                self._sealed[attempt] = self._files.size_of(path)

    def upload(self, attempt: str, block: StagedBlock, now_ms: int) -> None:
        """Add a block to an upload, which begins with its first one; nothing is durable before `seal`."""
        path = self._path(attempt, UPLOAD_SUFFIX)
        if attempt in self._sealed or attempt in self._sealing:
            raise InvalidStagedCommit(f"attempt {attempt!r} is sealed already")
        self._check_block(block)
        size = self._sizes.get(attempt, 0)
        data = b"" if size else encode_staging_header(now_ms)
        data += encode_block(block)
        if self.byte_count + len(data) > self._settings.staging_bytes_max:
            raise LogBusy(self.byte_count, self._settings.staging_bytes_max)
        try:
            if not size and self._files.exists(path):
                self._files.remove(path)  # left by an attempt that failed
            fd = self._files.open(path, write=True, create=not size)
            try:
                self._write(fd, size, data)
            finally:
                self._files.close(fd)
        except OSError as error:
            raise storage_error(error.errno or 0, path) from error
        self._sizes[attempt] = size + len(data)

    def seal(self, attempt: str, on_done: OnDone) -> None:
        """The upload is complete: `on_done` tells when it is durable; after an error it has to be sent again."""
        if attempt in self._sealed:
            on_done(None)
            return
        if attempt not in self._sizes:
            raise UnknownAttempt(attempt)
        if attempt in self._sealing:
            self._sealing[attempt].append(on_done)
            return
        self._sealing[attempt] = [on_done]

        def finished(error: StorageError | None) -> None:
            size = self._sizes.pop(attempt, 0)
            if error is None:
                self._sealed[attempt] = size
            for waiting in self._sealing.pop(attempt):
                waiting(error)

        self._submit(_Seal(self._files, self._path(attempt, UPLOAD_SUFFIX), finished))

    def is_sealed(self, attempt: str) -> bool:
        """Whether an attempt can win."""
        return attempt in self._sealed

    def blocks(self, attempt: str) -> Iterator[StagedBlock]:
        """The blocks of a sealed upload, in order; the file is not held open between them."""
        path = self._path(attempt, STAGED_SUFFIX)
        position = 0
        while True:
            fd = self._files.open(path)
            try:
                block, position = read_block(self._files, fd, path, position)
            finally:
                self._files.close(fd)
            if block is None:
                return
            yield block

    def remove(self, attempt: str) -> None:
        """An upload is no longer needed; what cannot be removed now expires."""
        for suffix, held in ((UPLOAD_SUFFIX, self._sizes), (STAGED_SUFFIX, self._sealed)):
            path = self._path(attempt, suffix)
            try:
                if self._files.exists(path):
                    self._files.remove(path)
            except OSError:
                continue
            held.pop(attempt, None)

    def expire(self, now_ms: int, needed: set[str]) -> None:
        """Remove uploads that nobody committed in time."""
        before_ms = now_ms - self._settings.staging_expiry_ms
        uploads = [(attempt, STAGED_SUFFIX) for attempt in self._sealed]
        uploads += [(attempt, UPLOAD_SUFFIX) for attempt in self._sizes]
        for attempt, suffix in uploads:
            if attempt in needed or attempt in self._sealing:
                continue
            if self._created_ms(attempt, suffix) < before_ms:
                self.remove(attempt)

    def _check_block(self, block: StagedBlock) -> None:
        """Refuse what its partition could not take later."""
        partition = self._partition_of(block.partition)
        if partition is None:
            raise UnknownPartition(str(block.partition.log_id), block.partition.number)
        size = len(block.data)
        if size > partition.settings.chunk_data_bytes_max or block.entries > ENTRIES_MAX:
            raise EntryTooLarge(size, partition.settings.chunk_data_bytes_max)
        try:
            walked = walk_entries(block.data, 0, size, block.entries)
        except MalformedChunk as error:
            raise InvalidStagedCommit(f"a block does not parse: {error.reason}") from error
        if walked != (size, block.records) or not block.entries:
            raise InvalidStagedCommit("a block holds other entries than it says")

    def _write(self, fd: int, size: int, data: bytes) -> None:
        try:
            self._files.write(fd, size, data)
        except OSError:
            self._files.truncate(fd, size)
            raise

    def _created_ms(self, attempt: str, suffix: str) -> int:
        path = self._path(attempt, suffix)
        try:
            fd = self._files.open(path)
            try:
                return decode_staging_header(self._files.read(fd, 0, STAGING_HEADER_BYTES), path)
            finally:
                self._files.close(fd)
        except (OSError, MalformedChunk):
            return 0

    def _path(self, attempt: str, suffix: str) -> Path:
        if not _ATTEMPT.fullmatch(attempt):
            raise InvalidStagedCommit(f"{attempt!r} is no name of an attempt: 1 to 200 of A-Z a-z 0-9 _ . -")
        return self._folder / (attempt + suffix)


def encode_staging_header(created_ms: int) -> bytes:
    """The 24 bytes at the start."""
    header = _HEADER.pack(_MAGIC, STAGING_FORMAT, 0, created_ms)
    return header + _CRC.pack(crc32(header))


def decode_staging_header(data: Buffer, path: Path) -> int:
    """When the upload began; raises `MalformedChunk`, or `NewerFormat` for a later version."""
    if len(data) < STAGING_HEADER_BYTES or data[:8] != _MAGIC:
        raise MalformedChunk(0, "no header of a staging file")
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
        raise MalformedChunk(0, "CRC of the header of a staging file")
    _, version, _, created_ms = _HEADER.unpack_from(data)
    if version > STAGING_FORMAT:
        raise NewerFormat(path, version, STAGING_FORMAT)
    return int(created_ms)


def encode_block(block: StagedBlock) -> bytes:
    """Header and data of one block."""
    id_ = block.partition
    body = _BLOCK.pack(id_.log_id, id_.number, block.entries, block.records, len(block.data)) + block.data
    return _CRC.pack(crc32(body)) + body


def read_blocks(files: Files, fd: int, path: Path) -> Iterator[StagedBlock]:
    """All blocks of a staging file; raises `MalformedChunk` at damage, for it was durable before it was sealed."""
    block, position = read_block(files, fd, path, 0)
    while block is not None:
        yield block
        block, position = read_block(files, fd, path, position)


def read_block(files: Files, fd: int, path: Path, position: int) -> tuple[StagedBlock | None, int]:
    """The block at a position, 0 for the first, and the position behind it; None at the end."""
    size = files.size(fd)
    if position == 0:
        decode_staging_header(files.read(fd, 0, STAGING_HEADER_BYTES), path)
        position = STAGING_HEADER_BYTES
    if position == size:
        return None, position
    head = files.read(fd, position, BLOCK_HEADER_BYTES)
    if len(head) < BLOCK_HEADER_BYTES:
        raise MalformedChunk(position, "a staged block is cut off")
    log_id, number, entries, records, byte_count = _BLOCK.unpack_from(head, _CRC.size)
    if byte_count > size - position - BLOCK_HEADER_BYTES:
        raise MalformedChunk(position, "a staged block is cut off")
    data = files.read(fd, position + BLOCK_HEADER_BYTES, byte_count)
    if _CRC.unpack_from(head)[0] != crc32(data, crc32(head[_CRC.size :])):
        raise MalformedChunk(position, "the CRC of a staged block does not hold")
    block = StagedBlock(PartitionId(log_id, number), entries, records, data)
    return block, position + BLOCK_HEADER_BYTES + byte_count
