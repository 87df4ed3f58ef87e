"""The catalogue: what is answered is on disk, what is on disk is in memory, and foreign files are left alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headwater.encoding.scram import ITERATIONS_MIN
from headwater.errors import DiskFull, FolderInUse, ForeignFile, HeadwaterError, NewerFormat, NoAccess
from headwater.server import catalogue as catalogue_module
from headwater.server import catalogue_file
from headwater.server.catalogue import Catalogue
from headwater.server.catalogue_file import FILE_NAME, MIGRATIONS
from headwater.server.security.errors import (
    CatalogueBusy,
    CatalogueCorrupt,
    CatalogueFull,
    InvalidName,
    InvalidPassword,
    UnknownUser,
    UnknownVhost,
    UserExists,
    VhostExists,
)
from headwater.server.security.identity import Identity
from headwater.server.security.permissions import ALL, Permission
from headwater.server.security.users import NewUser, Role
from tests.security_material import add, catalogue, log_in

CHILD = Path(__file__).parents[1] / "catalogue_child.py"


def everything(opened: Catalogue) -> tuple[object, ...]:
    state = opened.state
    return state.users, state.vhosts, state.permissions, state.secret


def test_a_first_start_makes_guest_and_the_default_vhost(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        assert list(opened.state.users) == ["guest"]
        assert opened.state.vhosts == {"/"}
        assert opened.permissions_of("guest") == {"/": ALL}


def test_guest_does_not_come_back(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        asyncio.run(opened.delete_user("guest"))
    with catalogue(tmp_path) as opened:
        assert opened.state.users == {}


def test_what_was_changed_is_there_after_a_restart(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        add(opened, "ada", "pencil", Role.ADMIN, Role.MONITOR, configure="a", write="b", read="c")
        add(opened, "bob")
        asyncio.run(opened.add_vhost("test"))
        asyncio.run(opened.set_permission("bob", "test", Permission(read="orders")))
        asyncio.run(opened.set_password("bob", "crayon"))
        asyncio.run(opened.set_roles("bob", [Role.MONITOR]))
        before = everything(opened)
    with catalogue(tmp_path) as opened:
        assert everything(opened) == before
        assert isinstance(log_in(opened, "bob", "crayon"), Identity)
        assert not isinstance(log_in(opened, "bob", "pencil"), Identity)


def test_a_deleted_vhost_or_user_takes_its_permissions_along(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        add(opened, "ada", read=".*")
        asyncio.run(opened.add_vhost("test"))
        asyncio.run(opened.set_permission("ada", "test", ALL))
        asyncio.run(opened.delete_vhost("test"))
        assert opened.permissions_of("ada") == {"/": Permission(read=".*")}
        asyncio.run(opened.delete_user("ada"))
        assert list(opened.state.permissions) == [("guest", "/")]


Change = Callable[[Catalogue], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda opened: opened.add_user("guest", "x"), UserExists),
        (lambda opened: opened.add_user("a:b", "x"), InvalidName),
        (lambda opened: opened.add_user("ada", ""), InvalidPassword),
        (lambda opened: opened.add_user("ada", "x", permissions={"no": ALL}), UnknownVhost),
        (lambda opened: opened.delete_user("eve"), UnknownUser),
        (lambda opened: opened.delete_user("\udcff"), UnknownUser),
        (lambda opened: opened.set_password("eve", "x"), UnknownUser),
        (lambda opened: opened.set_password("guest", "\n"), InvalidPassword),
        (lambda opened: opened.set_roles("eve", []), UnknownUser),
        (lambda opened: opened.set_permission("eve", "/", ALL), UnknownUser),
        (lambda opened: opened.set_permission("guest", "no", ALL), UnknownVhost),
        (lambda opened: opened.set_permission("guest", "\udcff", ALL), UnknownVhost),
        (lambda opened: opened.clear_permission("eve", "/"), UnknownUser),
        (lambda opened: opened.clear_permission("guest", "no"), UnknownVhost),
        (lambda opened: opened.add_vhost("/"), VhostExists),
        (lambda opened: opened.add_vhost(""), InvalidName),
        (lambda opened: opened.delete_vhost("no"), UnknownVhost),
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    tmp_path: Path, change: Change, error: type[HeadwaterError]
) -> None:
    with catalogue(tmp_path) as opened:
        before = everything(opened)
        with pytest.raises(error):
            asyncio.run(change(opened))
        assert everything(opened) == before
    with catalogue(tmp_path) as opened:
        assert everything(opened) == before


def test_changes_keep_their_order_and_all_arrive(tmp_path: Path) -> None:
    async def many(opened: Catalogue) -> None:
        await asyncio.gather(*(opened.add_vhost(f"vhost {number}") for number in range(50)))
        await asyncio.gather(
            opened.add_user("ada", "x"), opened.delete_user("ada"), opened.add_user("ada", "y")
        )

    with catalogue(tmp_path) as opened:
        asyncio.run(many(opened))
        assert len(opened.state.vhosts) == 51
        assert isinstance(log_in(opened, "ada", "y"), Identity)


def test_a_change_whose_caller_went_away_is_in_memory_when_it_is_on_disk(tmp_path: Path) -> None:
    async def leave(opened: Catalogue) -> None:
        change = asyncio.create_task(opened.add_user("ada", "x"))
        while not opened._waiting:
            await asyncio.sleep(0)
        await asyncio.sleep(0.002)
        change.cancel()
        await asyncio.wait([change])

    with catalogue(tmp_path) as opened:
        asyncio.run(leave(opened))
        opened.close()
        in_memory = set(opened.state.users)
    with catalogue(tmp_path) as opened:
        assert set(opened.state.users) == in_memory


def test_only_so_many_changes_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_module, "CHANGES_WAITING_MAX", 3)

    async def many(opened: Catalogue) -> list[BaseException | None]:
        changes = (opened.add_vhost(f"vhost {number}") for number in range(5))
        return await asyncio.gather(*changes, return_exceptions=True)

    with catalogue(tmp_path) as opened:
        answers = asyncio.run(many(opened))
        assert [type(answer) for answer in answers] == [type(None)] * 3 + [CatalogueBusy] * 2
        assert len(opened.state.vhosts) == 4
        asyncio.run(opened.add_vhost("one more"))


def test_there_may_be_only_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_file, "USERS_MAX", 2)
    monkeypatch.setattr(catalogue_file, "VHOSTS_MAX", 2)
    with catalogue(tmp_path) as opened:
        add(opened, "ada")
        asyncio.run(opened.add_vhost("test"))
        with pytest.raises(CatalogueFull, match="2 entries of kind user"):
            add(opened, "bob")
        with pytest.raises(CatalogueFull, match="2 entries of kind vhost"):
            asyncio.run(opened.add_vhost("more"))


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with catalogue(tmp_path):
            assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_no_password_is_in_the_file(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        add(opened, "ada", "a-password-to-look-for")
    assert b"a-password-to-look-for" not in (tmp_path / FILE_NAME).read_bytes()


def altered(folder: Path, *statements: str) -> None:
    """Let another program change the file."""
    connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def refusal(folder: Path) -> HeadwaterError:
    before = (folder / FILE_NAME).read_bytes()
    with pytest.raises(HeadwaterError) as caught, catalogue(folder):
        pass
    assert (folder / FILE_NAME).read_bytes() == before
    return caught.value


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    with catalogue(tmp_path):
        pass
    altered(tmp_path, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    error = refusal(tmp_path)
    assert isinstance(error, NewerFormat)
    assert (error.found, error.known) == (len(MIGRATIONS) + 1, len(MIGRATIONS))


def test_an_older_schema_is_brought_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with catalogue(tmp_path) as opened:
        add(opened, "ada")
        before = everything(opened)
    monkeypatch.setattr(catalogue_file, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (name TEXT) STRICT;"))
    with catalogue(tmp_path) as opened:
        assert everything(opened) == before
    altered(tmp_path, "INSERT INTO later VALUES ('x')")


def test_a_failed_migration_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with catalogue(tmp_path) as opened:
        before = everything(opened)
    with monkeypatch.context() as patch:
        patch.setattr(
            catalogue_file, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE a (b TEXT); CREATE TABLE a (b TEXT);")
        )
        refusal(tmp_path)
    with catalogue(tmp_path) as opened:
        assert everything(opened) == before


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    altered(tmp_path, "CREATE TABLE theirs (a)")
    assert isinstance(refusal(tmp_path), ForeignFile)
    (tmp_path / FILE_NAME).write_bytes(b"no database at all, but some text" * 100)
    assert isinstance(refusal(tmp_path), ForeignFile)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE users SET roles = 'emperor'",
        "UPDATE permissions SET read = '(a'",
        "DELETE FROM secrets",
        "DROP TABLE vhosts",
    ],
)
def test_rows_that_nobody_here_wrote_are_refused(tmp_path: Path, statement: str) -> None:
    with catalogue(tmp_path):
        pass
    altered(tmp_path, statement)
    assert isinstance(refusal(tmp_path), CatalogueCorrupt)


def test_a_damaged_page_is_told(tmp_path: Path) -> None:
    with catalogue(tmp_path):
        pass
    with (tmp_path / FILE_NAME).open("r+b") as file:
        file.seek(4096 + 8)
        file.write(b"\xff" * 64)
    assert isinstance(refusal(tmp_path), CatalogueCorrupt)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError), catalogue(tmp_path / "missing"):
        pass
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(NoAccess), catalogue(tmp_path):
            pass
        tmp_path.chmod(0o700)


async def fill(opened: Catalogue) -> None:
    for number in range(400):
        await opened.add_vhost(f"{number:0200}")


def test_a_full_disk_refuses_the_change_and_keeps_the_rest(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        before = everything(opened)
        pages = opened._file._execute("PRAGMA page_count").fetchone()[0]
        opened._file._execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskFull):
            asyncio.run(fill(opened))
        count = len(opened.state.vhosts)
        opened._file._execute(f"PRAGMA max_page_count = {pages + 1000}")
        asyncio.run(opened.add_vhost("there is room again"))
        assert len(opened.state.vhosts) == count + 1
        assert opened.state.users == before[0]


def test_another_program_that_holds_the_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_file, "LOCK_TIMEOUT_S", 0.01)
    with catalogue(tmp_path) as opened:
        other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FolderInUse):
            asyncio.run(opened.add_vhost("test"))
        other.close()
        asyncio.run(opened.add_vhost("test"))


def test_the_first_user_is_asked_for_by_a_new_file_alone(tmp_path: Path) -> None:
    asked: list[None] = []

    def first() -> NewUser:
        asked.append(None)
        return NewUser("ada", "pencil", frozenset({Role.ADMIN}), {"/": ALL})

    for _ in range(2):
        Catalogue.open(tmp_path, iterations=ITERATIONS_MIN, first_user=first).close()
    assert len(asked) == 1


def test_a_first_start_that_failed_is_the_first_one_still(tmp_path: Path) -> None:
    def fail() -> NewUser:
        raise UnknownUser("nobody")

    with pytest.raises(UnknownUser):
        Catalogue.open(tmp_path, iterations=ITERATIONS_MIN, first_user=fail)
    with catalogue(tmp_path) as opened:
        assert list(opened.state.users) == ["guest"]


def test_everything_answered_survives_kill_9(tmp_path: Path) -> None:
    answered: list[str] = []
    for lines in (1, 3, 7, 12, 20):
        with subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            said = [child.stdout.readline() for _ in range(lines)]
            child.send_signal(signal.SIGKILL)
            said += child.stdout.readlines()
        assert child.returncode == -signal.SIGKILL
        answered += [line.split()[1] for line in said if line.startswith("added ") and line.endswith("\n")]
        with catalogue(tmp_path) as opened:
            assert set(answered) <= opened.state.users.keys()
            assert len(opened.state.users) <= len(answered) + 5
            assert all(opened.permissions_of(name) == {"/": ALL} for name in opened.state.users)
            assert isinstance(log_in(opened, answered[-1], f"password of {answered[-1]}"), Identity)
    assert len(answered) >= 43


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (apt-get install strace)")
def test_no_answer_leaves_before_file_and_folder_are_synced(tmp_path: Path) -> None:
    output, folder = tmp_path / "trace", tmp_path / "data"
    folder.mkdir()
    calls = "trace=write,pwrite64,fdatasync,fsync,unlink"
    command = ["strace", "-f", "-y", "-s", "32", "-e", calls, "-o", str(output), sys.executable, str(CHILD)]
    done = subprocess.run([*command, str(folder), "5"], capture_output=True, timeout=120, check=False)
    if b"ptrace" in done.stderr and done.returncode:
        pytest.skip("strace may not trace processes here")
    assert done.returncode == 0, done.stderr.decode()
    answers = 0
    steps: list[str] = []
    for line in output.read_text(encoding="utf-8").splitlines():
        if FILE_NAME in line or (f"<{folder}>" in line and "sync" in line):
            steps.append(_step_of(line))
        elif '"added ' in line:
            answers += 1
            assert steps[-3:] == ["sync", "unlink journal", "sync folder"]
            assert {"sync journal", "sync folder"} <= {*steps[: steps.index("write")]}
            steps.clear()
    assert answers == 5


def _step_of(line: str) -> str:
    if "unlink" in line:
        return "unlink journal"
    if "sync" not in line:
        return "write" if "journal" not in line else "write journal"
    if FILE_NAME not in line:
        return "sync folder"
    return "sync" if "journal" not in line else "sync journal"
