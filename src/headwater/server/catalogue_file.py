"""`catalogue.db`: users, vhosts and permissions in SQLite; synchronous, for one thread at a time.

```
users        id (never used again), name, salt, iterations, stored_key, server_key, roles (words, sorted)
vhosts       name
permissions  user_id, vhost, configure, write, read (regular expressions on log names)
secrets      name, value (random bytes, made once)
```

Every change is one transaction, with a rollback journal and `synchronous=EXTRA`: SQLite syncs the journal and its
folder, then the database, then removes the journal and syncs the folder again, all before the change returns. (With
FULL the last of these is left out, and a power cut soon after could bring the journal back and undo the change; a
write-ahead log would save syncs that nobody here waits for, and leave three files to back up in place of one.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.encoding.scram import Verifier
from headwater.errors import (
    DiskFull,
    FolderInUse,
    ForeignFile,
    HeadwaterError,
    NewerFormat,
    NoAccess,
    WriteFailed,
)
from headwater.server.security.errors import (
    CatalogueCorrupt,
    CatalogueFull,
    InvalidPattern,
    UnknownUser,
    UnknownVhost,
    UserExists,
    VhostExists,
)
from headwater.server.security.permissions import Permission
from headwater.server.security.users import (
    DEFAULT_VHOST,
    NewUser,
    Role,
    User,
    check_user_name,
    check_vhost_name,
)

__all__ = ["FILE_NAME", "CatalogueFile", "CatalogueState"]

FILE_NAME = "catalogue.db"
APPLICATION_ID = 0x48445743
USERS_MAX = 10_000
VHOSTS_MAX = 1_000
LOCK_TIMEOUT_S = 5
_SECRET_BYTES = 32

FirstUser = Callable[[], tuple[NewUser, Verifier] | None]
"""Gives the user that a new catalogue begins with; asked for a new one alone, since it may read a file."""

# One script for each version of the schema, from the first; an older file is brought up by those it lacks.
MIGRATIONS = (
    """
    CREATE TABLE users (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, roles TEXT NOT NULL,
        salt BLOB NOT NULL CHECK (length(salt) > 0), iterations INTEGER NOT NULL CHECK (iterations > 0),
        stored_key BLOB NOT NULL CHECK (length(stored_key) = 32),
        server_key BLOB NOT NULL CHECK (length(server_key) = 32)
    ) STRICT;
    CREATE TABLE vhosts (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE permissions (
        user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
        vhost TEXT NOT NULL REFERENCES vhosts ON DELETE CASCADE,
        configure TEXT NOT NULL, write TEXT NOT NULL, read TEXT NOT NULL, PRIMARY KEY (user_id, vhost)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    """,
)


@dataclass(frozen=True, slots=True)
class CatalogueState:
    """All that the catalogue holds, as of one change; never altered, only replaced."""

    users: dict[str, User]
    vhosts: frozenset[str]
    permissions: dict[tuple[str, str], Permission]
    secret: bytes
    iterations: tuple[int, ...]


class CatalogueFile:
    """The file, open; it is changed within `transaction`, which ends on disk or leaves everything as it was."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path, first_user: FirstUser) -> CatalogueFile:
        """Open the file, or make it with the first user in it; whatever else is under its name is refused."""
        with _our_errors(path):
            _make_private(path)
            connection = sqlite3.connect(
                path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            file = cls(path, connection)
            try:
                file._prepare(first_user)
            except BaseException:
                connection.close()
                raise
            return file

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def load(self, iterations: int, before: CatalogueState | None = None) -> CatalogueState:
        """All there is; `iterations` is for made-up verifiers while there is no user to take it from."""
        with _our_errors(self.path):
            users = {user.name: user for user in self._users()}
            vhosts = frozenset(name for (name,) in self._execute("SELECT name FROM vhosts"))
            (secret,) = self._execute("SELECT value FROM secrets WHERE name = 'names'").fetchone()
            counts = tuple(sorted(user.verifier.iterations for user in users.values()))
            permissions = dict(self._permissions({} if before is None else before.permissions))
            return CatalogueState(users, vhosts, permissions, secret, counts or (iterations,))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is done inside; when it has ended it is on disk."""
        with _our_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def add_user(self, user: NewUser, verifier: Verifier) -> None:
        """Make a user with its permissions."""
        check_user_name(user.name)
        if self._execute("SELECT 1 FROM users WHERE name = ?", user.name).fetchone():
            raise UserExists(user.name)
        self._check_room("user", "users", USERS_MAX)
        inserted = self._execute(
            "INSERT INTO users (name, roles, salt, iterations, stored_key, server_key) VALUES (?, ?, ?, ?, ?, ?)",
            user.name,
            _words(user.roles),
            *_columns(verifier),
        )
        assert inserted.lastrowid is not None, "an insert gives its row"
        for vhost, permission in user.permissions.items():
            self._set_permission(inserted.lastrowid, vhost, permission)

    def check_user(self, name: str) -> None:
        """Raise `UnknownUser` if there is none of this name."""
        self._user_id(name)

    def delete_user(self, name: str) -> None:
        """Remove a user and its permissions."""
        self._execute("DELETE FROM users WHERE id = ?", self._user_id(name))

    def set_verifier(self, name: str, verifier: Verifier) -> None:
        """Give a user another password."""
        self._execute(
            "UPDATE users SET salt = ?, iterations = ?, stored_key = ?, server_key = ? WHERE id = ?",
            *_columns(verifier),
            self._user_id(name),
        )

    def set_roles(self, name: str, roles: frozenset[Role]) -> None:
        """Give a user these roles and no others."""
        self._execute("UPDATE users SET roles = ? WHERE id = ?", _words(roles), self._user_id(name))

    def add_vhost(self, name: str) -> None:
        """Make a vhost, on which nobody has permissions yet."""
        check_vhost_name(name)
        if self._has_vhost(name):
            raise VhostExists(name)
        self._check_room("vhost", "vhosts", VHOSTS_MAX)
        self._execute("INSERT INTO vhosts VALUES (?)", name)

    def delete_vhost(self, name: str) -> None:
        """Remove a vhost and the permissions on it; what its logs are is the caller's business."""
        self._check_vhost(name)
        self._execute("DELETE FROM vhosts WHERE name = ?", name)

    def set_permission(self, name: str, vhost: str, permission: Permission) -> None:
        """Give a user this permission on a vhost in place of the one it has."""
        self._set_permission(self._user_id(name), vhost, permission)

    def clear_permission(self, name: str, vhost: str) -> None:
        """Take from a user what it may do on a vhost."""
        self._check_vhost(vhost)
        self._execute("DELETE FROM permissions WHERE user_id = ? AND vhost = ?", self._user_id(name), vhost)

    def _prepare(self, first_user: FirstUser) -> None:
        # The order matters: whose file it is must be known before anything, the journal's mode too, is changed.
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID and (
            version or self._execute("SELECT 1 FROM sqlite_schema").fetchone()
        ):
            raise ForeignFile(self.path)
        if version > len(MIGRATIONS):
            raise NewerFormat(self.path, version, len(MIGRATIONS))
        for pragma in (
            "journal_mode = DELETE",
            "synchronous = EXTRA",
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "secure_delete = ON",
        ):
            self._connection.execute(f"PRAGMA {pragma}")
        (found,) = self._execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise CatalogueCorrupt(self.path, found)
        if version < len(MIGRATIONS):
            self._migrate(version, first_user)
        if version == 0:
            _sync_folder(self.path.parent)

    def _migrate(self, version: int, first_user: FirstUser) -> None:
        # The first user comes in the transaction that makes the tables: a start that was killed is the first one still.
        first = first_user() if version == 0 else None
        with self.transaction():
            for script in MIGRATIONS[version:]:
                for statement in filter(str.strip, script.split(";")):
                    self._execute(statement)
            if version == 0:
                self._execute("INSERT INTO vhosts VALUES (?)", DEFAULT_VHOST)
                self._execute("INSERT INTO secrets VALUES ('names', ?)", secrets.token_bytes(_SECRET_BYTES))
                if first is not None:
                    self.add_user(*first)
            self._execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _users(self) -> Iterator[User]:
        query = "SELECT id, name, roles, salt, iterations, stored_key, server_key FROM users ORDER BY name"
        for number, name, roles, *verifier in self._connection.execute(query):
            yield User(number, name, Verifier(*verifier), frozenset(map(Role, roles.split())))

    def _permissions(
        self, before: dict[tuple[str, str], Permission]
    ) -> Iterator[tuple[tuple[str, str], Permission]]:
        query = "SELECT name, vhost, configure, write, read FROM permissions JOIN users ON id = user_id"
        for name, vhost, *patterns in self._execute(query):
            known = before.get((name, vhost))
            is_same = known is not None and [known.configure, known.write, known.read] == patterns
            try:
                yield (name, vhost), known if known is not None and is_same else Permission(*patterns)
            except InvalidPattern as error:
                raise CatalogueCorrupt(self.path, f"{name!r} on {vhost!r}: {error.reason}") from error

    def _set_permission(self, user_id: int, vhost: str, permission: Permission) -> None:
        self._check_vhost(vhost)
        self._execute(
            "INSERT OR REPLACE INTO permissions VALUES (?, ?, ?, ?, ?)",
            user_id,
            vhost,
            permission.configure,
            permission.write,
            permission.read,
        )

    def _user_id(self, name: str) -> int:
        if not _is_text(name):
            raise UnknownUser(name)
        row = self._execute("SELECT id FROM users WHERE name = ?", name).fetchone()
        if row is None:
            raise UnknownUser(name)
        return int(row[0])

    def _has_vhost(self, name: str) -> bool:
        query = "SELECT 1 FROM vhosts WHERE name = ?"
        return _is_text(name) and self._execute(query, name).fetchone() is not None

    def _check_vhost(self, name: str) -> None:
        if not self._has_vhost(name):
            raise UnknownVhost(name)

    def _check_room(self, kind: str, table: str, count_max: int) -> None:
        (count,) = self._execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a word of ours
        if count >= count_max:
            raise CatalogueFull(kind, count_max)

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)


@contextlib.contextmanager
def _our_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except HeadwaterError:
        raise
    except sqlite3.Error as error:
        raise _error_of(path, error) from error
    except OSError as error:
        raise _system_error_of(path, error) from error
    except (KeyError, TypeError, ValueError) as error:  # rows that this code did not write
        raise CatalogueCorrupt(path, repr(error)) from error


def _error_of(path: Path, error: sqlite3.Error) -> HeadwaterError:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return DiskFull(path)
        case sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            return NoAccess(path)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return FolderInUse(path.parent, None)
        case sqlite3.SQLITE_NOTADB:
            return ForeignFile(path)
        case sqlite3.SQLITE_IOERR:
            return WriteFailed(path, errno.EIO)
    return CatalogueCorrupt(path, str(error))


def _system_error_of(path: Path, error: OSError) -> HeadwaterError:
    code = error.errno or errno.EIO
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return NoAccess(path)
    return DiskFull(path) if code in (errno.ENOSPC, errno.EDQUOT) else WriteFailed(path, code)


def _make_private(path: Path) -> None:
    """Make an empty file that only its owner reads, if there is none; SQLite gives its journal the same rights."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _columns(verifier: Verifier) -> tuple[bytes, int, bytes, bytes]:
    return verifier.salt, verifier.iterations, verifier.stored_key, verifier.server_key


def _words(roles: frozenset[Role]) -> str:
    return " ".join(sorted(roles))


def _is_text(name: str) -> bool:
    # A name from a command line or a URL may hold lone surrogates, which SQLite cannot be asked for.
    return not any("\ud800" <= char <= "\udfff" for char in name)
