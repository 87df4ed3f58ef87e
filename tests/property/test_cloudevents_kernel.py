"""Attributes are found in messages as decoding all of it does, by both forms of the kernel, whatever bytes come."""

from __future__ import annotations

import re
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.encoding import _cloudevents_kernel as compiled
from headwater.encoding import _cloudevents_text_kernel as text_kernel
from headwater.encoding.amqp_message import (
    AmqpSequence,
    AmqpValue,
    Body,
    Data,
    Header,
    Message,
    Properties,
    encode_message,
)
from headwater.encoding.amqp_types import (
    Byte,
    Char,
    Int,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from tests.amqp_frames import compound, described
from tests.guard_page import GuardedMemory
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)
FIELDS = compiled.ATTRIBUTE_FIELDS
FAULTS = compiled.FAULTS
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
KINDS = {"source": 1, "dataschema": 2, "time": 3}
INTEGERS = (int, Byte, Short, Int, Ubyte, Ushort, Uint, Ulong)

texts = st.one_of(
    st.text(max_size=3), st.sampled_from(["1.0", "/s", "a:b", "2018-04-05T17:31:00Z", "\x00", "^", "x" * 300])
)
values = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31),
    st.integers(0, 255).map(Ubyte),
    st.integers(0, 2**16 - 1).map(Ushort),
    st.integers(0, 2**32 - 1).map(Uint),
    st.integers(0, 2**64 - 1).map(Ulong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.integers(-(2**46), 2**48).map(Timestamp),
    st.binary(max_size=3),
    st.just(bytes(300)),
    st.floats(allow_nan=False),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.lists(st.integers(0, 3), max_size=3),
    texts.filter(str.isascii).map(Symbol),
)
names = st.one_of(
    st.sampled_from(["cloudEvents_", "cloudEvents_", "cloudEvents_", "cloudEvents:"]).flatmap(
        lambda prefix: st.sampled_from(
            [*compiled.SLOTS, "ext", "ext1", "x" * 300, "data", "Ext", "", "é", "timf", "id2", "sourc"]
        ).map(lambda name: prefix + name)
    ),
    st.sampled_from(["cloudEvents", "cloudEvents-id", "cloudeEvents_id", "other", ""]),
)
bodies: st.SearchStrategy[Body | None] = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=3), min_size=1, max_size=3).map(lambda parts: Data(tuple(parts))),
    st.sampled_from([None, "text", b"bytes", 5, [1], Symbol("s")]).map(AmqpValue),
    st.just(AmqpSequence(([1, 2],))),
)
content_types = st.sampled_from(
    [
        None,
        "application/json",
        "xyz",
        "APPLICATION/CloudEvents+json",
        "application/cloudevent",
        "application/cloudeventsx",
    ]
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages that are events, and others."""
    properties: dict[str, Any] = {}
    if draw(st.integers(0, 3)):
        separator = draw(st.sampled_from("_:"))
        properties = {f"cloudEvents{separator}{name}": value for name, value in REQUIRED.items()}
        for name in draw(st.sets(st.sampled_from(list(properties)), max_size=1)):
            del properties[name]
    properties |= draw(st.dictionaries(names, values, max_size=3))
    return Message(
        header=draw(st.sampled_from([None, Header(durable=True)])),
        message_annotations={Symbol("x-a"): "b"} if draw(st.booleans()) else None,
        properties=draw(
            content_types.map(
                lambda text: Properties(subject="s", content_type=None if text is None else Symbol(text))
            )
        ),
        application_properties=dict(draw(st.permutations(list(properties.items())))),
        body=draw(bodies),
        footer={Symbol("x-f"): 1} if draw(st.booleans()) else None,
    )


def spans_of(*sizes: int) -> array[int]:
    """Spans of messages one behind the other."""
    spans, start = array("q"), 0
    for size in sizes:
        spans.extend((start, start, start, start + size))
        start += size
    return spans


def found_in(form: Any, data: bytes, *, is_strict: bool) -> list[int]:
    found = array("q", [7] * FIELDS)
    others = form.find_attributes(data, spans_of(len(data)), 0, 1, found, is_strict)
    assert others == (found[0] != compiled.BINARY)
    return list(found)


def outcome(data: bytes, *, is_strict: bool) -> tuple[str, str | None]:
    """What both forms say: a word, and the name of what is at fault."""
    fields = same(lambda form: found_in(form, data, is_strict=is_strict))[1]
    if fields[0] >= 0:
        return ("binary", "structured")[fields[0]], None
    word = FAULTS[-1 - fields[0]]
    if word in ("malformed", "mixed", "too many", "body"):
        return word, None
    if fields[1] < 0:
        (name,) = (name for name, slot in compiled.SLOTS.items() if slot == fields[2])
        return word, name
    return word, data[fields[1] : fields[2]].decode("utf-8", "replace")


def expected(message: Message, *, is_strict: bool) -> tuple[str, str | None]:
    """The same from the message as it is decoded."""
    content_type = message.properties.content_type if message.properties else None
    if content_type and content_type.lower().startswith("application/cloudevents"):
        return "structured", None
    separators, present = set(), set()
    for key, value in (message.application_properties or {}).items():
        prefixed = re.fullmatch(r"cloudEvents([_:])(.*)", key, re.DOTALL)
        if prefixed is None:
            continue
        separators.add(prefixed[1])
        if len(separators) > 1:
            return "mixed", None
        if value is None or prefixed[2] == "datacontenttype":
            continue
        fault = fault_of(prefixed[2], value, is_strict=is_strict)
        if fault:
            return fault, prefixed[2]
        present.add(prefixed[2])
    for name in REQUIRED:
        if name not in present:
            return "missing", name
    return outside(content_type, message.body) if is_strict else ("binary", None)


def fault_of(name: str, value: Any, *, is_strict: bool) -> str:
    is_core = name in compiled.SLOTS
    if not is_core and not re.fullmatch(r"(?!data$)[a-z0-9]+", name, re.ASCII):
        return "name"
    if isinstance(value, str) and not isinstance(value, Char):
        if is_core and not value:
            return "value"
        if name == "specversion":
            return "" if value == "1.0" else "value"
        is_wrong = is_strict and not text_kernel.is_allowed(KINDS.get(name, 0), value.encode())
        return "value" if is_wrong else ""
    if isinstance(value, Timestamp) and (not is_core or name == "time"):
        return "" if text_kernel.timestamp_text(value) else "value"
    if name == "time" and type(value) is int:
        return "" if text_kernel.timestamp_text(value) else "value"
    if is_core:
        return "type"
    if isinstance(value, bool | bytes):
        return ""
    if isinstance(value, INTEGERS):
        return "" if -(2**31) <= value < 2**31 else "value"
    return "type"


def outside(content_type: str | None, body: Body | None) -> tuple[str, str | None]:
    if content_type is not None and not text_kernel.is_allowed(text_kernel.MEDIA_TYPE, content_type.encode()):
        return "value", "datacontenttype"
    match body:
        case AmqpSequence():
            return "body", None
        case AmqpValue(value) if not (value is None or type(value) in (str, bytes)):
            return "body", None
    return "binary", None


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


@given(message=messages(), is_strict=st.booleans())
def test_a_message_is_judged_as_its_parts_are(message: Message, is_strict: bool) -> None:
    assert outcome(encode_message(message), is_strict=is_strict) == expected(message, is_strict=is_strict)


@EACH
@given(message=messages())
def test_attributes_are_given_as_they_were_sent(form: Any, message: Message) -> None:
    data = encode_message(message)
    attributes = form.MessageAttributes(data, 0, len(data))
    is_event = expected(message, is_strict=False)[0] == "binary"
    sent = {
        key[len("cloudEvents_") :]: plain(key[len("cloudEvents_") :], value)
        for key, value in (message.application_properties or {}).items()
        if re.match("cloudEvents[_:]", key) and value is not None and not key.endswith("datacontenttype")
    }
    for name in (*compiled.SLOTS, "ext", "ext1", "x" * 300, "nothing", "", "id "):
        if name == "datacontenttype":
            value = message.properties.content_type if message.properties else None
        else:
            value = sent.get(name)
        assert attributes.get(name) == (value if is_event else None)
        assert type(attributes.get(name)) in (bool, int, str, bytes, type(None))
    assert {name: value for name, _, value in attributes.items()} == (sent if is_event else {})


def plain(name: str, value: Any) -> Any:
    if isinstance(value, Timestamp) or (name == "time" and isinstance(value, int)):
        return text_kernel.timestamp_text(value)
    return value


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The bytes of a message, some of which are others."""
    data = bytearray(encode_message(draw(messages())))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(data) - 1))
        data[position : position + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


@given(
    data=mutated(),
    is_strict=st.booleans(),
    names=st.lists(st.sampled_from([*compiled.SLOTS, "ext"]), max_size=3),
)
def test_both_forms_find_the_same_whatever_bytes_come(data: bytes, is_strict: bool, names: list[str]) -> None:
    outcome(data, is_strict=is_strict)

    def seen(form: Any) -> tuple[Any, ...]:
        attributes = form.MessageAttributes(memoryview(bytearray(data)), 0, len(data))
        given_ = [attributes.get(name) for name in names]
        fields = [attributes.field(number) for number in range(FIELDS)]
        return given_, attributes.items(), attributes.status, attributes.content_type, fields

    same(seen)


MEMORY = GuardedMemory()


@given(data=mutated(), filler=st.binary(max_size=3))
@settings(max_examples=500)
def test_no_byte_behind_the_end_is_read(data: bytes, filler: bytes) -> None:
    view = MEMORY.placed(data + filler)
    found = array("q", bytes(8 * FIELDS))
    for is_strict in (False, True):
        judged = compiled.find_attributes(view, spans_of(len(view)), 0, 1, found, is_strict)
        assert judged == (found[0] != compiled.BINARY)
    attributes = compiled.MessageAttributes(view, 0, len(view))
    for name in (*compiled.SLOTS, "ext", "nothing"):
        attributes.get(name)
    assert len(attributes.items()) <= compiled.ATTRIBUTES_MAX


@EACH
@given(data=mutated(), other=mutated(), names=st.lists(st.sampled_from([*compiled.SLOTS, "ext"]), max_size=3))
def test_a_buffer_that_changes_in_between_does_no_harm(
    form: Any, data: bytes, other: bytes, names: list[str]
) -> None:
    buffer = bytearray(data)
    attributes = form.MessageAttributes(buffer, 0, len(buffer))
    assert attributes.status <= compiled.STRUCTURED
    size = min(len(data), len(other))
    memoryview(buffer)[:size] = other[:size]
    for name in names:
        attributes.get(name)
    assert len(attributes.items()) <= compiled.ATTRIBUTES_MAX
    assert attributes.content_type is None or isinstance(attributes.content_type, str | int | bytes)


@EACH
@given(several=st.lists(messages(), min_size=1, max_size=4), first=st.integers(0, 3))
def test_messages_of_a_run_are_judged_one_by_one(form: Any, several: list[Message], first: int) -> None:
    first = min(first, len(several) - 1)
    encoded = [encode_message(message) for message in several]
    spans = spans_of(*map(len, encoded))
    count = len(several) - first
    found = array("q", [7] * (FIELDS * count + 1))
    others = form.find_attributes(b"".join(encoded), spans, first, count, found, True)
    words = [expected(message, is_strict=True)[0] for message in several[first:]]
    assert others == sum(word != "binary" for word in words)
    assert [found[FIELDS * k] == compiled.BINARY for k in range(count)] == [
        word == "binary" for word in words
    ]
    assert found[-1] == 7


@EACH
@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("filler", [b"x", b"\x00", b"\x53", b"\x00\x53\x79\x40"])
def test_what_stands_behind_the_body_and_is_no_section_makes_no_event(
    form: Any, size: int, filler: bytes
) -> None:
    data = with_properties() + encode_message(Message(body=Data((b"data",))))
    assert found_in(form, data, is_strict=True)[0] == compiled.BINARY
    longer = data + (filler * 5)[:size]
    assert FAULTS[-1 - found_in(form, longer, is_strict=True)[0]] == "malformed"


@EACH
def test_a_content_type_that_is_no_text_makes_no_event(form: Any) -> None:
    properties = described(0x73, compound([b"\x40"] * 6 + [b"\x43"]))
    data = properties + with_properties()
    assert outcome(data, is_strict=False) == ("type", "datacontenttype")
    assert form.MessageAttributes(data, 0, len(data)).get("id") is None


@EACH
def test_a_span_outside_of_the_buffer_is_refused(form: Any) -> None:
    with pytest.raises(ValueError, match="no span"):
        form.MessageAttributes(b"abc", 0, 4)
    for number in (-1, FIELDS):
        with pytest.raises(ValueError, match="no field"):
            form.MessageAttributes(b"abc", 0, 3).field(number)
    with pytest.raises(ValueError, match="no span"):
        form.MessageAttributes(b"abc", 0, 3).move(2, 1)
    with pytest.raises(ValueError, match="no span"):
        form.find_attributes(b"abc", spans_of(4), 0, 1, array("q", bytes(8 * FIELDS)), False)
    with pytest.raises(ValueError, match="no span"):
        form.find_attributes(b"abc", spans_of(3), 0, 1, array("q", bytes(8 * FIELDS - 8)), False)


def with_properties(*pairs: bytes, form: int = 0x53, wide: bool = False) -> bytes:
    required = [
        part for name, value in REQUIRED.items() for part in (text(f"cloudEvents_{name}"), text(value))
    ]
    return described(0x74, compound([*required, *pairs], wide=wide, is_map=True), form)


def text(characters: str, code: int = 0xA1) -> bytes:
    data = characters.encode()
    size = len(data).to_bytes(1 if code < 0xB0 else 4, "big")
    return bytes((code,)) + size + data


@EACH
@pytest.mark.parametrize("code", [0xA1, 0xA3, 0xB1, 0xB3])
@pytest.mark.parametrize("descriptor", [0x53, 0x80, 0xA3])
@pytest.mark.parametrize("wide", [False, True])
def test_names_and_texts_are_read_in_every_encoding(
    form: Any, code: int, descriptor: int, wide: bool
) -> None:
    pair = (text("cloudEvents_ext", code), text("value", code))
    data = with_properties(*pair, form=descriptor, wide=wide)
    attributes = form.MessageAttributes(data, 0, len(data))
    assert (attributes.get("ext"), attributes.get("id")) == ("value", "1")


@EACH
@pytest.mark.parametrize("name", ["ext", "subject"])
def test_what_is_there_twice_makes_no_event(form: Any, name: str) -> None:
    pair = (text(f"cloudEvents_{name}"), text("value"))
    data = with_properties(*pair, *pair)
    assert outcome(data, is_strict=False) == ("twice", name)
    assert form.MessageAttributes(data, 0, len(data)).get(name) is None
    once = with_properties(text(f"cloudEvents_{name}"), b"\x40", *pair)
    assert form.MessageAttributes(once, 0, len(once)).get(name) == "value"


@EACH
@pytest.mark.parametrize(
    ("count", "word"), [(compiled.ATTRIBUTES_MAX, "binary"), (compiled.ATTRIBUTES_MAX + 1, "too many")]
)
def test_the_number_of_attributes_has_a_bound(form: Any, count: int, word: str) -> None:
    pairs = [part for n in range(count - 4) for part in (text(f"cloudEvents_x{n}"), text("v"))]
    data = with_properties(*pairs)
    assert outcome(data, is_strict=True) == (word, None)
    assert form.MessageAttributes(data, 0, len(data)).get("x7") == ("v" if word == "binary" else None)


@EACH
def test_a_structured_message_is_asked_of_who_knows_its_format(form: Any) -> None:
    calls = []

    class Parsing(form.MessageAttributes):  # type: ignore[misc]
        def parse(self) -> dict[str, str]:
            calls.append(self.span)
            return {"id": "parsed"}

    data = encode_message(
        Message(
            properties=Properties(content_type=Symbol("application/cloudevents+json")), body=Data((b"{}",))
        )
    )
    attributes = Parsing(data * 2, 0, len(data))
    assert calls == []
    assert [attributes.get("id"), attributes.get("type"), attributes.status] == [
        "parsed",
        None,
        compiled.STRUCTURED,
    ]
    attributes.move(len(data), 2 * len(data))
    assert attributes.get("id") == "parsed"
    assert [start for _, start, _ in calls] == [0, len(data)]
