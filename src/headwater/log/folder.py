"""The data folder: its lock, `store.json`, and where everything lies (docs/internals/log-format.md, Folders)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from headwater.errors import ForeignFile, NewerFormat
from headwater.log.files import Files, storage_error
from headwater.log.log import LogDefinition, read_definition, write_definition

__all__ = [
    "DELETED_SUFFIX",
    "STATE_LOG_ID",
    "STORE_FORMAT",
    "UNFINISHED_SUFFIX",
    "DataFolder",
    "StoreDefinition",
    "read_store_definition",
]

STORE_FORMAT = 1
STATE_LOG_ID = 0
DELETED_SUFFIX = ".deleted"
UNFINISHED_SUFFIX = ".new"

_FOLDERS = ("journal", "logs", "staging")


class _Format(msgspec.Struct):
    format: int


class StoreDefinition(msgspec.Struct, frozen=True):
    """What `store.json` holds."""

    format: int
    epoch: Annotated[int, msgspec.Meta(ge=0)]
    next_log_id: Annotated[int, msgspec.Meta(ge=1)]


class DataFolder:
    """Names and definitions; what is in the segments is the business of others."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self.path = path
        self.definition = StoreDefinition(STORE_FORMAT, 0, 1)
        self._lock_fd = -1

    @property
    def journal(self) -> Path:
        """Where journals lie."""
        return self.path / "journal"

    @property
    def staging(self) -> Path:
        """Where uploads of staged commits lie."""
        return self.path / "staging"

    def log(self, log_id: int) -> Path:
        """The folder of a log."""
        return self.path / "logs" / str(log_id)

    def open(self) -> None:
        """Lock the folder, make what is missing, and raise the epoch."""
        try:
            self._make_folder(self.path)
            self._lock_fd = self._files.lock(self.path / "lock")
        except OSError as error:
            raise storage_error(error.errno or 0, self.path) from error
        try:
            self._open_locked()
        except OSError as error:
            raise storage_error(error.errno or 0, Path(error.filename or self.path)) from error

    def close(self) -> None:
        """Give the lock back."""
        if self._lock_fd >= 0:
            self._files.close(self._lock_fd)
            self._lock_fd = -1

    def take_log_id(self) -> int:
        """A number that no log has had."""
        log_id = self.definition.next_log_id
        self._write(msgspec.structs.replace(self.definition, next_log_id=log_id + 1))
        return log_id

    def definitions(self) -> Iterator[LogDefinition]:
        """The logs that are there; finishes deletions, and creations that were never answered."""
        logs = self.path / "logs"
        for name in self._files.names(logs):
            folder = logs / name
            if name.endswith((DELETED_SUFFIX, UNFINISHED_SUFFIX)):
                self._files.remove_tree(folder)
            elif name.isdigit() and int(name) != STATE_LOG_ID:
                try:
                    yield read_definition(self._files, folder)
                except FileNotFoundError:
                    raise ForeignFile(folder) from None

    def create_log(self, definition: LogDefinition) -> None:
        """Make the folder of a log, durably: it gets its name when all in it is there."""
        folder = self.log(definition.id)
        unnamed = folder.with_name(folder.name + UNFINISHED_SUFFIX)
        self._files.make_folder(unnamed)
        write_definition(self._files, unnamed, definition)
        self._files.rename(unnamed, folder)
        self._files.sync_folder(folder.parent)

    def replace_definition(self, definition: LogDefinition) -> None:
        """Have a log be what this says, durably."""
        write_definition(self._files, self.log(definition.id), definition)

    def delete_log(self, log_id: int) -> Path:
        """Mark a log as deleted, durably; gives the folder that is to be removed."""
        folder = self.log(log_id)
        target = folder.with_name(folder.name + DELETED_SUFFIX)
        self._files.rename(folder, target)
        try:
            self._files.sync_folder(folder.parent)
        except OSError:
            self._files.rename(target, folder)
            raise
        return target

    def _make_folder(self, path: Path) -> None:
        """Have a folder, and those above it, durably."""
        if not self._files.exists(path):
            self._make_folder(path.parent)
            self._files.make_folder(path)
            self._files.sync_folder(path.parent)

    def _open_locked(self) -> None:
        for name in _FOLDERS:
            self._files.make_folder(self.path / name)
        self._files.make_folder(self.log(STATE_LOG_ID))
        self._files.sync_folder(self.path / "logs")
        path = self.path / "store.json"
        if self._files.exists(path):
            self.definition = read_store_definition(self._files, path)
        self._write(msgspec.structs.replace(self.definition, epoch=self.definition.epoch + 1))
        self._files.sync_folder(self.path)

    def _write(self, definition: StoreDefinition) -> None:
        self._files.replace_file(self.path / "store.json", msgspec.json.encode(definition))
        self.definition = definition


def read_store_definition(files: Files, path: Path) -> StoreDefinition:
    """What `store.json` says; raises `NewerFormat`, or `ForeignFile` if it is none of ours."""
    data = files.read_file(path)
    try:
        found = msgspec.json.decode(data, type=_Format).format
        if found > STORE_FORMAT:
            raise NewerFormat(path, found, STORE_FORMAT)
        return msgspec.json.decode(data, type=StoreDefinition)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ForeignFile(path) from error
