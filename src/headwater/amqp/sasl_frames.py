"""AMQP 1.0 part 5, section 5.3.3: the bodies of SASL frames."""

from __future__ import annotations

import enum

import msgspec

from headwater.encoding.amqp_composite import Composite, OneOf, read_descriptor
from headwater.encoding.amqp_encoder import encoded
from headwater.encoding.amqp_fields import Enumeration, binary, string, symbol, symbols, ubyte
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedValue

__all__ = [
    "SaslBody",
    "SaslChallenge",
    "SaslCode",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "SaslResponse",
    "decode_sasl",
    "encode_sasl",
]

_SECRETS = {"initial_response", "challenge", "response", "additional_data"}


def decode_sasl(buffer: ReadableBuffer, position: int, end: int) -> SaslBody:
    """The body that fills `position` to `end`; raises MalformedValue if none does."""
    descriptor, position = read_descriptor(buffer, position, end)
    composite = _BODIES.find(descriptor)
    if composite is None:
        raise MalformedValue("a SASL frame begins with no body of one")
    body: SaslBody
    body, position = composite.decode(buffer, position, end)
    if position != end:
        raise MalformedValue(f"a {composite.name} is followed by {end - position} bytes")
    return body


def encode_sasl(body: SaslBody) -> bytes:
    """The bytes of a body; raises InvalidValue if a field has none."""
    return encoded(_BODIES.write, body)


class SaslCode(enum.IntEnum):
    """How the dialog ended (5.3.3.6)."""

    OK = 0
    AUTH = 1
    SYS = 2
    SYS_PERM = 3
    SYS_TEMP = 4


class SaslBody(msgspec.Struct, frozen=True, gc=False):
    """The body of a SASL frame; what a mechanism sends is a secret and stays out of what is printed."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"
        )

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, value) for name, value in msgspec.structs.asdict(self).items() if name not in _SECRETS]


class SaslMechanisms(SaslBody, frozen=True, gc=False):
    """5.3.3.1: what the server offers."""

    sasl_server_mechanisms: tuple[Symbol, ...]


class SaslInit(SaslBody, frozen=True, gc=False):
    """5.3.3.2: what the client chose, and its first message if the mechanism has one."""

    mechanism: Symbol
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslChallenge(SaslBody, frozen=True, gc=False):
    """5.3.3.3: a message of the server."""

    challenge: bytes


class SaslResponse(SaslBody, frozen=True, gc=False):
    """5.3.3.4: a message of the client."""

    response: bytes


class SaslOutcome(SaslBody, frozen=True, gc=False):
    """5.3.3.5: the end of the dialog."""

    code: SaslCode
    additional_data: bytes | None = None


# fmt: off
_BODIES = OneOf(
    Composite(0x40, "sasl-mechanisms", SaslMechanisms, sasl_server_mechanisms=symbols),
    Composite(0x41, "sasl-init", SaslInit, mechanism=symbol, initial_response=binary, hostname=string),
    Composite(0x42, "sasl-challenge", SaslChallenge, challenge=binary),
    Composite(0x43, "sasl-response", SaslResponse, response=binary),
    Composite(0x44, "sasl-outcome", SaslOutcome, code=Enumeration(SaslCode, ubyte), additional_data=binary),
)
# fmt: on
