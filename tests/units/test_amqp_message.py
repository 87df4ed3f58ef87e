"""Messages: sections as the specification lays them out and in its order; any bytes are a body or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.amqp_message import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    Section,
    SectionCode,
    body_of,
    data_section,
    decode_message,
    decode_section,
    encode_message,
    read_sections,
)
from headwater.encoding.amqp_types import Described, Symbol, Uint, Ulong
from headwater.errors import InvalidField, InvalidValue, MalformedValue
from tests.amqp_material import compound, laid_out

HEADER = bytes.fromhex("005370 c0 02 01 41")
PROPERTIES = bytes.fromhex("005373c00401a10161")
APPLICATION_PROPERTIES = bytes.fromhex("005374 c1 07 02 a10161 a10162".replace(" ", ""))
FOOTER = bytes.fromhex("005378c10100")


@given(st.one_of(st.binary(max_size=300), st.binary(min_size=250, max_size=260)))
def test_a_body_comes_out_as_it_went_in(body: bytes) -> None:
    assert body_of(data_section(body)) == body


def test_short_and_long_bodies_have_the_head_that_clients_write() -> None:
    assert data_section(b"a") == bytes.fromhex("005375a001") + b"a"
    assert data_section(bytes(256))[:8] == bytes.fromhex("005375b000000100")


def test_sections_before_and_behind_the_body_are_passed_over() -> None:
    message = (
        HEADER + PROPERTIES + APPLICATION_PROPERTIES + data_section(b"one") + data_section(b"two") + FOOTER
    )
    assert body_of(message) == b"onetwo"


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (bytes.fromhex("005377a10568656c6c6f"), b"hello"),
        (bytes.fromhex("005377b10000000568656c6c6f"), b"hello"),
        (bytes.fromhex("00537754ff"), None),
        (bytes.fromhex("005377a00161"), b"a"),
        (bytes.fromhex("005377a30161"), None),
        (bytes.fromhex("005377 00a30161 a10161"), None),
        (bytes.fromhex("00537645"), None),
        (bytes.fromhex("00537040"), None),
        (b"", None),
        (b"plain text", None),
        (data_section(b"abc")[:-1], None),
        (bytes.fromhex("005375b0ffffffff"), None),
        (bytes.fromhex("005375f0"), None),
        (bytes.fromhex("00537500"), None),
    ],
)
def test_other_messages(message: bytes, body: bytes | None) -> None:
    assert body_of(message) == body


@given(st.binary(max_size=60))
def test_any_bytes_have_a_body_or_none(message: bytes) -> None:
    body = body_of(message)
    assert body is None or len(body) < len(message)


@given(
    st.lists(st.sampled_from([HEADER, PROPERTIES, FOOTER, data_section(b"x")]), max_size=4),
    st.binary(max_size=9),
)
def test_any_bytes_behind_sections_have_a_body_or_none(sections: list[bytes], rest: bytes) -> None:
    body = body_of(b"".join(sections) + rest)
    assert body is None or isinstance(body, bytes)


S = Symbol
MAP = compound(0xC1, "a30161", "5501")

WHOLE = Message(
    header=Header(True, 5, 1000, True, 2),
    delivery_annotations={S("a"): 1},
    message_annotations={Ulong(7): Uint(1)},
    properties=Properties(
        *(
            "id",
            b"user",
            "to",
            "subject",
            "reply",
            Ulong(7),
            S("text/plain"),
            S("gzip"),
            1,
            2,
            "group",
            3,
            "rg",
        )
    ),
    application_properties={"a": 1.0},
    body=Data((b"one", b"")),
    footer={S("f"): None},
)
WHOLE_SECTIONS = [
    laid_out(0x70, "41", "5005", "70000003e8", "41", "5202"),
    "005371" + MAP,
    "005372" + compound(0xC1, "5307", "5201"),
    laid_out(
        0x73,
        *("a1026964", "a00475736572", "a102746f", "a1077375626a656374", "a1057265706c79", "5307"),
        *("a30a746578742f706c61696e", "a304677a6970", "830000000000000001", "830000000000000002"),
        *("a10567726f7570", "5203", "a1027267"),
    ),
    "005374" + compound(0xC1, "a10161", "823ff0000000000000"),
    "005375a0036f6e65",
    "005375a000",
    "005378" + compound(0xC1, "a30166", "40"),
]

LAID_OUT: list[tuple[Message, list[str]]] = [
    (WHOLE, WHOLE_SECTIONS),
    (Message(), []),
    (Message(header=Header()), [laid_out(0x70, "42", "5004", "40", "42", "43")]),
    (Message(properties=Properties()), [laid_out(0x73, *["40"] * 13)]),
    (Message(body=Data((b"a",))), ["005375a00161"]),
    (Message(body=AmqpSequence(([1], []))), ["005376" + compound(0xC0, "5501"), "00537645"]),
    (Message(body=AmqpValue(None)), ["00537740"]),
    (Message(body=AmqpValue(Described(S("a"), "b"))), ["00537700a30161a10162"]),
    (Message(delivery_annotations={}, footer={}), ["005371c10100", "005378c10100"]),
]


def message_of(sections: list[str]) -> bytes:
    return bytes.fromhex("".join(sections))


def decoded(data: bytes) -> Message:
    return decode_message(b"." + data + b".", 1, 1 + len(data))


@pytest.mark.clause("AMQP 3.2")
@pytest.mark.parametrize(("message", "sections"), LAID_OUT)
def test_a_message_is_written_and_read_as_laid_out(message: Message, sections: list[str]) -> None:
    assert encode_message(message).hex(" ") == message_of(sections).hex(" ")
    assert decoded(message_of(sections)) == message


def test_sections_are_found_without_reading_them() -> None:
    data = message_of(WHOLE_SECTIONS)
    sections = read_sections(data, 0, len(data))
    assert [section.code for section in sections] == [*range(0x70, 0x76), 0x75, 0x78]
    assert [data[section.start : section.end].hex() for section in sections] == WHOLE_SECTIONS
    assert all(section.position == section.start + 3 for section in sections)
    assert decode_section(data, sections[2]) == WHOLE.message_annotations
    assert decode_section(data, sections[3]) == WHOLE.properties


@pytest.mark.parametrize("code", SectionCode)
def test_a_section_is_known_by_every_form_of_its_descriptor(code: SectionCode) -> None:
    form = {0x70: "list", 0x73: "list", 0x75: "binary", 0x76: "list", 0x77: "*"}.get(code, "map")
    name = f"amqp:{code.name.lower().replace('_', '-')}:{form}".encode()
    for descriptor in (b"\x80" + code.to_bytes(8, "big"), b"\xa3" + bytes((len(name),)) + name):
        data = b"\0" + descriptor + b"\x45"
        assert read_sections(data, 0, len(data)) == [Section(code, 0, len(data) - 1, len(data))]


@pytest.mark.clause("AMQP 3.2")
@pytest.mark.parametrize(
    "sections",
    [
        ["00537045", "00537045"],
        ["005372" + MAP, "005371" + MAP],
        ["005375a000", "00537045"],
        ["005375a000", "00537645"],
        ["00537645", "005375a000"],
        ["00537740", "00537740"],
        ["005375a000", "00537740"],
        ["005378" + MAP, "005375a000"],
        ["00536f45"],
        ["00537945"],
        ["00527045"],
        ["00a3016145"],
        ["45"],
        ["005375"],
        ["005375a001"],
        ["005375ff"],
    ],
)
def test_sections_out_of_order_or_unknown_are_malformed(sections: list[str]) -> None:
    data = message_of(sections)
    with pytest.raises(MalformedValue):
        read_sections(data, 0, len(data))
    with pytest.raises(MalformedValue):
        decoded(data)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("00537040", None),
        (laid_out(0x70, "43"), "header.durable"),
        (laid_out(0x73, "5201"), "properties.message_id"),
        (laid_out(0x73, *["40"] * 6, "a10161"), "properties.content_type"),
        ("00537145", "delivery-annotations"),
        ("005372" + compound(0xC1, "5501", "40"), "message-annotations"),
        ("005374" + compound(0xC1, "5301", "40"), "application-properties"),
        ("005375a10161", "data"),
        ("005376" + MAP, "amqp-sequence"),
        ("00537840", "footer"),
        ("005377c00102", None),
    ],
)
def test_a_section_of_another_type_is_refused_when_it_is_read(section: str, field: str | None) -> None:
    data = bytes.fromhex(section)
    assert len(read_sections(data, 0, len(data))) == 1
    with pytest.raises(MalformedValue) as raised:
        decoded(data)
    assert (raised.value.field if isinstance(raised.value, InvalidField) else None) == field


def test_a_message_that_has_no_form_is_refused() -> None:
    for message in (
        Message(body=AmqpValue(object())),
        Message(header=Header(priority=256)),
        Message(message_annotations={S("é"): 1}),
        Message(properties=Properties(message_id=-1)),
    ):
        with pytest.raises(InvalidValue):
            encode_message(message)
