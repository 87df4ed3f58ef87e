"""CloudEvents, in every way that peers send them."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from fuzz.targets import check, target
from headwater.cloudevents import (
    amqp_binding,
    http_binding,
    json_format,
    kafka_binding,
    mqtt_binding,
    nats_binding,
)
from headwater.cloudevents.amqp_binding import AmqpForm, Separator
from headwater.cloudevents.content_mode import Mode
from headwater.cloudevents.event import CORE_TYPES, AttributeType, CloudEvent, Timestamp, new_event
from headwater.cloudevents.header_text import from_header, to_header
from headwater.cloudevents.stored import StoredAttributes, fault_of, faults_among
from headwater.encoding._cloudevents_kernel import ATTRIBUTE_FIELDS, find_attributes
from headwater.encoding._cloudevents_text_kernel import is_allowed, timestamp_ms, timestamp_text
from headwater.errors import InvalidCloudEvent

EVENT = new_event(
    "A234",
    "https://example.com/a?b#c",
    "com.example.someevent",
    b'{"a": 1}',
    time=Timestamp("2018-04-05T17:31:00.5Z"),
    datacontenttype="application/json",
    ext=True,
    raw=b"\x00",
    number=-5,
)
TYPES = {"ext": AttributeType.BOOLEAN, "raw": AttributeType.BINARY, "number": AttributeType.INTEGER}
HEADERS = "\n".join(f"{name}: {value}" for name, value in http_binding.encode_binary(EVENT).headers)
FORMS = (
    AmqpForm(),
    AmqpForm(separator=Separator.COLON),
    AmqpForm(mode=Mode.STRUCTURED, properties_beside_structured=True),
)


def _json_again(event: CloudEvent) -> None:
    again = json_format.decode_event(json_format.encode_event(event), TYPES)
    check(again == event, "an event is another one after it was written as JSON")


@target(
    "CloudEvents JSON",
    InvalidCloudEvent,
    seeds=[json_format.encode_event(EVENT), json_format.encode_event(new_event("1", "/", "t", b"\xff"))],
)
def fuzz_json(data: bytes) -> None:
    _json_again(json_format.decode_event(data, TYPES))


@target("CloudEvents JSON batch", InvalidCloudEvent, seeds=[json_format.encode_batch([EVENT, EVENT]), b"[]"])
def fuzz_json_batch(data: bytes) -> None:
    events = json_format.decode_batch(data, TYPES)
    check(
        json_format.decode_batch(json_format.encode_batch(events), TYPES) == events, "other events came back"
    )


@target("CloudEvents AMQP", InvalidCloudEvent, seeds=[amqp_binding.encode(EVENT, form) for form in FORMS])
def fuzz_amqp(data: bytes) -> None:
    attributes = StoredAttributes(data, 0, len(data))
    found = {name: attributes.get(name) for name in (*CORE_TYPES, "ext", "nothing")}
    fault = fault_of(data, 0, len(data))
    event = amqp_binding.decode(data, 0, len(data))
    check(fault is None, f"a valid event is refused: {fault}")
    check(all(event.get(name) == value for name, value in found.items()), "attributes differ")
    for form in FORMS[:2]:
        again = amqp_binding.encode(event, form)
        check(
            amqp_binding.decode(again, 0, len(again)) == event, "an event is another one after a round trip"
        )


@target(
    "attributes in messages",
    InvalidCloudEvent,
    seeds=[b"\x00\x05" + amqp_binding.encode(EVENT, form) for form in FORMS],
)
def fuzz_find_attributes(data: bytes) -> None:
    split = min(len(data), sum(data[:2]))
    spans = array("q", (0, 0, 0, split, split, split, split, len(data)))
    canary = [-77] * ATTRIBUTE_FIELDS
    for is_strict in (False, True):
        found = array("q", canary * 4)
        others = find_attributes(data, spans, 0, 2, found, is_strict)
        check(0 <= others <= 2, "more messages were judged than there are")
        check(
            list(found[2 * ATTRIBUTE_FIELDS :]) == canary * 2, "fields behind the last message were changed"
        )
        for row in (found[4:15], found[ATTRIBUTE_FIELDS + 4 : ATTRIBUTE_FIELDS + 15]):
            check(all(-1 <= position <= len(data) for position in row), "a position is outside")
    faults = faults_among(data, spans, 0, 2)
    check(len(faults) <= 2, "there are more faults than messages")


@target(
    "CloudEvents HTTP",
    InvalidCloudEvent,
    seeds=[
        HEADERS.encode() + b"\n\n{}",
        b"Content-Type: application/cloudevents+json\n\n" + json_format.encode_event(EVENT),
    ],
)
def fuzz_http(data: bytes) -> None:
    headers, body = _headers(data)
    for event in http_binding.decode(headers, body, TYPES):
        if event.data == b"":  # which an empty body is not
            continue
        written = http_binding.encode_binary(event)
        (again,) = http_binding.decode(written.headers, written.body, TYPES)
        check(again == event, "an event is another one after a round trip")


@target(
    "CloudEvents in other protocols",
    InvalidCloudEvent,
    seeds=[
        HEADERS.encode() + b"\n\n{}",
        HEADERS.replace("ce-", "ce_").encode() + b"\n\n{}",
        HEADERS.replace("ce-", "").encode() + b"\n\n",
    ],
)
def fuzz_other_protocols(data: bytes) -> None:
    headers, body = _headers(data)
    content_type = dict(headers).get("Content-Type")
    refused: InvalidCloudEvent | None = None
    accepted = 0
    decoders: tuple[Callable[[], CloudEvent], ...] = (
        lambda: nats_binding.decode(nats_binding.NatsMessage(dict(headers), body), TYPES),
        lambda: mqtt_binding.decode(mqtt_binding.MqttMessage(body, content_type, tuple(headers)), TYPES),
        lambda: mqtt_binding.decode_3(body, TYPES),
        lambda: kafka_binding.decode(
            kafka_binding.KafkaRecord(
                tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in headers), body
            ),
            TYPES,
        ),
    )
    for decode in decoders:
        try:
            _json_again(decode())
            accepted += 1
        except InvalidCloudEvent as error:
            refused = error
    if not accepted and refused is not None:
        raise refused


@target(
    "texts of attributes",
    InvalidCloudEvent,
    seeds=[b"https://a@b:1/c?d#%41", b"2018-04-05T17:31:00.5Z", b'text/plain; a="b"', b"%E2%82%AC"],
)
def fuzz_texts(data: bytes) -> None:
    for kind in range(6):
        is_allowed(kind, data)
    ms = timestamp_ms(data)
    check(ms is None or timestamp_text(ms) == data.decode(), "a time is another one after a round trip")
    text = from_header("ext", data.decode("utf-8", "surrogateescape"))
    check(from_header("ext", to_header(text)) == text, "a text is another one after it was in a header")


def _headers(data: bytes) -> tuple[list[tuple[str, str]], bytes]:
    head, _, body = data.partition(b"\n\n")
    lines = head.decode("utf-8", "surrogateescape").split("\n")
    return [(name, value.lstrip()) for name, _, value in (line.partition(":") for line in lines)], body
