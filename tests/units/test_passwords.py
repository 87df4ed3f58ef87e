"""Checks of passwords: right and wrong ones, what is remembered, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from headwater.encoding.scram import ITERATIONS_MIN, derive
from headwater.server.security import passwords
from headwater.server.security.passwords import PasswordChecker, TooManyChecks

VERIFIER = derive("pencil", b"salt", ITERATIONS_MIN)
OTHER = derive("pencil", b"other salt", ITERATIONS_MIN)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def checker(clock: Clock) -> Iterator[PasswordChecker]:
    made = PasswordChecker(remembered_max=2, remembered_s=10, clock=clock)
    yield made
    made.close()


def check(checker: PasswordChecker, password: str, user: str = "ada", verifier: object = VERIFIER) -> bool:
    assert isinstance(verifier, type(VERIFIER))
    return asyncio.run(checker.check(user, verifier, password))


def test_the_right_password_is_derived_once(checker: PasswordChecker) -> None:
    assert [check(checker, "pencil") for _ in range(3)] == [True] * 3
    assert checker.derived_count == 1


def test_a_wrong_password_is_derived_each_time_and_does_not_pass(checker: PasswordChecker) -> None:
    assert check(checker, "pencil")
    assert [check(checker, "pencils") for _ in range(3)] == [False] * 3
    assert checker.derived_count == 4


def test_what_is_remembered_of_one_user_serves_no_other(checker: PasswordChecker) -> None:
    assert check(checker, "pencil", "ada")
    check(checker, "pencil", "bob")
    assert checker.derived_count == 2


def test_a_changed_verifier_ends_what_is_remembered(checker: PasswordChecker) -> None:
    check(checker, "pencil")
    changed = derive("crayon", b"salt", ITERATIONS_MIN)
    assert not check(checker, "pencil", verifier=changed)
    assert check(checker, "crayon", verifier=changed)
    assert not check(checker, "pencil", verifier=changed)
    assert check(checker, "pencil", verifier=OTHER)


def test_time_ends_what_is_remembered(checker: PasswordChecker, clock: Clock) -> None:
    check(checker, "pencil")
    clock.now = 9.9
    check(checker, "pencil")
    assert checker.derived_count == 1
    clock.now = 10.0
    check(checker, "pencil")
    assert checker.derived_count == 2


def test_only_so_many_are_remembered(checker: PasswordChecker) -> None:
    for user in ("ada", "bob", "cyd"):
        check(checker, "pencil", user)
    assert len(checker._remembered) == 2
    check(checker, "pencil", "cyd")
    assert checker.derived_count == 3
    check(checker, "pencil", "ada")
    assert checker.derived_count == 4


def test_nothing_is_remembered_when_nothing_may_be() -> None:
    checker = PasswordChecker(remembered_max=0)
    check(checker, "pencil")
    check(checker, "pencil")
    assert checker.derived_count == 2
    checker.close()


def test_passwords_are_not_kept(checker: PasswordChecker) -> None:
    check(checker, "pencil")
    assert "pencil" not in repr(vars(checker))
    assert all(b"pencil" not in each.digest for each in checker._remembered.values())


def test_connections_that_come_at_once_wait_for_one_derivation(checker: PasswordChecker) -> None:
    async def come() -> list[bool]:
        return await asyncio.gather(*(checker.check("ada", VERIFIER, "pencil") for _ in range(20)))

    assert asyncio.run(come()) == [True] * 20
    assert checker.derived_count == 1


def test_only_so_many_may_wait(checker: PasswordChecker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "CHECKS_WAITING_MAX", 3)

    async def come() -> list[bool | BaseException]:
        checks = (checker.check(f"user {n}", VERIFIER, "pencil") for n in range(5))
        return await asyncio.gather(*checks, return_exceptions=True)

    answers = asyncio.run(come())
    assert answers[:3] == [True] * 3
    assert [type(answer) for answer in answers[3:]] == [TooManyChecks] * 2
    assert check(checker, "pencil", "one more")
