"""Events go to the CloudEvents SDK for Python and come from it, where what it does is right.

It writes no booleans or bytes as their canonical texts, so that extensions here are strings and integers; and it parses
JSON data and writes them anew, so that they are compared as values.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import amqp as sdk_amqp
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent
from hypothesis import given
from proton import Message as ProtonMessage
from proton import symbol

from headwater.cloudevents import amqp_binding, http_binding, json_format, kafka_binding
from headwater.cloudevents.amqp_binding import AmqpForm
from headwater.cloudevents.content_mode import Mode
from headwater.cloudevents.event import AttributeType, CloudEvent, new_event
from tests.cloudevents_material import NAMES, STRINGS

TYPES = {"number": AttributeType.INTEGER}
MOMENT = datetime(2018, 4, 5, 17, 31, 0, 123000, tzinfo=UTC)
KINDS: dict[str, Any] = {
    "application/json": {"a": [1, "zwei", None]},
    "text/xml": '<much wow="xml"/>',
    "application/octet-stream": b"\x00\xff",
}
BOTH_KINDS = pytest.mark.parametrize("content_type", KINDS)


def sdk_event(content_type: str, **extensions: Any) -> SdkEvent:
    attributes = {
        "specversion": "1.0",
        "id": "A234-1234-1234",
        "source": "https://github.com/cloudevents/spec/pull",
        "type": "com.github.pull_request.opened",
        "subject": 'Euro € "123" 100%',
        "time": MOMENT,
        "datacontenttype": content_type,
        "number": 5,
        **extensions,
    }
    return SdkEvent(attributes, KINDS[content_type])


def our_event(content_type: str, **extensions: Any) -> CloudEvent:
    data = KINDS[content_type]
    encoded = (
        data
        if isinstance(data, bytes)
        else data.encode()
        if isinstance(data, str)
        else json.dumps(data).encode()
    )
    given_ = sdk_event(content_type, **extensions).get_attributes()
    return CloudEvent(given_, encoded)


def check_ours(event: CloudEvent, content_type: str) -> None:
    """What came from the SDK is what it was given."""
    expected = our_event(content_type)
    assert {**event.attributes, "time": None} == {**expected.attributes, "time": None}
    assert datetime.fromisoformat(str(event.get("time"))) == MOMENT
    if content_type == "application/json":
        assert json.loads(event.data or b"") == KINDS[content_type]
    else:
        assert event.data == expected.data


def check_theirs(event: Any, content_type: str, *, has_numbers: bool) -> None:
    """What the SDK made of ours is what it would have made itself."""
    expected = sdk_event(content_type)
    found = dict(event.get_attributes())
    assert found == {**expected.get_attributes(), "number": 5 if has_numbers else "5"}
    assert event.get_data() == expected.get_data()


@BOTH_KINDS
@pytest.mark.parametrize("write", [sdk_http.to_binary_event, sdk_http.to_structured_event])
def test_http_messages_of_the_sdk_are_read(content_type: str, write: Any) -> None:
    message = write(sdk_event(content_type))
    (event,) = http_binding.decode(message.headers.items(), message.body, TYPES)
    check_ours(event, content_type)


@BOTH_KINDS
@pytest.mark.parametrize("mode", [Mode.BINARY, Mode.STRUCTURED])
def test_the_sdk_reads_http_messages(content_type: str, mode: Mode) -> None:
    is_binary = mode is Mode.BINARY
    encode = http_binding.encode_binary if is_binary else http_binding.encode_structured
    message = encode(our_event(content_type))
    theirs = sdk_http.from_http_event(sdk_http.HTTPMessage(dict(message.headers), message.body))
    check_theirs(theirs, content_type, has_numbers=not is_binary)


@BOTH_KINDS
@pytest.mark.parametrize("write", [sdk_kafka.to_binary_event, sdk_kafka.to_structured_event])
def test_kafka_records_of_the_sdk_are_read(content_type: str, write: Any) -> None:
    message = write(sdk_event(content_type))
    record = kafka_binding.KafkaRecord(tuple(message.headers.items()), message.value)
    check_ours(kafka_binding.decode(record, TYPES), content_type)


@BOTH_KINDS
@pytest.mark.parametrize("mode", [Mode.BINARY, Mode.STRUCTURED])
def test_the_sdk_reads_kafka_records(content_type: str, mode: Mode) -> None:
    is_binary = mode is Mode.BINARY
    encode = kafka_binding.encode_binary if is_binary else kafka_binding.encode_structured
    record = encode(our_event(content_type))
    headers = {name: value for name, value in record.headers if value is not None}
    theirs = sdk_kafka.from_kafka_event(sdk_kafka.KafkaMessage(headers, record.key, record.value or b""))
    check_theirs(theirs, content_type, has_numbers=not is_binary)


@pytest.mark.clause("CE-1", "CE-7")
@BOTH_KINDS
@pytest.mark.parametrize("write", [sdk_amqp.to_binary_event, sdk_amqp.to_structured_event])
def test_amqp_messages_of_the_sdk_are_read_as_proton_sends_them(content_type: str, write: Any) -> None:
    # In binary mode the time is a long: the SDK has no type for timestamps.
    made = write(sdk_event(content_type))
    message = ProtonMessage(
        body=made.application_data,
        properties=made.application_properties,
        content_type=symbol(made.properties["content-type"]),
        inferred=True,
    )
    data = message.encode()
    check_ours(amqp_binding.decode(data, 0, len(data), TYPES), content_type)


@pytest.mark.clause("CE-1", "CE-7")
@BOTH_KINDS
@pytest.mark.parametrize("mode", [Mode.BINARY, Mode.STRUCTURED])
def test_the_sdk_reads_amqp_messages_as_proton_decodes_them(content_type: str, mode: Mode) -> None:
    message = ProtonMessage()
    message.decode(amqp_binding.encode(our_event(content_type), AmqpForm(mode=mode)))
    theirs = sdk_amqp.from_amqp_event(
        sdk_amqp.AMQPMessage(
            {"content-type": str(message.content_type)}, dict(message.properties or {}), bytes(message.body)
        )
    )
    check_theirs(theirs, content_type, has_numbers=True)


@given(name=NAMES, text=STRINGS)
def test_the_sdk_and_we_read_the_same_texts_out_of_headers_and_json(name: str, text: str) -> None:
    event = new_event("1", "/s", "t", time=MOMENT)
    event = CloudEvent({**event.attributes, name: text})
    message = http_binding.encode_binary(event)
    theirs = sdk_http.from_http_event(sdk_http.HTTPMessage(dict(message.headers), b""))
    assert theirs.get_attributes()[name] == text
    again = sdk_http.to_binary_event(theirs)
    assert http_binding.decode(again.headers.items(), again.body)[0].get(name) == text
    assert JSONFormat().read(None, json_format.encode_event(event)).get_attributes()[name] == text
    assert json_format.decode_event(JSONFormat().write(theirs)).get(name) == text
