"""SCRAM-SHA-256, RFC 5802 and RFC 7677: what a server keeps of a password, and both sides of the exchange.

```
client-first    n,[a=authzid],n=user,r=client nonce            (n or y: no channel binding)
server-first    r=client nonce + server nonce,s=salt,i=iterations
client-final    c=what stood before n= in client-first,r=nonces,p=proof
server-final    v=signature   or   e=error
```
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.encoding.sasl import (
    MESSAGE_BYTES_MAX,
    Authenticated,
    Challenge,
    Failure,
    FailureKind,
    Response,
)
from headwater.encoding.saslprep import UnpreparableText, prepare

__all__ = [
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "SALT_BYTES",
    "ScramClient",
    "ScramServer",
    "Verifier",
    "derive",
    "new_nonce",
    "new_salt",
]

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 1_000_000
SALT_BYTES = 16
_DIGEST = "sha256"
_DIGEST_BYTES = 32
_NAME_CHARS_LOGGED_MAX = 64
_NONCE = re.compile(r"[!-+\--~]+")
_ITERATIONS = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Verifier:
    """What a server keeps of a password: enough to check one, too little to log in with."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def derive(password: str, salt: bytes, iterations: int) -> Verifier:
    """RFC 5802 section 3: the verifier of a password that is already prepared; this is slow on purpose."""
    salted = hashlib.pbkdf2_hmac(_DIGEST, password.encode(), salt, iterations)
    stored_key = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return Verifier(salt, iterations, stored_key, _hmac(salted, b"Server Key"))


def new_salt() -> bytes:
    """A salt that no other verifier has."""
    return secrets.token_bytes(SALT_BYTES)


def new_nonce() -> str:
    """A nonce that no other exchange has."""
    return secrets.token_urlsafe(24)


class _Error(enum.StrEnum):
    """RFC 5802 section 7, server-error-value: those that this side has a use for."""

    INVALID_ENCODING = "invalid-encoding"
    INVALID_NAME = "invalid-username-encoding"
    EXTENSIONS = "extensions-not-supported"
    BINDINGS_DIFFER = "channel-bindings-dont-match"
    NO_BINDING = "channel-binding-not-supported"
    INVALID_PROOF = "invalid-proof"
    OTHER = "other-error"


class _Refused(Exception):
    """Ends an exchange from inside; never leaves this module."""

    def __init__(self, reason: str, error: _Error = _Error.INVALID_ENCODING) -> None:
        super().__init__(reason)
        self.error = error

    def failure(self) -> Failure:
        kind = FailureKind.DENIED if self.error is _Error.INVALID_PROOF else FailureKind.MALFORMED
        return Failure(str(self), kind, b"e=" + self.error.encode())


class ScramServer:
    """The server's side; `find` gives a verifier for every name, a made-up one where there is no such user."""

    def __init__(self, find: Callable[[str], Verifier], nonce: str) -> None:
        self._find = find
        self._nonce = nonce
        self._step: Callable[[str], Challenge | Authenticated] = self._on_first
        self._is_over = False
        self._user = ""

    def step(self, data: bytes) -> Challenge | Authenticated | Failure:
        """Answer one message of the client; after a failure or a success there is nothing but failure."""
        if self._is_over:
            return Failure("the exchange is over", FailureKind.MALFORMED)
        try:
            answer = self._step(_text_of(data))
        except _Refused as refused:
            self._is_over = True
            return refused.failure()
        self._is_over = isinstance(answer, Authenticated)
        return answer

    def _on_first(self, message: str) -> Challenge:
        self._gs2_header, bare = _split_first(message)
        fields = _fields(bare, "nr")
        self._user = _user_of(fields["n"])
        if self._gs2_header[2:] not in (",", f"a={fields['n']},"):
            raise _Refused("acting as another user is not offered", _Error.OTHER)
        if not _NONCE.fullmatch(fields["r"]):
            raise _Refused("the nonce holds what it must not hold")
        self._verifier = self._find(self._user)
        self._nonces = fields["r"] + self._nonce
        server_first = f"r={self._nonces},s={_to_base64(self._verifier.salt)},i={self._verifier.iterations}"
        self._signed = f"{bare},{server_first}"
        self._step = self._on_final
        return Challenge(server_first.encode())

    def _on_final(self, message: str) -> Authenticated:
        without_proof, _, proof_text = message.rpartition(",p=")
        fields = _fields(without_proof, "cr")
        if _from_base64(fields["c"]) != self._gs2_header.encode():
            raise _Refused("the channel binding is not the one it began with", _Error.BINDINGS_DIFFER)
        if not hmac.compare_digest(fields["r"].encode(), self._nonces.encode()):
            raise _Refused("the nonce is not the one it was given", _Error.OTHER)
        signed = f"{self._signed},{without_proof}".encode()
        proof = _from_base64(proof_text)
        if not _is_proof(self._verifier, proof, signed):
            raise _Refused(
                f"wrong user or password for {self._user[:_NAME_CHARS_LOGGED_MAX]!r}", _Error.INVALID_PROOF
            )
        return Authenticated(
            self._user, b"v=" + _to_base64(_hmac(self._verifier.server_key, signed)).encode()
        )


class ScramClient:
    """The client's side; it believes a server only when that has proven to know the password too."""

    def __init__(self, user: str, password: str, nonce: str) -> None:
        self._password = prepare(password, stored=False)
        self._nonce = nonce
        self._bare = f"n={_escaped(prepare(user, stored=False))},r={nonce}"
        self._step: Callable[[str], bytes] = self._on_server_first
        self._is_begun = False
        self.is_complete = False

    def step(self, challenge: bytes | None = None) -> Response | Failure:
        """Answer the server; the first call takes nothing, or the empty challenge of a server that waits."""
        if not self._is_begun:
            self._is_begun = True
            return (
                Failure("the server speaks first", FailureKind.MALFORMED)
                if challenge
                else Response(f"n,,{self._bare}".encode())
            )
        try:
            return Response(self._step(_text_of(challenge or b"")))
        except _Refused as refused:
            self._step = self._on_nothing
            return Failure(str(refused), refused.failure().kind)

    def _on_server_first(self, message: str) -> bytes:
        fields = _fields(message, "rsi")
        if not fields["r"].startswith(self._nonce) or len(fields["r"]) == len(self._nonce):
            raise _Refused("the server's nonce does not go on from ours")
        if not _ITERATIONS.fullmatch(fields["i"]):
            raise _Refused("the iteration count is no number")
        iterations = int(fields["i"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise _Refused(f"{iterations} iterations are not from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        salt = _from_base64(fields["s"])
        if not salt:
            raise _Refused("the salt is empty")
        salted = hashlib.pbkdf2_hmac(_DIGEST, self._password.encode(), salt, iterations)
        without_proof = f"c={_to_base64(b'n,,')},r={fields['r']}"
        signed = f"{self._bare},{message},{without_proof}".encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), signed)
        self._expected = _hmac(_hmac(salted, b"Server Key"), signed)
        self._step = self._on_server_final
        return f"{without_proof},p={_to_base64(_xor(client_key, signature))}".encode()

    def _on_server_final(self, message: str) -> bytes:
        if message.startswith("e="):
            raise _Refused(f"the server refuses: {message[2:]}", _Error.INVALID_PROOF)
        signature = _from_base64(_fields(message, "v")["v"])
        if not hmac.compare_digest(signature, self._expected):
            raise _Refused("the server does not know the password", _Error.INVALID_PROOF)
        self.is_complete = True
        self._step = self._on_nothing
        return b""

    def _on_nothing(self, message: str) -> bytes:
        raise _Refused("the exchange is over")


def _is_proof(verifier: Verifier, proof: bytes, signed: bytes) -> bool:
    if len(proof) != _DIGEST_BYTES:
        return False
    client_key = _xor(proof, _hmac(verifier.stored_key, signed))
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), verifier.stored_key)


def _split_first(message: str) -> tuple[str, str]:
    """The GS2 header of client-first with its last comma, and the rest."""
    parts = message.split(",", 2)
    if len(parts) != 3:
        raise _Refused("the first message has no user and nonce")
    flag, acting_as, bare = parts
    if flag.startswith("p="):
        raise _Refused("channel binding was not offered", _Error.NO_BINDING)
    if flag not in ("n", "y"):
        raise _Refused("the first message begins with neither n nor y")
    return f"{flag},{acting_as},", bare


def _fields(message: str, names: str) -> dict[str, str]:
    """The attributes that must come first and in this order; optional extensions behind them are passed over."""
    attributes = message.split(",")
    if attributes[0].startswith("m="):
        raise _Refused("it demands an extension", _Error.EXTENSIONS)
    fields = {}
    for name, attribute in zip(names, attributes, strict=False):
        if not attribute.startswith(f"{name}="):
            raise _Refused(f"attribute {name} is not where it must be")
        fields[name] = attribute[2:]
    if len(fields) < len(names):
        raise _Refused(f"attribute {names[len(fields)]} is missing")
    return fields


def _user_of(saslname: str) -> str:
    if re.search("=(?!2C|3D)", saslname) or not saslname:
        raise _Refused("the user name is empty, or escapes what it must not", _Error.INVALID_NAME)
    try:
        user = prepare(saslname.replace("=2C", ",").replace("=3D", "="), stored=False)
    except UnpreparableText as error:
        raise _Refused(str(error), _Error.INVALID_NAME) from error
    if not user:
        raise _Refused("the user name is empty", _Error.INVALID_NAME)
    return user


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _text_of(data: bytes) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise _Refused(f"a message of {len(data)} bytes is above the maximum of {MESSAGE_BYTES_MAX}")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _Refused("a message is not UTF-8") from None
    if "\0" in text:
        raise _Refused("a message holds NUL")
    return text


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except binascii.Error:
        raise _Refused("a value is not base64") from None


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, _DIGEST)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
