"""CloudEvents AMQP binding 1.0, clause by clause, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.cloudevents.amqp_binding import AmqpForm, Separator, decode, encode, message_of
from headwater.cloudevents.content_mode import JSON_BATCH_TYPE, Mode, mode_of
from headwater.cloudevents.event import AttributeType, CloudEvent, Timestamp, Uri, UriReference, new_event
from headwater.cloudevents.json_format import decode_event, encode_event
from headwater.cloudevents.stored import StoredAttributes, fault_of
from headwater.encoding.amqp_message import (
    AmqpSequence,
    AmqpValue,
    Body,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from headwater.encoding.amqp_types import Int, Symbol, Uint, Ushort
from headwater.encoding.amqp_types import Timestamp as AmqpTimestamp
from headwater.errors import InvalidCloudEvent

EVENT = new_event(
    "1234-1234-1234",
    "/mycontext/subcontext",
    "com.example.someevent",
    b'{"a": 1}',
    time="2018-04-05T03:56:24Z",
    datacontenttype="application/json; charset=utf-8",
)
"""The example of section 3.1.4."""
PROPERTIES: dict[str, Any] = {
    "cloudEvents_specversion": "1.0",
    "cloudEvents_id": "1234-1234-1234",
    "cloudEvents_source": "/mycontext/subcontext",
    "cloudEvents_type": "com.example.someevent",
}
STRUCTURED = AmqpForm(mode=Mode.STRUCTURED)


def read(message: Message, types: dict[str, AttributeType] | None = None) -> CloudEvent:
    data = encode_message(message)
    return decode(data, 0, len(data), types)


def refused(message: Message) -> tuple[str | None, str]:
    """Why a message is no event, in the same words for a log that holds nothing else."""
    data = encode_message(message)
    with pytest.raises(InvalidCloudEvent) as caught:
        decode(data, 0, len(data))
    fault = fault_of(data, 0, len(data))
    assert fault is not None
    assert (fault.attribute, fault.reason) == (caught.value.attribute, caught.value.reason)
    return fault.attribute, fault.reason


def binary(
    body: Body | None = None, content_type: str | None = None, header: Header | None = None, **others: Any
) -> Message:
    """A message with the required attributes, and others without their prefix."""
    properties = PROPERTIES | {f"cloudEvents_{name}": value for name, value in others.items()}
    return Message(
        header=header,
        properties=None if content_type is None else Properties(content_type=Symbol(content_type)),
        application_properties=properties,
        body=body or Data((b"",)),
    )


def structured(body: bytes, content_type: str = "application/cloudevents+json") -> Message:
    return Message(properties=Properties(content_type=Symbol(content_type)), body=Data((body,)))


def sent(event: CloudEvent, form: AmqpForm | None = None) -> Message:
    """The message of an event, as a receiver decodes it."""
    data = encode(event, form)
    return decode_message(data, 0, len(data))


@pytest.mark.clause("CE-1")
@pytest.mark.parametrize("form", [AmqpForm(), STRUCTURED], ids=["binary", "structured"])
def test_events_are_carried_in_both_modes_and_come_back(form: AmqpForm) -> None:
    data = encode(EVENT, form)
    assert decode(data, 0, len(data)) == EVENT
    assert decode(memoryview(b"ab" + data + b"cd"), 2, 2 + len(data)) == EVENT


@pytest.mark.clause("CE-1", "CE-4")
def test_a_batch_is_refused_where_events_alone_are_let_in_and_is_opaque_elsewhere() -> None:
    message = structured(b"[]", JSON_BATCH_TYPE)
    assert refused(message) == (None, "is application/cloudevents-batch+json, which is not read here")
    data = encode_message(message)
    assert StoredAttributes(data, 0, len(data)).get("id") is None


@pytest.mark.clause("CE-2")
def test_structured_mode_is_json_in_one_data_section() -> None:
    message = sent(EVENT, STRUCTURED)
    assert message.properties == Properties(
        content_type=Symbol("application/cloudevents+json; charset=utf-8")
    )
    assert isinstance(message.body, Data)
    (body,) = message.body.sections
    assert decode_event(body) == EVENT
    assert message.application_properties is None


@pytest.mark.clause("CE-2", "CE-3")
@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents+json",
        "application/cloudevents+json; charset=UTF-8",
        "Application/CloudEvents+JSON;charset=utf-8",
        "application/cloudevents",
    ],
)
def test_structured_mode_is_read_with_and_without_a_charset_in_letters_of_any_case(content_type: str) -> None:
    assert mode_of(content_type) is Mode.STRUCTURED
    message = structured(encode_event(EVENT), content_type)
    assert read(message) == EVENT
    data = encode_message(message)
    attributes = StoredAttributes(data, 0, len(data))
    assert (attributes.get("id"), attributes.get("time")) == ("1234-1234-1234", "2018-04-05T03:56:24Z")
    assert fault_of(data, 0, len(data)) is None


@pytest.mark.clause("CE-3")
@pytest.mark.parametrize(
    "content_type", [None, "application/json", "text/cloudevents+json", "application/cloudevent"]
)
def test_any_other_content_type_is_binary_mode(content_type: str | None) -> None:
    assert mode_of(content_type) is Mode.BINARY
    assert read(binary(content_type=content_type)).datacontenttype == content_type


@pytest.mark.clause("CE-4")
@pytest.mark.parametrize(
    "content_type",
    ["application/cloudevents+avro", "application/cloudevents+xml; x=y", "application/cloudeventsx"],
)
def test_an_unknown_format_is_opaque_and_not_refused(content_type: str) -> None:
    assert mode_of(content_type) is Mode.OPAQUE
    data = encode_message(binary(content_type=content_type))
    assert fault_of(data, 0, len(data)) is None
    assert StoredAttributes(data, 0, len(data)).get("id") is None
    with pytest.raises(InvalidCloudEvent, match="not read here"):
        decode(data, 0, len(data))


@pytest.mark.clause("CE-5")
def test_datacontenttype_is_the_content_type_and_all_else_application_properties() -> None:
    message = sent(EVENT)
    assert message.properties == Properties(content_type=Symbol("application/json; charset=utf-8"))
    assert message.application_properties == PROPERTIES | {"cloudEvents_time": AmqpTimestamp(1522900584000)}
    assert message.body == Data((b'{"a": 1}',))
    assert sent(new_event("1", "/s", "t")).properties is None


@pytest.mark.clause("CE-5")
@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_a_stray_datacontenttype_is_ignored(content_type: str | None) -> None:
    message = binary(content_type=content_type, datacontenttype="image/png")
    assert read(message).datacontenttype == content_type
    data = encode_message(message)
    assert fault_of(data, 0, len(data)) is None
    assert StoredAttributes(data, 0, len(data)).get("datacontenttype") == content_type


@pytest.mark.clause("CE-6")
@pytest.mark.parametrize("separator", Separator)
def test_both_prefixes_are_written_and_read(separator: Separator) -> None:
    message = sent(EVENT, AmqpForm(separator=separator))
    assert message.application_properties is not None
    assert {name[:12] for name in message.application_properties} == {f"cloudEvents{separator.value}"}
    assert read(message) == EVENT


@pytest.mark.clause("CE-6")
def test_the_underscore_is_the_prefix_by_default() -> None:
    assert "cloudEvents_id" in (sent(EVENT).application_properties or {})


@pytest.mark.clause("CE-6")
@pytest.mark.parametrize("name", ["cloudEvents:subject", "cloudEvents:datacontenttype"])
def test_a_message_that_mixes_prefixes_is_no_event(name: str) -> None:
    message = binary()
    mixed = Message(application_properties=PROPERTIES | {name: "x"}, body=message.body)
    assert refused(mixed) == (None, "has attributes with the prefix cloudEvents_ and with cloudEvents:")


@pytest.mark.clause("CE-6")
def test_other_application_properties_are_no_attributes() -> None:
    others = {"id": "other", "cloudEvents": "x", "cloudEventsid": "y", "x-opt": 5}
    assert read(Message(application_properties=PROPERTIES | others)) == new_event(
        "1234-1234-1234", "/mycontext/subcontext", "com.example.someevent"
    )


@pytest.mark.clause("CE-7", "CE-8")
@pytest.mark.parametrize(
    ("value", "native"),
    [
        (True, True),
        (False, False),
        (5, 5),
        (-(2**31), -(2**31)),
        ("text", "text"),
        (b"\x00\xff", b"\x00\xff"),
        (Uri("http://example.com"), "http://example.com"),
        (UriReference("#x"), "#x"),
        (Timestamp("2018-04-05T03:56:24Z"), AmqpTimestamp(1522900584000)),
        (Timestamp("1969-12-31T23:59:59.999Z"), AmqpTimestamp(-1)),
    ],
)
def test_values_are_written_in_the_native_types_of_amqp(value: Any, native: object) -> None:
    event = new_event("1", "/s", "t", ext=value)
    written = (sent(event).application_properties or {})["cloudEvents_ext"]
    assert (written, type(written)) == (native, type(native))
    again = read(sent(event), types_if_text(value))
    assert (again.get("ext"), type(again.get("ext"))) == (value, type(value))


def types_if_text(value: object) -> dict[str, AttributeType] | None:
    """What a reader must know of a value whose type AMQP does not tell."""
    types: dict[type, AttributeType] = {Uri: AttributeType.URI, UriReference: AttributeType.URI_REFERENCE}
    return {"ext": types[type(value)]} if type(value) in types else None


@pytest.mark.clause("CE-7")
def test_an_integer_is_written_as_a_long() -> None:
    assert b"cloudEvents_ext\x55\x05" in encode(new_event("1", "/s", "t", ext=5))
    assert b"cloudEvents_ext\x81" + (1 << 20).to_bytes(8) in encode(new_event("1", "/s", "t", ext=1 << 20))


@pytest.mark.clause("CE-8")
@pytest.mark.parametrize(
    "text",
    [
        "2018-04-05T03:56:24.1234Z",
        "2018-04-05T03:56:24+02:00",
        "2018-04-05T03:56:24.100000Z",
        "2018-04-05t03:56:24z",
        "1990-12-31T23:59:60Z",
    ],
)
def test_a_time_that_a_timestamp_would_change_is_written_as_its_text(text: str) -> None:
    event = new_event("1", "/s", "t", time=text)
    assert (sent(event).application_properties or {})["cloudEvents_time"] == text
    assert read(sent(event)) == event


@pytest.mark.clause("CE-7")
@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (AttributeType.BOOLEAN, "true", True),
        (AttributeType.INTEGER, "-5", -5),
        (AttributeType.BINARY, "AP8=", b"\x00\xff"),
        (AttributeType.URI, "urn:x", Uri("urn:x")),
        (AttributeType.TIMESTAMP, "2018-04-05T03:56:24Z", Timestamp("2018-04-05T03:56:24Z")),
    ],
)
def test_canonical_texts_are_understood_as_well(type_: AttributeType, text: str, value: Any) -> None:
    found = read(binary(ext=text), {"ext": type_}).get("ext")
    assert (found, type(found)) == (value, type(value))
    assert read(binary(ext=text)).get("ext") == text


@pytest.mark.clause("CE-7")
@pytest.mark.parametrize("number", [Int(5), Uint(5), Ushort(5)])
def test_other_numeric_types_are_accepted(number: int) -> None:
    assert read(binary(ext=number)).get("ext") == 5


@pytest.mark.clause("CE-7")
@pytest.mark.parametrize(
    "time",
    [AmqpTimestamp(1522900584000), "2018-04-05T03:56:24Z", 1522900584000],
    ids=["native", "text", "long"],
)
def test_a_time_is_understood_as_timestamp_text_and_long(time: object) -> None:
    found = read(binary(time=time)).get("time")
    assert (found, type(found)) == ("2018-04-05T03:56:24Z", Timestamp)
    data = encode_message(binary(time=time))
    assert StoredAttributes(data, 0, len(data)).get("time") == "2018-04-05T03:56:24Z"


@pytest.mark.clause("CE-7")
def test_a_timestamp_of_an_extension_stays_one() -> None:
    found = read(binary(ext=AmqpTimestamp(0))).get("ext")
    assert (found, type(found)) == ("1970-01-01T00:00:00Z", Timestamp)


@pytest.mark.clause("CE-9")
@pytest.mark.parametrize("name", PROPERTIES)
def test_what_lacks_a_required_attribute_is_no_event(name: str) -> None:
    attribute = name.removeprefix("cloudEvents_")
    without = {key: value for key, value in PROPERTIES.items() if key != name}
    assert refused(Message(application_properties=without)) == (attribute, "is missing")
    assert refused(Message(application_properties=without | {name: None})) == (attribute, "is missing")


@pytest.mark.clause("CE-9")
def test_a_message_without_anything_of_cloudevents_is_no_event() -> None:
    assert refused(Message(body=Data((b"{}",)))) == ("specversion", "is missing")
    assert refused(Message(application_properties={"id": "1"}, body=Data((b"",))))[0] == "specversion"


@pytest.mark.clause("CE-9")
@pytest.mark.parametrize(
    ("others", "attribute", "reason"),
    [
        ({"specversion": "0.3"}, "specversion", "is not 1.0"),
        ({"specversion": 1}, "specversion", "has an AMQP type that it cannot have"),
        ({"id": 5}, "id", "has an AMQP type that it cannot have"),
        ({"id": ""}, "id", "is empty"),
        ({"source": "a b"}, "source", "is no URI-reference"),
        ({"dataschema": "relative"}, "dataschema", "is no URI with a scheme"),
        ({"time": "lunchtime"}, "time", "is no time as RFC 3339 writes it"),
        ({"time": True}, "time", "has an AMQP type that it cannot have"),
        ({"time": AmqpTimestamp(2**60)}, "time", "is no time as RFC 3339 writes it"),
        ({"subject": "a\x07"}, "subject", "holds characters that CloudEvents do not allow"),
        ({"ext": "\x9f"}, "ext", "holds characters that CloudEvents do not allow"),
        ({"ext": 2**31}, "ext", "is an Integer of more than 32 bits"),
        ({"ext": 1.5}, "ext", "has an AMQP type that it cannot have"),
        ({"ext": [1]}, "ext", "has an AMQP type that it cannot have"),
        ({"Ext": "x"}, "Ext", None),
        ({"data": "x"}, "data", None),
    ],
)
def test_a_wrong_value_makes_no_event_and_is_named(
    others: dict[str, Any], attribute: str, reason: str | None
) -> None:
    found = refused(binary(**others))
    assert found[0] == attribute
    assert reason is None or found[1] == reason


@pytest.mark.clause("CE-9")
def test_a_content_type_that_is_no_media_type_makes_no_event() -> None:
    assert refused(binary(content_type="xyz")) == ("datacontenttype", "is no media type")


@pytest.mark.clause("CE-9")
def test_a_structured_message_whose_body_is_no_event_is_none() -> None:
    assert refused(structured(b"{}"))[0] == "specversion"
    assert refused(structured(b"no json"))[0] is None
    message = structured(json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": ""}).encode())
    assert refused(message) == ("type", "is empty")
    data = encode_message(message)
    assert StoredAttributes(data, 0, len(data)).get("id") is None


@pytest.mark.clause("CE-9")
@pytest.mark.parametrize("data", [b"", b"plain", b"\x00\x53\x75", b"\x00\x53\x74\xc1\x05\x02\xa1\x01a"])
def test_what_is_no_amqp_message_is_no_event(data: bytes) -> None:
    fault = fault_of(data, 0, len(data))
    assert fault is not None
    with pytest.raises(InvalidCloudEvent):
        decode(data, 0, len(data))


@pytest.mark.clause("CE-10")
@pytest.mark.parametrize(
    ("body", "data"),
    [
        (Data((b"one ", b"two", b"")), b"one two"),
        (Data((b"",)), b""),
        (AmqpValue("text é"), "text é".encode()),
        (AmqpValue(b"bytes"), b"bytes"),
        (AmqpValue(None), None),
    ],
)
def test_data_are_the_bytes_of_the_body_however_it_was_sent(body: Body, data: bytes | None) -> None:
    assert read(binary(body)).data == data
    encoded = encode_message(binary(body))
    assert fault_of(encoded, 0, len(encoded)) is None


@pytest.mark.clause("CE-10")
def test_structured_json_is_read_from_several_sections_and_from_text() -> None:
    text = encode_event(EVENT)
    content_type = Properties(content_type=Symbol("application/cloudevents+json"))
    for body in (Data((text[:5], text[5:])), AmqpValue(text.decode()), AmqpValue(text)):
        assert read(Message(properties=content_type, body=body)) == EVENT


@pytest.mark.clause("CE-10")
@pytest.mark.parametrize("body", [AmqpValue([1]), AmqpValue(5), AmqpValue({"a": 1}), AmqpSequence(([1],))])
def test_a_body_that_stands_for_no_bytes_has_attributes_and_is_no_event(body: Body) -> None:
    assert refused(binary(body)) == ("data", "is an AMQP value or sequence that stands for no bytes")
    data = encode_message(binary(body))
    assert StoredAttributes(data, 0, len(data)).get("id") == "1234-1234-1234"


@pytest.mark.clause("CE-10")
@pytest.mark.parametrize("data", [None, b"", b"x" * 300])
def test_no_data_and_empty_data_are_told_apart(data: bytes | None) -> None:
    event = new_event("1", "/s", "t", data)
    assert read(sent(event)) == event


@pytest.mark.clause("CE-11")
def test_structured_messages_carry_application_properties_where_that_is_set_and_the_body_wins() -> None:
    form = AmqpForm(mode=Mode.STRUCTURED, properties_beside_structured=True)
    message = sent(EVENT, form)
    assert message.application_properties == sent(EVENT).application_properties
    other = Message(
        properties=message.properties,
        application_properties=PROPERTIES | {"cloudEvents_id": "other", "cloudEvents:mixed": "x"},
        body=message.body,
    )
    assert read(other) == EVENT
    data = encode_message(other)
    assert StoredAttributes(data, 0, len(data)).get("id") == EVENT.id
    assert fault_of(data, 0, len(data)) is None


@pytest.mark.clause("CE-12")
@pytest.mark.parametrize("mode", [Mode.BINARY, Mode.STRUCTURED])
def test_an_extension_with_a_secondary_mapping_has_its_primary_one(mode: Mode) -> None:
    event = new_event("1", "/s", "t", partitionkey="k", when=Timestamp("1970-01-01T00:00:01Z"))
    names = {
        "partitionkey": Symbol("event-streams-group-key"),
        "when": Symbol("x-when"),
        "absent": Symbol("x"),
    }
    message = sent(event, AmqpForm(mode=mode, annotations=names))
    assert message.message_annotations == {"event-streams-group-key": "k", "x-when": AmqpTimestamp(1000)}
    assert read(message, {"when": AttributeType.TIMESTAMP}) == event


def test_headers_and_annotations_of_other_senders_do_not_matter() -> None:
    message = binary(header=Header(durable=True, delivery_count=3))
    assert read(message).id == "1234-1234-1234"


def test_the_message_of_an_event_can_be_added_to() -> None:
    assert message_of(EVENT).header is None
    assert message_of(EVENT).body == Data((EVENT.data or b"",))
