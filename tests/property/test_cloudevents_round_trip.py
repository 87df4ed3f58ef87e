"""Events pass through every pair of bindings unchanged: attributes, extensions, types, times, and the bytes of data."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings

from headwater.cloudevents import (
    amqp_binding,
    http_binding,
    json_format,
    kafka_binding,
    mqtt_binding,
    nats_binding,
)
from headwater.cloudevents.amqp_binding import AmqpForm, Separator
from headwater.cloudevents.content_mode import Mode, mode_of
from headwater.cloudevents.event import CloudEvent, ExtensionTypes, canonical_text
from headwater.cloudevents.stored import StoredAttributes, fault_of
from tests.cloudevents_material import events, types_of


class Way(NamedTuple):
    """To write an event as bytes or text and to read it again."""

    there_and_back: Callable[[CloudEvent, ExtensionTypes], CloudEvent]
    keeps_empty_data: bool


def amqp(form: AmqpForm | None) -> Way:
    def way(event: CloudEvent, types: ExtensionTypes) -> CloudEvent:
        data = amqp_binding.encode(event, form)
        return amqp_binding.decode(data, 0, len(data), types)

    return Way(way, True)


def http(encode: Callable[[CloudEvent], http_binding.HttpMessage], *, keeps_empty_data: bool) -> Way:
    def way(event: CloudEvent, types: ExtensionTypes) -> CloudEvent:
        message = encode(event)
        assert all(value.isascii() and value.isprintable() for _, value in message.headers)
        (again,) = http_binding.decode(message.headers, message.body, types)
        return again

    return Way(way, keeps_empty_data)


def kafka(encode: Callable[[CloudEvent], kafka_binding.KafkaRecord]) -> Way:
    return Way(lambda event, types: kafka_binding.decode(encode(event), types), True)


def mqtt(encode: Callable[[CloudEvent], mqtt_binding.MqttMessage], *, keeps_empty_data: bool) -> Way:
    return Way(lambda event, types: mqtt_binding.decode(encode(event), types), keeps_empty_data)


def nats(encode: Callable[[CloudEvent], nats_binding.NatsMessage], *, keeps_empty_data: bool) -> Way:
    return Way(lambda event, types: nats_binding.decode(encode(event), types), keeps_empty_data)


WAYS = {
    "JSON": Way(lambda event, types: json_format.decode_event(json_format.encode_event(event), types), True),
    "AMQP": amqp(None),
    "AMQP binary": amqp(AmqpForm()),
    "AMQP binary, colon": amqp(AmqpForm(separator=Separator.COLON)),
    "AMQP structured": amqp(AmqpForm(mode=Mode.STRUCTURED, properties_beside_structured=True)),
    "HTTP binary": http(http_binding.encode_binary, keeps_empty_data=False),
    "HTTP structured": http(http_binding.encode_structured, keeps_empty_data=True),
    "HTTP batch": http(lambda event: http_binding.encode_batch([event]), keeps_empty_data=True),
    "MQTT 5 binary": mqtt(mqtt_binding.encode_binary, keeps_empty_data=False),
    "MQTT 5 structured": mqtt(mqtt_binding.encode_structured, keeps_empty_data=True),
    "MQTT 3": Way(lambda event, types: mqtt_binding.decode_3(mqtt_binding.encode_3(event), types), True),
    "Kafka binary": kafka(kafka_binding.encode_binary),
    "Kafka structured": kafka(kafka_binding.encode_structured),
    "NATS binary": nats(nats_binding.encode_binary, keeps_empty_data=False),
    "NATS structured": nats(nats_binding.encode_structured, keeps_empty_data=True),
}


def exactly(event: CloudEvent) -> dict[str, tuple[type, object]]:
    """What must be the same: values with their types, and data."""
    return {name: (type(value), value) for name, value in event.attributes.items()} | {
        "data": (bytes, event.data)
    }


@pytest.mark.clause("CE-1", "CE-7", "CE-8")
@pytest.mark.parametrize("first", WAYS)
@given(event=events())
@settings(max_examples=40)
def test_an_event_passes_through_two_bindings_unchanged(first: str, event: CloudEvent) -> None:
    types = types_of(event)
    between = WAYS[first].there_and_back(event, types)
    for second, way in WAYS.items():
        assert exactly(way.there_and_back(between, types)) == exactly(event), second


@given(event=events())
def test_the_short_way_to_a_message_writes_the_bytes_of_the_general_one(event: CloudEvent) -> None:
    assert amqp_binding.encode(event) == amqp_binding.encode(event, AmqpForm())


@pytest.mark.parametrize("name", WAYS)
@given(event=events())
@settings(max_examples=40)
def test_without_their_types_extensions_keep_their_canonical_texts(name: str, event: CloudEvent) -> None:
    again = WAYS[name].there_and_back(event, {})
    assert again.data == event.data
    assert texts(again) == texts(event)


def texts(event: CloudEvent) -> dict[str, str]:
    return {name: canonical_text(value) for name, value in event.attributes.items()}


@pytest.mark.parametrize("name", WAYS)
@given(event=events())
@settings(max_examples=40)
def test_empty_data_stay_empty_or_become_none_where_a_payload_is_always_there(
    name: str, event: CloudEvent
) -> None:
    empty = msgspec.structs.replace(event, data=b"")
    again = WAYS[name].there_and_back(empty, types_of(event))
    is_structured = mode_of(event.datacontenttype) is not Mode.BINARY and name != "NATS binary"
    assert again.data == (b"" if WAYS[name].keeps_empty_data or is_structured else None)


@pytest.mark.clause("CE-5", "CE-7")
@pytest.mark.parametrize("mode", [Mode.BINARY, Mode.STRUCTURED])
@given(event=events())
@settings(max_examples=40)
def test_a_stored_event_is_valid_and_gives_its_attributes_one_by_one(mode: Mode, event: CloudEvent) -> None:
    data = amqp_binding.encode(event, AmqpForm(mode=mode))
    assert fault_of(data, 0, len(data)) is None
    attributes = StoredAttributes(data, 0, len(data))
    for name, value in event.attributes.items():
        found = attributes.get(name)
        if mode is Mode.BINARY and mode_of(event.datacontenttype) is Mode.BINARY:
            assert found == value
        else:
            assert found is not None
            assert canonical_text(found) == canonical_text(value)
    assert attributes.get("nothing0") == event.get("nothing0")
