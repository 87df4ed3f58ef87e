"""A staged commit appends what its attempts uploaded exactly once, whatever happens in between."""

from __future__ import annotations

import errno

import pytest

from headwater.errors import DiskFull, InvalidStagedCommit, StorageError, UnknownAttempt
from headwater.log.staging import BATCH_MAX, StagedBlock
from tests.log_material import DATA, Answers, Machine, append, entry, read_records


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.log()
    machine.log("other")
    return machine


def stage(machine: Machine, attempt: str, *records: bytes, log: str = "log") -> None:
    for record in records:
        block = StagedBlock(machine.log(log).id, 1, 1, entry(record))
        machine.store.staging.upload(attempt, block, machine.clock.now_ms)
    machine.store.staging.seal(attempt, Answers())
    machine.store.flush()


def commit(machine: Machine, batch: int, *attempts: str, query: str = "query") -> Answers:
    answers = Answers()
    machine.store.staged.commit(query, batch, list(attempts), answers)
    machine.store.flush()
    return answers


def uploads(machine: Machine) -> list[str]:
    return machine.files.names(DATA / "staging")


def test_winners_are_appended_in_order_and_their_uploads_go(machine: Machine) -> None:
    stage(machine, "a", b"1", b"2")
    stage(machine, "b", b"3")
    stage(machine, "loser", b"x")
    assert commit(machine, 0, "b", "a") == [None]
    assert read_records(machine.log()) == [b"3", b"1", b"2"]
    assert uploads(machine) == ["loser.staged"]
    last = machine.store.staged.last_batch("query")
    assert last is not None
    assert (last.batch, last.state) == (0, "done")
    assert machine.store.staged.last_batch("another") is None


def test_the_same_batch_again_does_nothing_also_after_opening_again(machine: Machine) -> None:
    stage(machine, "a", b"1")
    commit(machine, 3, "a")
    for way in (machine.store.flush, machine.reopen, machine.crash):
        way()
        stage(machine, "b", b"2")
        assert commit(machine, 3, "b") == [None]
        assert commit(machine, 2, "b") == [None]
        assert read_records(machine.log()) == [b"1"]
        machine.store.staging.remove("b")
    stage(machine, "c", b"3")
    assert commit(machine, 4, "c") == [None]
    assert read_records(machine.log()) == [b"1", b"3"]


def test_queries_do_not_know_of_each_other(machine: Machine) -> None:
    stage(machine, "a", b"1")
    stage(machine, "b", b"2")
    commit(machine, 0, "a", query="one")
    commit(machine, 0, "b", query="two")
    assert read_records(machine.log()) == [b"1", b"2"]


def test_a_commit_without_attempts_is_one(machine: Machine) -> None:
    assert commit(machine, 0) == [None]
    last = machine.store.staged.last_batch("query")
    assert last is not None
    assert last.state == "done"


def test_an_attempt_that_is_not_there_or_not_sealed_is_refused(machine: Machine) -> None:
    block = StagedBlock(machine.log().id, 1, 1, entry(b"x"))
    machine.store.staging.upload("open", block, 1)
    for attempt in ("missing", "open"):
        with pytest.raises(UnknownAttempt, match=f"there is no sealed upload '{attempt}'"):
            commit(machine, 0, attempt)
    assert machine.store.staged.last_batch("query") is None


@pytest.mark.parametrize("batch", [-1, BATCH_MAX + 1])
def test_a_batch_number_has_31_bits(machine: Machine, batch: int) -> None:
    with pytest.raises(InvalidStagedCommit, match=f"batch {batch} is not between 0 and 2147483647"):
        commit(machine, batch)
    assert commit(machine, BATCH_MAX) == [None]


@pytest.mark.parametrize("query", ["", "q" * 201, "ä" * 101])
def test_the_id_of_a_query_has_1_to_200_bytes(machine: Machine, query: str) -> None:
    with pytest.raises(InvalidStagedCommit, match="the id of a query has 1 to 200 bytes"):
        commit(machine, 0, query=query)


def test_nothing_is_appended_before_the_record_is_durable(machine: Machine) -> None:
    stage(machine, "a", b"1")
    answers = Answers()
    for _ in range(2):
        machine.store.staged.commit("query", 0, ["a"], answers)
        assert not machine.log().intake
    machine.store.flush()
    assert answers == [None, None]
    assert read_records(machine.log()) == [b"1"]


def test_a_later_batch_waits_for_one_that_is_pending(machine: Machine) -> None:
    stage(machine, "a", b"1")
    machine.store.staged.commit("query", 0, ["a"], Answers())
    with pytest.raises(
        InvalidStagedCommit, match="batch 0 of 'query' is not finished; commit it again first"
    ):
        machine.store.staged.commit("query", 1, [], Answers())
    machine.store.flush()
    assert commit(machine, 1) == [None]


def test_a_record_that_cannot_be_written_leaves_all_as_it_was(machine: Machine) -> None:
    stage(machine, "a", b"1")
    machine.files.fail_write("/data/logs/0/*", errno.ENOSPC)
    assert [type(answer) for answer in commit(machine, 0, "a")] == [DiskFull]
    assert machine.store.staged.last_batch("query") is None
    assert uploads(machine) == ["a.staged"]
    assert commit(machine, 0, "a") == [None]
    assert read_records(machine.log()) == [b"1"]


def test_an_append_that_fails_leaves_it_pending_and_the_same_batch_finishes_it(machine: Machine) -> None:
    stage(machine, "a", b"1", b"2")
    machine.files.fail_write("/data/logs/1/*", errno.ENOSPC)
    (answer,) = commit(machine, 0, "a")
    assert isinstance(answer, StorageError)
    last = machine.store.staged.last_batch("query")
    assert last is not None
    assert last.state == "pending"
    assert commit(machine, 0, "a") == [None]
    assert read_records(machine.log()) == [b"1", b"2"]


def test_a_crash_in_between_is_finished_by_opening_again(machine: Machine) -> None:
    stage(machine, "a", b"1", b"2", b"3")
    machine.files.fail_write("/data/logs/1/*", errno.ENOSPC)
    commit(machine, 0, "a")
    machine.crash()
    machine.store.flush()
    assert read_records(machine.log()) == [b"1", b"2", b"3"]
    assert uploads(machine) == []


def test_what_was_appended_before_a_crash_is_not_appended_again(machine: Machine) -> None:
    stage(machine, "a", *[b"%02d" % number for number in range(20)])
    machine.store.staged.commit("query", 0, ["a"], Answers())
    while not machine.log().committed_offset:
        machine.store.dispatch()
        machine.committer.run_one()
        machine.store.collect()
    stored = machine.log().committed_offset
    assert 0 < stored < 20
    machine.crash()
    machine.store.flush()
    assert read_records(machine.log()) == [b"%02d" % number for number in range(20)]


def test_blocks_of_a_log_that_was_deleted_are_passed_over(machine: Machine) -> None:
    block = StagedBlock(machine.log("other").id, 1, 1, entry(b"lost"))
    machine.store.staging.upload("a", block, 1)
    stage(machine, "a", b"kept")
    machine.store.delete_log("other")
    assert commit(machine, 0, "a") == [None]
    assert read_records(machine.log()) == [b"kept"]


def test_damage_in_an_upload_is_told_and_nothing_behind_it_is_appended(machine: Machine) -> None:
    stage(machine, "a", b"1", b"2")
    path = DATA / "staging" / "a.staged"
    machine.files.damage(path, machine.files.size_of(path) - 1, 1)
    (answer,) = commit(machine, 0, "a")
    assert "CRC of a staged block" in str(answer)
    assert read_records(machine.log()) == [b"1"]
    machine.crash()
    machine.store.flush()
    assert "the staged commit of 'query' waits to be finished" in machine.store.notices[0]


def test_a_commit_larger_than_the_bounds_goes_in_as_there_is_room() -> None:
    machine = Machine(partition_uncommitted_bytes_max=500)
    machine.log()
    records = [b"%02d " % number + bytes(300) for number in range(30)]
    stage(machine, "a", *records)
    assert commit(machine, 0, "a") == [None]
    assert read_records(machine.log()) == [b"%02d" % number for number in range(30)]


def test_a_commit_goes_on_when_other_partitions_made_room() -> None:
    machine = Machine(uncommitted_bytes_max=1000)
    machine.log()
    stage(machine, "a", b"staged")
    answers = Answers()
    machine.store.staged.commit("query", 0, ["a"], answers)
    machine.store.dispatch()
    append(machine.log("other"), bytes(2000))
    machine.committer.run_one()
    machine.store.collect()
    assert answers == []
    machine.store.flush()
    assert answers == [None]
    assert read_records(machine.log()) == [b"staged"]


def test_records_of_queries_that_ended_long_ago_are_forgotten() -> None:
    machine = Machine(tracking_expiry_ms=1000)
    assert commit(machine, 0) == [None]
    machine.clock.now_ms += 1001
    machine.store.enforce_retention()
    machine.store.flush()
    assert machine.store.staged.last_batch("query") is None


def test_uploads_of_a_pending_commit_do_not_expire() -> None:
    machine = Machine(staging_expiry_ms=1000)
    machine.log()
    stage(machine, "a", b"1")
    machine.files.fail_write("/data/logs/1/*", errno.ENOSPC)
    commit(machine, 0, "a")
    machine.clock.now_ms += 10_000
    machine.store.enforce_retention()
    assert commit(machine, 0, "a") == [None]
    assert read_records(machine.log()) == [b"1"]
