"""Users: which names and passwords there may be, the first one, and where a peer comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.encoding.scram import ITERATIONS_MIN, derive
from headwater.errors import InvalidSettings
from headwater.server.security.errors import InvalidName, InvalidPassword
from headwater.server.security.identity import certificate_user, is_loopback
from headwater.server.security.permissions import ALL
from headwater.server.security.users import (
    NAME_BYTES_MAX,
    PASSWORD_BYTES_MAX,
    NewUser,
    Role,
    check_user_name,
    check_vhost_name,
    first_user,
    make_verifier,
)


@pytest.mark.parametrize(
    "name", ["ada", "Ada Lovelace", "\u00fcmit", "a,b=c", "ada@example.org", "a" * NAME_BYTES_MAX]
)
def test_names_that_a_user_may_have(name: str) -> None:
    assert check_user_name(name) == name


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "bytes long"),
        ("a" * (NAME_BYTES_MAX + 1), "bytes long"),
        ("\u00fc" * 128, "bytes long"),
        ("a:b", "colon"),
        ("a\nb", "U+000A"),
        ("a\0b", "U+0000"),
        ("\u2168", "more than one spelling"),
        ("a\u00adb", "more than one spelling"),
        (" ada", "space"),
        ("ada ", "space"),
        ("\ud800", "U+D800"),
        ("\U0001f600", "U+1F600"),
    ],
)
def test_names_that_a_user_may_not_have(name: str, word: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_user_name(name)
    assert word in str(caught.value)


def test_a_vhost_may_hold_a_colon() -> None:
    assert check_vhost_name("a:b") == "a:b"
    with pytest.raises(InvalidName, match="vhost"):
        check_vhost_name("")


def test_a_verifier_is_of_the_prepared_password_and_has_a_salt_of_its_own() -> None:
    one, other = (make_verifier("I\u00adX", ITERATIONS_MIN) for _ in range(2))
    assert one.salt != other.salt
    assert one == derive("IX", one.salt, ITERATIONS_MIN)


@pytest.mark.parametrize("password", ["", "\u00ad", "a" * (PASSWORD_BYTES_MAX + 1), "a\nb", "\ud800"])
def test_passwords_that_cannot_be(password: str) -> None:
    with pytest.raises(InvalidPassword) as caught:
        make_verifier(password, ITERATIONS_MIN)
    assert "aaa" not in str(caught.value)


def test_the_longest_password_is_one() -> None:
    assert make_verifier("a" * PASSWORD_BYTES_MAX, ITERATIONS_MIN).iterations == ITERATIONS_MIN


def test_the_first_user_is_guest_unless_settings_name_another(tmp_path: Path) -> None:
    assert first_user(None, None) == NewUser("guest", "guest", frozenset({Role.ADMIN}), {"/": ALL})
    file = tmp_path / "password"
    file.write_text("pencil\n", encoding="utf-8")
    assert first_user("ada", file) == NewUser("ada", "pencil", frozenset({Role.ADMIN}), {"/": ALL})


def test_half_of_a_first_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="admin_password_file"):
        first_user("ada", None)
    with pytest.raises(InvalidSettings, match="admin_user"):
        first_user(None, tmp_path / "password")
    with pytest.raises(InvalidSettings, match="cannot read"):
        first_user("ada", tmp_path / "password")
    (tmp_path / "password").write_bytes(b"\xff")
    with pytest.raises(InvalidSettings, match="not UTF-8"):
        first_user("ada", tmp_path / "password")


def test_one_end_of_line_is_no_part_of_a_password(tmp_path: Path) -> None:
    for data, password in (
        (b"a b\n", "a b"),
        (b"ab\r\n", "ab"),
        (b"ab\n\n", "ab\n"),
        (b"ab", "ab"),
        (b" ab ", " ab "),
    ):
        (tmp_path / "password").write_bytes(data)
        assert first_user("ada", tmp_path / "password").password == password


def test_a_password_is_not_printed() -> None:
    assert "pencil" not in repr(NewUser("ada", "pencil"))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", ""])
def test_addresses_of_this_machine(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "localhost", "127.0.0.1.example.org"],
)
def test_addresses_that_are_not_of_this_machine(address: str) -> None:
    assert not is_loopback(address)


def test_the_user_of_a_certificate_is_its_one_common_name() -> None:
    organisation = (("organizationName", "Example"),)
    assert certificate_user([organisation, (("commonName", "ada"),)]) == "ada"
    assert certificate_user([organisation]) is None
    assert certificate_user([(("commonName", "ada"),), (("commonName", "bob"),)]) is None
