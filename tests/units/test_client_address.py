"""Stream URLs: what they say, and that a wrong one is refused without showing its password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.address import UrlParts, parse_url
from headwater.errors import InvalidSettings


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("rabbitmq-stream://h", UrlParts("h", 5552, False, None, None, None)),
        ("rabbitmq-stream+tls://h", UrlParts("h", 5551, True, None, None, None)),
        ("rabbitmq-stream://u:p@h:77/v", UrlParts("h", 77, False, "u", "p", "v")),
        ("rabbitmq-stream://u%40x:p%2F@[::1]:77/%2F", UrlParts("::1", 77, False, "u@x", "p/", "/")),
        ("rabbitmq-stream://h/", UrlParts("h", 5552, False, None, None, None)),
    ],
)
def test_parts_of_a_url(url: str, parts: UrlParts) -> None:
    assert parse_url(url) == parts


@pytest.mark.parametrize(
    "url",
    [
        "",
        "amqp://u:secret@h",
        "rabbitmq-stream://u:secret@",
        "rabbitmq-stream://u:secret@h:port",
        "rabbitmq-stream://u:secret@h:99999",
        "rabbitmq-stream://u:secret@h/a/b",
        "rabbitmq-stream://u:secret@h/v?x=1",
        "rabbitmq-stream://u:secret@[::1",
    ],
)
def test_a_wrong_url_is_refused_and_its_password_not_shown(url: str) -> None:
    with pytest.raises(InvalidSettings, match="setting url is invalid") as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


def test_the_password_of_a_url_is_not_shown() -> None:
    assert "secret" not in repr(parse_url("rabbitmq-stream://u:secret@h"))


@given(st.one_of(st.text(), st.text().map(lambda rest: f"rabbitmq-stream://{rest}")))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        parts = parse_url(text)
    except InvalidSettings:
        return
    assert parts.host
    assert 0 <= parts.port <= 65_535
