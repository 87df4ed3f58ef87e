"""`headwater check` tells what is wrong and where, tells tails and foreign files from damage, and changes nothing."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.errors import ForeignFile
from headwater.log.check import CheckReport, Finding, check_folder, total_bytes
from headwater.log.settings import LogSettings
from headwater.log.staging import StagedBlock
from headwater.log.store import Store
from tests.log_material import Answers, append, entry, tree_hash


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of four segments with two events each, and one of a single event, as an abrupt end leaves them."""
    store = Store.open(tmp_path / "data")
    partition = store.create_log("orders", settings=LogSettings(segment_bytes=1024)).partitions[0]
    for number in range(8):
        append(partition, b"%d" % number + bytes(400))
        store.flush()
    append(store.create_log("other").partitions[0], b"x")
    store.flush()
    store.abandon()
    return tmp_path / "data"


def segment(folder: Path, offset: int, log_id: int = 1) -> Path:
    return folder / "logs" / str(log_id) / "0" / f"{offset:020d}.segment"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def checked(folder: Path) -> CheckReport:
    """The report, after a look that nothing was changed."""
    before = tree_hash(folder)
    report = check_folder(folder)
    assert tree_hash(folder) == before
    return report


def finding(folder: Path) -> Finding:
    (found,) = checked(folder).findings
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


def chunk_positions(path: Path) -> list[int]:
    data, position, found = path.read_bytes(), 64, []
    while position < len(data):
        found.append(position)
        position += 48 + sum(struct.unpack_from(">II", data, position + 36))
    return found


def test_a_sound_folder_has_no_findings_and_tells_what_it_holds(folder: Path) -> None:
    report = checked(folder)
    assert report.findings == []
    assert not report.is_corrupt
    orders = next(each for each in report.partitions if each.log == "orders")
    assert (orders.first_offset, orders.end_offset, orders.segments, orders.chunks) == (0, 8, 4, 12)
    assert orders.byte_count == sum(segment(folder, offset).stat().st_size for offset in (0, 2, 4, 6))
    assert {each.log for each in report.partitions} == {"orders", "other"}


def test_progress_is_told_up_to_all_bytes(folder: Path) -> None:
    seen: list[int] = []
    check_folder(folder, progress=seen.append)
    assert sum(seen) == total_bytes(folder) - 64 * 5


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_damage_in_an_older_segment_is_told_with_its_place(folder: Path, offset: int) -> None:
    path = segment(folder, offset)
    position = chunk_positions(path)[1]
    flip(path, position + 100)
    found = [each for each in checked(folder).findings if each.path == str(path)]
    assert [(each.severity, each.position) for each in found] == [("corrupt", position)]
    assert "the CRC of the data does not hold" in found[0].message
    assert checked(folder).is_corrupt


def test_damage_below_the_synced_position_of_the_newest_is_corruption(folder: Path) -> None:
    path = segment(folder, 6)
    position = chunk_positions(path)[1]
    flip(path, position + 100)
    found = finding(folder)
    assert (found.severity, found.path, found.position) == ("corrupt", str(path), position)


def test_damage_at_the_end_of_the_newest_is_tail(folder: Path) -> None:
    path = segment(folder, 6)
    position = chunk_positions(path)[2]
    flip(path, position + 100)
    found = finding(folder)
    assert (found.severity, found.position) == ("tail", position)
    assert f"{path.stat().st_size - position} bytes that were never confirmed" in found.message
    assert not checked(folder).is_corrupt


def test_the_same_damage_in_an_older_segment_is_corruption(folder: Path) -> None:
    path = segment(folder, 4)
    path.write_bytes(path.read_bytes()[:-10])
    severities = {each.path: each.severity for each in checked(folder).findings}
    assert severities[str(path)] == "corrupt"


def test_opening_finds_what_the_check_foretold(folder: Path) -> None:
    flip(segment(folder, 6), chunk_positions(segment(folder, 6))[2] + 100)
    flip(segment(folder, 0, log_id=2), chunk_positions(segment(folder, 0, log_id=2))[0] + 5)
    severities = {Path(each.path).parts[-3]: each.severity for each in checked(folder).findings}
    store = Store.open(folder)
    assert severities == {"1": "tail", "2": "tail"}
    assert store.damaged == []
    assert len(store.notices) == 2
    store.close()


def test_a_missing_segment_is_corruption(folder: Path) -> None:
    segment(folder, 2).unlink()
    found = finding(folder)
    assert (found.severity, found.path) == ("corrupt", str(segment(folder, 4)))
    assert "begins at offset 4, 2 is due" in found.message


def test_removed_segments_that_a_crash_left_are_no_findings(folder: Path) -> None:
    segment(folder, 2).rename(segment(folder, 2).with_suffix(".segment.removed"))
    report = checked(folder)
    assert report.findings == []
    assert next(each for each in report.partitions if each.log == "orders").first_offset == 4


def test_a_segment_in_another_place_than_its_own_is_corruption(folder: Path) -> None:
    segment(folder, 0, log_id=2).write_bytes(segment(folder, 0).read_bytes())
    found = finding(folder)
    assert found.severity == "corrupt"
    assert "it belongs to partition 1/0 at offset 0" in found.message


def test_foreign_files_are_told_apart(folder: Path) -> None:
    places = [folder, folder / "logs", folder / "logs/1/0", folder / "journal", folder / "staging"]
    for place in places:
        (place / "note.txt").write_bytes(b"by hand")
    found = checked(folder).findings
    assert {each.severity for each in found} == {"foreign"}
    assert {each.path for each in found} == {str(place / "note.txt") for place in places}
    assert not checked(folder).is_corrupt


def test_what_a_newer_version_wrote_is_told_as_such(folder: Path) -> None:
    def header(layout: str, magic: bytes) -> bytes:
        data = struct.pack(layout, magic, 2, 0, 5)
        return data + struct.pack(">I", zlib.crc32(data))

    (folder / "store.json").write_bytes(b'{"format": 2}')
    (folder / "logs/1/log.json").write_bytes(b'{"format": 2}')
    (folder / "journal/1.journal").write_bytes(header(">8sHHI", b"HDWTRJNL"))
    (folder / "staging/a.staged").write_bytes(header(">8sHHQ", b"HDWTRSTG"))
    path = segment(folder, 0, log_id=2)
    data = bytearray(path.read_bytes())
    data[8:10] = b"\0\2"
    path.write_bytes(data[:60] + struct.pack(">I", zlib.crc32(data[:60])) + data[64:])
    report = checked(folder)
    assert [each.severity for each in report.findings] == ["newer"] * 5
    assert report.is_corrupt


def test_journals_and_staged_uploads_are_read(folder: Path) -> None:
    store = Store.open(folder)
    block = StagedBlock(store.log("orders").partitions[0].id, 1, 1, entry(b"x"))
    store.staging.upload("a", block, 1)
    store.staging.seal("a", Answers())
    store.flush()
    store.close()
    assert checked(folder).staged_blocks == 1
    flip(folder / "staging/a.staged", 50)
    found = finding(folder)
    assert (found.severity, found.position) == ("corrupt", 24)


@pytest.mark.parametrize("name", ["1.journal", "1.damaged"])
def test_a_damaged_journal_is_corruption_also_when_opening_has_kept_it(folder: Path, name: str) -> None:
    (folder / "journal" / name).write_bytes(b"no header, and something behind it")
    found = finding(folder)
    assert (found.severity, found.path) == ("corrupt", str(folder / "journal" / name))


@pytest.mark.parametrize("data", [b"", b"[]", None])
def test_a_broken_or_missing_definition_is_corruption(folder: Path, data: bytes | None) -> None:
    path = folder / "logs/1/log.json"
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    assert finding(folder).severity == "corrupt"
    assert str(path.parent) in finding(folder).path


@pytest.mark.parametrize("data", [b"", b"\xff"])
def test_a_broken_store_is_corruption(folder: Path, data: bytes) -> None:
    (folder / "store.json").write_bytes(data)
    assert finding(folder).severity == "corrupt"


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignFile, match="was not written by headwater"):
        check_folder(tmp_path)


def test_the_command_exits_with_1_and_names_file_and_byte_when_something_is_damaged(folder: Path) -> None:
    assert run(str(folder)).exit_code == 0
    path = segment(folder, 0)
    position = chunk_positions(path)[1]
    flip(path, position + 100)
    before = tree_hash(folder)
    plain, as_json = run(str(folder)), run("--json", str(folder))
    assert tree_hash(folder) == before
    assert plain.exit_code == as_json.exit_code == 1
    assert f"corrupt: {path} at byte {position}: " in plain.stdout
    assert plain.stdout.splitlines()[-1] == f"{folder}: corrupt: restore what is named above"
    first = json.loads(as_json.stdout)["findings"][0]
    assert (first["severity"], first["path"], first["position"]) == ("corrupt", str(path), position)


def test_the_command_exits_with_0_when_there_is_but_a_tail_or_a_foreign_file(folder: Path) -> None:
    with segment(folder, 6).open("ab") as file:
        file.write(b"torn")
    (folder / "note.txt").write_bytes(b"by hand")
    done = run("--json", str(folder))
    assert done.exit_code == 0
    assert {each["severity"] for each in json.loads(done.stdout)["findings"]} == {"tail", "foreign"}
