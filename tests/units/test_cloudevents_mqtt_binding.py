"""CloudEvents MQTT binding 1.0: user properties in MQTT 5, JSON alone in MQTT 3.1.1."""

from __future__ import annotations

import pytest

from headwater.cloudevents.event import AttributeType, new_event
from headwater.cloudevents.json_format import encode_event
from headwater.cloudevents.mqtt_binding import (
    MqttMessage,
    decode,
    decode_3,
    encode_3,
    encode_binary,
    encode_structured,
)
from headwater.errors import InvalidCloudEvent

EVENT = new_event(
    "1234-1234-1234",
    "/mycontext/subcontext",
    "com.example.someevent",
    b'{"a": 1}',
    time="2018-04-05T03:56:24Z",
    datacontenttype="application/json; charset=utf-8",
)
PROPERTIES = (
    ("specversion", "1.0"),
    ("type", "com.example.someevent"),
    ("time", "2018-04-05T03:56:24Z"),
    ("id", "1234-1234-1234"),
    ("source", "/mycontext/subcontext"),
)
CONTENT_TYPE = "application/json; charset=utf-8"


def test_the_example_of_binary_mode_is_read_and_written() -> None:
    # Section 3.1.4 shows datacontenttype among the user properties, too.
    shown = (*PROPERTIES, ("datacontenttype", "application/json; charset=utf-8"))
    assert decode(MqttMessage(b'{"a": 1}', CONTENT_TYPE, shown)) == EVENT
    written = encode_binary(EVENT)
    assert (written.payload, written.content_type) == (b'{"a": 1}', CONTENT_TYPE)
    assert set(written.user_properties) == set(PROPERTIES)


def test_structured_mode_is_read_and_written() -> None:
    written = encode_structured(EVENT)
    assert written == MqttMessage(encode_event(EVENT), "application/cloudevents+json; charset=utf-8")
    assert decode(written) == EVENT
    assert decode(MqttMessage(written.payload, "APPLICATION/CLOUDEVENTS+JSON", PROPERTIES)) == EVENT


def test_a_payload_of_mqtt_3_is_json() -> None:
    assert decode_3(encode_3(EVENT)) == EVENT
    with pytest.raises(InvalidCloudEvent, match="no JSON object"):
        decode_3(b"plain")


def test_properties_that_cannot_be_attributes_are_those_of_somebody_else() -> None:
    others = (("trace-id", "x"), ("Upper", "y"), ("Upper", "z"), ("data", "d"))
    assert decode(MqttMessage(b'{"a": 1}', CONTENT_TYPE, PROPERTIES + others)) == EVENT


def test_types_of_extensions_are_given_to_who_reads_text() -> None:
    event = new_event("1", "/s", "t", ok=True)
    assert decode(encode_binary(event)).get("ok") == "true"
    assert decode(encode_binary(event), {"ok": AttributeType.BOOLEAN}) == event
    assert decode_3(encode_3(event)) == event


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (MqttMessage(b"", None, PROPERTIES[1:]), "specversion is missing"),
        (MqttMessage(b"", None, (*PROPERTIES, ("id", "2"))), "id is there twice"),
        (MqttMessage(b"", "nothing", PROPERTIES), "datacontenttype is no media type"),
        (MqttMessage(b"", "application/cloudevents+avro", PROPERTIES), "not read here"),
        (MqttMessage(b"", "application/cloudevents-batch+json", PROPERTIES), "not read here"),
        (MqttMessage(b"", "application/cloudevents+json", PROPERTIES), "no JSON object"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(message: MqttMessage, reason: str) -> None:
    with pytest.raises(InvalidCloudEvent, match=reason):
        decode(message)
