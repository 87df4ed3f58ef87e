"""What `log.json` may say, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import ForeignFile, InvalidSettings, NewerFormat
from headwater.log.files import Files
from headwater.log.log import LogDefinition, PartitionDefinition, read_definition, write_definition
from headwater.log.settings import LogSettings

VALID = (
    b'{"format":1,"id":1,"vhost":"/","name":"a","kind":"stream","partitions":[{"name":"a"}],"settings":{}}'
)
ONE = (PartitionDefinition("orders"),)


def definition(**changes: Any) -> LogDefinition:
    fields: dict[str, Any] = {
        "format": 1,
        "id": 7,
        "vhost": "/",
        "name": "orders",
        "kind": "stream",
        "partitions": ONE,
        "settings": LogSettings(),
    }
    return LogDefinition(**fields | changes)


def test_a_definition_reads_as_it_was_written(tmp_path: Path) -> None:
    parts = (
        PartitionDefinition("a", "key"),
        PartitionDefinition("ä" * 127),
        PartitionDefinition("b", "x", 3, 0),
    )
    written = definition(
        kind="super_stream",
        partitions=parts,
        settings=LogSettings(max_bytes=5),
        arguments={"max-length-bytes": "5"},
    )
    write_definition(Files(), tmp_path, written)
    assert read_definition(Files(), tmp_path) == written


def test_a_log_is_not_where_its_own_dead_letters_go() -> None:
    with pytest.raises(InvalidSettings, match="'orders' is the log itself; name another"):
        definition(settings=LogSettings(dead_letter_log="orders"))


def test_settings_that_were_changed_are_remembered_as_they_were_at_first(tmp_path: Path) -> None:
    first, second, third = (LogSettings(max_bytes=number) for number in (1, 2, 3))
    made = definition(settings=first)
    assert made.settings_at_first is None
    changed = made.with_settings(second).with_settings(third)
    assert (changed.settings, changed.settings_at_first) == (third, first)
    write_definition(Files(), tmp_path, changed)
    assert read_definition(Files(), tmp_path) == changed
    assert changed.with_settings(first) == made


def test_a_log_is_asked_for_by_its_settings_whatever_its_policies_are() -> None:
    made = definition(settings=LogSettings(max_bytes=1, group_binding="dynamic"))
    changed = made.with_settings(LogSettings(max_bytes=2, dead_letter_log="dead"))
    assert [changed.is_asked_for_by(LogSettings(max_bytes=number)) for number in (1, 2, 3)] == [
        True,
        True,
        False,
    ]
    assert made.is_asked_for_by(LogSettings(max_bytes=1, groups_max=5))


@pytest.mark.parametrize("name", ["", "n" * 256, "ä" * 128])
def test_names_have_1_to_255_bytes(name: str) -> None:
    for changes in ({"name": name}, {"vhost": name}, {"partitions": (PartitionDefinition(name),)}):
        with pytest.raises(InvalidSettings, match="is not 1 to 255 bytes long"):
            definition(**changes)
    assert definition(name="n" * 255).name == "n" * 255


def test_a_log_has_up_to_1000_partitions_with_names_of_their_own() -> None:
    many = tuple(PartitionDefinition(str(number)) for number in range(1001))
    for count in (0, 1000):
        assert len(definition(kind="super_stream", partitions=many[:count]).partitions) == count
    with pytest.raises(InvalidSettings, match="1001 are more than 1000"):
        definition(kind="super_stream", partitions=many)
    with pytest.raises(InvalidSettings, match="two have the same name"):
        definition(kind="super_stream", partitions=ONE * 2)
    for partitions in ((), many[:2], (PartitionDefinition("orders", stream_id=3),)):
        with pytest.raises(InvalidSettings, match="a stream has one of its own; make it a super stream"):
            definition(partitions=partitions)


def test_a_newer_format_is_refused_whatever_else_it_says(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_bytes(b'{"format": 2, "unheard": {"of": []}}')
    with pytest.raises(NewerFormat, match=r"log\.json has format 2, this version reads up to 1"):
        read_definition(Files(), tmp_path)


def test_a_definition_by_hand_reads_so_that_the_changed_ones_below_fail_by_their_change(
    tmp_path: Path,
) -> None:
    (tmp_path / "log.json").write_bytes(VALID)
    assert read_definition(Files(), tmp_path).name == "a"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"null",
        b'{"format": "1"}',
        b'{"format": 1}',
        b'{"format": 1, "a":' + b"[" * 200_000,
        b'{"format":1,"id":1,"vhost":"/","name":"","kind":"stream","partitions":[{"name":"a"}],"settings":{}}',
        b'{"format":1,"id":1,"vhost":"/","name":"a","kind":"stream","partitions":[],"settings":{}}',
        b'{"format":1,"id":1,"vhost":"/","name":"a","kind":"x","partitions":[{"name":"a"}],"settings":{}}',
        b'{"format":1,"id":1,"vhost":"/","name":"a","kind":"stream","partitions":[{}],"settings":{}}',
        VALID.replace(b"{}", b'{"segment_bytes":1}'),
        VALID.replace(b"{}", b'{"no_such":1}'),
    ],
)
def test_what_no_headwater_wrote_is_told_by_its_path(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log.json").write_bytes(data)
    with pytest.raises(ForeignFile, match="was not written by headwater") as caught:
        read_definition(Files(), tmp_path)
    assert caught.value.path == str(tmp_path / "log.json")


@pytest.mark.parametrize("numbers", [(-1, None), (0, 0), (2, 1), (None, 0)])
def test_no_two_partitions_lie_in_one_folder(numbers: tuple[int | None, int | None]) -> None:
    first, second = (
        PartitionDefinition(name, number=number) for name, number in zip("ab", numbers, strict=True)
    )
    with pytest.raises(InvalidSettings, match="numbers do not rise"):
        definition(kind="super_stream", partitions=(first, PartitionDefinition("bound", stream_id=4), second))


def test_a_partition_that_was_taken_away_leaves_the_others_where_they_lie() -> None:
    parts = tuple(PartitionDefinition(name) for name in "abc")
    left = definition(kind="super_stream", partitions=parts).without("b").without("a")
    assert [
        (own.name, number) for own, number in zip(left.own_partitions, left.own_numbers, strict=True)
    ] == [("c", 2)]
