"""Delivery states and termini: as the specification lays them out, unknown ones kept."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.messaging import (
    DELIVERY_STATE,
    SOURCE,
    TARGET,
    Accepted,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_composite import OneOf
from headwater.encoding.amqp_encoder import encoded
from headwater.encoding.amqp_types import Described, Symbol, Ulong
from headwater.errors import InvalidField
from tests.amqp_material import compound, laid_out

S = Symbol
NEVER = "a3056e65766572"
SELECTOR = Described(S("apache.org:selector-filter:string"), "a = 1")
SELECTOR_KEY = "a30173"
DESCRIBED_SELECTOR = f"00a321{S('apache.org:selector-filter:string').encode().hex()}a105{b'a = 1'.hex()}"

LAID_OUT: list[tuple[OneOf, Any, str]] = [
    (DELIVERY_STATE, Received(2, 300), laid_out(0x23, "5202", "80000000000000012c")),
    (DELIVERY_STATE, Accepted(), "00532445"),
    (DELIVERY_STATE, Rejected(), laid_out(0x25, "40")),
    (
        DELIVERY_STATE,
        Rejected(ErrorValue(Condition.INTERNAL_ERROR, "d", {S("a"): 1})),
        laid_out(
            0x25,
            laid_out(0x1D, "a313" + b"amqp:internal-error".hex(), "a10164", compound(0xC1, "a30161", "5501")),
        ),
    ),
    (DELIVERY_STATE, Released(), "00532645"),
    (DELIVERY_STATE, Modified(True, True, {S("a"): 1}), laid_out(0x27, "41", "41", "c10602a301615501")),
    (
        SOURCE,
        Source(
            "a",
            TerminusDurability.UNSETTLED_STATE,
            TerminusExpiryPolicy.NEVER,
            60,
            True,
            {S("lifetime-policy"): Described(Ulong(0x2B), [])},
            S("copy"),
            {S("s"): SELECTOR, S("t"): "b = 2"},
            Modified(True),
            (S("amqp:accepted:list"),),
            (S("topic"), S("shared")),
        ),
        laid_out(
            0x28,
            *("a10161", "5202", NEVER, "523c", "41"),
            compound(0xC1, "a30f" + b"lifetime-policy".hex(), "00532b45"),
            "a304" + b"copy".hex(),
            compound(0xC1, SELECTOR_KEY, DESCRIBED_SELECTOR, "a30174", "a105" + b"b = 2".hex()),
            laid_out(0x27, "41", "42", "40"),
            compound(0xE0, "a3", "12" + b"amqp:accepted:list".hex(), count=1),
            compound(0xE0, "a3", "05" + b"topic".hex(), "06" + b"shared".hex(), count=2),
        ),
    ),
    (
        TARGET,
        Target(
            "a", TerminusDurability.CONFIGURATION, TerminusExpiryPolicy.NEVER, 1, False, {}, (S("queue"),)
        ),
        laid_out(
            *(0x29, "a10161", "5201", NEVER, "5201", "42", "c10100"),
            compound(0xE0, "a3", "05" + b"queue".hex(), count=1),
        ),
    ),
    (
        TARGET,
        Coordinator((S("amqp:local-transactions"),)),
        laid_out(0x30, compound(0xE0, "a3", "17" + b"amqp:local-transactions".hex(), count=1)),
    ),
    (SOURCE, Described(S("x:source"), [1]), "00a308" + b"x:source".hex() + compound(0xC0, "5501")),
    (DELIVERY_STATE, Described(Ulong(0x34), []), "00533445"),
]


@pytest.mark.clause("AMQP 3.4", "AMQP 3.5")
@pytest.mark.parametrize(("field", "value", "data"), LAID_OUT)
def test_a_value_is_written_and_read_as_laid_out(field: OneOf, value: Any, data: str) -> None:
    encoded_value = bytes.fromhex(data)
    assert encoded(field.write, value).hex(" ") == encoded_value.hex(" ")
    assert field.read(encoded_value, 0, len(encoded_value), 0) == (value, len(encoded_value))


@pytest.mark.parametrize(("field", "code", "value"), [(SOURCE, 0x28, Source()), (TARGET, 0x29, Target())])
def test_a_terminus_without_fields_has_the_defaults(field: OneOf, code: int, value: Any) -> None:
    data = bytes((0, 0x53, code, 0x45))
    assert field.read(data, 0, 4, 0) == (value, 4)
    assert value.expiry_policy == "session-end"
    assert value.durable is TerminusDurability.NONE


@pytest.mark.clause("AMQP 3.5", "AMQP encoding 4")
def test_filters_come_out_as_they_went_in() -> None:
    data = bytes.fromhex(laid_out(0x28, *["40"] * 7, compound(0xC1, SELECTOR_KEY, DESCRIBED_SELECTOR)))
    source, _ = SOURCE.read(data, 0, len(data), 0)
    assert source.filter == {"s": SELECTOR}
    assert compound(0xC1, SELECTOR_KEY, DESCRIBED_SELECTOR) in encoded(SOURCE.write, source).hex()


@pytest.mark.parametrize(
    ("code", "place", "data", "name"),
    [
        (0x28, 0, "a30161", "address"),
        (0x28, 1, "5203", "durable"),
        (0x28, 2, "a30161", "expiry_policy"),
        (0x28, 8, "a30161", "default_outcome"),
        (0x28, 9, "a10161", "outcomes"),
        (0x29, 5, "45", "dynamic_node_properties"),
        (0x29, 6, "5201", "capabilities"),
    ],
)
def test_a_wrong_field_is_named(code: int, place: int, data: str, name: str) -> None:
    terminus = bytes.fromhex(laid_out(code, *["40"] * place, data))
    field = SOURCE if code == 0x28 else TARGET
    with pytest.raises(InvalidField) as raised:
        field.read(terminus, 0, len(terminus), 0)
    assert raised.value.field == name
