"""Bodies of AMQP messages: what was put in comes out, and any bytes are a body or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.data_section import body_of, data_section

HEADER = bytes.fromhex("005370 c0 02 01 41")
PROPERTIES = bytes.fromhex("005373c00401a10161")
APPLICATION_PROPERTIES = bytes.fromhex("005374 c1 07 02 a10161 a10162".replace(" ", ""))
FOOTER = bytes.fromhex("005378c10100")


@given(st.one_of(st.binary(max_size=300), st.binary(min_size=250, max_size=260)))
def test_a_body_comes_out_as_it_went_in(body: bytes) -> None:
    assert body_of(data_section(body)) == body


def test_short_and_long_bodies_have_the_head_that_clients_write() -> None:
    assert data_section(b"a") == bytes.fromhex("005375a001") + b"a"
    assert data_section(bytes(256))[:8] == bytes.fromhex("005375b000000100")


def test_sections_before_and_behind_the_body_are_passed_over() -> None:
    message = (
        HEADER + PROPERTIES + APPLICATION_PROPERTIES + data_section(b"one") + data_section(b"two") + FOOTER
    )
    assert body_of(message) == b"onetwo"


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (bytes.fromhex("005377a10568656c6c6f"), b"hello"),
        (bytes.fromhex("005377b10000000568656c6c6f"), b"hello"),
        (bytes.fromhex("00537754ff"), None),
        (bytes.fromhex("00537645"), None),
        (bytes.fromhex("00537040"), None),
        (b"", None),
        (b"plain text", None),
        (data_section(b"abc")[:-1], None),
        (bytes.fromhex("005375b0ffffffff"), None),
        (bytes.fromhex("005375f0"), None),
        (bytes.fromhex("00537500"), None),
    ],
)
def test_other_messages(message: bytes, body: bytes | None) -> None:
    assert body_of(message) == body


@given(st.binary(max_size=60))
def test_any_bytes_have_a_body_or_none(message: bytes) -> None:
    body = body_of(message)
    assert body is None or len(body) < len(message)


@given(
    st.lists(st.sampled_from([HEADER, PROPERTIES, FOOTER, data_section(b"x")]), max_size=4),
    st.binary(max_size=9),
)
def test_any_bytes_behind_sections_have_a_body_or_none(sections: list[bytes], rest: bytes) -> None:
    body = body_of(b"".join(sections) + rest)
    assert body is None or isinstance(body, bytes)
