"""SCRAM-SHA-256: the exchange that RFC 7677 prints, both sides against each other, and every way to fail."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.sasl import (
    MESSAGE_BYTES_MAX,
    Authenticated,
    Challenge,
    Failure,
    FailureKind,
    Response,
)
from headwater.encoding.scram import ITERATIONS_MIN, ScramClient, ScramServer, Verifier, derive, new_nonce

CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
WITHOUT_PROOF = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE}".encode()
PROOF = b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
VERIFIER = derive("pencil", SALT, ITERATIONS_MIN)


def server(verifier: Verifier = VERIFIER) -> ScramServer:
    return ScramServer(lambda name: verifier, SERVER_NONCE)


def test_the_server_answers_as_the_rfc_prints() -> None:
    machine = server()
    assert machine.step(CLIENT_FIRST) == Challenge(SERVER_FIRST)
    assert machine.step(WITHOUT_PROOF + PROOF) == Authenticated("user", SERVER_FINAL)


def test_the_client_answers_as_the_rfc_prints() -> None:
    client = ScramClient("user", "pencil", CLIENT_NONCE)
    assert client.step() == Response(CLIENT_FIRST)
    assert client.step(SERVER_FIRST) == Response(WITHOUT_PROOF + PROOF)
    completes = [client.is_complete]
    assert client.step(SERVER_FINAL) == Response(b"")
    completes.append(client.is_complete)
    assert completes == [False, True]
    assert isinstance(client.step(SERVER_FINAL), Failure)


names = st.text("abc=,\u00e4 \u2168", min_size=1).filter(str.strip)


@given(names, st.text("xyz,=\u00a0\u00df", min_size=1), st.text("xyz,=\u00a0\u00df", min_size=1))
def test_client_and_server_agree_on_the_password_alone(name: str, password: str, other: str) -> None:
    client = ScramClient(name, other, new_nonce())
    prepared = password.replace("\u00a0", " ")
    asked: list[str] = []

    def find(user: str) -> Verifier:
        asked.append(user)
        return derive(prepared, SALT, ITERATIONS_MIN)

    machine = ScramServer(find, new_nonce())
    first = client.step()
    assert isinstance(first, Response)
    challenge = machine.step(first.data)
    assert isinstance(challenge, Challenge)
    final = client.step(challenge.data)
    assert isinstance(final, Response)
    outcome = machine.step(final.data)
    assert asked == [name.replace("\u2168", "IX")]
    if prepared == other.replace("\u00a0", " "):
        assert isinstance(outcome, Authenticated)
        assert client.step(outcome.data) == Response(b"")
        assert client.is_complete
    else:
        assert isinstance(outcome, Failure)
        assert outcome.data == b"e=invalid-proof"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"p=tls-unique,,n=user,r=abc", b"e=channel-binding-not-supported"),
        (b"q,,n=user,r=abc", b"e=invalid-encoding"),
        (b"n,,m=ext,n=user,r=abc", b"e=extensions-not-supported"),
        (b"n,,n=us=er,r=abc", b"e=invalid-username-encoding"),
        (b"n,,n=,r=abc", b"e=invalid-username-encoding"),
        (b"n,,n=\xc2\xad,r=abc", b"e=invalid-username-encoding"),
        (b"n,,n=us\x07er,r=abc", b"e=invalid-username-encoding"),
        (b"n,a=other,n=user,r=abc", b"e=other-error"),
        (b"n,,n=user,r=", b"e=invalid-encoding"),
        (b"n,,n=user,r=a\xc3\xa4", b"e=invalid-encoding"),
        (b"n,,r=abc,n=user", b"e=invalid-encoding"),
        (b"n,,n=user", b"e=invalid-encoding"),
        (b"n,", b"e=invalid-encoding"),
        (b"", b"e=invalid-encoding"),
        (b"\xff", b"e=invalid-encoding"),
        (b"n,,n=us\0er,r=abc", b"e=invalid-encoding"),
        (b"n,,n=user,r=" + b"a" * MESSAGE_BYTES_MAX, b"e=invalid-encoding"),
    ],
)
def test_a_wrong_first_message_fails_with_the_word_of_the_rfc(message: bytes, error: bytes) -> None:
    machine = server()
    answer = machine.step(message)
    assert isinstance(answer, Failure)
    assert (answer.data, answer.kind) == (error, FailureKind.MALFORMED)
    assert isinstance(machine.step(CLIENT_FIRST), Failure)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (WITHOUT_PROOF + b",p=" + base64.b64encode(bytes(32)), b"e=invalid-proof"),
        (WITHOUT_PROOF + b",p=" + base64.b64encode(bytes(31)), b"e=invalid-proof"),
        (WITHOUT_PROOF + b",p=", b"e=invalid-proof"),
        (WITHOUT_PROOF + b",p=?", b"e=invalid-encoding"),
        (WITHOUT_PROOF, b"e=invalid-encoding"),
        (WITHOUT_PROOF.replace(b"biws", b"eSws") + PROOF, b"e=channel-bindings-dont-match"),
        (WITHOUT_PROOF[:-1] + PROOF, b"e=other-error"),
        (b"m=1," + WITHOUT_PROOF + PROOF, b"e=extensions-not-supported"),
    ],
)
def test_a_wrong_final_message_fails_with_the_word_of_the_rfc(message: bytes, error: bytes) -> None:
    machine = server()
    machine.step(CLIENT_FIRST)
    answer = machine.step(message)
    assert isinstance(answer, Failure)
    assert answer.data == error
    assert isinstance(machine.step(WITHOUT_PROOF + PROOF), Failure)


def proven(first: bytes, final: Callable[[bytes], bytes]) -> Challenge | Authenticated | Failure:
    """What the server says to a client that proves itself by a final message of the test's making."""
    import hashlib
    import hmac

    machine = server()
    challenge = machine.step(first)
    assert isinstance(challenge, Challenge)
    nonces = challenge.data.partition(b",")[0]
    without_proof = final(nonces)
    bare = first.split(b",", 2)[2]
    signed = b",".join((bare, challenge.data, without_proof))
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, ITERATIONS_MIN)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(VERIFIER.stored_key, signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return machine.step(without_proof + b",p=" + base64.b64encode(proof))


@pytest.mark.parametrize("header", [b"n,,", b"y,,", b"n,a=user,", b"y,a=user,"])
def test_a_client_that_could_bind_the_channel_is_let_in_without(header: bytes) -> None:
    answer = proven(
        header + b"n=user,r=abc,x=optional",
        lambda nonces: b"c=" + base64.b64encode(header) + b"," + nonces + b",x=optional",
    )
    assert isinstance(answer, Authenticated)


def test_a_client_that_changes_its_mind_about_binding_is_refused() -> None:
    answer = proven(b"y,,n=user,r=abc", lambda nonces: b"c=" + base64.b64encode(b"n,,") + b"," + nonces)
    assert isinstance(answer, Failure)
    assert answer.data == b"e=channel-bindings-dont-match"


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_no_bytes_get_in_or_raise(messages: list[bytes]) -> None:
    fresh, begun = server(), server()
    begun.step(CLIENT_FIRST)
    for message in messages:
        assert isinstance(fresh.step(message), Failure)
        assert isinstance(begun.step(message), Failure)


@given(
    st.lists(st.sampled_from([b"n,,", b"n=user,", b"r=abc,", b"c=biws,", b"p=AAAA", b"m=1,", b"=2C", b","]))
)
def test_no_pieces_of_messages_get_in_or_raise(pieces: list[bytes]) -> None:
    machine = server()
    for message in (b"".join(pieces), b"".join(reversed(pieces))):
        assert not isinstance(machine.step(message), Authenticated)


@given(st.binary(max_size=80), st.booleans())
def test_no_bytes_of_a_server_convince_a_client(message: bytes, is_begun: bool) -> None:
    client = ScramClient("user", "pencil", CLIENT_NONCE)
    client.step()
    if is_begun:
        client.step(SERVER_FIRST)
    assert isinstance(client.step(message), Failure)
    assert not client.is_complete


@pytest.mark.parametrize(
    "challenge",
    [
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=1000001"),
        SERVER_FIRST.replace(b"i=4096", b"i=many"),
        SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
        SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"),
        f"r={CLIENT_NONCE},s=W22Z,i=4096".encode(),
        b"m=1," + SERVER_FIRST,
        b"",
    ],
)
def test_a_client_refuses_a_server_that_weakens_the_exchange(challenge: bytes) -> None:
    client = ScramClient("user", "pencil", CLIENT_NONCE)
    client.step()
    assert isinstance(client.step(challenge), Failure)


def test_a_client_refuses_a_server_that_does_not_know_the_password() -> None:
    for final, word in (
        (b"v=" + base64.b64encode(bytes(32)), "does not know"),
        (b"e=invalid-proof", "refuses"),
    ):
        client = ScramClient("user", "pencil", CLIENT_NONCE)
        client.step()
        client.step(SERVER_FIRST)
        answer = client.step(final)
        assert isinstance(answer, Failure)
        assert word in answer.reason
        assert not client.is_complete


def test_a_client_may_be_asked_to_begin_but_not_be_challenged_first() -> None:
    assert ScramClient("user", "pencil", CLIENT_NONCE).step(b"") == Response(CLIENT_FIRST)
    assert isinstance(ScramClient("user", "pencil", CLIENT_NONCE).step(b"r=x"), Failure)


def test_secrets_are_not_printed() -> None:
    assert "stored_key" not in repr(VERIFIER)
