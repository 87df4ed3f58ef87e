"""`headwater check`: read a data folder offline, every chunk of it, and tell what is wrong; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headwater.errors import ForeignFile, LogCorrupt, MalformedChunk, NewerFormat, StorageError
from headwater.log.files import Files, storage_error
from headwater.log.folder import DELETED_SUFFIX, STATE_LOG_ID, UNFINISHED_SUFFIX
from headwater.log.journal import JOURNAL_SUFFIX, read_records
from headwater.log.log import read_definition
from headwater.log.scan import SegmentScan
from headwater.log.segment import (
    INDEX_SUFFIX,
    SEGMENT_HEADER_BYTES,
    decode_segment_header,
    segment_offset,
    segment_path,
)
from headwater.log.staging import STAGED_SUFFIX, read_blocks

__all__ = ["CheckReport", "Finding", "PartitionReport", "check_folder"]


class Finding(msgspec.Struct, frozen=True):
    """Something in the folder that people should know of."""

    severity: str
    """`corrupt`: what was durable is damaged. `tail`: never confirmed, opening cuts it. `foreign`: not ours."""
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
        """Whether anything that was durable is damaged."""
        return any(finding.severity == "corrupt" for finding in self.findings)


def check_folder(
    folder: Path, *, files: Files | None = None, progress: Callable[[int], None] = lambda byte_count: None
) -> CheckReport:
    """Check all segments, journals and staging files of a folder; `progress` is told the bytes as they are read."""
    files = files or Files()
    if not files.exists(folder / "store.json"):
        raise ForeignFile(folder)
    report = CheckReport(str(folder), [], [])
    try:
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


def _check_log(files: Files, folder: Path, report: CheckReport, progress: Callable[[int], None]) -> None:
    name = "$state"
    if folder.name != str(STATE_LOG_ID):
        try:
            name = read_definition(files, folder).name
        except (ForeignFile, NewerFormat, OSError) as error:
            report.findings.append(Finding("corrupt", str(folder / "log.json"), 0, str(error)))
    for number in files.names(folder):
        if number.isdigit():
            partition = PartitionReport(name, int(number))
            report.partitions.append(partition)
            report.findings += _check_partition(files, folder / number, partition, progress)


def _check_partition(
    files: Files, folder: Path, report: PartitionReport, progress: Callable[[int], None]
) -> Iterator[Finding]:
    offsets = []
    for name in files.names(folder):
        offset = segment_offset(name)
        if offset is not None:
            offsets.append(offset)
        elif not name.endswith((INDEX_SUFFIX, ".removed")):
            yield _foreign(folder / name)
    report.first_offset = report.end_offset = offsets[0] if offsets else 0
    for offset in offsets:
        path = segment_path(folder, offset)
        if report.segments and offset != report.end_offset:
            yield Finding("corrupt", str(path), 0, f"begins at offset {offset}, {report.end_offset} is due")
        report.segments += 1
        report.end_offset = offset
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
    try:
        header = decode_segment_header(files.read(fd, 0, SEGMENT_HEADER_BYTES), path)
    except StorageError as error:
        unconfirmed = newest and SegmentScan(files, fd, size, None).synced_position_behind(0) == 0
        yield Finding("tail" if unconfirmed else "corrupt", str(path), 0, str(error))
        return
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
        if not name.endswith(JOURNAL_SUFFIX):
            report.findings.append(_foreign(path))
            continue
        records, damaged = read_records(files.read_file(path), path)
        report.journal_records += len(records)
        if damaged:
            message = "records that were confirmed are missing in the journal; later ones were found"
            report.findings.append(Finding("corrupt", str(path), 0, message))


def _check_staging(files: Files, folder: Path, report: CheckReport) -> None:
    for name in files.names(folder / "staging"):
        path = folder / "staging" / name
        if not name.endswith(STAGED_SUFFIX):
            continue
        fd = files.open(path)
        try:
            for _ in read_blocks(files, fd, path):
                report.staged_blocks += 1
        except MalformedChunk as error:
            report.findings.append(Finding("corrupt", str(path), error.position, str(error)))
        finally:
            files.close(fd)


def _foreign(path: Path) -> Finding:
    return Finding("foreign", str(path), 0, "not a file of headwater; it is left alone")
