"""The journal: with many dirty partitions, one file is synced for all of them.

header, 20                           record, 44 and the bytes
 0  8  magic "HDWTRJNL"               0  4  CRC-32 of all that follows, from the salt
 8  2  format version                 4  8  log id
10  2  reserved, 0                   12  4  partition
12  4  salt, random                  16  4  byte count
16  4  CRC-32 of bytes 0 to 15
                                     20  8  first offset of the segment
                                     28  8  position in it
                                     36  8  synced position of the journal, then the bytes
"""

from __future__ import annotations

import errno
import re
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from isal.isal_zlib import crc32

from headwater.errors import MalformedChunk, NewerFormat, StorageError, SyncFailed, TooManyOpenFiles
from headwater.log.commit import Commit
from headwater.log.files import NO_FILES, Buffer, Files, storage_error
from headwater.log.segment_syncs import SegmentSyncs

__all__ = [
    "DAMAGED_SUFFIX",
    "JOURNAL_SUFFIX",
    "Checkpoint",
    "Journal",
    "JournalRecord",
    "JournalRound",
    "Replay",
    "decode_journal_header",
    "encode_journal_header",
    "read_records",
    "replay_journals",
]

JOURNAL_FORMAT = 1
JOURNAL_SUFFIX = ".journal"
DAMAGED_SUFFIX = ".damaged"
JOURNAL_HEADER_BYTES = 20
RECORD_HEADER_BYTES = 44

_MAGIC = b"HDWTRJNL"
_RECORD_START = re.compile(rb"(?=[\s\S]{4}\x00{4}[\s\S]{28}\x00{3})")
_NOT_ZERO = re.compile(rb"[^\x00]")
_HEADER = struct.Struct(">8sHHI")
_CRC = struct.Struct(">I")
_RECORD = struct.Struct(">QIIQQQ")


class JournalRecord(msgspec.Struct, frozen=True, gc=False):
    """Bytes that belong to a segment, and where in it."""

    log_id: int
    partition: int
    segment_offset: int
    position: int
    synced_position: int
    data: bytes

    @property
    def byte_count(self) -> int:
        """Bytes of the record in the journal."""
        return RECORD_HEADER_BYTES + len(self.data)


class Journal:
    """One journal file, made with its first round."""

    __slots__ = ("_files", "_salt", "failed", "fd", "path", "position", "segments")

    def __init__(self, files: Files, folder: Path, number: int) -> None:
        self._files = files
        self._salt = secrets.randbits(32)
        self.path = folder / f"{number:020d}{JOURNAL_SUFFIX}"
        self.fd = -1
        self.position = 0
        self.failed = False
        self.segments: set[Path] = set()
        """Segments that are written and not synced."""

    def append(self, commits: Sequence[Commit]) -> int:
        """Write and sync what these commits wrote: 0, the errno of the write, or minus that of the sync."""
        if self.fd < 0:
            self._create()
        buffers: list[Buffer] = []
        for commit in commits:
            buffers.append(_encode_record_header(commit, self._salt, self.position))
            buffers += commit.buffers
        code = self._files.write_and_sync(self.fd, self.position, buffers, sync=True)
        if code == 0:
            self.position += sum(map(len, buffers))
            self.segments.update(commit.segment.path for commit in commits)
        return code

    def _create(self) -> None:
        # The header is durable before the first record, so that a header that does not hold is no torn write.
        self.fd = self._files.open(self.path, create=True)
        header = encode_journal_header(self._salt)
        self._files.raise_code(self._files.write_and_sync(self.fd, 0, [header], sync=True))
        self._files.sync_folder(self.path.parent)
        self.position = len(header)

    def close(self) -> None:
        """Give the descriptor back."""
        if self.fd >= 0:
            self._files.close(self.fd)
            self.fd = -1


class JournalRound:
    """Commits of many partitions: each segment is written, the journal is synced for all."""

    def __init__(
        self, journal: Journal, commits: list[Commit], finished: Callable[[JournalRound], None]
    ) -> None:
        self.journal = journal
        self.commits = commits
        self._finished = finished
        for commit in commits:
            commit.syncs = False

    def run(self) -> None:
        """Write the segments, then the journal; on a thread."""
        for commit in self.commits:
            commit.run()
        written = [commit for commit in self.commits if commit.error is None]
        if not written:
            return
        try:
            code = self.journal.append(written)
        except OSError as error:
            code = error.errno or errno.EIO
        if code:
            self.journal.failed = True
            for commit in written:
                commit.fail(self._error(code), sync_failed=code < 0)

    def apply(self) -> None:
        """Hand the outcome to the partitions, and the journal back."""
        self._finished(self)
        for commit in self.commits:
            commit.apply()

    def _error(self, code: int) -> StorageError:
        path = self.journal.path
        return SyncFailed(path) if code < 0 else storage_error(code, path)


class Checkpoint:
    """Puts a journal away: its segments are synced, then it is removed."""

    def __init__(
        self,
        files: Files,
        journal: Journal,
        segment_syncs: SegmentSyncs,
        finished: Callable[[Checkpoint], None],
    ) -> None:
        self._files = files
        self.journal = journal
        self._segment_syncs = segment_syncs
        self._finished = finished
        self.failed: dict[Path, StorageError] = {}
        """Segments that could not be synced; the journal stays then, for recovery."""
        self.error: StorageError | None = None

    @property
    def lacked_files(self) -> bool:
        """Whether there was no descriptor for all of it: nothing was harmed, and it may be tried again."""
        return isinstance(self.error, TooManyOpenFiles)

    def run(self) -> None:
        """Sync and remove; on a thread."""
        path = self.journal.path
        try:
            self.journal.close()  # first of all, so that there is a descriptor for the segments
            for segment in sorted(self.journal.segments):
                self._sync(segment)
            if not self.failed:
                if self._files.exists(path):
                    self._files.remove(path)
                self._files.sync_folder(path.parent)
        except OSError as error:
            self.error = storage_error(error.errno or 0, path)

    def _sync(self, segment: Path) -> None:
        try:
            self._segment_syncs.sync_closed(segment)
        except FileNotFoundError:
            return  # removed meanwhile, by retention or with its log
        except OSError as error:
            if error.errno in NO_FILES:
                raise
            self.failed[segment] = SyncFailed(segment)

    def apply(self) -> None:
        """Report what came of it."""
        self._finished(self)


class Replay:
    """What was found in the journals of the last run."""

    def __init__(self) -> None:
        self.record_count = 0
        self.next_number = 1
        self.damaged: list[Path] = []
        """Journals with damage among what was durable; they are kept under another name."""


def replay_journals(files: Files, folder: Path, segment_of: Callable[[JournalRecord], Path]) -> Replay:
    """Write what journals hold to its segments and remove them; again and again if need be."""
    replay = Replay()
    names = [name for name in files.names(folder) if Path(name).stem.isdigit()]
    replay.damaged = [folder / name for name in names if name.endswith(DAMAGED_SUFFIX)]
    replay.next_number = max((int(Path(name).stem) for name in names), default=0) + 1
    paths = [folder / name for name in names if name.endswith(JOURNAL_SUFFIX)]
    touched: set[Path] = set()
    new_names: dict[Path, Path] = {}
    for path in paths:
        records, damaged = read_records(files.read_file(path), path)
        if damaged:
            new_names[path] = path.with_suffix(DAMAGED_SUFFIX)
        for record in records:
            replay.record_count += 1
            target = segment_of(record)
            if files.exists(target):
                _write_record(files, target, record)
                touched.add(target)
    for target in sorted(touched):
        _sync_if_there(files, target)
    for path in paths:
        if path in new_names:
            files.rename(path, new_names[path])
        else:
            files.remove(path)
    if paths:
        files.sync_folder(folder)
    replay.damaged += new_names.values()
    return replay


def read_records(data: bytes, path: Path) -> tuple[list[JournalRecord], bool]:
    """All valid records of a journal, and whether some that were durable are missing among them."""
    try:
        salt = decode_journal_header(data, path)
    except MalformedChunk:
        return [], len(data) > JOURNAL_HEADER_BYTES
    records = []
    position = JOURNAL_HEADER_BYTES
    while (record := _record_at(data, position, salt)) is not None:
        records.append(record)
        position += record.byte_count
    behind = [
        record for record in _records_behind(data, position + 1, salt) if record.synced_position > position
    ]
    return records + behind, bool(behind)


def encode_journal_header(salt: int) -> bytes:
    """The 20 bytes at the start."""
    header = _HEADER.pack(_MAGIC, JOURNAL_FORMAT, 0, salt)
    return header + _CRC.pack(crc32(header))


def decode_journal_header(data: bytes, path: Path) -> int:
    """The salt of a journal; raises `MalformedChunk`, or `NewerFormat` for a later version."""
    if len(data) < JOURNAL_HEADER_BYTES or data[:8] != _MAGIC:
        raise MalformedChunk(0, "no journal header")
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
        raise MalformedChunk(0, "CRC of the journal header")
    _, version, _, salt = _HEADER.unpack_from(data)
    if version > JOURNAL_FORMAT:
        raise NewerFormat(path, version, JOURNAL_FORMAT)
    return int(salt)


def _encode_record_header(commit: Commit, salt: int, synced_position: int) -> bytes:
    id_ = commit.partition_id
    body = _RECORD.pack(
        id_.log_id,
        id_.number,
        commit.byte_count,
        commit.segment.first_offset,
        commit.position,
        synced_position,
    )
    crc = crc32(body, salt)
    for buffer in commit.buffers:
        crc = crc32(buffer, crc)
    return _CRC.pack(crc) + body


def _record_at(data: bytes, position: int, salt: int) -> JournalRecord | None:
    if len(data) - position < RECORD_HEADER_BYTES:
        return None
    log_id, partition, byte_count, segment_offset, at, synced = _RECORD.unpack_from(data, position + 4)
    end = position + RECORD_HEADER_BYTES + byte_count
    if end > len(data) or _CRC.unpack_from(data, position)[0] != crc32(
        memoryview(data)[position + 4 : end], salt
    ):
        return None
    payload = data[position + RECORD_HEADER_BYTES : end]
    return JournalRecord(log_id, partition, segment_offset, at, synced, payload)


def _records_behind(data: bytes, position: int, salt: int) -> Iterator[JournalRecord]:
    """Valid records behind damage, found by trying every position whose fields could be those of one."""
    while position + RECORD_HEADER_BYTES <= len(data):
        written = _NOT_ZERO.search(data, position)
        if written is None:
            return
        # Pages that were lost are zeros, in which nothing begins; elsewhere numbers of 8 bytes begin with zeros.
        plausible = _RECORD_START.search(data, max(position, written.start() - RECORD_HEADER_BYTES))
        if plausible is None:
            return
        position = plausible.start()
        synced = int.from_bytes(data[position + 36 : position + 44], "big")
        record = _record_at(data, position, salt) if synced <= position else None
        if record is None:
            position += 1
        else:
            yield record
            position += record.byte_count


def _write_record(files: Files, target: Path, record: JournalRecord) -> None:
    fd = files.open(target, write=True)
    try:
        files.write(fd, record.position, record.data)
    finally:
        files.close(fd)


def _sync_if_there(files: Files, path: Path) -> None:
    try:
        fd = files.open(path, write=True)
    except FileNotFoundError:
        return
    try:
        files.sync(fd)
    finally:
        files.close(fd)
