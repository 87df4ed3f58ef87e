"""Performatives and messages: what is written is read again; any bytes are one, or malformed."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.amqp.definitions import ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.messaging import (
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
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
    encode_performative,
)
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_decoder import decode
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_message import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
    read_sections,
)
from headwater.encoding.amqp_types import Described, Symbol, Timestamp, Ulong
from headwater.errors import MalformedValue
from tests.amqp_material import BYTES, DESCRIPTORS, SCALAR, SYMBOLS, TEXT, VALUES, exact

U32 = st.integers(0, 2**32 - 1)
SYMBOL_TUPLES = st.lists(st.text("abc", min_size=2, max_size=9).map(Symbol), max_size=3).map(tuple)
FIELDS = st.dictionaries(SYMBOLS, SCALAR, max_size=3)
ANNOTATIONS = st.dictionaries(SYMBOLS | st.integers(0, 2**64 - 1).map(Ulong), SCALAR, max_size=3)
ERRORS = st.builds(ErrorValue, SYMBOLS, st.none() | TEXT, st.none() | FIELDS)
MESSAGE_IDS = st.integers(0, 2**64 - 1).map(Ulong) | st.uuids() | BYTES | TEXT
# None of the codes that are known.
UNKNOWN = st.builds(Described, SYMBOLS.filter(lambda name: ":" not in name), VALUES)
STATES = st.one_of(
    st.builds(Received, U32, st.integers(0, 2**64 - 1)),
    st.just(Accepted()),
    st.builds(Rejected, st.none() | ERRORS),
    st.just(Released()),
    st.builds(Modified, st.booleans(), st.booleans(), st.none() | ANNOTATIONS),
    UNKNOWN,
)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "channel_max": st.integers(0, 65535),
    "remote_channel": st.integers(0, 65535),
    "role": st.sampled_from(Role),
    "snd_settle_mode": st.sampled_from(SenderSettleMode),
    "rcv_settle_mode": st.sampled_from(ReceiverSettleMode),
    "unsettled": st.dictionaries(BYTES, st.none() | STATES, max_size=3),
    "max_message_size": st.integers(0, 2**64 - 1),
    "state": STATES,
    "default_outcome": STATES,
    "error": ERRORS,
    "durable": st.sampled_from(TerminusDurability),
    "expiry_policy": st.sampled_from(TerminusExpiryPolicy),
    "distribution_mode": SYMBOLS,
    "filter": st.dictionaries(SYMBOLS, SCALAR | UNKNOWN, max_size=2),
    "priority": st.integers(0, 255),
    "message_id": MESSAGE_IDS,
    "correlation_id": MESSAGE_IDS,
    "content_type": SYMBOLS,
    "content_encoding": SYMBOLS,
    "absolute_expiry_time": st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    "creation_time": st.integers(-(2**63), 2**63 - 1).map(Timestamp),
}
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: U32,
    bool: st.booleans(),
    bytes: BYTES,
    dict[Symbol, Any]: FIELDS,
    tuple[Symbol, ...]: SYMBOL_TUPLES,
}


def built(kind: type[msgspec.Struct], **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a class, each field by its name or else by its type, and None where it may be."""
    made = {}
    for field in msgspec.structs.fields(kind):
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        chosen = {**BY_NAME, **known}.get(field.name)
        if chosen is None:
            chosen = st.one_of(*(BY_TYPE[each] for each in kinds if each in BY_TYPE))
        made[field.name] = st.none() | chosen if NoneType in kinds else chosen
    return st.builds(kind, **made)


SOURCES = built(Source) | UNKNOWN
TARGETS = built(Target) | st.builds(Coordinator, SYMBOL_TUPLES) | UNKNOWN
PERFORMATIVES: st.SearchStrategy[Performative] = st.one_of(
    built(Attach, source=SOURCES, target=TARGETS),
    *(built(kind) for kind in (Open, Begin, Flow, Transfer, Disposition, Detach, End, Close)),
)
BODIES = st.one_of(
    st.lists(BYTES, min_size=1, max_size=3).map(lambda parts: Data(tuple(parts))),
    st.lists(st.lists(SCALAR, max_size=3), min_size=1, max_size=3).map(
        lambda parts: AmqpSequence(tuple(parts))
    ),
    VALUES.map(AmqpValue),
)
MESSAGES = st.builds(
    Message,
    header=st.none() | built(Header, durable=st.booleans()),
    delivery_annotations=st.none() | ANNOTATIONS,
    message_annotations=st.none() | ANNOTATIONS,
    properties=st.none() | built(Properties),
    application_properties=st.none() | st.dictionaries(TEXT, SCALAR, max_size=3),
    body=st.none() | BODIES,
    footer=st.none() | ANNOTATIONS,
)


def told_apart(value: Any) -> Any:
    """As `exact`, of the fields of a struct too."""
    if isinstance(value, msgspec.Struct) and type(value).__name__ not in ("Described", "Array"):
        return (type(value), [told_apart(field) for field in msgspec.structs.astuple(value)])
    if isinstance(value, dict):
        return [(exact(key), told_apart(item)) for key, item in value.items()]
    return [told_apart(item) for item in value] if isinstance(value, tuple | list) else exact(value)


@given(PERFORMATIVES, BYTES)
def test_a_performative_is_read_as_it_was_written(performative: Performative, payload: bytes) -> None:
    data = encode_performative(performative)
    found, behind = decode_performative(data + payload, 0, len(data + payload))
    assert told_apart(found) == told_apart(performative)
    assert behind == len(data)


@given(PERFORMATIVES, st.integers(0, 10_000), st.binary(max_size=3))
def test_any_bytes_are_a_performative_or_malformed(
    performative: Performative, at: int, change: bytes
) -> None:
    data = bytearray(encode_performative(performative))
    at %= len(data)
    data[at : at + len(change)] = change
    try:
        found, behind = decode_performative(data, 0, len(data))
    except MalformedValue:
        return
    assert behind <= len(data)
    again = encode_performative(found)
    assert told_apart(decode_performative(again, 0, len(again))[0]) == told_apart(found)


@given(MESSAGES)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    data = encode_message(message)
    assert told_apart(decode_message(data, 0, len(data))) == told_apart(message)
    sections = read_sections(data, 0, len(data))
    assert [section.start for section in sections] + [len(data)] == [
        0,
        *(section.end for section in sections),
    ]


@given(MESSAGES, st.integers(0, 10_000), st.binary(max_size=3))
def test_any_bytes_are_a_message_or_malformed(message: Message, at: int, change: bytes) -> None:
    data = bytearray(encode_message(message) or b"\0")
    at %= len(data)
    data[at : at + len(change)] = change
    try:
        found = decode_message(data, 0, len(data))
    except MalformedValue:
        return
    again = encode_message(found)
    assert told_apart(decode_message(again, 0, len(again))) == told_apart(found)


@pytest.mark.parametrize("kind", [Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close])
@given(data=st.data())
def test_nulls_at_the_end_may_be_left_out(kind: type[Performative], data: st.DataObject) -> None:
    performative = data.draw(built(kind, source=SOURCES, target=TARGETS))
    encoded = encode_performative(performative)
    value, _ = decode(encoded, 0, len(encoded))
    fields = value.value
    while fields and fields[-1] is None:
        fields.pop()
        trimmed = encode(Described(value.descriptor, fields))
        assert told_apart(decode_performative(trimmed, 0, len(trimmed))[0]) == told_apart(performative)


@given(DESCRIPTORS | SCALAR, VALUES)
def test_no_descriptor_makes_anything_but_a_performative_or_a_refusal(descriptor: Any, value: Any) -> None:
    data = encode(Described(descriptor, value))
    try:
        performative, _ = decode_performative(data, 0, len(data))
    except MalformedValue:
        return
    assert isinstance(performative, Performative)
