"""The record of a durable subscription."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.state_record import SUBSCRIPTION
from headwater.engine.subscription_record import (
    FILTER_BYTES_MAX,
    Definition,
    Expiry,
    Kind,
    SubscriptionId,
    decode_definition,
    put_definition,
    subscription_name,
)
from headwater.errors import MalformedState

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ids = st.builds(SubscriptionId, names, names, st.none() | names, names, st.sampled_from(Kind))
definitions = st.builds(
    Definition,
    ids,
    st.integers(0, 1 << 60),
    st.booleans(),
    st.just(True),
    st.none() | st.integers(0, 999),
    st.binary(max_size=9),
    st.sampled_from(Expiry),
    st.integers(0, 1 << 40),
)


@given(definitions)
def test_what_is_written_is_read(definition: Definition) -> None:
    put = put_definition(definition)
    assert decode_definition(put.value) == definition
    assert put.key == SUBSCRIPTION + definition.id.digest


@given(st.binary(max_size=80) | definitions.map(lambda each: put_definition(each).value), st.data())
def test_any_bytes_are_a_definition_or_refused(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, max(len(data) - 1, 0)))
    value = data[:at] + draw.draw(st.binary(max_size=2)) + data[at + 1 :]
    try:
        definition = decode_definition(value)
    except MalformedState:
        return
    assert len(definition.filter) <= FILTER_BYTES_MAX
    assert definition.timeout_ms >= 0


def test_another_version_is_refused() -> None:
    value = put_definition(Definition(SubscriptionId("/", "orders", None, "s"))).value
    with pytest.raises(MalformedState, match="newer headwater"):
        decode_definition(value[:1] + b"\x02" + value[2:])


@given(ids, ids)
def test_different_subscriptions_have_different_keys(one: SubscriptionId, other: SubscriptionId) -> None:
    assert (one == other) == (one.digest == other.digest)


@pytest.mark.parametrize(
    ("link", "name"), [("sub", "sub"), ("sub|1", "sub"), ("sub|a|b", "sub"), ("|x", ""), ("", "")]
)
def test_link_names_count_up_to_the_first_bar(link: str, name: str) -> None:
    assert subscription_name(link) == name
