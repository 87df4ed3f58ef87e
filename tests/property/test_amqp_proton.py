"""Qpid Proton's codec reads what ours writes, and the other way round."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from headwater.encoding.amqp_types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from tests.amqp_material import DESCRIPTORS, SCALARS, exact

PAIRS: list[tuple[type, type, int]] = [
    (type(None), type(None), proton.Data.NULL),
    (bool, bool, proton.Data.BOOL),
    (Ubyte, proton.ubyte, proton.Data.UBYTE),
    (Ushort, proton.ushort, proton.Data.USHORT),
    (Uint, proton.uint, proton.Data.UINT),
    (Ulong, proton.ulong, proton.Data.ULONG),
    (Byte, proton.byte, proton.Data.BYTE),
    (Short, proton.short, proton.Data.SHORT),
    (Int, proton.int32, proton.Data.INT),
    (int, int, proton.Data.LONG),
    (Float32, proton.float32, proton.Data.FLOAT),
    (float, float, proton.Data.DOUBLE),
    (Decimal32, proton.decimal32, proton.Data.DECIMAL32),
    (Decimal64, proton.decimal64, proton.Data.DECIMAL64),
    (Decimal128, proton.decimal128, proton.Data.DECIMAL128),
    (Char, proton.char, proton.Data.CHAR),
    (Timestamp, proton.timestamp, proton.Data.TIMESTAMP),
    (UUID, UUID, proton.Data.UUID),
    (bytes, bytes, proton.Data.BINARY),
    (str, str, proton.Data.STRING),
    (Symbol, proton.symbol, proton.Data.SYMBOL),
]
THEIRS = {ours: theirs for ours, theirs, _ in PAIRS}
OURS = {theirs: ours for ours, theirs, _ in PAIRS}
CODES = {ours: code for ours, _, code in PAIRS}
KINDS = {code: ours for ours, _, code in PAIRS}

SCALAR = st.one_of(*(SCALARS[ours] for ours in THEIRS))
KEYS = SCALARS[str] | SCALARS[Symbol] | SCALARS[Ulong]


def arrays_of(kind: type) -> st.SearchStrategy[Array]:
    plain = st.lists(SCALARS[kind], max_size=4).map(lambda items: Array(tuple(items), kind))
    described = st.builds(
        lambda array, descriptor: Array(
            tuple(Described(descriptor, item) for item in array.items), Described(descriptor, kind)
        ),
        plain,
        DESCRIPTORS,
    )
    return plain | described


VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALAR | st.sampled_from([kind for kind in THEIRS if kind is not type(None)]).flatmap(arrays_of),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        # Proton loses its place behind a described value that describes another.
        st.builds(Described, DESCRIPTORS, inner.filter(lambda value: not isinstance(value, Described))),
    ),
    max_leaves=10,
)


def theirs(value: Any) -> Any:
    """What Proton has for a value of ours."""
    match value:
        case Described(descriptor, inner):
            return proton.Described(theirs(descriptor), theirs(inner))
        case Array(items, Described(descriptor, kind)):
            return proton.Array(theirs(descriptor), CODES[kind], *(theirs(item.value) for item in items))
        case Array(items, kind):
            undescribed: Any = proton.UNDESCRIBED
            return proton.Array(undescribed, CODES[kind], *map(theirs, items))
        case list():
            return [theirs(item) for item in value]
        case dict():
            return {theirs(key): theirs(item) for key, item in value.items()}
        case Decimal32() | Decimal64():
            return THEIRS[type(value)](int.from_bytes(value, "big"))
        case None | bool() | UUID():
            return value
        case _:
            return THEIRS[type(value)](value)


def ours(value: Any) -> Any:
    """What we have for a value of Proton's."""
    match value:
        case proton.Described():
            return Described(ours(value.descriptor), ours(value.value))
        case proton.Array() if value.descriptor == proton.UNDESCRIBED:
            return Array(tuple(map(ours, value.elements)), KINDS[value.type])
        case proton.Array():
            descriptor = ours(value.descriptor)
            items = tuple(Described(descriptor, ours(item)) for item in value.elements)
            return Array(items, Described(descriptor, KINDS[value.type]))
        case list():
            return [ours(item) for item in value]
        case dict():
            return {ours(key): ours(item) for key, item in value.items()}
        case proton.decimal32():
            return Decimal32(value.to_bytes(4, "big"))
        case proton.decimal64():
            return Decimal64(value.to_bytes(8, "big"))
        case memoryview():
            return bytes(value)
        case None | bool() | UUID():
            return value
        case _:
            return OURS[type(value)](value)


@pytest.mark.clause("AMQP 1.6")
@given(VALUES)
def test_proton_reads_what_we_write(value: Any) -> None:
    data = proton.Data()
    encoded = encode(value)
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    data.next()
    assert exact(ours(data.get_object())) == exact(value)


@pytest.mark.clause("AMQP 1.2")
@given(VALUES)
def test_we_read_what_proton_writes(value: Any) -> None:
    data = proton.Data()
    data.put_object(theirs(value))
    encoded = data.encode()
    found, behind = decode(encoded, 0, len(encoded))
    assert exact(found) == exact(value)
    assert behind == len(encoded)


U32 = st.integers(0, 2**32 - 1)
# Proton ends the text of a property at a zero, and writes no body that is null.
TEXT = SCALARS[str].filter(lambda text: "\0" not in text)
NAMES = SCALARS[Symbol].filter(lambda name: "\0" not in name)
BODY_VALUES = VALUES.filter(lambda value: value is not None)
MESSAGE_IDS = SCALARS[Ulong] | SCALARS[UUID] | SCALARS[bytes] | SCALARS[str]
MESSAGES = st.builds(
    Message,
    header=st.builds(
        Header,
        st.booleans(),
        st.integers(0, 255),
        st.integers(1, 2**32 - 1),
        st.booleans(),
        st.integers(0, 9),
    ),
    message_annotations=st.dictionaries(SCALARS[Symbol], SCALAR, min_size=1, max_size=2),
    properties=st.builds(
        Properties,
        message_id=MESSAGE_IDS,
        user_id=SCALARS[bytes].filter(bool),
        to=TEXT,
        subject=TEXT,
        reply_to=TEXT,
        correlation_id=MESSAGE_IDS,
        content_type=NAMES,
        content_encoding=NAMES,
        creation_time=st.integers(1, 2**40).map(Timestamp),
        group_id=TEXT,
        group_sequence=U32,
        reply_to_group_id=TEXT,
    ),
    application_properties=st.dictionaries(TEXT, SCALAR, min_size=1, max_size=2),
    body=BODY_VALUES.map(AmqpValue)
    | SCALARS[bytes].map(lambda body: Data((body,)))
    | st.lists(SCALAR, max_size=3).map(lambda items: AmqpSequence((items,))),
)


@pytest.mark.clause("AMQP 3.2")
@given(MESSAGES)
def test_a_message_is_the_same_behind_proton(message: Message) -> None:
    found = proton.Message()
    found.decode(encode_message(message))
    assert message.header is not None
    assert message.properties is not None
    assert (found.durable, found.priority) == (message.header.durable, message.header.priority)
    assert (found.first_acquirer, found.delivery_count) == (
        message.header.first_acquirer,
        message.header.delivery_count,
    )
    assert (found.address, found.subject, found.reply_to) == (
        message.properties.to,
        message.properties.subject,
        message.properties.reply_to,
    )
    assert (found.group_id, found.group_sequence) == (
        message.properties.group_id,
        message.properties.group_sequence,
    )
    encoded = found.encode()
    again = decode_message(encoded, 0, len(encoded))
    assert exact(again.message_annotations) == exact(message.message_annotations)
    assert exact(again.application_properties) == exact(message.application_properties)
    assert again.properties is not None
    assert exact(again.properties.message_id) == exact(message.properties.message_id)
    assert (again.properties.content_type, again.properties.creation_time) == (
        message.properties.content_type,
        message.properties.creation_time,
    )
    if isinstance(message.body, AmqpValue):
        assert isinstance(again.body, AmqpValue)
        assert exact(again.body.value) == exact(message.body.value)
    else:
        assert again.body == message.body
