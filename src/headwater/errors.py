"""The error tree: a peer's fault, our caller's, and the disk's are three branches; each leaf says what to do."""

from __future__ import annotations

import os
from typing import ClassVar

__all__ = [
    "CallerError",
    "DiskFull",
    "EntryTooLarge",
    "FolderInUse",
    "ForeignFile",
    "HeadwaterError",
    "InvalidCloudEvent",
    "InvalidEntries",
    "InvalidExpression",
    "InvalidField",
    "InvalidFilter",
    "InvalidSettings",
    "InvalidStagedCommit",
    "InvalidValue",
    "LogBusy",
    "LogCorrupt",
    "LogDiffers",
    "LogExists",
    "MalformedChunk",
    "MalformedFrame",
    "MalformedIndex",
    "MalformedState",
    "MalformedSubBatch",
    "MalformedValue",
    "NewerFormat",
    "NoAccess",
    "OffsetBeyondEnd",
    "PartitionDeleted",
    "PartitionReadOnly",
    "PartitionUsed",
    "PeerError",
    "ReadFailed",
    "ReferenceTooLong",
    "StorageError",
    "SyncFailed",
    "TooManyOffsets",
    "TooManyOpenFiles",
    "UnknownAttempt",
    "UnknownLog",
    "UnknownPartition",
    "UnreadableSubBatch",
    "WriteFailed",
]


class HeadwaterError(Exception):
    """Everything this package raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # Leaves take fields and pass a sentence to Exception, so pickle's default would call them with the sentence.
        return _restore, (type(self), self.args, dict(self.__dict__))


def _restore(
    kind: type[HeadwaterError], args: tuple[object, ...], fields: dict[str, object]
) -> HeadwaterError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


# The peer's fault: bytes or a conversation that the protocol does not allow.


class PeerError(HeadwaterError):
    """The peer sent what it must not send."""


class MalformedFrame(PeerError):
    """Bytes of a peer that do not parse."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the peer sent a frame that does not parse: {reason}; the peer needs mending")


class MalformedSubBatch(MalformedFrame):
    """A sub-batch entry whose header contradicts itself."""

    def __init__(self, publishing_id: int, reason: str) -> None:
        super().__init__(f"sub-batch of publishing id {publishing_id}: {reason}")
        self.publishing_id, self.reason = publishing_id, reason


class MalformedValue(PeerError):
    """Bytes of a peer that are no AMQP value; `condition` is the AMQP error condition that says so."""

    condition: ClassVar[str] = "amqp:decode-error"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the peer sent an AMQP value that does not parse: {reason}; the peer needs mending")


class InvalidField(MalformedValue):
    """A field of an AMQP composite that is missing, or holds what it must not; named by its path, `attach.source`."""

    condition: ClassVar[str] = "amqp:invalid-field"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field, self.reason = field, reason


class InvalidExpression(PeerError):
    """The text of a filter that is no expression; `position` is how many characters are right before it goes wrong."""

    condition: ClassVar[str] = "amqp:invalid-field"

    def __init__(self, position: int, reason: str) -> None:
        self.position, self.reason = position, reason
        super().__init__(
            f"the expression is wrong at position {position}: {reason}; correct it and try again"
        )


class InvalidCloudEvent(PeerError):
    """What is no CloudEvent; `attribute` is the one at fault, data included, or None if it is the event as a whole."""

    condition: ClassVar[str] = "amqp:invalid-field"

    def __init__(self, attribute: str | None, reason: str) -> None:
        self.attribute, self.reason = attribute, reason
        subject = "it" if attribute is None else f"its {attribute}"
        super().__init__(f"this is no valid CloudEvent: {subject} {reason}; correct it and send it again")


class InvalidFilter(PeerError):
    """A filter of a subscription that says nothing we understand; `place` is where, as in `filters[0].prefix.type`."""

    condition: ClassVar[str] = "amqp:invalid-field"

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(f"the filter is wrong at {place}: {reason}; correct it and try again")


# Our caller's fault: a request that cannot be met as it stands.


class CallerError(HeadwaterError):
    """The caller asked for what cannot be done."""


class InvalidSettings(CallerError):
    """A setting has a value it must not have."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"setting {name} is invalid: {reason}; correct it and try again")


class UnknownLog(CallerError):
    """There is no log of this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no log {name!r}; create it, or check the name and the vhost")


class LogExists(CallerError):
    """A log of this name is there already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"log {name!r} exists already; choose another name, or delete it first")


class PartitionUsed(CallerError):
    """A partition cannot be taken from a super stream that has held events: keys would lead elsewhere."""

    def __init__(self, name: str, log: str) -> None:
        self.name, self.log = name, log
        super().__init__(f"{name!r} is a partition of {log!r}, which has been used; delete all of {log!r}")


class LogDiffers(LogExists):
    """A log of this name is there already, with other settings than those asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.args = (
            f"log {name!r} exists already with other settings; ask for the same, or delete it first",
        )


class UnknownPartition(CallerError):
    """The log has no such partition."""

    def __init__(self, log: str, partition: str | int) -> None:
        self.log, self.partition = log, partition
        super().__init__(f"log {log!r} has no partition {partition!r}; ask for one of those it lists")


class ReferenceTooLong(CallerError):
    """A publisher's or a consumer's reference is not 1 to 255 bytes long."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        super().__init__(f"a reference of {size_bytes} bytes cannot be kept; use 1 to 255 bytes")


class EntryTooLarge(CallerError):
    """One entry is larger than a chunk may be."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        self.size_bytes, self.size_bytes_max = size_bytes, size_bytes_max
        super().__init__(
            f"an entry of {size_bytes} bytes is above the maximum of {size_bytes_max}; "
            "send smaller messages, or raise the maximum"
        )


class InvalidValue(CallerError):
    """A value that AMQP has no form for."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a value cannot be written as AMQP: {reason}; correct it and try again")


class InvalidEntries(CallerError):
    """Counts of entries and records that no chunk can have."""

    def __init__(self, entries: int, records: int, entries_max: int) -> None:
        self.entries, self.records, self.entries_max = entries, records, entries_max
        super().__init__(
            f"{entries} entries with {records} records cannot be appended as one; "
            f"append 1 to {entries_max} entries, each with a record or more"
        )


class UnknownAttempt(CallerError):
    """A staged commit names an upload that is not there, or not sealed."""

    def __init__(self, attempt: str) -> None:
        self.attempt = attempt
        super().__init__(
            f"there is no sealed upload {attempt!r}; it may have expired: upload and seal it again"
        )


class InvalidStagedCommit(CallerError):
    """A staged commit, or an upload for one, that cannot be."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"staged commit refused: {reason}; correct it and try again")


class OffsetBeyondEnd(CallerError):
    """An offset was named that the partition has not reached."""

    def __init__(self, partition: str, offset: int, end: int) -> None:
        self.partition, self.offset, self.end = partition, offset, end
        super().__init__(
            f"partition {partition} ends at {end}, there is no {offset} yet; name an offset up to its end"
        )


# The disk's fault, or that of what lies on it.


class StorageError(HeadwaterError):
    """Stored bytes, or the system that keeps them, failed us."""


class MalformedChunk(StorageError):
    """Stored bytes that are no valid chunk."""

    def __init__(self, position: int, reason: str) -> None:
        self.position, self.reason = position, reason
        super().__init__(
            f"no valid chunk at byte {position}: {reason}; run `headwater check` on the data folder"
        )


class UnreadableSubBatch(StorageError):
    """A sub-batch was stored as it came, and what it holds are not the records it promises."""

    def __init__(self, records: int, reason: str) -> None:
        self.records, self.reason = records, reason
        super().__init__(
            f"a sub-batch of {records} records cannot be read: {reason}; its publisher needs mending"
        )


class MalformedIndex(StorageError):
    """Stored bytes that are no valid index; it can be rebuilt from its segment."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no valid index: {reason}; it is rebuilt from its segment")


class MalformedState(StorageError):
    """A record of `$state` that says nothing we understand."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"a record of $state does not parse: {reason}; if a newer headwater wrote it, start that one"
        )


class LogCorrupt(StorageError):
    """Bytes that were durable are damaged."""

    def __init__(self, path: str | os.PathLike[str], position: int, reason: str) -> None:
        self.path, self.position, self.reason = os.fspath(path), position, reason
        super().__init__(
            f"{self.path} is corrupt at byte {position}: {reason}; events before it are served, "
            "writes are refused; restore the file from a copy, or delete the log"
        )


class DiskFull(StorageError):
    """There is no room for a write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(f"no room to write {self.path}; free space, writing then resumes by itself")


class WriteFailed(StorageError):
    """A write failed for another reason than room."""

    def __init__(self, path: str | os.PathLike[str], errno: int) -> None:
        self.path, self.errno = os.fspath(path), errno
        super().__init__(
            f"writing {self.path} failed: {os.strerror(errno)} (errno {errno}); "
            "nothing of the batch was kept, look at the disk and send it again"
        )


class ReadFailed(StorageError):
    """A read failed."""

    def __init__(self, path: str | os.PathLike[str], errno: int) -> None:
        self.path, self.errno = os.fspath(path), errno
        super().__init__(
            f"reading {self.path} failed: {os.strerror(errno)} (errno {errno}); look at the disk and try again"
        )


class SyncFailed(StorageError):
    """An fdatasync failed, so nobody knows what the disk holds."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(
            f"syncing {self.path} failed; the partition is read-only until a restart has recovered it"
        )


class PartitionReadOnly(StorageError):
    """The partition serves reads but takes no writes."""

    def __init__(self, partition: str | int, reason: str) -> None:
        self.partition, self.reason = partition, reason
        super().__init__(f"partition {partition} takes no writes: {reason}; mend the cause and restart")


class FolderInUse(StorageError):
    """Another process holds the data folder."""

    def __init__(self, path: str | os.PathLike[str], pid: int | None) -> None:
        self.path, self.pid = os.fspath(path), pid
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{self.path} is in use by {holder}; stop it, or choose another data folder")


class NewerFormat(StorageError):
    """A file was written by a later version."""

    def __init__(self, path: str | os.PathLike[str], found: int, known: int) -> None:
        self.path, self.found, self.known = os.fspath(path), found, known
        super().__init__(
            f"{self.path} has format {found}, this version reads up to {known}; start a newer headwater on it"
        )


class ForeignFile(StorageError):
    """A file in the data folder is none of ours."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(
            f"{self.path} was not written by headwater; move it away, or choose another data folder"
        )


class NoAccess(StorageError):
    """The system refuses us a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(f"no permission for {self.path}; give it to the user that runs headwater")


class TooManyOpenFiles(StorageError):
    """The process has no file descriptor left."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(
            f"cannot open {self.path}: too many open files; raise the limit (ulimit -n) and restart"
        )


class LogBusy(StorageError):
    """The bound of bytes not yet committed is reached."""

    def __init__(self, uncommitted_bytes: int, uncommitted_bytes_max: int) -> None:
        self.uncommitted_bytes, self.uncommitted_bytes_max = uncommitted_bytes, uncommitted_bytes_max
        super().__init__(
            f"{uncommitted_bytes} bytes wait to be committed, the bound is {uncommitted_bytes_max}; "
            "wait for confirms, then go on"
        )


class TooManyOffsets(StorageError):
    """The bound of stored offsets that wait for the disk is reached."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        super().__init__(
            f"{count_max} stored offsets wait to be written, which is the bound; "
            "store this one again when the disk takes writes"
        )


class PartitionDeleted(StorageError):
    """The partition was deleted while it was in use."""

    def __init__(self, partition: str | int) -> None:
        self.partition = partition
        super().__init__(f"partition {partition} was deleted; detach from it")
