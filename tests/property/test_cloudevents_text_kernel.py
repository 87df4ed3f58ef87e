"""Texts of attributes are told apart as their specifications say, by both forms of the kernel, whatever bytes come."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.encoding import _cloudevents_text_kernel as compiled
from tests.cloudevents_material import is_character
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
EACH = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
same = same_in(FORMS)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# RFC 3986, appendix A, put together.
PCHAR = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
NO_COLON = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})"
REG_NAME = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
AUTHORITY = rf"//(?:(?:{REG_NAME}|:)*@)?(?:\[{PCHAR}+\]|{REG_NAME}*)(?::[0-9]*)?(?:/{PCHAR}*)*"
TAIL = rf"(?:\?(?:{PCHAR}|[/?])*)?(?:\#(?:{PCHAR}|[/?])*)?"
ROOTED = rf"/(?:{PCHAR}+(?:/{PCHAR}*)*)?"
URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:{AUTHORITY}|{ROOTED}|{PCHAR}+(?:/{PCHAR}*)*|){TAIL}")
RELATIVE = re.compile(rf"(?:{AUTHORITY}|{ROOTED}|{NO_COLON}+(?:/{PCHAR}*)*|){TAIL}")
TOKEN = r"[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]+"
PARAMETER = rf' *; *(?:{TOKEN}=(?:{TOKEN}|"(?:[^"\\\x00-\x1f\x7f]|\\[ -~])*"))?'
MEDIA_TYPE = re.compile(rf"{TOKEN}/{TOKEN}(?:{PARAMETER})* *")
TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)


def is_time(text: str) -> bool:
    found = TIME.fullmatch(text)
    if found is None:
        return False
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        # Year 0 is a leap year like 400.
        datetime(year or 400, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return False
    return second <= 60


def allowed(kind: int, text: bytes) -> bool:
    """What both forms say."""
    outcome = same(lambda form: form.is_allowed(kind, text))
    assert outcome[0] == "result"
    return bool(outcome[1])


def test_both_forms_are_there() -> None:
    assert FORMS[0].COMPILED, "the kernel was not compiled: run `make ready`"
    assert not FORMS[1].COMPILED


@given(
    st.one_of(
        st.text(max_size=8),
        st.text(st.sampled_from("a\x00\x1f \x7f\x80\x9f\xa0\ufdd0\ufdef\ufffe\U0001ffff€😀")),
    )
)
def test_a_string_has_no_control_characters_and_no_noncharacters(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert allowed(compiled.STRING, data) == all(map(is_character, text))


@given(
    st.one_of(
        st.binary(max_size=6),
        st.lists(
            st.sampled_from([0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0x80, 0x8F, 0x90, 0xA0, 0xBF, 0x41])
        ).map(bytes),
    )
)
@example(b"\xc0\xa0")
@example(b"\xed\xa0\x80")
@example(b"\xf4\x90\x80\x80")
def test_a_string_is_utf_8(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert not allowed(compiled.STRING, data)
    else:
        assert allowed(compiled.STRING, data) == all(map(is_character, text))


PARTS = st.lists(
    st.sampled_from(
        [
            "a",
            "1",
            ":",
            "/",
            "//",
            "?",
            "#",
            "@",
            "[",
            "]",
            "%",
            "%4a",
            "%zz",
            "+",
            ".",
            "é",
            " ",
            "^",
            "http:",
        ]
    ),
    max_size=7,
).map("".join)


@given(st.one_of(PARTS, st.text(max_size=4)))
@example("http://a@b:80/c?d#e")
@example("http://a@b@c")
@example("//[::1]:80")
@example("//[::1]80")
@example("1:2")
@example("a/b:c")
@example("%4")
def test_uris_and_references_are_those_of_rfc_3986(text: str) -> None:
    data = text.encode("utf-8", "replace")
    is_uri = URI.fullmatch(text) is not None
    assert allowed(compiled.URI, data) == is_uri
    assert allowed(compiled.URI_REFERENCE, data) == (is_uri or RELATIVE.fullmatch(text) is not None)


@given(st.one_of(st.from_regex(TIME), st.text("0123456789-+:.TtZz", max_size=28)))
@example("2018-04-05T17:31:00")
@example("2018-04-05T17:31:00.")
@example("2018-04-05T17:31:00.Z")
@example("2018-02-29T00:00:00Z")
@example("2000-02-29T00:00:00Z")
@example("1900-02-29T00:00:00Z")
@example("2018-04-05T17:31:00+25:00")
@example("2018-04-05 17:31:00Z")
@example("2018-04-05T17:31:61Z")
@example("1990-12-31T23:59:60Z")
def test_times_are_those_of_rfc_3339(text: str) -> None:
    assert allowed(compiled.TIMESTAMP, text.encode("utf-8", "replace")) == is_time(text)


@given(
    st.lists(
        st.sampled_from(["a", "b-c", "/", ";", "=", " ", '"', '"x"', "\\", '\\"', "é", "\t", "@", "text/x"]),
        max_size=8,
    ).map("".join)
)
@example('text/plain; charset="a\\"b" ; x=y;')
@example("xyz")
@example("")
@example('a/b;c="')
@example('a/b;c="\\')
def test_media_types_are_those_of_rfc_2046(text: str) -> None:
    expected = MEDIA_TYPE.fullmatch(text) is not None and text.isascii()
    assert allowed(compiled.MEDIA_TYPE, text.encode()) == expected


@given(st.one_of(st.text("abz09_AZ-é", max_size=5), st.sampled_from(["data", "data1", "dat", "dataa"])))
def test_names_are_small_letters_and_digits_and_not_data(text: str) -> None:
    assert allowed(compiled.NAME, text.encode()) == (
        re.fullmatch("[a-z0-9]+", text) is not None and text != "data"
    )


@given(
    st.sampled_from(["application/cloudevents", "APPLICATION/CloudEvents+json", "application/json", ""]),
    st.text(max_size=2),
)
def test_media_types_of_cloudevents_are_known_in_letters_of_any_case(start: str, rest: str) -> None:
    data = (start + rest).encode("utf-8", "replace")
    found = same(lambda form: bool(form.names_cloudevents(data, 0, len(data))))[1]
    assert found == (start + rest).lower().startswith("application/cloudevents")


@given(st.integers(0, 5), st.binary(max_size=40))
def test_both_forms_say_the_same_of_any_bytes(kind: int, data: bytes) -> None:
    allowed(kind, data)


@EACH
@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_times_in_milliseconds_become_text_and_come_back(form: Any, moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ms = (moment - EPOCH) // timedelta(milliseconds=1)
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    assert form.timestamp_text(ms) == text.replace("+00:00", "Z")
    assert form.timestamp_ms(form.timestamp_text(ms).encode()) == ms


@EACH
@pytest.mark.parametrize(
    "text", ["0000-01-01T00:00:00Z", "0000-03-01T00:00:00.001Z", "9999-12-31T23:59:59.999Z"]
)
def test_the_years_of_rfc_3339_are_the_bounds_of_times(form: Any, text: str) -> None:
    ms = form.timestamp_ms(text.encode())
    assert form.timestamp_text(ms) == text
    assert form.timestamp_text(form.timestamp_ms(b"0000-01-01T00:00:00Z") - 1) is None
    assert form.timestamp_text(form.timestamp_ms(b"9999-12-31T23:59:59.999Z") + 1) is None


@EACH
@pytest.mark.parametrize(
    "text",
    [
        "2018-04-05T17:31:00.000Z",
        "2018-04-05T17:31:00.1Z",
        "2018-04-05T17:31:00.1234Z",
        "2018-04-05T17:31:00+00:00",
        "2018-04-05t17:31:00Z",
        "2018-04-05T17:31:00z",
        "1990-12-31T23:59:60Z",
        "2018-04-05T17:31Z",
    ],
)
def test_a_text_that_would_come_back_otherwise_has_no_milliseconds(form: Any, text: str) -> None:
    assert form.timestamp_ms(text.encode()) is None


@given(st.binary(max_size=26))
def test_both_forms_give_the_same_milliseconds(data: bytes) -> None:
    same(lambda form: form.timestamp_ms(data))
