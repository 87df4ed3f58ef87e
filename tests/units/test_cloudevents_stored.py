"""Stored messages give attributes on demand, one message after the other, and runs of them are judged at once."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest

from headwater.cloudevents import stored
from headwater.cloudevents.amqp_binding import AmqpForm, encode
from headwater.cloudevents.attributes import Attributes
from headwater.cloudevents.content_mode import Mode
from headwater.cloudevents.event import new_event
from headwater.cloudevents.stored import StoredAttributes, faults_among
from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Message, data_section, encode_message

EVENTS = [new_event(str(number), "/s", "t", b"data", n=number) for number in range(3)]


def run_of(messages: list[bytes]) -> tuple[bytearray, array[int]]:
    """Chunk data of messages, and their spans as a reader finds them."""
    data = bytearray(b"".join(struct.pack(">I", len(message)) + message for message in messages))
    spans = array("q", bytes(8 * SPAN_FIELDS * len(messages)))
    skim_entries(data, 0, len(data), len(messages), spans)
    return data, spans


def test_attributes_of_one_message_after_the_other_are_read_by_one_object() -> None:
    messages = [
        encode(event, AmqpForm(mode=mode)) for event in EVENTS for mode in (Mode.BINARY, Mode.STRUCTURED)
    ]
    data, spans = run_of([*messages, data_section(b"plain")])
    attributes = StoredAttributes(b"", 0, 0)
    seen = []
    attributes.open(memoryview(data), 0, 0)
    for number in range(len(messages) + 1):
        attributes.move(spans[SPAN_FIELDS * number + 2], spans[SPAN_FIELDS * number + 3])
        seen.append((attributes.get("id"), attributes.get("n"), attributes.get("subject")))
    assert seen == [("0", 0, None)] * 2 + [("1", 1, None)] * 2 + [("2", 2, None)] * 2 + [(None, None, None)]


def test_an_event_a_stored_one_and_a_dict_are_read_alike() -> None:
    data = encode(EVENTS[1])
    several: list[Attributes] = [EVENTS[1], StoredAttributes(data, 0, len(data)), dict(EVENTS[1].attributes)]
    for attributes in several:
        assert [attributes.get(name) for name in ("source", "n", "time")] == ["/s", 1, None]


def test_structured_json_is_parsed_once_and_only_when_an_attribute_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = []
    parse = stored.structured_event

    def counting(*arguments: Any) -> Any:
        parsed.append(arguments)
        return parse(*arguments)

    monkeypatch.setattr(stored, "structured_event", counting)
    data = encode(EVENTS[0], AmqpForm(mode=Mode.STRUCTURED))
    attributes = StoredAttributes(data, 0, len(data))
    assert attributes.content_type == "application/cloudevents+json; charset=utf-8"
    assert parsed == []
    assert [attributes.get(name) for name in ("id", "type", "nothing")] == ["0", "t", None]
    assert len(parsed) == 1


def test_what_is_wrong_in_a_run_of_messages_is_told_message_by_message() -> None:
    good = [encode(event) for event in EVENTS]
    lacking = encode_message(Message(application_properties={"cloudEvents_specversion": "1.0"}))
    structured = encode(EVENTS[0], AmqpForm(mode=Mode.STRUCTURED))
    data, spans = run_of(
        [good[0], data_section(b"plain"), good[1], structured, lacking, b"no message", good[2]]
    )
    faults = [(number, fault.attribute, fault.reason) for number, fault in faults_among(data, spans, 0, 7)]
    assert faults == [
        (1, "specversion", "is missing"),
        (4, "id", "is missing"),
        (5, None, "is no AMQP message"),
    ]
    assert [number for number, _ in faults_among(data, spans, 2, 3)] == [2]
    assert faults_among(data, spans, 2, 2) == []
    assert faults_among(data, spans, 0, 0) == []


def test_a_message_that_only_begins_like_one_is_told_from_an_event() -> None:
    data = encode(EVENTS[0])
    cut = data[:-1]
    assert stored.fault_of(data, 0, len(data)) is None
    assert stored.fault_of(cut, 0, len(cut)) is not None
    with_two_bodies = data + encode_message(Message(body=Data((b"more",)))) + b"\x00\x53\x77\x40"
    assert stored.fault_of(with_two_bodies, 0, len(with_two_bodies)) is not None
