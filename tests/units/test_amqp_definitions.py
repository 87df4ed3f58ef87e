"""Definitions: errors as the specification lays them out, and conditions that are symbols."""

from __future__ import annotations

import pytest

from headwater.amqp.definitions import (
    ERROR,
    Condition,
    ErrorValue,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)
from headwater.amqp.errors import FramingError
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_types import Symbol
from headwater.errors import InvalidField, MalformedValue
from tests.amqp_material import compound, laid_out


@pytest.mark.clause("AMQP 2.8")
def test_an_error_is_read_as_it_is_written() -> None:
    error = ErrorValue(Symbol("x:y"), "why", {Symbol("a"): [1]})
    data = bytes.fromhex(
        laid_out(0x1D, "a303783a79", "a103776879", compound(0xC1, "a30161", compound(0xC0, "5501")))
    )
    assert ERROR.encode(error) == data
    assert ERROR.read(data, 0, len(data), 0) == (error, len(data))


def test_a_condition_is_a_symbol_wherever_it_goes() -> None:
    assert encode(Condition.NOT_FOUND) == b"\xa3\x0eamqp:not-found"
    assert f"{Condition.NOT_FOUND}" == str(Condition.NOT_FOUND) == "amqp:not-found"
    assert ErrorValue(Condition.NOT_FOUND) == ErrorValue(Symbol("amqp:not-found"))


@pytest.mark.parametrize("kind", [MalformedValue, InvalidField, FramingError])
def test_what_a_peer_does_wrong_has_a_condition_of_the_specification(kind: type) -> None:
    assert Condition(kind.condition) in Condition  # type: ignore[attr-defined]


@pytest.mark.clause("AMQP 2.8")
def test_numbers_are_those_of_the_specification() -> None:
    assert [*map(int, Role)] == [0, 1]
    assert [mode.name for mode in SenderSettleMode] == ["UNSETTLED", "SETTLED", "MIXED"]
    assert [mode.name for mode in ReceiverSettleMode] == ["FIRST", "SECOND"]
