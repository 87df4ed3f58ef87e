"""Events in JSON become the messages that the AMQP binding makes of them, by both forms of the kernel alike."""

from __future__ import annotations

import json
import re
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from headwater.cloudevents import amqp_binding, json_format
from headwater.encoding import _cloudevents_json_kernel as compiled
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.errors import InvalidCloudEvent
from headwater.server.http.events.incoming import Incoming, incoming_events
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
same = same_in(FORMS)
BATCH = CIMultiDict({"content-type": "application/cloudevents-batch+json"})
ROOM = 100_000

TEXTS = st.text(max_size=300) | st.sampled_from(
    [
        *("", "1", "1.0", "/a", "a b", "http://a/b?c#d", "%zz", "2026-01-31T12:00:00Z"),
        *("2026-01-31T12:00:00.120Z", "2026-01-31T12:00:00.12+01:00", "text/plain", "application/json"),
        "application/x+json; a=b",
    ]
)
VALUES = TEXTS | st.none() | st.booleans() | st.integers(-(2**33), 2**33) | st.floats(allow_nan=False)
NAMES = st.sampled_from(
    [
        *("id", "source", "type", "specversion", "subject", "time", "dataschema", "datacontenttype", "data"),
        *("data_base64", "partitionkey", "x", "x1", "Bad", "not_good", "ä"),
    ]
)
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
EVENTS = st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=2), max_size=6).map(
    lambda others: {**GOOD, **others}
)


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


def written(form: Any, text: bytes, count: int, key: bytes = b"partitionkey", room: int = ROOM) -> Any:
    """What a kernel makes of a batch, up to the first event that it leaves."""
    out = bytearray(room)
    spans, keys = array("q", bytes(32 * count)), array("q", bytes(16 * count))
    done, position, end = form.write_events(text, 1, count, key, out, 0, spans, keys, 0)
    return done, position, bytes(out[:end]), spans[: SPAN_FIELDS * done], keys[: 2 * done]


def messages_of(incoming: Incoming) -> list[tuple[bytes, bytes]]:
    """Messages with their keys."""
    spans, keys, buffer = incoming.spans, incoming.keys, bytes(incoming.buffer)
    return [
        (
            buffer[spans[SPAN_FIELDS * number + 2] : spans[SPAN_FIELDS * number + 3]],
            buffer[keys[2 * number] : keys[2 * number + 1]] if keys[2 * number] >= 0 else b"",
        )
        for number in range(incoming.count)
    ]


def expected(text: bytes) -> list[tuple[bytes, bytes]]:
    """The same without the kernel."""
    return [
        (amqp_binding.encode(each), str(each.get("partitionkey") or "").encode())
        for each in json_format.decode_batch(text)
    ]


@given(st.lists(EVENTS, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_batches_become_what_the_binding_makes_of_them(
    events: list[dict[str, Any]], is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(events, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    same(lambda form: written(form, text, len(events)))
    try:
        wanted = expected(text)
    except InvalidCloudEvent as error:
        with pytest.raises(InvalidCloudEvent, match=re.escape(str(error))):
            incoming_events(BATCH, text, "partitionkey")
        return
    found = messages_of(incoming_events(BATCH, text, "partitionkey"))
    assert [message for message, _ in found] == [message for message, _ in wanted]


@given(st.binary(max_size=200), st.integers(0, 5))
def test_any_bytes_are_left_or_taken_within_the_room(noise: bytes, count: int) -> None:
    text = b"[" + noise
    same(lambda form: written(form, text, count, room=1000))


@given(st.integers(0, 2000))
def test_without_room_an_event_is_left(room: int) -> None:
    text = json.dumps([{**GOOD, "data": "x" * 300}] * 3).encode()
    (_, (done, position, out, spans, _)) = same(lambda form: written(form, text, 3, room=room))
    assert done == len(spans) // SPAN_FIELDS
    assert len(out) <= room
    assert text[position:].startswith(b"]" if done == 3 else b"{")


def test_what_is_common_is_taken_by_the_kernel() -> None:
    one = {
        **GOOD,
        "subject": "ä",
        "time": "2026-01-31T12:00:00Z",
        "datacontenttype": "application/json; charset=utf-8",
        "partitionkey": "k",
        "count": -70_000,
        "small": 7,
        "on": True,
        "dataschema": None,
        "data": {"text": 'a "quoted" one', "list": [1, 2.5e3, None]},
    }
    text = json.dumps([one] * 50, ensure_ascii=False).encode()
    assert written(FORMS[0], text, 50)[0] == 50
    assert messages_of(incoming_events(BATCH, text, "partitionkey")) == [
        (message, b"k") for message, _ in expected(text)
    ]


@pytest.mark.parametrize("type_", ["application/cloudevents+json", "Application/CloudEvents+avro"])
def test_an_event_whose_data_are_an_event_is_left_for_it_is_structured(type_: str) -> None:
    text = json.dumps([{**GOOD, "datacontenttype": type_}]).encode()
    assert [written(form, text, 1)[0] for form in FORMS] == [0, 0]
    assert messages_of(incoming_events(BATCH, text, "partitionkey")) == expected(text)


def test_keys_are_the_values_of_the_attribute_that_is_named() -> None:
    events = [
        {**GOOD, "subject": "a"},
        GOOD,
        {**GOOD, "subject": 'b"'},
        {**GOOD, "time": "2026-01-31T12:00:00Z"},
    ]
    text = json.dumps(events).encode()
    assert [key for _, key in messages_of(incoming_events(BATCH, text, "subject"))] == [b"a", b"", b'b"', b""]
    assert [key for _, key in messages_of(incoming_events(BATCH, text, "time"))][3] == b"2026-01-31T12:00:00Z"


def test_positions_outside_of_the_buffers_are_refused() -> None:
    for position, out_position, count in (
        (-1, 0, 1),
        (99, 0, 1),
        (0, -1, 1),
        (0, 99, 1),
        (0, 0, 2),
        (0, 0, -1),
    ):
        spans, keys = array("q", bytes(32)), array("q", bytes(16))
        for form in FORMS:
            with pytest.raises(ValueError, match=r"no positions|are not there"):
                form.write_events(b"[]", position, count, b"k", bytearray(10), out_position, spans, keys, 0)
