"""CloudEvents of all shapes, for properties: attributes of every type, and data that JSON has a form for or not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headwater.cloudevents.event import (
    CORE_TYPES,
    AttributeType,
    CloudEvent,
    Timestamp,
    Uri,
    UriReference,
)

__all__ = ["DATA", "EXTENSION_VALUES", "NAMES", "TIMES", "core_attributes", "events", "types_of"]

CLASSES = {
    bool: AttributeType.BOOLEAN,
    int: AttributeType.INTEGER,
    bytes: AttributeType.BINARY,
    Uri: AttributeType.URI,
    UriReference: AttributeType.URI_REFERENCE,
    Timestamp: AttributeType.TIMESTAMP,
}


def is_character(character: str) -> bool:
    """Whether the specification lets a character stand in a String."""
    point = ord(character)
    return not (
        point < 0x20
        or 0x7F <= point < 0xA0
        or 0xD800 <= point < 0xE000
        or 0xFDD0 <= point <= 0xFDEF
        or point & 0xFFFE == 0xFFFE
    )


CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"]).filter(is_character)
STRINGS = st.one_of(
    st.text(CHARACTERS, min_size=1, max_size=20),
    st.sampled_from(
        [' "%41" ', "100 %", "Euro € 😀", "\u00a0", "ce-x: y", "%C0%A0", "true", "5", "long " * 60]
    ),
)
URIS = st.sampled_from(
    ["https://example.com/a/b?c=d&e#f", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "mailto:a@b.example"]
)
REFERENCES = st.one_of(
    URIS,
    st.sampled_from(["/a/b", "#fragment", "1-555-123-4567", "//host:80/x", "a/b:c?d", "%41/%c3%a9", "."]),
)
TIMES = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds") + "Z"),
    st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds") + "Z"),
    st.sampled_from(
        [
            "2018-04-05T17:31:00.123456789+02:00",
            "1969-12-31T23:59:59.001Z",
            "1990-12-31T23:59:60Z",
            "0000-02-29t00:00:00.5z",
            "9999-12-31T23:59:59.999Z",
            "2018-04-05T17:31:00.000Z",
            "2018-04-05T17:31:00-00:00",
        ]
    ),
)
MEDIA_TYPES = st.sampled_from(
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/vnd.example+json;v=1",
        "text/xml",
        "text/plain; charset=iso-8859-1",
        'text/plain;charset="UTF-8"',
        "application/octet-stream",
        "image/svg+xml",
        "application/cloudevents+json",
        "application/CloudEvents-batch+avro",
    ]
)
NAMES = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: name not in CORE_TYPES and name != "data"
)
EXTENSION_VALUES = st.one_of(
    STRINGS,
    st.just(""),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=300),
    URIS.map(Uri),
    REFERENCES.map(UriReference),
    TIMES.map(Timestamp),
)
DATA = st.one_of(
    st.none(),
    st.binary(min_size=1, max_size=40),
    st.text(min_size=1, max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(
        [
            b'{"a": {"b":1.50 , "c":"\\u00e9\\n"}}',
            b" [1, 2]\n",
            b'"I\'m just a string"',
            b"null",
            b"1e999",
            b"01",
            b'{"a":1}{"b":2}',
            b'"\xff"',
            b"[" * 100 + b"]" * 100,
            b'<much wow="xml"/>\r\n',
            b"\xef\xbb\xbf{}",
            bytes(1_000),
        ]
    ),
)


@st.composite
def core_attributes(draw: st.DrawFn) -> dict[str, Any]:
    """Attributes that CloudEvents defines, in any order, those that are required among them."""
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": draw(STRINGS),
        "source": UriReference(draw(REFERENCES)),
        "type": draw(STRINGS),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        "subject": STRINGS,
        "time": TIMES.map(Timestamp),
        "dataschema": URIS.map(Uri),
        "datacontenttype": MEDIA_TYPES,
    }
    for name in draw(st.sets(st.sampled_from(list(optional)))):
        attributes[name] = draw(optional[name])
    return dict(draw(st.permutations(list(attributes.items()))))


@st.composite
def events(draw: st.DrawFn) -> CloudEvent:
    """Any event."""
    extensions = draw(st.dictionaries(NAMES, EXTENSION_VALUES, max_size=5))
    return CloudEvent({**draw(core_attributes()), **extensions}, draw(DATA))


def types_of(event: CloudEvent) -> dict[str, AttributeType]:
    """The types of an event's extensions, for who reads them as text."""
    return {
        name: CLASSES[type(value)]
        for name, value in event.attributes.items()
        if name not in CORE_TYPES and type(value) in CLASSES
    }
