"""docs/cloudevents.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.cloudevents import http_binding, json_format, kafka_binding, mqtt_binding, nats_binding
from headwater.cloudevents.amqp_binding import encode, message_of
from headwater.cloudevents.event import CloudEvent, Timestamp
from headwater.encoding._cloudevents_kernel import ATTRIBUTES_MAX
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.amqp_types import Timestamp as AmqpTimestamp
from headwater.errors import InvalidCloudEvent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cloudevents.md"
TEXT = PAGE.read_text("utf-8")
EVENT = json_format.decode_event(re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)[0].encode())
TYPES = {bool: "boolean", int: "long", str: "string", Symbol: "symbol"}


def block(language: str) -> str:
    """The one example in this language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_amqp_message_of_the_example() -> None:
    message = message_of(EVENT)
    assert message.properties is not None
    values = {"content-type": message.properties.content_type, **(message.application_properties or {})}
    lines = [f"{name}: {TYPES[type(value)]} {shown(value)}\n" for name, value in values.items()]
    assert "".join(lines) == block("amqp")


def test_the_headers_of_the_example() -> None:
    http = http_binding.encode_binary(EVENT)
    lines = [f"{name}: {value}\n" for name, value in http.headers]
    assert "".join(lines) == block("http")
    nats = nats_binding.encode_binary(EVENT)
    renamed = {name.replace("Content-Type", "ce-datacontenttype"): value for name, value in http.headers}
    assert nats.headers == renamed
    kafka = kafka_binding.encode_binary(EVENT)
    assert "".join(f"{name}: {(value or b'').decode()}\n" for name, value in kafka.headers) == block("kafka")
    mqtt = mqtt_binding.encode_binary(EVENT)
    without = [(name.removeprefix("ce_"), (value or b"").decode()) for name, value in kafka.headers]
    assert [*mqtt.user_properties, ("content-type", mqtt.content_type)] == sorted(
        without, key=lambda header: header[0] == "content-type"
    )


def test_data_are_the_same_bytes_everywhere() -> None:
    (said,) = re.findall(r"Data are `(.*?)` everywhere", TEXT)
    assert said.encode() == EVENT.data == http_binding.encode_binary(EVENT).body
    assert EVENT.data in encode(EVENT)
    assert b'"data":' + EVENT.data in json_format.encode_event(EVENT)


@pytest.mark.parametrize(
    ("text", "is_native"),
    [
        ("2026-04-05T17:31:00Z", True),
        ("2026-04-05T17:31:00.250Z", True),
        ("2026-04-05T17:31:00.000Z", False),
        ("2026-04-05T17:31:00.25Z", False),
        ("2026-04-05T17:31:00+00:00", False),
        ("2026-12-31T23:59:60Z", False),
    ],
)
def test_which_times_are_timestamps(text: str, is_native: bool) -> None:
    event = CloudEvent({**EVENT.attributes, "time": Timestamp(text)})
    written = (message_of(event).application_properties or {})["cloudEvents_time"]
    assert isinstance(written, AmqpTimestamp) == is_native


CHANGES: dict[str, dict[str, Any]] = {
    "no `id`": {"id": None},
    "`specversion` 0.3": {"specversion": "0.3"},
    "an empty `type`": {"type": ""},
    "`source` `a b`": {"source": "a b"},
    "`time` `noon`": {"time": "noon"},
    "`datacontenttype` `json`": {"datacontenttype": "json"},
    "`subject` with a line break": {"subject": "a\nb"},
    "`priority` 2147483648": {"priority": 2147483648},
    "an attribute `Priority`": {"Priority": 5},
}
ROWS = re.findall(
    r"^\| (.*?) \| `(\w+)` \| (.*) \|$", TEXT.partition("## What is no CloudEvent")[2], re.MULTILINE
)


@pytest.mark.parametrize(("what", "attribute", "why"), ROWS, ids=[row[0] for row in ROWS])
def test_what_is_no_event_is_refused_in_these_words(what: str, attribute: str, why: str) -> None:
    with pytest.raises(InvalidCloudEvent) as caught:
        CloudEvent({**EVENT.attributes, **CHANGES[what]})
    assert (caught.value.attribute, caught.value.reason) == (attribute, why)


def test_every_row_is_tried() -> None:
    assert {row[0] for row in ROWS} == set(CHANGES)


def test_the_bound_is_named() -> None:
    assert f"at most {ATTRIBUTES_MAX} attributes" in TEXT
