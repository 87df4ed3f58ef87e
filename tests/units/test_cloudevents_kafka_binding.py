"""CloudEvents Kafka binding 1.0: headers in UTF-8, no value for no data, and a key that says nothing of the event."""

from __future__ import annotations

import pytest

from headwater.cloudevents.event import AttributeType, new_event
from headwater.cloudevents.json_format import encode_event
from headwater.cloudevents.kafka_binding import (
    KafkaRecord,
    decode,
    encode_binary,
    encode_structured,
    partition_key,
)
from headwater.errors import InvalidCloudEvent

EVENT = new_event(
    "1234-1234-1234",
    "/mycontext/subcontext",
    "com.example.someevent",
    b"\x00avro",
    time="2018-04-05T03:56:24Z",
    datacontenttype="application/avro",
)
HEADERS = (
    ("ce_specversion", b"1.0"),
    ("ce_type", b"com.example.someevent"),
    ("ce_source", b"/mycontext/subcontext"),
    ("ce_id", b"1234-1234-1234"),
    ("ce_time", b"2018-04-05T03:56:24Z"),
    ("content-type", b"application/avro"),
)


def test_the_example_of_binary_mode_is_read_and_written() -> None:
    assert decode(KafkaRecord((*HEADERS, ("other", None)), b"\x00avro", b"mykey")) == EVENT
    written = encode_binary(EVENT, b"mykey")
    assert set(written.headers) == set(HEADERS)
    assert (written.value, written.key) == (b"\x00avro", b"mykey")


def test_structured_mode_is_read_and_written() -> None:
    written = encode_structured(EVENT)
    content_type = ("content-type", b"application/cloudevents+json; charset=utf-8")
    assert written == KafkaRecord((content_type,), encode_event(EVENT))
    assert decode(written) == EVENT
    assert (
        decode(KafkaRecord((("content-type", b"Application/CloudEvents+json"), *HEADERS[:2]), written.value))
        == EVENT
    )


@pytest.mark.parametrize("data", [None, b""])
def test_no_data_are_no_value_and_empty_data_are_an_empty_one(data: bytes | None) -> None:
    event = new_event("1", "/s", "t", data)
    assert encode_binary(event).value == data
    assert decode(encode_binary(event)) == event
    assert encode_structured(event).value is not None


def test_the_key_mapper_takes_partitionkey_and_leaves_it_in_the_event() -> None:
    event = new_event("1", "/s", "t", partitionkey="ké")
    record = encode_binary(event, partition_key(event))
    assert record.key == "ké".encode()
    assert decode(record) == event
    assert partition_key(EVENT) is None
    assert decode(encode_binary(EVENT, b"other")) == EVENT


def test_header_values_are_utf_8_without_escapes() -> None:
    event = new_event("1", "/s", "t", ext='a "b" %41 €')
    assert ("ce_ext", 'a "b" %41 €'.encode()) in encode_binary(event).headers
    assert decode(encode_binary(event)) == event


def test_types_of_extensions_are_given_to_who_reads_text() -> None:
    event = new_event("1", "/s", "t", n=-5)
    assert decode(encode_binary(event), {"n": AttributeType.INTEGER}) == event
    assert decode(encode_binary(event)).get("n") == "-5"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (HEADERS[1:], "specversion is missing"),
        ((*HEADERS, ("ce_id", b"2")), "id is there twice"),
        ((*HEADERS, ("content-type", b"text/plain")), "datacontenttype is there twice"),
        ((*HEADERS, ("ce_ext", b"\xff")), "ext is no UTF-8"),
        ((*HEADERS, ("ce_ext", None)), "ext is a header without a value"),
        ((*HEADERS, ("ce_Ext", b"x")), "Ext has a name"),
        ((("content-type", b"application/cloudevents+avro"), *HEADERS[:5]), "not read here"),
        ((("content-type", b"application/cloudevents+json"), *HEADERS[:5]), "no JSON object"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(
    headers: tuple[tuple[str, bytes | None], ...], reason: str
) -> None:
    with pytest.raises(InvalidCloudEvent, match=reason):
        decode(KafkaRecord(headers, None))


def test_a_stray_datacontenttype_is_ignored() -> None:
    assert decode(KafkaRecord((*HEADERS, ("ce_datacontenttype", b"text/plain")), b"\x00avro")) == EVENT
