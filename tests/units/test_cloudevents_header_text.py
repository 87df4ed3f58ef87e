"""Texts in header values: percent-encoded on the way out, and read as older senders wrote them, too."""

from __future__ import annotations

import pytest

from headwater.cloudevents.header_text import from_header, to_header
from headwater.errors import InvalidCloudEvent


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ('"quoted"', "%22quoted%22"),
        ("100%", "100%25"),
        ("%41", "%2541"),
        (" a ", "%20a%20"),
        ("!#$&'()*+,-./:;<=>?@[\\]^_`{|}~", "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    ],
)
def test_values_are_percent_encoded(text: str, value: str) -> None:
    assert to_header(text) == value
    assert from_header("ext", value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("%65uro%e2%82%ac", "euro€"),
        ('"a b"', "a b"),
        ('"a \\"b\\" \\\\ %20"', 'a "b" \\  '),
        ('"', '"'),
        ("  a\t", "a"),
        ("a b", "a b"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("é", "é"),
        ("\udcc3\udca9", "é"),
    ],
)
def test_what_older_senders_write_is_read(value: str, text: str) -> None:
    assert from_header("ext", value) == text


def test_a_percent_sign_is_decoded_once() -> None:
    assert from_header("ext", "%2541") == "%41"


@pytest.mark.parametrize("value", ["%C0%A0", "%ff", "a%E2%82", "%ED%A0%80", "\udcff", '"%ff"'])
def test_what_is_no_utf_8_is_refused(value: str) -> None:
    with pytest.raises(InvalidCloudEvent, match="its ext is no UTF-8 when it is percent-decoded"):
        from_header("ext", value)
