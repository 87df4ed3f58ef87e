"""CloudEvents NATS binding 1.0.3: headers with a prefix, or JSON."""

from __future__ import annotations

import pytest

from headwater.cloudevents.event import AttributeType, new_event
from headwater.cloudevents.json_format import encode_event
from headwater.cloudevents.nats_binding import NatsMessage, decode, encode_binary, encode_structured
from headwater.errors import InvalidCloudEvent

EVENT = new_event(
    "1234-1234-1234",
    "/mycontext/subcontext",
    "com.example.someevent",
    b'{"a": 1}',
    time="2018-04-05T03:56:24Z",
    datacontenttype="application/json",
)
HEADERS = {
    "ce-specversion": "1.0",
    "ce-type": "com.example.someevent",
    "ce-time": "2018-04-05T03:56:24Z",
    "ce-id": "1234-1234-1234",
    "ce-source": "/mycontext/subcontext",
    "ce-datacontenttype": "application/json",
}


def test_the_example_of_binary_mode_is_read_and_written() -> None:
    assert decode(NatsMessage(HEADERS, b'{"a": 1}')) == EVENT
    assert encode_binary(EVENT) == NatsMessage(HEADERS, b'{"a": 1}')


def test_names_of_headers_have_letters_of_any_case() -> None:
    upper = {name.upper(): value for name, value in HEADERS.items()}
    assert decode(NatsMessage({**upper, "Nats-Msg-Id": "5"}, b'{"a": 1}')) == EVENT


def test_values_are_percent_encoded() -> None:
    event = new_event("1", "/s", "t", ext="Euro € 😀")
    assert encode_binary(event).headers["ce-ext"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert decode(encode_binary(event)) == event


@pytest.mark.parametrize(
    "content_type", ["application/cloudevents", "Application/CloudEvents+JSON; charset=utf-8"]
)
def test_structured_mode_is_read_by_its_content_type(content_type: str) -> None:
    assert decode(NatsMessage({"content-type": content_type}, encode_event(EVENT))) == EVENT


def test_structured_mode_is_written_with_headers_and_without() -> None:
    written = encode_structured(EVENT)
    assert written.headers == {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    assert decode(written) == EVENT
    without = encode_structured(EVENT, has_headers=False)
    assert without.headers == {}
    assert decode(without) == EVENT


def test_types_of_extensions_are_given_to_who_reads_text() -> None:
    event = new_event("1", "/s", "t", raw=b"\xff")
    assert decode(encode_binary(event), {"raw": AttributeType.BINARY}) == event


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"ce-id": "1"}, "specversion is missing"),
        ({"other": "x"}, "specversion is missing"),
        ({**HEADERS, "CE-ID": "2"}, "id is there twice"),
        ({**HEADERS, "ce-ext": "%C0%A0"}, "ext is no UTF-8"),
        ({"Content-Type": "application/cloudevents+avro"}, "not read here"),
        ({"Content-Type": "application/cloudevents+json"}, "no JSON object"),
        ({}, "no JSON object"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidCloudEvent, match=reason):
        decode(NatsMessage(headers, b"plain"))
