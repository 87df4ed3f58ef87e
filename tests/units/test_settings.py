"""Settings are refused outside of their bounds, with the name of the one that is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.errors import InvalidSettings
from headwater.log.settings import CHUNK_DATA_BYTES_MAX, FRAME_BYTES_MAX, LogSettings, StoreSettings

LOG_BOUNDS = [
    ("segment_bytes", 1024, 2**31),
    ("snapshot_interval_bytes", 1024, 2**31),
    ("chunk_data_bytes_max", 64, CHUNK_DATA_BYTES_MAX),
    ("entry_bytes_max", 64, 2**28),
    ("filter_bytes", 16, 255),
    ("max_age_ms", 1, 2**62),
    ("max_bytes", 1, 2**62),
    ("group_wait_ms_max", 0, 86_400_000),
    ("group_reserved_ms", 0, 86_400_000),
    ("group_move_ms_max", 0, 86_400_000),
    ("group_members_max", 1, 100_000),
    ("groups_max", 0, 100_000),
    ("delivery_count_max", 0, 254),
    ("duplicates_window_ms", 1, 30 * 24 * 3600 * 1000),
    ("retention_hold_bytes_max", 0, 2**62),
]


@pytest.mark.parametrize(("name", "low", "high"), LOG_BOUNDS)
def test_a_setting_of_a_log_may_lie_on_its_bounds_and_not_beyond(name: str, low: int, high: int) -> None:
    def made(value: int) -> LogSettings:
        fields: dict[str, Any] = {name: value}
        return LogSettings(**fields)

    for value in (low, high):
        assert getattr(made(value), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(InvalidSettings) as caught:
            made(value)
        assert caught.value.name == name
        assert str(caught.value) == (
            f"setting {name} is invalid: {value} does not lie between {low} and {high}; correct it and try again"
        )


@pytest.mark.parametrize("value", [0, -5])
def test_a_commit_takes_at_least_one_byte(value: int) -> None:
    with pytest.raises(InvalidSettings, match="commit_bytes_max"):
        LogSettings(commit_bytes_max=value)


@pytest.mark.parametrize("name", ["", "n" * 256, "ä" * 128])
def test_the_name_of_a_log_for_dead_letters_can_be_that_of_a_log(name: str) -> None:
    with pytest.raises(InvalidSettings, match=r"dead_letter_log is invalid: .* is not 1 to 255 bytes long"):
        LogSettings(dead_letter_log=name)
    assert LogSettings(dead_letter_log="n" * 255).dead_letter_log == "n" * 255


@pytest.mark.parametrize(
    "name", ["group_binding", "group_creation", "group_waiting", "partition_binding", "durability"]
)
def test_a_policy_has_one_of_the_words_it_may_have(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.json.decode(b'{"%s": "another"}' % name.encode(), type=LogSettings)


@pytest.mark.parametrize("name", StoreSettings.__struct_fields__)
def test_every_bound_of_a_data_folder_is_positive(name: str) -> None:
    values: dict[str, Any] = {name: 1}
    assert getattr(StoreSettings(**values), name) == 1
    with pytest.raises(InvalidSettings, match=name):
        StoreSettings(**{name: 0})


def test_there_are_at_most_64_threads_that_commit() -> None:
    assert StoreSettings(commit_threads=64).commit_threads == 64
    with pytest.raises(InvalidSettings, match="commit_threads"):
        StoreSettings(commit_threads=65)


def test_a_chunk_fits_a_frame_with_its_headers() -> None:
    longest_deliver_header = 17
    assert CHUNK_DATA_BYTES_MAX + 48 + longest_deliver_header == FRAME_BYTES_MAX == 2**20
    assert LogSettings().chunk_data_bytes_max == CHUNK_DATA_BYTES_MAX


def test_only_what_differs_from_the_defaults_is_kept_on_disk() -> None:
    assert msgspec.json.encode(LogSettings()) == b"{}"
    settings = LogSettings(durability="memory", max_bytes=5, group_binding="dynamic", dead_letter_log="dead")
    assert msgspec.json.decode(msgspec.json.encode(settings), type=LogSettings) == settings


def test_a_setting_that_nobody_knows_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="no_such"):
        msgspec.json.decode(b'{"no_such": 1}', type=LogSettings)
    with pytest.raises(msgspec.ValidationError, match="durability"):
        msgspec.json.decode(b'{"durability": "paper"}', type=LogSettings)


def test_only_a_log_of_cloudevents_has_a_window_of_duplicates() -> None:
    assert LogSettings(content="cloudevents", duplicates_window_count=1_000_000).duplicates_window_count
    with pytest.raises(InvalidSettings, match="content is cloudevents"):
        LogSettings(duplicates_window_count=1)
    with pytest.raises(InvalidSettings, match="1000001 does not lie between 0 and 1000000"):
        LogSettings(content="cloudevents", duplicates_window_count=1_000_001)
