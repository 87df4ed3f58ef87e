"""CloudEvents HTTP binding 1.0: binary, structured and batched mode, both ways."""

from __future__ import annotations

import json

import pytest

from headwater.cloudevents.event import AttributeType, CloudEvent, new_event
from headwater.cloudevents.http_binding import (
    HttpMessage,
    decode,
    encode_batch,
    encode_binary,
    encode_structured,
)
from headwater.cloudevents.json_format import encode_event
from headwater.errors import InvalidCloudEvent

EVENT = new_event(
    "1234-1234-1234",
    "/mycontext/subcontext",
    "com.example.someevent",
    b'{"a": 1}',
    time="2018-04-05T03:56:24Z",
    datacontenttype="application/json; charset=utf-8",
)
HEADERS = (
    ("ce-specversion", "1.0"),
    ("ce-type", "com.example.someevent"),
    ("ce-time", "2018-04-05T03:56:24Z"),
    ("ce-id", "1234-1234-1234"),
    ("ce-source", "/mycontext/subcontext"),
    ("Content-Type", "application/json; charset=utf-8"),
)
"""The example of section 3.1.4."""


def read(message: HttpMessage, types: dict[str, AttributeType] | None = None) -> list[CloudEvent]:
    return decode(message.headers, message.body, types)


def refused(*headers: tuple[str, str], body: bytes = b"") -> tuple[str | None, str]:
    with pytest.raises(InvalidCloudEvent) as caught:
        decode(headers, body)
    return caught.value.attribute, caught.value.reason


def test_the_example_of_binary_mode_is_read_and_written() -> None:
    others = (("Host", "webhook.example.com"), ("Content-Length", "8"))
    assert decode(HEADERS + others, b'{"a": 1}') == [EVENT]
    written = encode_binary(EVENT)
    assert set(written.headers) == set(HEADERS)
    assert written.body == b'{"a": 1}'


def test_names_of_headers_have_letters_of_any_case() -> None:
    assert decode([(name.upper(), value) for name, value in HEADERS], b'{"a": 1}') == [EVENT]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents+json",
        "Application/CloudEvents+JSON; charset=UTF-8",
        "application/cloudevents",
    ],
)
def test_structured_mode_is_read(content_type: str) -> None:
    assert decode([("content-type", content_type), ("ce-id", "other")], encode_event(EVENT)) == [EVENT]


def test_structured_mode_is_written() -> None:
    written = encode_structured(EVENT)
    assert written.headers == (("Content-Type", "application/cloudevents+json; charset=utf-8"),)
    assert json.loads(written.body)["data"] == {"a": 1}
    assert read(written) == [EVENT]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_is_told_from_a_structured_event(count: int) -> None:
    events = [new_event(str(number), "/s", "t") for number in range(count)]
    written = encode_batch(events)
    assert written.headers == (("Content-Type", "application/cloudevents-batch+json; charset=utf-8"),)
    assert read(written) == events


@pytest.mark.parametrize("format_", ["+avro", "-batch+xml", "+protobuf; x=y"])
def test_an_unknown_format_is_refused_by_name(format_: str) -> None:
    attribute, reason = refused(("Content-Type", f"application/cloudevents{format_}"), body=b"x")
    assert attribute is None
    assert format_.partition(";")[0] in reason


@pytest.mark.parametrize("value", ["%C0%A0", "%ff", "a%E2%82", "%ED%A0%80", "\udcff", '"%ff"'])
def test_what_is_no_utf_8_is_refused(value: str) -> None:
    assert refused(*HEADERS, ("ce-ext", value)) == ("ext", "is no UTF-8 when it is percent-decoded")


@pytest.mark.parametrize("missing", ["ce-specversion", "ce-type", "ce-id", "ce-source"])
def test_a_request_without_a_required_header_is_no_event(missing: str) -> None:
    headers = [header for header in HEADERS if header[0] != missing]
    assert refused(*headers) == (missing[3:], "is missing")


@pytest.mark.parametrize(
    ("header", "attribute"),
    [
        (("ce-id", "again"), "id"),
        (("content-type", "text/plain"), "datacontenttype"),
        (("ce-my-ext", "x"), "my-ext"),
        (("ce-data", "x"), "data"),
        (("ce-ext", "%0A"), "ext"),
        (("ce-subject", ""), "subject"),
    ],
)
def test_a_wrong_header_is_named(header: tuple[str, str], attribute: str) -> None:
    assert refused(*HEADERS, header)[0] == attribute


def test_a_stray_datacontenttype_is_ignored() -> None:
    assert decode([*HEADERS, ("ce-datacontenttype", "text/plain")], b'{"a": 1}') == [EVENT]


@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_an_empty_body_is_no_data(content_type: str | None) -> None:
    event = new_event("1", "/s", "t", datacontenttype=content_type)
    assert encode_binary(event).body == b""
    assert read(encode_binary(event)) == [event]


def test_types_of_extensions_are_given_to_who_reads_text() -> None:
    event = new_event("1", "/s", "t", n=5, raw=b"\x00")
    types = {"n": AttributeType.INTEGER, "raw": AttributeType.BINARY}
    for message in (encode_binary(event), encode_structured(event), encode_batch([event])):
        assert read(message, types) == [event]
    assert read(encode_binary(event))[0].get("n") == "5"
