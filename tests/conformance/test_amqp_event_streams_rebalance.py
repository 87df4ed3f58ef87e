"""Event Stream Extensions, section 4.5.1: partitions that the node assigns, takes back, and moves between links."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.amqp.definitions import Condition, ReceiverSettleMode
from headwater.amqp.messaging import Accepted, Released
from headwater.amqp.performatives import Disposition, Flow
from headwater.encoding.amqp_types import Array, Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, Delivered
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.group_links import (
    CHANGED,
    EARLIEST,
    EPOCH,
    GROUP,
    PARTITION,
    ask_to_join,
    close_link,
    ended,
    granted,
    in_group,
    join,
    joined_partition,
    not_joined,
    places,
    publish,
    settle,
)

DYNAMIC = {"group_binding": "dynamic"}
AGNOSTIC = {GROUP: "g", EPOCH: 0}


def changed(delivery: Delivered) -> list[str] | None:
    """The partitions that the delivery says the link has now, if it says so; an array of symbols."""
    found = delivery.annotations.get(CHANGED)
    if found is None:
        return None
    assert isinstance(found, Array)
    assert found.constructor is Symbol
    return [str(each) for each in found.items]


def next_from(door: ListeningAmqp, wire: AmqpWire, log: str, partition: int) -> Delivered:
    """Publish one message to a partition, which comes to this link; it is settled."""
    publish(door, log, partition, range(1))
    came = wire.message()
    assert came.partition == str(partition)
    settle(wire, came.id)
    return came


# Assigned partitions


@pytest.mark.clause("ES-15")
def test_a_container_with_two_more_gives_one_up_and_who_was_refused_gets_it(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 3)
    rich, poor = connect_amqp(), connect_amqp()
    assert [joined_partition(rich, log, handle=each) for each in range(3)] == ["0", "1", "2"]
    not_joined(poor, Condition.LINK_DETACH_FORCED, log, handle=0)
    detach = ended(rich, 2)
    assert detach.closed
    assert detach.error is None, "gracefully"
    not_joined(rich, Condition.LINK_DETACH_FORCED, log, handle=2, name="again")
    assert joined_partition(poor, log, handle=1) == "2", "it is kept for whom it was taken for"
    not_joined(poor, Condition.LINK_DETACH_FORCED, log, handle=2)
    rich.assert_nothing_came()


@pytest.mark.clause("ES-15")
def test_a_partition_that_is_kept_for_a_container_is_not_kept_forever(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, group_reserved_ms=50)
    rich, poor = connect_amqp(), connect_amqp()
    assert [joined_partition(rich, log, handle=each) for each in range(2)] == ["0", "1"]
    not_joined(poor, Condition.LINK_DETACH_FORCED, log)
    assert ended(rich, 1).error is None
    amqp_door.change_settings(log, group_waiting="wait")
    ask_to_join(rich, log, handle=1)
    assert granted(rich, handle=1)[PARTITION] == "1"


@pytest.mark.clause("ES-15", "ES-14")
def test_links_that_wait_get_the_partitions_of_containers_that_have_more_until_all_have_as_many(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 4, group_waiting="wait")
    first, second, third = connect_amqp(), connect_amqp(), connect_amqp()
    for handle in range(4):
        join(first, log, handle=handle)
    for handle in range(4):
        ask_to_join(second, log, handle=handle)
    assert {granted(second, handle=handle)[PARTITION] for handle in range(2)} == {"2", "3"}
    assert [ended(first, 3).error, ended(first, 2).error] == [None, None]
    for handle in (3, 2):
        ask_to_join(first, log, handle=handle, name=f"again-{handle}")
    first.assert_nothing_came()
    second.assert_nothing_came()
    ask_to_join(third, log)
    assert granted(third)[PARTITION] == "1", "two had two, it had none"
    assert ended(first, 1).error is None
    amqp_door.lose(second)
    assert {granted(first, handle=handle)[PARTITION] for handle in (3, 2)} == {"2", "3"}


@pytest.mark.clause("ES-15")
def test_a_partition_that_a_link_chose_is_never_taken_from_it(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 3, group_waiting="wait")
    rich, poor = connect_amqp(), connect_amqp()
    for handle in range(3):
        join(rich, log, in_group("g", Symbol(str(handle))), handle=handle)
    ask_to_join(poor, log)
    poor.assert_nothing_came()
    rich.assert_nothing_came()
    close_link(rich, 1)
    assert granted(poor)[PARTITION] == "1"


@pytest.mark.clause("ES-15")
def test_what_a_link_that_had_to_go_did_not_settle_comes_to_its_heir(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, group_waiting="wait")
    publish(amqp_door, log, 1, range(4))
    rich, poor = connect_amqp(), connect_amqp()
    join(rich, log, handle=0)
    join(rich, log, handle=1, filter=EARLIEST)
    came = rich.messages(4)
    settle(rich, came[0].id)
    settle(rich, came[2].id)
    ask_to_join(poor, log)
    assert granted(poor)[PARTITION] == "1"
    assert places(poor.messages(2)) == [("1", 1), ("1", 3)]
    ended(rich, 1)
    settle(rich, came[1].id)
    poor.assert_nothing_came()
    amqp_door.lose(poor)
    join(rich, log, handle=1)
    assert places(rich.messages(2)) == [("1", 1), ("1", 3)], "what a link says that went counts for nothing"


# Links that stay agnostic


@pytest.mark.clause("ES-16", "ES-17", "ES-11")
def test_dynamic_links_share_the_partitions_and_each_is_told_which_it_has(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 4, **DYNAMIC)
    first, second = connect_amqp(), connect_amqp()
    assert join(first, log) == AGNOSTIC
    came = next_from(amqp_door, first, log, 3)
    assert changed(came) == ["0", "1", "2", "3"]
    assert changed(next_from(amqp_door, first, log, 0)) is None, "the next one alone says it"
    assert join(second, log) == AGNOSTIC
    assert changed(next_from(amqp_door, first, log, 0)) == ["0", "1"]
    assert changed(next_from(amqp_door, second, log, 3)) == ["2", "3"]
    assert changed(next_from(amqp_door, second, log, 2)) is None
    close_link(first)
    assert changed(next_from(amqp_door, second, log, 0)) == ["0", "1", "2", "3"]


@pytest.mark.clause("ES-16")
def test_a_partition_that_moves_goes_on_behind_what_was_settled_last(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, **DYNAMIC)
    publish(amqp_door, log, 1, range(5))
    first, second = connect_amqp(), connect_amqp()
    join(first, log, filter=EARLIEST, credit=3)
    came = first.messages(3)
    settle(first, came[0].id)
    join(second, log)
    second.assert_nothing_came()
    first.credit(5, delivery_count=3)
    first.assert_nothing_came()
    settle(first, came[1].id, came[2].id)
    assert places(second.messages(2)) == [("1", 3), ("1", 4)]
    first.assert_nothing_came()


@pytest.mark.clause("ES-16")
def test_what_a_moving_partition_is_owed_is_not_waited_for_forever(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, **DYNAMIC, group_move_ms_max=50)
    publish(amqp_door, log, 1, range(3))
    first, second = connect_amqp(), connect_amqp()
    join(first, log, filter=EARLIEST)
    came = first.messages(3)
    join(second, log)
    assert places(second.messages(3)) == [("1", 0), ("1", 1), ("1", 2)]
    settle(first, came[0].id, came[2].id)
    first.assert_nothing_came()
    amqp_door.lose(second)
    again = first.messages(3)
    assert places(again) == [("1", 0), ("1", 1), ("1", 2)], "settling what was revoked settles nothing"
    settle(first, came[0].id, came[2].id)
    amqp_door.lose(first)
    third = connect_amqp()
    join(third, log)
    assert len(third.messages(3)) == 3


@pytest.mark.clause("ES-16")
def test_who_settles_second_is_told_that_a_partition_had_gone_before(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, **DYNAMIC, group_move_ms_max=50)
    for number in range(2):
        publish(amqp_door, log, number, range(2))
    first, second = connect_amqp(), connect_amqp()
    join(first, log, filter=EARLIEST, rcv_settle_mode=ReceiverSettleMode.SECOND)
    came = first.messages(4)
    join(second, log)
    assert places(second.messages(2)) == [("1", 0), ("1", 1)]
    settle(first, came[0].id, came[3].id, settled=False)
    states: dict[str, set[type]] = {"0": set(), "1": set()}
    left = {each.id: each.partition for each in came}
    while left:
        said = first.take(Disposition)
        assert said.settled
        for id_ in range(said.first, (said.first if said.last is None else said.last) + 1):
            states[left.pop(id_)].add(type(said.state))
    assert states == {"0": {Accepted}, "1": {Released}}


@pytest.mark.clause("ES-16")
def test_released_messages_of_a_moving_partition_come_to_its_heir(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, **DYNAMIC)
    publish(amqp_door, log, 1, range(2))
    first, second = connect_amqp(), connect_amqp()
    join(first, log, filter=EARLIEST)
    came = first.messages(2)
    join(second, log)
    settle(first, came[0].id, state=Released())
    second.assert_nothing_came()
    settle(first, came[1].id, state=Accepted())
    assert places(second.messages(1)) == [("1", 0)]
    second.assert_nothing_came()


@pytest.mark.clause("ES-16")
def test_more_dynamic_links_than_partitions_wait_without_one(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, **DYNAMIC)
    wires = [connect_amqp() for _ in range(3)]
    for wire in wires:
        assert join(wire, log) == AGNOSTIC
    wires[2].credit(1000, drain=True)
    assert wires[2].take(Flow).link_credit == 0
    next_from(amqp_door, wires[0], log, 0)
    for wire in wires[1:]:
        wire.assert_nothing_came()
    close_link(wires[0])
    assert changed(next_from(amqp_door, wires[1], log, 0)) == ["0"]


@pytest.mark.clause("ES-16", "ES-13")
def test_a_link_that_chooses_a_partition_of_dynamic_ones_needs_an_epoch_for_it(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, **DYNAMIC)
    agnostic, bound = connect_amqp(), connect_amqp()
    join(agnostic, log)
    not_joined(bound, Condition.RESOURCE_LOCKED, log, in_group("g", Symbol("1")))
    assert join(bound, log, in_group("g", Symbol("1"), 1), handle=1)[PARTITION] == "1"
    next_from(amqp_door, bound, log, 1)
    assert changed(next_from(amqp_door, agnostic, log, 0)) == ["0"]
    close_link(bound, 1)
    assert changed(next_from(amqp_door, agnostic, log, 1)) == ["0", "1"]


@pytest.mark.clause("ES-16", "ES-17")
def test_a_partition_that_is_added_or_taken_away_is_added_to_or_taken_from_a_link(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, **DYNAMIC)
    wire, store = connect_amqp(), amqp_door.store
    join(wire, log)
    next_from(amqp_door, wire, log, 0)
    amqp_door.call(lambda: store.create_log(f"{log}-1"))
    publish(amqp_door, log, 1, range(1))
    amqp_door.call(lambda: store.bind_stream(log, f"{log}-1", key="1"))
    came = wire.message()
    assert (came.partition, came.offset, changed(came)) == ("1", 0, ["0", "1"])
    amqp_door.call(lambda: store.delete_log(f"{log}-1"))
    settle(wire, came.id)
    came = next_from(amqp_door, wire, log, 0)
    assert changed(came) == ["0"]


@pytest.mark.clause("ES-16", "ES-20")
def test_positions_of_dynamic_groups_survive_a_restart(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data") as door:
        door.super_stream("orders", 3, **DYNAMIC)
        with door.connect() as one, door.connect() as other:
            for number in range(3):
                publish(door, "orders", number, range(4))
            join(one, "orders", filter=EARLIEST)
            came = one.messages(12)
            settle(one, came[0].id, came[8].id)
            join(other, "orders")
            other.assert_nothing_came()
            expected = places(came[9:])
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        join(wire, "orders")
        assert sorted(places(wire.messages(3))) == sorted(expected)
        wire.assert_nothing_came()


@pytest.mark.clause("ES-12", "ES-16")
def test_many_links_that_join_a_new_group_at_once_share_its_partitions(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 6, **DYNAMIC)
    wires = [connect_amqp() for _ in range(3)]

    def at_once() -> None:
        """Nothing is read from sockets while this runs, so all of them are in the same turn."""
        for wire in wires:
            ask_to_join(wire, log, filter=EARLIEST)

    amqp_door.call(at_once)
    for wire in wires:
        assert granted(wire) == AGNOSTIC
    for number in range(6):
        publish(amqp_door, log, number, range(1))
    came = [wire.messages(2) for wire in wires]
    assert sorted(each.partition for both in came for each in both) == [str(number) for number in range(6)]
    for both in came:
        assert changed(both[0]) == [each.partition for each in sorted(both, key=lambda each: each.partition)]
    for wire in wires:
        wire.assert_nothing_came()


# Policies that change


@pytest.mark.clause("ES-15", "ES-16")
def test_links_that_were_assigned_attach_anew_when_the_log_becomes_dynamic(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, group_waiting="wait")
    placed, chosen, waiting = connect_amqp(), connect_amqp(), connect_amqp()
    assert joined_partition(placed, log) == "0"
    join(chosen, log, in_group("g", Symbol("1")))
    ask_to_join(waiting, log)
    waiting.assert_nothing_came()
    amqp_door.change_settings(log, **DYNAMIC)
    assert ended(placed).error is None
    assert granted(waiting) == AGNOSTIC
    chosen.assert_nothing_came()
    assert changed(next_from(amqp_door, waiting, log, 0)) == ["0"]
    assert join(placed, log, handle=1) == AGNOSTIC
    amqp_door.change_settings(log, group_binding="assign")
    assert ended(waiting).error is None
    assert ended(placed, 1).error is None
    assert joined_partition(placed, log, handle=2) == "0"
    next_from(amqp_door, chosen, log, 1)


@pytest.mark.clause("ES-12")
def test_policies_that_change_hold_for_groups_that_are_there(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    join(peer, log)
    other = connect_amqp()
    not_joined(other, Condition.LINK_DETACH_FORCED, log, handle=0)
    amqp_door.change_settings(log, group_waiting="wait", group_creation="configured")
    ask_to_join(other, log, handle=1)
    other.assert_nothing_came()
    close_link(peer)
    assert granted(other, handle=1)[PARTITION] == "0"
    not_joined(other, Condition.NOT_FOUND, log, in_group("new"), handle=2)
