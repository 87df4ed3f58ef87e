"""What arguments of Create mean for a log, and which are refused."""

from __future__ import annotations

import pytest

from headwater.errors import InvalidSettings
from headwater.log.settings import LogSettings
from headwater.server.management.logs import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from headwater.server.streams.arguments import (
    known_arguments,
    log_settings,
)

GIVEN = {
    "max-length-bytes": "20000",
    "max-age": "1.5h",
    "stream-max-segment-size-bytes": "100000",
    "stream-filter-size-bytes": "32",
    "queue-leader-locator": "random",
    "initial-cluster-size": "5",
}


def test_every_argument_is_read() -> None:
    expected = LogSettings(max_bytes=20_000, max_age_ms=5_400_000, segment_bytes=100_000, filter_bytes=32)
    assert log_settings(GIVEN) == expected
    assert log_settings({}) == log_settings({"max-age": "", "unknown": "x"}) == LogSettings()


def test_known_arguments_stay_as_they_were_given() -> None:
    assert known_arguments({**GIVEN, "unknown": "x"}) == GIVEN


@pytest.mark.parametrize(("asked", "given"), [("1", SEGMENT_BYTES_MIN), (f"{2**40}", SEGMENT_BYTES_MAX)])
def test_segments_stay_between_their_bounds(asked: str, given: int) -> None:
    assert log_settings({"stream-max-segment-size-bytes": asked}).segment_bytes == given


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-length-bytes", "0"),
        ("max-length-bytes", "-1"),
        ("max-length-bytes", "1.5"),
        ("max-length-bytes", "٣"),
        ("max-length-bytes", "9" * 19),
        ("max-length-bytes", "0" * 29 + "1" + "0" * 5_000),
        ("max-length-bytes", "9" * 100_000),
        ("stream-filter-size-bytes", "15"),
        ("stream-filter-size-bytes", "256"),
        ("queue-leader-locator", "nowhere"),
        ("initial-cluster-size", "none"),
        ("max-age", "7"),
        ("max-age", "7W"),
        ("max-age", "9" * 100_000 + "D"),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        log_settings({name: value})
    assert name in str(caught.value) or caught.value.name == "max_bytes"
