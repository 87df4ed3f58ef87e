"""`headwater check`: read a data folder offline, every chunk of it, and tell what is wrong; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headwater.errors import ForeignFile, LogCorrupt, MalformedChunk, NewerFormat, StorageError
from headwater.log.files import Files, storage_error
from headwater.log.folder import DELETED_SUFFIX, STATE_LOG_ID, UNFINISHED_SUFFIX, read_store_definition
from headwater.log.journal import DAMAGED_SUFFIX, JOURNAL_SUFFIX, read_records
from headwater.log.log import read_definition
from headwater.log.recovery import list_segments
from headwater.log.scan import SegmentScan
from headwater.log.segment import (
    SEGMENT_HEADER_BYTES,
    check_identity,
    decode_segment_header,
    is_foreign_start,
    segment_path,
)
from headwater.log.staging import STAGED_SUFFIX, UPLOAD_SUFFIX, read_blocks

__all__ = ["CheckReport", "Finding", "PartitionReport", "check_folder", "total_bytes"]


class Finding(msgspec.Struct, frozen=True):
    """Something in the folder that people should know of."""

    severity: str
    """`corrupt`: what was durable is damaged. `newer`: a later version wrote it, opening refuses it. `tail`: never
    confirmed, opening cuts it off. `foreign`: not ours, left alone."""
    path: str
    position: int
    message: str


class PartitionReport(msgspec.Struct):
    """What was read of one partition."""

    log: str
    partition: int
    first_offset: int = 0
    end_offset: int = 0
    segments: int = 0
    chunks: int = 0
    byte_count: int = 0


class CheckReport(msgspec.Struct):
    """What was read of a data folder."""

    folder: str
    partitions: list[PartitionReport]
    findings: list[Finding]
    journal_records: int = 0
    staged_blocks: int = 0

    @property
    def is_corrupt(self) -> bool:
        """Whether anything that was durable is damaged, or cannot be read by this version."""
        return any(finding.severity in ("corrupt", "newer") for finding in self.findings)


def check_folder(
    folder: Path, *, files: Files | None = None, progress: Callable[[int], None] = lambda byte_count: None
) -> CheckReport:
    """Check all segments, journals and staging files of a folder; `progress` is told the bytes as they are read."""
    files = files or Files()
    if not files.exists(folder / "store.json"):
        raise ForeignFile(folder)
    files.check_unlocked(folder / "lock")
    report = CheckReport(str(folder), [], [])
    try:
        _check_names(files, folder, report)
        _check_journals(files, folder, report)
        _check_staging(files, folder, report)
        for name in files.names(folder / "logs"):
            if name.isdigit():
                _check_log(files, folder / "logs" / name, report, progress)
            elif not name.endswith((DELETED_SUFFIX, UNFINISHED_SUFFIX)):
                report.findings.append(_foreign(folder / "logs" / name))
    except OSError as error:
        raise storage_error(error.errno or 0, Path(error.filename or folder)) from error
    return report


def total_bytes(folder: Path) -> int:
    """Bytes of all segments of a data folder, for a progress bar."""
    return sum(path.stat().st_size for path in folder.glob("logs/*/*/*.segment"))


def _check_names(files: Files, folder: Path, report: CheckReport) -> None:
    try:
        read_store_definition(files, folder / "store.json")
    except StorageError as error:
        report.findings.append(_unreadable(folder / "store.json", error))
    known = {
        "catalogue.db",
        "catalogue.db-journal",
        "lock",
        "store.json",
        "store.json.new",
        "journal",
        "logs",
        "staging",
    }
    report.findings += [_foreign(folder / name) for name in files.names(folder) if name not in known]


def _check_log(files: Files, folder: Path, report: CheckReport, progress: Callable[[int], None]) -> None:
    name = "$state"
    if folder.name != str(STATE_LOG_ID):
        try:
            name = read_definition(files, folder).name
        except FileNotFoundError:
            report.findings.append(Finding("corrupt", str(folder), 0, "log.json is missing; restore it"))
        except StorageError as error:
            report.findings.append(_unreadable(folder / "log.json", error))
    for number in files.names(folder):
        if number.isdigit():
            partition = PartitionReport(name, int(number))
            report.partitions.append(partition)
            report.findings += _check_partition(files, folder / number, partition, progress)


def _check_partition(
    files: Files, folder: Path, report: PartitionReport, progress: Callable[[int], None]
) -> Iterator[Finding]:
    listing = list_segments(files, folder)
    yield from map(_foreign, listing.foreign)
    offsets = listing.offsets
    report.first_offset = report.end_offset = offsets[0] if offsets else 0
    for offset in offsets:
        path = segment_path(folder, offset)
        fd = files.open(path)
        try:
            yield from _check_segment(
                files, fd, path, report, newest=offset == offsets[-1], progress=progress
            )
        finally:
            files.close(fd)


def _check_segment(
    files: Files,
    fd: int,
    path: Path,
    report: PartitionReport,
    *,
    newest: bool,
    progress: Callable[[int], None],
) -> Iterator[Finding]:
    size = files.size(fd)
    report.byte_count += size
    head = files.read(fd, 0, SEGMENT_HEADER_BYTES)
    try:
        header = decode_segment_header(head, path)
    except StorageError as error:
        unconfirmed = newest and SegmentScan(files, fd, size, None).synced_position_behind(0) == 0
        if not unconfirmed or not isinstance(error, MalformedChunk):
            yield _unreadable(path, error)
        elif is_foreign_start(head):
            message = "not a segment, although it has the name of one; opening sets it aside"
            yield Finding("foreign", str(path), 0, message)
        else:
            yield Finding("tail", str(path), 0, str(error))
        return
    try:
        check_identity(header, path)
    except MalformedChunk as error:
        yield Finding("corrupt", str(path), 0, error.reason)
        return
    if report.segments and header.first_offset != report.end_offset:
        reason = f"begins at offset {header.first_offset}, {report.end_offset} is due"
        yield Finding("corrupt", str(path), 0, reason)
    report.segments += 1
    report.end_offset = header.first_offset
    scan = SegmentScan(files, fd, size, header.salt)
    synced = 0
    position = SEGMENT_HEADER_BYTES
    try:
        for chunk in scan.chunks(position, path, header.first_offset):
            progress(chunk.end - position)
            report.chunks += 1
            report.end_offset = chunk.end_offset
            synced = max(synced, chunk.trailer.synced_position)
            position = chunk.end
    except LogCorrupt as error:
        behind = max(synced, scan.synced_position_behind(error.position + 1))
        if newest and behind <= error.position:
            message = f"{size - error.position} bytes that were never confirmed: {error.reason}; opening cuts them off"
            yield Finding("tail", str(path), error.position, message)
        else:
            yield Finding("corrupt", str(path), error.position, str(error))


def _check_journals(files: Files, folder: Path, report: CheckReport) -> None:
    for name in files.names(folder / "journal"):
        path = folder / "journal" / name
        if not name.endswith((JOURNAL_SUFFIX, DAMAGED_SUFFIX)):
            report.findings.append(_foreign(path))
            continue
        try:
            records, damaged = read_records(files.read_file(path), path)
        except NewerFormat as error:
            report.findings.append(_unreadable(path, error))
            continue
        report.journal_records += len(records)
        if damaged or name.endswith(DAMAGED_SUFFIX):
            message = "records that were confirmed are missing in the journal; later ones were found"
            report.findings.append(Finding("corrupt", str(path), 0, message))


def _check_staging(files: Files, folder: Path, report: CheckReport) -> None:
    for name in files.names(folder / "staging"):
        path = folder / "staging" / name
        if not name.endswith((STAGED_SUFFIX, UPLOAD_SUFFIX)):
            report.findings.append(_foreign(path))
        elif name.endswith(STAGED_SUFFIX):
            fd = files.open(path)
            try:
                for _ in read_blocks(files, fd, path):
                    report.staged_blocks += 1
            except StorageError as error:
                report.findings.append(_unreadable(path, error))
            finally:
                files.close(fd)


def _unreadable(path: Path, error: StorageError) -> Finding:
    position = error.position if isinstance(error, MalformedChunk) else 0
    return Finding("newer" if isinstance(error, NewerFormat) else "corrupt", str(path), position, str(error))


def _foreign(path: Path) -> Finding:
    return Finding("foreign", str(path), 0, "not a file of headwater; it is left alone")
