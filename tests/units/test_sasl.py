"""SASL at the doors: who is let in by which mechanism, from where, and that no bytes break an exchange."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.encoding.sasl import (
    MESSAGE_BYTES_MAX,
    Challenge,
    ExternalClient,
    Failure,
    FailureKind,
    PlainClient,
    Response,
    parse_plain,
)
from headwater.encoding.scram import ITERATIONS_MIN, ScramClient, new_nonce
from headwater.server.catalogue import Catalogue
from headwater.server.security import authenticator as authenticator_module
from headwater.server.security import passwords, sasl
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.errors import UnsupportedMechanism
from headwater.server.security.identity import Peer
from headwater.server.security.sasl import Answer, Sasl, Success
from headwater.server.security.users import Role
from tests.security_material import add, authenticator, catalogue, log_in

HERE = Peer(is_loopback=True)
FAR = Peer(is_loopback=False)
FAR_WITH_TLS = Peer(is_loopback=False, is_encrypted=True)
WITH_CERTIFICATE = Peer(is_loopback=False, is_encrypted=True, certificate_user="ada")
MECHANISMS = ("EXTERNAL", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    with catalogue(tmp_path_factory.mktemp("data")) as made:
        add(made, "ada", "pencil", Role.MONITOR, read=".*")
        yield made


@pytest.fixture(scope="module")
def doorman(opened: Catalogue) -> Iterator[Authenticator]:
    with authenticator(opened) as made:
        yield made


@pytest.fixture
def mechanisms(doorman: Authenticator) -> Sasl:
    return Sasl(doorman)


def talk(mechanisms: Sasl, mechanism: str, peer: Peer, messages: Sequence[bytes | None]) -> list[Answer]:
    async def steps() -> list[Answer]:
        exchange = mechanisms.start(mechanism, peer)
        return [await exchange.step(message) for message in messages]

    return asyncio.run(steps())


def scram(mechanisms: Sasl, user: str, password: str, peer: Peer = FAR) -> tuple[Answer, ScramClient]:
    client = ScramClient(user, password, new_nonce())

    async def steps() -> Answer:
        exchange = mechanisms.start("SCRAM-SHA-256", peer)
        answer = await exchange.step(None)
        while isinstance(answer, Challenge):
            response = client.step(answer.data)
            assert isinstance(response, Response)
            answer = await exchange.step(response.data)
        return answer

    return asyncio.run(steps()), client


@pytest.mark.parametrize(
    ("peer", "offered"),
    [
        (HERE, ("SCRAM-SHA-256", "PLAIN", "ANONYMOUS")),
        (FAR, ("SCRAM-SHA-256",)),
        (FAR_WITH_TLS, ("SCRAM-SHA-256", "PLAIN")),
        (WITH_CERTIFICATE, ("EXTERNAL", "SCRAM-SHA-256", "PLAIN")),
    ],
)
def test_what_is_offered_depends_on_the_connection(
    mechanisms: Sasl, peer: Peer, offered: tuple[str, ...]
) -> None:
    assert mechanisms.mechanisms(peer) == offered
    for mechanism in {*MECHANISMS, "scram-sha-256", "SCRAM-SHA-256-PLUS", ""} - {*offered}:
        with pytest.raises(UnsupportedMechanism):
            mechanisms.start(mechanism, peer)


def test_settings_change_what_is_offered(doorman: Authenticator) -> None:
    assert Sasl(doorman, allows_plain_without_tls=True).mechanisms(FAR) == ("SCRAM-SHA-256", "PLAIN")
    assert Sasl(doorman, allows_anonymous=False).mechanisms(HERE) == ("SCRAM-SHA-256", "PLAIN")


def test_plain_lets_in_who_knows_the_password(mechanisms: Sasl) -> None:
    for message in (b"\0ada\0pencil", b"ada\0ada\0pencil"):
        (answer,) = talk(mechanisms, "PLAIN", FAR_WITH_TLS, [message])
        assert isinstance(answer, Success)
        assert (answer.identity.user, answer.identity.roles, answer.identity.is_loopback) == (
            "ada",
            frozenset({Role.MONITOR}),
            False,
        )


def test_plain_refuses_everybody_else(mechanisms: Sasl) -> None:
    wrong = {b"\0ada\0pencils", b"\0ada\0Pencil", b"\0eve\0pencil", b"guest\0ada\0pencil", b"\0Ada\0pencil"}
    malformed = {b"", b"ada\0pencil", b"\0\0pencil", b"\0ada\0", b"\0a\0b\0c", b"\0\xff\0b", b"\0a\x07\0b"}
    malformed.add(b"\0ada\0" + b"a" * MESSAGE_BYTES_MAX)
    for message in wrong | malformed:
        (answer,) = talk(mechanisms, "PLAIN", HERE, [message])
        assert isinstance(answer, Failure)
        assert answer.kind is (FailureKind.DENIED if message in wrong else FailureKind.MALFORMED)
        assert "pencil" not in answer.reason


def test_a_peer_that_leaves_out_its_first_message_is_asked_for_it(mechanisms: Sasl) -> None:
    asked, answer, after = talk(mechanisms, "PLAIN", HERE, [None, b"\0ada\0pencil", b"\0ada\0pencil"])
    assert asked == Challenge(b"")
    assert isinstance(answer, Success)
    assert isinstance(after, Failure)


def test_a_peer_that_does_not_wait_for_an_answer_gets_no_second_try(mechanisms: Sasl) -> None:
    async def hurry() -> list[Answer]:
        exchange = mechanisms.start("PLAIN", HERE)
        return list(await asyncio.gather(*map(exchange.step, (b"\0ada\0guess", b"\0ada\0pencil"))))

    assert [type(answer) for answer in asyncio.run(hurry())] == [Failure, Failure]


def test_scram_lets_in_who_knows_the_password_and_proves_that_it_does_too(mechanisms: Sasl) -> None:
    answer, client = scram(mechanisms, "ada", "pencil")
    assert isinstance(answer, Success)
    assert answer.identity.user == "ada"
    assert answer.data.startswith(b"v=")
    assert client.step(answer.data) == Response(b"")
    assert client.is_complete


def test_scram_refuses_a_wrong_password_and_an_unknown_user_alike(mechanisms: Sasl) -> None:
    for user, password in (("ada", "pencils"), ("eve", "pencil")):
        answer, _ = scram(mechanisms, user, password)
        assert isinstance(answer, Failure)
        assert (answer.kind, answer.data) == (FailureKind.DENIED, b"e=invalid-proof")


def test_the_salt_of_an_unknown_user_looks_real_and_stays_the_same(
    mechanisms: Sasl, opened: Catalogue
) -> None:
    def challenge(user: str) -> tuple[bytes, bytes]:
        (answer,) = talk(mechanisms, "SCRAM-SHA-256", FAR, [b"n,,n=%s,r=abc" % user.encode()])
        assert isinstance(answer, Challenge)
        _, salt, iterations = answer.data.split(b",")
        return salt, iterations

    known, unknown = challenge("ada"), challenge("eve")
    assert len(known[0]) == len(unknown[0])
    assert known[1] == unknown[1] == b"i=%d" % ITERATIONS_MIN
    assert challenge("eve") == unknown != challenge("mallory")


def test_made_up_salts_are_those_of_before_after_a_restart(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with catalogue(tmp_path) as made, authenticator(made) as doorman:
            found.append(doorman.verifier_of("eve"))
    assert found[0] == found[1]


def test_guest_is_let_in_from_this_machine_alone(mechanisms: Sasl) -> None:
    message = [b"\0guest\0guest"]
    (here,), (far,) = (talk(mechanisms, "PLAIN", peer, message) for peer in (HERE, FAR_WITH_TLS))
    assert isinstance(here, Success)
    assert isinstance(far, Failure)
    assert far.kind is FailureKind.LOOPBACK_ONLY
    (far,) = talk(mechanisms, "PLAIN", FAR_WITH_TLS, [b"\0guest\0wrong"])
    assert isinstance(far, Failure)
    assert far.kind is FailureKind.DENIED
    assert isinstance(scram(mechanisms, "guest", "guest", HERE)[0], Success)
    refused, _ = scram(mechanisms, "guest", "guest", FAR)
    assert isinstance(refused, Failure)
    assert (refused.kind, refused.data) == (FailureKind.LOOPBACK_ONLY, b"e=other-error")


def test_external_lets_in_the_user_of_the_certificate_and_no_other(mechanisms: Sasl) -> None:
    for message in (None, b"", b"ada", b"\0guest\0wrong"):
        (answer,) = talk(mechanisms, "EXTERNAL", WITH_CERTIFICATE, [message])
        assert isinstance(answer, Success)
        assert answer.identity.user == "ada"
    for message in (b"guest", b"\xff", b"a" * (MESSAGE_BYTES_MAX + 1)):
        assert isinstance(talk(mechanisms, "EXTERNAL", WITH_CERTIFICATE, [message])[0], Failure)
    eve = Peer(is_loopback=False, is_encrypted=True, certificate_user="eve")
    (answer,) = talk(mechanisms, "EXTERNAL", eve, [None])
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.DENIED


def test_a_certificate_does_not_let_guest_in_from_afar(mechanisms: Sasl) -> None:
    guest = Peer(is_loopback=False, is_encrypted=True, certificate_user="guest")
    (answer,) = talk(mechanisms, "EXTERNAL", guest, [b""])
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.LOOPBACK_ONLY


def test_anonymous_acts_as_guest(mechanisms: Sasl) -> None:
    for message in (None, b"", b"someone@example.org"):
        (answer,) = talk(mechanisms, "ANONYMOUS", HERE, [message])
        assert isinstance(answer, Success)
        assert answer.identity.user == "guest"
    assert isinstance(talk(mechanisms, "ANONYMOUS", HERE, [b"a" * 256])[0], Failure)


def test_anonymous_ends_with_guest(tmp_path: Path) -> None:
    with catalogue(tmp_path) as made, authenticator(made) as doorman:
        asyncio.run(made.delete_user("guest"))
        assert isinstance(talk(Sasl(doorman), "ANONYMOUS", HERE, [None])[0], Failure)


def test_a_changed_password_counts_at_once(tmp_path: Path) -> None:
    with catalogue(tmp_path) as made, authenticator(made) as doorman:
        add(made, "ada")

        def can(password: str) -> bool:
            answer = asyncio.run(doorman.check_password("ada", password, is_loopback=False))
            return not isinstance(answer, Failure)

        assert can("pencil")
        assert can("pencil")
        asyncio.run(made.set_password("ada", "crayon"))
        assert not can("pencil")
        assert can("crayon")
        asyncio.run(made.delete_user("ada"))
        assert not can("crayon")


def test_a_password_that_changes_while_it_is_checked_does_not_pass(tmp_path: Path) -> None:
    with catalogue(tmp_path) as made, authenticator(made) as doorman:
        add(made, "ada")

        async def race() -> object:
            is_changed = threading.Event()
            doorman._passwords._thread.submit(is_changed.wait)
            check = asyncio.create_task(doorman.check_password("ada", "pencil", is_loopback=False))
            await asyncio.sleep(0)
            await made.set_password("ada", "crayon")
            is_changed.set()
            return await check

        assert isinstance(asyncio.run(race()), Failure)


def test_a_name_or_a_password_that_cannot_be_is_a_failure(opened: Catalogue) -> None:
    for name, password in (("ada", "\ud800"), ("\ud800", "pencil"), ("", ""), ("a" * 9999, "b" * 9999)):
        assert isinstance(log_in(opened, name, password), Failure)


def test_too_many_checks_are_a_failure_that_says_so(
    mechanisms: Sasl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "CHECKS_WAITING_MAX", 0)
    (answer,) = talk(mechanisms, "PLAIN", HERE, [b"\0ada\0wrong"])
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.BUSY


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(
    st.sampled_from(MECHANISMS),
    st.lists(
        st.none()
        | st.binary(max_size=60)
        | st.sampled_from([b"n,,n=ada,r=abc", b"c=biws,r=abc,p=AAAA", b"\0ada\0guess", b"n,,n=guest,r=a"]),
        max_size=4,
    ),
)
def test_no_bytes_break_an_exchange_or_get_in(
    mechanisms: Sasl, mechanism: str, messages: list[bytes | None]
) -> None:
    peer = Peer(is_loopback=mechanism == "ANONYMOUS", is_encrypted=True, certificate_user="eve")
    answers = talk(mechanisms, mechanism, peer, messages)
    assert all(isinstance(answer, Challenge | Success | Failure) for answer in answers)
    assert mechanism == "ANONYMOUS" or not any(isinstance(answer, Success) for answer in answers)
    over = [index for index, answer in enumerate(answers) if not isinstance(answer, Challenge)]
    assert all(isinstance(answer, Failure) for answer in answers[over[0] + 1 :]) if over else True


@given(st.binary(max_size=60))
def test_plain_parses_or_fails(data: bytes) -> None:
    parse_plain(data)


def test_the_client_of_plain_and_external_says_all_in_one_message() -> None:
    client = PlainClient("ada", "I\u00adX")
    assert client.step() == client.step(b"") == Response(b"\0ada\0IX")
    assert isinstance(client.step(b"more"), Failure)
    assert "IX" not in repr(client)
    assert ExternalClient().step() == Response(b"")
    assert isinstance(ExternalClient().step(b"more"), Failure)


def test_digests_are_compared_in_constant_time() -> None:
    # Time itself cannot be tested here; that no plain comparison of secrets crept in, can.
    for module in (passwords, sasl, authenticator_module):
        assert module.__file__ is not None
        source = Path(module.__file__).read_text(encoding="utf-8")
        assert "stored_key ==" not in source
        assert "digest ==" not in source
