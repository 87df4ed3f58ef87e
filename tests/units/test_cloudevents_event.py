"""An event is valid or is not made, and its attributes stay what they were sent as."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from headwater.cloudevents.event import (
    AttributeType,
    CloudEvent,
    Timestamp,
    Uri,
    UriReference,
    canonical_text,
    event_of_texts,
    new_event,
    typed_value,
)
from headwater.encoding._cloudevents_kernel import ATTRIBUTES_MAX
from headwater.errors import InvalidCloudEvent

REQUIRED: dict[str, Any] = {"specversion": "1.0", "id": "A234", "source": "/mycontext", "type": "com.example"}


def refused(**attributes: Any) -> tuple[str | None, str]:
    """Why an event with these attributes is none."""
    with pytest.raises(InvalidCloudEvent) as caught:
        CloudEvent({**REQUIRED, **attributes})
    return caught.value.attribute, caught.value.reason


def test_an_event_gives_its_attributes_by_name() -> None:
    event = new_event("1", "/s", "t", b"data", subject="x", datacontenttype="text/plain", n=5)
    assert (event.id, event.source, event.type, event.data) == ("1", "/s", "t", b"data")
    assert event.datacontenttype == "text/plain"
    assert [event.get(name) for name in ("specversion", "subject", "n", "time")] == ["1.0", "x", 5, None]


def test_attributes_have_the_classes_of_their_types() -> None:
    event = new_event("1", "/s", "t", dataschema="http://example.com/a", time="2018-04-05T17:31:00Z")
    types = {name: type(value) for name, value in event.attributes.items()}
    assert types == {
        "specversion": str,
        "id": str,
        "source": UriReference,
        "type": str,
        "dataschema": Uri,
        "time": Timestamp,
    }


def test_two_events_that_say_the_same_are_equal_in_whatever_order() -> None:
    reverse = dict(reversed(REQUIRED.items()))
    assert CloudEvent(REQUIRED) == CloudEvent(reverse)
    assert CloudEvent(REQUIRED, b"") != CloudEvent(REQUIRED)


def test_what_was_given_is_not_changed_by_making_an_event_of_it() -> None:
    given = {**REQUIRED, "subject": None, "time": datetime(2018, 4, 5, tzinfo=UTC)}
    before = dict(given)
    CloudEvent(given)
    assert given == before


def test_an_attribute_that_is_none_is_not_there() -> None:
    assert "subject" not in CloudEvent({**REQUIRED, "subject": None}).attributes  # type: ignore[dict-item]


@pytest.mark.parametrize("name", REQUIRED)
def test_an_event_without_a_required_attribute_is_refused(name: str) -> None:
    assert refused(**{name: None}) == (name, "is missing")


@pytest.mark.parametrize("name", [*REQUIRED, "subject", "dataschema", "datacontenttype", "time"])
def test_a_core_attribute_that_is_empty_is_refused(name: str) -> None:
    assert refused(**{name: ""}) == (name, "is empty")


@pytest.mark.parametrize("name", [*REQUIRED, "subject", "dataschema", "datacontenttype", "time"])
@pytest.mark.parametrize("value", [25, True, b"bytes", 1.5, {"a": 1}])
def test_a_core_attribute_of_another_type_is_refused(name: str, value: object) -> None:
    assert refused(**{name: value})[0] == name


@pytest.mark.parametrize("version", ["0.3", "0.9", "1.1", "1", "1.0 "])
def test_another_version_is_refused(version: str) -> None:
    assert refused(specversion=version) == ("specversion", "is not 1.0")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("source", "a b", "is no URI-reference"),
        ("dataschema", "/relative", "is no URI with a scheme"),
        ("time", "lunchtime", "is no time as RFC 3339 writes it"),
        ("time", "2018-04-05T18:31Z", "is no time as RFC 3339 writes it"),
        ("time", "2018-04-05T18:31:00+25:00", "is no time as RFC 3339 writes it"),
        ("datacontenttype", "xyz", "is no media type"),
        ("id", "a\nb", "holds characters that CloudEvents do not allow"),
        ("subject", "\ud800", "holds characters that CloudEvents do not allow"),
        ("ext", "\ufffe", "holds characters that CloudEvents do not allow"),
        ("ext", Uri("nowhere"), "is no URI with a scheme"),
        ("ext", UriReference("a b"), "is no URI-reference"),
        ("ext", Timestamp("now"), "is no time as RFC 3339 writes it"),
        ("ext", 2**31, "is an Integer of more than 32 bits"),
        ("ext", -(2**31) - 1, "is an Integer of more than 32 bits"),
        ("ext", 1.5, "is a float, which is no type of an attribute"),
        ("ext", [1], "is a list, which is no type of an attribute"),
    ],
)
def test_a_value_that_its_type_does_not_have_is_refused_with_the_reason(
    name: str, value: object, reason: str
) -> None:
    assert refused(**{name: value}) == (name, reason)


@pytest.mark.parametrize("name", ["Ext", "my-ext", "my_ext", "my.extension", "é", "data", "", "\ud800"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    attribute, reason = refused(**{name: "x"})
    assert attribute == name
    assert "name" in reason


def test_a_long_name_that_is_wrong_is_not_repeated_in_full() -> None:
    attribute, _ = refused(**{"X" * 10_000: "x"})
    assert attribute is not None
    assert len(attribute) == 100


def test_the_number_of_attributes_has_a_bound() -> None:
    most = {f"x{number}": "" for number in range(ATTRIBUTES_MAX - len(REQUIRED))}
    assert len(CloudEvent({**REQUIRED, **most}).attributes) == ATTRIBUTES_MAX
    assert refused(**most, onemore="") == (None, f"has more than {ATTRIBUTES_MAX} attributes")


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2018, 4, 5, 17, 31, tzinfo=UTC), "2018-04-05T17:31:00Z"),
        (datetime(2018, 4, 5, 17, 31, 0, 120, tzinfo=UTC), "2018-04-05T17:31:00.000120Z"),
        (datetime(2018, 4, 5, 17, 31, tzinfo=timezone(timedelta(hours=-3))), "2018-04-05T17:31:00-03:00"),
    ],
)
def test_a_datetime_becomes_a_timestamp(moment: datetime, text: str) -> None:
    event = new_event("1", "/s", "t", time=moment, ext=moment)
    assert (event.get("time"), event.get("ext")) == (text, text)
    assert type(event.get("ext")) is Timestamp


def test_a_datetime_without_an_offset_is_refused() -> None:
    naive = datetime(2018, 4, 5)  # noqa: DTZ001 - that is the point
    assert refused(time=naive) == ("time", "is a time without an offset from UTC")


def test_an_event_can_be_made_from_another() -> None:
    event = new_event("1", "/s", "t")
    assert msgspec.structs.replace(event, data=b"x") == new_event("1", "/s", "t", b"x")


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (True, AttributeType.BOOLEAN, "true"),
        (False, AttributeType.BOOLEAN, "false"),
        (-(2**31), AttributeType.INTEGER, "-2147483648"),
        (0, AttributeType.INTEGER, "0"),
        ("x", AttributeType.STRING, "x"),
        (b"\x00\xff?", AttributeType.BINARY, "AP8/"),
        (b"", AttributeType.BINARY, ""),
        (Uri("urn:x"), AttributeType.URI, "urn:x"),
        (UriReference("#x"), AttributeType.URI_REFERENCE, "#x"),
        (Timestamp("2018-04-05T17:31:00.10Z"), AttributeType.TIMESTAMP, "2018-04-05T17:31:00.10Z"),
    ],
)
def test_a_value_and_its_canonical_text_stand_for_each_other(
    value: Any, type_: AttributeType, text: str
) -> None:
    assert canonical_text(value) == text
    again = typed_value("ext", text, {"ext": type_})
    assert (again, type(again)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (AttributeType.BOOLEAN, "True"),
        (AttributeType.BOOLEAN, "1"),
        (AttributeType.INTEGER, "1.0"),
        (AttributeType.INTEGER, "+1"),
        (AttributeType.INTEGER, "01"),
        (AttributeType.INTEGER, "1" * 5_000),
        (AttributeType.BINARY, "AP8"),
        (AttributeType.BINARY, "AP 8/"),
        (AttributeType.BINARY, "é"),
    ],
)
def test_a_text_that_is_not_canonical_is_refused_by_the_type(type_: AttributeType, text: str) -> None:
    with pytest.raises(InvalidCloudEvent, match=f"ext is no {type_.value}"):
        typed_value("ext", text, {"ext": type_})


def test_what_an_extension_is_does_not_change_what_cloudevents_defines() -> None:
    texts = [*REQUIRED.items(), ("ext", "5")]
    types = {"id": AttributeType.INTEGER, "ext": AttributeType.INTEGER}
    assert event_of_texts(texts, None, types) == CloudEvent({**REQUIRED, "ext": 5})
    assert event_of_texts(texts, None) == CloudEvent({**REQUIRED, "ext": "5"})


def test_an_attribute_that_comes_twice_is_refused() -> None:
    with pytest.raises(InvalidCloudEvent, match="id is there twice"):
        event_of_texts([*REQUIRED.items(), ("id", "A234")], None)
