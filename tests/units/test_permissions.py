"""Permissions: what matches, who may do what, and that what is taken is gone with the next question."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.server.catalogue import Catalogue
from headwater.server.security import access
from headwater.server.security.access import Access
from headwater.server.security.errors import InvalidPattern
from headwater.server.security.identity import Identity
from headwater.server.security.permissions import ALL, NONE, Permission, Right
from headwater.server.security.users import Role
from tests.security_material import add, catalogue, log_in


def answers(opened: Catalogue, identity: Identity, name: str, vhost: str = "/") -> tuple[bool, bool, bool]:
    questions = Access(opened)
    return (
        questions.may_configure(identity, vhost, name),
        questions.may_write(identity, vhost, name),
        questions.may_read(identity, vhost, name),
    )


def test_an_expression_matches_whole_names() -> None:
    permission = Permission(configure="", write="orders", read="orders|audit-.*")
    assert permission.allows(Right.WRITE, "orders")
    assert not permission.allows(Right.WRITE, "orders-0")
    assert permission.allows(Right.READ, "audit-2026")
    assert not permission.allows(Right.CONFIGURE, "orders")
    assert not permission.allows(Right.CONFIGURE, "")


def test_all_covers_every_name_and_none_no_name() -> None:
    for right in Right:
        assert ALL.allows(right, "\u00fc" * 127)
        assert not ALL.allows(right, "\u00fc" * 128)
        assert not ALL.allows(right, "")
        assert not NONE.allows(right, "orders")
        assert not NONE.allows(right, "")


def test_an_expression_that_cannot_be_used_makes_no_permission() -> None:
    for patterns in ({"configure": "(a"}, {"write": "a" * 256}, {"read": r"(a)\1"}):
        with pytest.raises(InvalidPattern):
            Permission(**patterns)


def test_each_right_is_asked_for_on_its_own(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        ada = add(opened, "ada", configure="tmp-.*", write="orders", read="orders|tmp-.*")
        assert answers(opened, ada, "tmp-1") == (True, False, True)
        assert answers(opened, ada, "orders") == (False, True, True)
        assert answers(opened, ada, "audit") == (False, False, False)


def test_a_user_without_permissions_may_do_nothing(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        bob = add(opened, "bob")
        assert answers(opened, bob, "orders") == (False, False, False)
        questions = Access(opened)
        assert not questions.may_enter(bob, "/")
        assert not questions.is_admin(bob)
        assert not questions.may_monitor(bob)


def test_permissions_are_of_one_vhost(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        ada = add(opened, "ada", read=".*")
        asyncio.run(opened.add_vhost("test"))
        assert answers(opened, ada, "orders", "test") == (False, False, False)
        assert answers(opened, ada, "orders", "missing") == (False, False, False)
        questions = Access(opened)
        assert (questions.may_enter(ada, "/"), questions.may_enter(ada, "test")) == (True, False)


def test_guest_may_do_all_on_the_default_vhost(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        guest = log_in(opened, "guest", "guest", is_loopback=True)
        assert isinstance(guest, Identity)
        assert answers(opened, guest, "orders") == (True, True, True)
        assert Access(opened).is_admin(guest)


def test_roles_give_administration_and_figures(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        ada = add(opened, "ada", "pencil", Role.ADMIN)
        bob = add(opened, "bob", "pencil", Role.MONITOR)
        questions = Access(opened)
        assert (questions.is_admin(ada), questions.may_monitor(ada)) == (True, True)
        assert (questions.is_admin(bob), questions.may_monitor(bob)) == (False, True)
        assert answers(opened, ada, "orders") == (False, False, False)


def test_what_is_changed_counts_from_the_next_question_on(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        ada = add(opened, "ada", "pencil", Role.ADMIN, read="orders")
        questions = Access(opened)
        assert questions.may_read(ada, "/", "orders")
        asyncio.run(opened.set_permission("ada", "/", Permission(read="audit")))
        assert (questions.may_read(ada, "/", "orders"), questions.may_read(ada, "/", "audit")) == (
            False,
            True,
        )
        asyncio.run(opened.set_roles("ada", []))
        assert not questions.is_admin(ada)
        asyncio.run(opened.clear_permission("ada", "/"))
        assert not questions.may_read(ada, "/", "audit")


def test_a_deleted_user_has_no_rights_even_when_the_name_is_used_again(tmp_path: Path) -> None:
    with catalogue(tmp_path) as opened:
        before = add(opened, "ada", "pencil", Role.ADMIN, read=".*")
        questions = Access(opened)
        assert questions.may_read(before, "/", "orders")
        asyncio.run(opened.delete_user("ada"))
        assert not questions.may_read(before, "/", "orders")
        after = add(opened, "ada", "pencil", Role.ADMIN, read=".*")
        assert questions.may_read(after, "/", "orders")
        assert not questions.may_read(before, "/", "orders")
        assert not questions.is_admin(before)
        assert not questions.may_enter(before, "/")


def test_only_so_many_answers_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "ANSWERS_REMEMBERED_MAX", 10)
    with catalogue(tmp_path) as opened:
        ada = add(opened, "ada", read="log-[0-4]+")
        questions = Access(opened)
        for number in range(100):
            expected = not set(str(number)) - set("01234")
            assert questions.may_read(ada, "/", f"log-{number}") == expected
            assert len(questions._answers) <= 10
