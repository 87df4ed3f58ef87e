"""Bodies of SASL frames: as the specification lays them out, and silent about secrets."""

from __future__ import annotations

import pytest

from headwater.amqp.sasl_frames import (
    SaslBody,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    decode_sasl,
    encode_sasl,
)
from headwater.encoding.amqp_types import Symbol
from headwater.errors import InvalidField, MalformedValue

BODIES: list[tuple[SaslBody, str]] = [
    (SaslMechanisms((Symbol("PLAIN"),)), "005340 c00b01 e0 08 01 a3 05 504c41494e"),
    (SaslMechanisms((Symbol("A"), Symbol("B"))), "005340 c00901 e0 06 02 a3 0141 0142"),
    (SaslInit(Symbol("ANONYMOUS")), "005341 c00e03 a309414e4f4e594d4f5553 40 40"),
    (SaslInit(Symbol("X"), b"", "h"), "005341 c00903 a30158 a000 a10168"),
    (SaslChallenge(b"\x00\xff"), "005342 c00501 a00200ff"),
    (SaslResponse(b""), "005343 c00301 a000"),
    (SaslOutcome(SaslCode.OK), "005344 c00402 5000 40"),
    (SaslOutcome(SaslCode.SYS_TEMP, b"a"), "005344 c00602 5004 a00161"),
]


@pytest.mark.clause("AMQP 5.3.3")
@pytest.mark.parametrize(("body", "data"), BODIES)
def test_a_body_is_written_and_read_as_laid_out(body: SaslBody, data: str) -> None:
    encoded = bytes.fromhex(data)
    assert encode_sasl(body) == encoded
    assert decode_sasl(b"-" + encoded, 1, 1 + len(encoded)) == body


def test_one_mechanism_may_come_alone() -> None:
    data = bytes.fromhex("005340 c00801 a305504c41494e")
    assert decode_sasl(data, 0, len(data)) == SaslMechanisms((Symbol("PLAIN"),))


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ("005340 c0020140", "sasl-mechanisms.sasl_server_mechanisms"),
        ("005341 45", "sasl-init.mechanism"),
        ("005341 c00401 a10158", "sasl-init.mechanism"),
        ("005344 c00301 5005", "sasl-outcome.code"),
    ],
)
def test_a_wrong_field_is_named(data: str, field: str) -> None:
    with pytest.raises(InvalidField) as raised:
        decode_sasl(bytes.fromhex(data), 0, len(bytes.fromhex(data)))
    assert raised.value.field == field


@pytest.mark.parametrize("data", ["005310 c00401a10161", "005343 c00301a000 40", "40", "", "0053"])
def test_anything_else_is_malformed(data: str) -> None:
    with pytest.raises(MalformedValue):
        decode_sasl(bytes.fromhex(data), 0, len(bytes.fromhex(data)))


@pytest.mark.clause("AMQP 5.3.3")
@pytest.mark.parametrize(
    "body",
    [
        SaslInit(Symbol("PLAIN"), b"secret"),
        SaslChallenge(b"secret"),
        SaslResponse(b"secret"),
        SaslOutcome(SaslCode.OK, b"secret"),
    ],
)
def test_what_a_mechanism_sends_is_not_printed(body: SaslBody) -> None:
    assert "secret" not in repr(body) + str(body) + repr(body.__rich_repr__())
    assert repr(body).startswith(type(body).__name__ + "(")
