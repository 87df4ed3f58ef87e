"""The JSON event format 1.0: the document's examples, and data that stay the bytes that they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.cloudevents.event import AttributeType, CloudEvent, Timestamp, new_event
from headwater.cloudevents.json_format import decode_batch, decode_event, encode_batch, encode_event
from headwater.errors import InvalidCloudEvent

ATTRIBUTES: dict[str, Any] = {
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext",
    "id": "A234-1234-1234",
    "time": "2018-04-05T17:31:00Z",
    "comexampleextension1": "value",
    "comexampleothervalue": 5,
}
"""Those of the examples of section 3.2."""
MINIMAL: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def refused(text: bytes | dict[str, Any]) -> tuple[str | None, str]:
    """Why a text is no event."""
    with pytest.raises(InvalidCloudEvent) as caught:
        decode_event(json.dumps(text).encode() if isinstance(text, dict) else text)
    return caught.value.attribute, caught.value.reason


@pytest.mark.parametrize(
    ("members", "content_type", "data"),
    [
        (
            '"datacontenttype": "application/vnd.apache.thrift.binary", "data_base64": "AAH/"',
            ...,
            b"\x00\x01\xff",
        ),
        ('"datacontenttype": "application/xml", "data": "<much wow=\\"xml\\"/>"', ..., b'<much wow="xml"/>'),
        (
            '"subject": null, "datacontenttype": "application/json", "data": {\n "appinfoA" : "abc" , "b":1.50}',
            ...,
            b'{\n "appinfoA" : "abc" , "b":1.50}',
        ),
        ('"datacontenttype": "application/json", "data": 1.5', ..., b"1.5"),
        ('"data": "I\'m just a string"', "application/json", b'"I\'m just a string"'),
        ('"data_base64": "eyAieHl6IjogMTIzIH0="', None, b'{ "xyz": 123 }'),
        ('"data": null', "application/json", b"null"),
        ('"datacontenttype": "application/ld+json; a=b", "data": null', ..., b"null"),
        ('"datacontenttype": "text/plain", "data": null', ..., None),
        ('"datacontenttype": null, "data_base64": null', None, None),
        ('"datacontenttype": "text/plain; charset=ISO-8859-1", "data": "\\u00e9"', ..., b"\xe9"),
        ('"datacontenttype": "application/json", "data": "é\\n"', ..., '"é\\n"'.encode()),
    ],
)
def test_data_are_the_bytes_that_the_members_stand_for(
    members: str, content_type: object, data: bytes | None
) -> None:
    text = json.dumps(ATTRIBUTES)[:-1] + ", " + members + "}"
    event = decode_event(text.encode())
    assert event.data == data
    if content_type is not ...:
        assert event.datacontenttype == content_type
    assert {name: event.get(name) for name in ATTRIBUTES} == ATTRIBUTES
    assert type(event.get("time")) is Timestamp
    assert "subject" not in event.attributes
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize(
    ("content_type", "data", "member"),
    [
        ("application/json", b'{"a": 1.0}', {"data": {"a": 1.0}}),
        ("text/json", b"[ ]", {"data": []}),
        ("application/cloudevent+JSON; x=y", b"5", {"data": 5}),
        ("application/json", b' {"a":1}', {"data_base64": "IHsiYSI6MX0="}),
        ("application/json", b"no json", {"data_base64": "bm8ganNvbg=="}),
        ("application/json", b'"\xff"', {"data_base64": "Iv8i"}),
        ("application/json", b"1 2", {"data_base64": "MSAy"}),
        ("text/plain", b"a\x00\n\xc3\xa9", {"data": "a\x00\né"}),
        ("text/plain", b"\xff", {"data_base64": "/w=="}),
        ("text/plain; charset=iso-8859-1", b"a", {"data_base64": "YQ=="}),
        ("application/soap+xml; charset=UTF-8", b"<a/>", {"data": "<a/>"}),
        ("application/octet-stream", b"text", {"data_base64": "dGV4dA=="}),
        (None, b"{}", {"data_base64": "e30="}),
        (None, b"", {"data_base64": ""}),
        ("application/json", None, {}),
    ],
)
def test_data_are_written_so_that_they_are_read_as_the_same_bytes(
    content_type: str | None, data: bytes | None, member: dict[str, Any]
) -> None:
    event = new_event("1", "/s", "t", data, datacontenttype=content_type)
    text = encode_event(event)
    members = {
        name: value
        for name, value in json.loads(text).items()
        if name.startswith("data") and name != "datacontenttype"
    }
    assert members == member
    assert decode_event(text) == event


def test_json_that_is_nested_deep_is_no_member() -> None:
    event = new_event("1", "/s", "t", b"[" * 100_000 + b"]" * 100_000, datacontenttype="application/json")
    assert "data_base64" in json.loads(encode_event(event))
    assert decode_event(encode_event(event)) == event


def test_attributes_have_the_json_types_of_their_own() -> None:
    event = new_event("1", "/s", "t", yes=True, n=-5, raw=b"Ma", when=Timestamp("2018-04-05T17:31:00Z"))
    assert json.loads(encode_event(event)) == {
        **MINIMAL,
        "yes": True,
        "n": -5,
        "raw": "TWE=",
        "when": "2018-04-05T17:31:00Z",
    }
    types = {"raw": AttributeType.BINARY, "when": AttributeType.TIMESTAMP}
    again = decode_event(encode_event(event), types)
    assert again == event
    assert type(again.get("when")) is Timestamp
    assert decode_event(encode_event(event)).get("raw") == "TWE="


@pytest.mark.parametrize("name", MINIMAL)
def test_what_lacks_a_required_attribute_is_refused(name: str) -> None:
    assert refused({key: value for key, value in MINIMAL.items() if key != name}) == (name, "is missing")
    assert refused({**MINIMAL, name: None}) == (name, "is missing")


@pytest.mark.parametrize(
    ("members", "attribute"),
    [
        ({"time": "2018-04-05T18:31:00X"}, "time"),
        ({"datacontenttype": "xyz"}, "datacontenttype"),
        ({"dataschema": ""}, "dataschema"),
        ({"subject": ""}, "subject"),
        ({"id": 25}, "id"),
        ({"id": {"xyz": "abc"}}, "id"),
        ({"MyExtension": "bad"}, "MyExtension"),
        ({"my.extension": "bad"}, "my.extension"),
        ({"ext": 1.5}, "ext"),
        ({"ext": 1e3}, "ext"),
        ({"ext": [1]}, "ext"),
        ({"ext": 2**31}, "ext"),
        ({"ext": 10**30}, "ext"),
        ({"data": "text", "data_base64": "eyAieHl6IjogMTIzIH0="}, "data"),
        ({"data_base64": "no base64"}, "data"),
        ({"data_base64": "TWE"}, "data"),
        ({"data_base64": 5}, "data"),
        ({"datacontenttype": "text/plain", "data": {"a": 1}}, "data"),
        ({"datacontenttype": "text/plain; charset=ebcdic", "data": "a"}, "data"),
        ({"datacontenttype": "text/plain; charset=us-ascii", "data": "é"}, "data"),
        ({"datacontenttype": 5, "data": "a"}, "datacontenttype"),
    ],
)
def test_what_is_no_event_is_refused_with_the_attribute(members: dict[str, Any], attribute: str) -> None:
    assert refused({**MINIMAL, **members})[0] == attribute


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"5",
        b"{",
        b'{"specversion":"1.0"} ,',
        b"\xef\xbb\xbf{}",
        b'{"specversion":"1.0","id":"\xff","source":"/s","type":"t"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"\xff"}',
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":' + b"[" * 100_000,
        b'{"id":"\\ud800"}',
    ],
)
def test_what_is_no_json_object_is_refused_as_a_whole(text: bytes) -> None:
    assert refused(text)[0] is None


def test_a_member_that_is_there_twice_counts_as_it_is_last() -> None:
    text = b'{"id":"0",' + json.dumps(MINIMAL).encode()[1:]
    assert decode_event(text).id == "1"


def test_a_batch_is_an_array_of_events() -> None:
    events = [new_event(str(n), "/s", "t", b'{"n": 1}', datacontenttype="application/json") for n in range(3)]
    assert decode_batch(encode_batch(events)) == events
    assert decode_batch(b" [ ] ") == []
    assert encode_batch([]) == b"[]"


@pytest.mark.parametrize("text", [b"{}", b"[1]", b"[[]]", b"", b"[{}", b'["a"]'])
def test_what_is_no_array_of_objects_is_no_batch(text: bytes) -> None:
    with pytest.raises(InvalidCloudEvent, match="is no JSON array of objects"):
        decode_batch(text)


def test_an_event_of_a_batch_that_is_none_is_named_by_its_number() -> None:
    text = json.dumps([MINIMAL, {**MINIMAL, "id": ""}]).encode()
    with pytest.raises(InvalidCloudEvent, match="its id is empty \\(event 2 of the batch\\)") as caught:
        decode_batch(text)
    assert caught.value.attribute == "id"


def test_types_of_extensions_hold_for_each_event_of_a_batch() -> None:
    events: list[CloudEvent] = [new_event("1", "/s", "t", raw=b"Ma"), new_event("2", "/s", "t", raw=b"")]
    assert decode_batch(encode_batch(events), {"raw": AttributeType.BINARY}) == events
