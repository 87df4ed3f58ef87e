"""Event Stream Extensions, sections 4.5.2 and 4.6.3: of several receivers of a partition, who owns it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition
from headwater.amqp.performatives import Attach, Close, Detach, End
from headwater.encoding.amqp_types import (
    Array,
    Byte,
    Char,
    Described,
    Int,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.group_links import (
    EARLIEST,
    EPOCH,
    PARTITION,
    ask_to_join,
    close_link,
    ended,
    granted,
    in_group,
    join,
    not_joined,
    places,
    publish,
    refusal,
)

MAX = (1 << 63) - 1
ZERO = Symbol("0")


def owning(wire: AmqpWire, log: str, epoch: object = None, **fields: Any) -> int:
    """Attach to partition 0; gives the epoch that the answer tells."""
    found = join(wire, log, in_group("g", ZERO, epoch), **fields)[EPOCH]
    assert type(found) is int, "a long"
    return found


def current_epoch(wire: AmqpWire, log: str, handle: int) -> int:
    """What a link hears that has no greater one."""
    error = not_joined(wire, Condition.RESOURCE_LOCKED, log, in_group("g", ZERO), handle=handle)
    assert error.info is not None
    assert error.description is not None
    assert error.description.endswith(f"the current epoch is {error.info[EPOCH]}")
    found = error.info[EPOCH]
    assert type(found) is int
    return found


@pytest.fixture
def orders(amqp_door: ListeningAmqp, log: str) -> str:
    """A log of two partitions."""
    amqp_door.super_stream(log, 2)
    return log


@pytest.mark.clause("ES-18")
def test_epochs_begin_at_0_for_each_partition_and_group(peer: AmqpWire, orders: str) -> None:
    assert owning(peer, orders) == 0
    assert join(peer, orders, in_group("g", Symbol("1"), 7), handle=1)[EPOCH] == 7
    assert join(peer, orders, in_group("other", Symbol("1")), handle=2)[EPOCH] == 0
    assert current_epoch(peer, orders, 3) == 0


@pytest.mark.clause("ES-18")
@pytest.mark.parametrize("kind", [int, Ulong, Uint, Ushort, Ubyte, Int, Short, Byte])
def test_any_integer_is_an_epoch_and_a_long_is_given_back(
    peer: AmqpWire, orders: str, kind: type[int]
) -> None:
    assert owning(peer, orders, kind(5)) == 5
    found = join(peer, orders, in_group("g", Symbol("1"), kind(0)), handle=1)[EPOCH]
    assert (found, type(found)) == (0, int)


@pytest.mark.clause("ES-18")
def test_an_epoch_is_a_long_and_nothing_else(peer: AmqpWire, orders: str) -> None:
    garbage = ["1", Symbol("1"), b"1", True, 1.0, Char("1"), Timestamp(1), [1], {"1": 1}, Array((1,), int)]
    for handle, epoch in enumerate([*garbage, Described(Symbol("x"), 1), -1, Ulong(MAX + 1), Byte(-1)]):
        error = not_joined(peer, Condition.INVALID_FIELD, orders, in_group("g", ZERO, epoch), handle=handle)
        assert len(error.description or "") < 300
    assert owning(peer, orders, MAX, handle=90) == MAX


@pytest.mark.clause("ES-18", "ES-19")
def test_a_link_without_a_greater_epoch_is_refused_and_told_the_current_one(
    connect_amqp: ConnectAmqp, peer: AmqpWire, orders: str
) -> None:
    other = connect_amqp()
    assert owning(peer, orders, 5) == 5
    for handle, epoch in enumerate([None, 0, 4, 5]):
        asked = in_group("g", ZERO, epoch)
        error = not_joined(other, Condition.RESOURCE_LOCKED, orders, asked, handle=handle)
        assert error.info == {EPOCH: 5}
        assert "the current epoch is 5" in (error.description or "")
    peer.assert_nothing_came()


@pytest.mark.clause("ES-13", "ES-18", "ES-19")
def test_a_greater_epoch_takes_the_partition_and_all_that_was_not_settled(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, orders: str
) -> None:
    thief = connect_amqp()
    publish(amqp_door, orders, 0, range(4))
    owning(peer, orders, filter=EARLIEST)
    assert len(peer.messages(4)) == 4
    assert owning(thief, orders, 1) == 1
    stolen = ended(peer)
    assert stolen.closed
    assert stolen.error is not None
    assert stolen.error.condition == Condition.LINK_STOLEN
    assert places(thief.messages(4)) == [("0", number) for number in range(4)]
    publish(amqp_door, orders, 0, range(1))
    assert places(thief.messages(1)) == [("0", 4)]
    peer.assert_nothing_came()
    assert current_epoch(peer, orders, 1) == 1


@pytest.mark.clause("ES-19")
def test_links_that_steal_from_one_another_at_once_leave_the_one_with_the_greatest_epoch(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, orders: str
) -> None:
    wires = [connect_amqp() for _ in range(6)]
    for epoch in (3, 1, 5, 2, 4, 0):
        ask_to_join(wires[epoch], orders, in_group("g", ZERO, epoch))
    states = []
    for wire in wires:
        answer = wire.take(Attach)
        wire.credit(10)
        states.append(answer.source is not None)
    assert states[5]
    for epoch, wire in enumerate(wires[:5]):
        detach = wire.until(Detach)
        assert detach.error is not None
        wanted = Condition.LINK_STOLEN if states[epoch] else detach.error.condition
        assert detach.error.condition == wanted
        assert detach.error.condition in {Condition.LINK_STOLEN, Condition.RESOURCE_LOCKED}
    assert current_epoch(connect_amqp(), orders, 0) == 5
    wires[5].assert_nothing_came()


@pytest.mark.clause("ES-19")
def test_the_same_link_of_the_same_container_takes_itself_over_and_keeps_its_epoch(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, orders: str
) -> None:
    publish(amqp_door, orders, 0, range(3))
    first = connect_amqp(fields={"container_id": f"same-{orders}"})
    assert owning(first, orders, 5, filter=EARLIEST) == 5
    first.messages(3)
    again = connect_amqp(fields={"container_id": f"same-{orders}"})
    assert owning(again, orders, 2) == 5
    stolen = ended(first)
    assert stolen.error is not None
    assert stolen.error.condition == Condition.LINK_STOLEN
    assert places(again.messages(3)) == [("0", number) for number in range(3)]
    third = connect_amqp(fields={"container_id": f"same-{orders}"})
    assert join(third, orders, in_group("g"))[PARTITION] == "0", "it keeps its partition, too"
    other = connect_amqp()
    not_joined(other, Condition.RESOURCE_LOCKED, orders, in_group("g", ZERO, 5), name="member-0")


@pytest.mark.clause("ES-20")
@pytest.mark.parametrize("way", ["lost", "closed connection", "ended session", "detached"])
def test_the_epoch_stays_when_the_link_was_not_closed(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, orders: str, way: str
) -> None:
    owner = connect_amqp()
    owning(owner, orders, 5)
    if way == "lost":
        amqp_door.lose(owner)
    elif way == "closed connection":
        owner.send(Close())
        owner.take(Close)
        owner.assert_ended()
    elif way == "ended session":
        owner.send(End())
        owner.take(End)
    else:
        close_link(owner, is_closed=False)
    error = not_joined(peer, Condition.RESOURCE_LOCKED, orders, in_group("g", ZERO, 4), handle=0)
    assert error.description is not None
    assert error.description.startswith("a greater epoch has owned the partition in this group")
    assert owning(peer, orders, handle=1) == 5, "who names none takes what is free"


@pytest.mark.clause("ES-20")
def test_the_epoch_is_0_again_when_the_receiver_closes_its_link_and_none_remains(
    connect_amqp: ConnectAmqp, peer: AmqpWire, orders: str
) -> None:
    thief = connect_amqp()
    owning(peer, orders, 5)
    assert owning(thief, orders, 9) == 9
    ended(peer)
    assert current_epoch(peer, orders, 1) == 9, "one link remained"
    close_link(thief)
    assert owning(peer, orders, handle=2) == 0


@pytest.mark.clause("ES-20")
def test_epochs_survive_a_restart_those_of_closed_links_do_not(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data") as door:
        door.super_stream("orders", 2)
        with door.connect() as wire:
            owning(wire, "orders", 5)
            join(wire, "orders", in_group("g", Symbol("1"), 6), handle=1)
            close_link(wire, 1)
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        not_joined(wire, Condition.RESOURCE_LOCKED, "orders", in_group("g", ZERO, 4), handle=0)
        assert owning(wire, "orders", handle=1) == 5
        assert join(wire, "orders", in_group("g", Symbol("1")), handle=2)[EPOCH] == 0


@pytest.mark.clause("ES-18", "ES-20")
def test_what_an_answer_says_of_an_epoch_a_crash_finds(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data") as door:
        door.super_stream("orders", 2)
        with door.connect() as wire:
            owning(wire, "orders", 5)
            shutil.copytree(tmp_path / "data", tmp_path / "owned")
            close_link(wire)
            shutil.copytree(tmp_path / "data", tmp_path / "closed")
    with ListeningAmqp(tmp_path / "owned") as door, door.connect() as wire:
        assert owning(wire, "orders") == 5
    with ListeningAmqp(tmp_path / "closed") as door, door.connect() as wire:
        assert owning(wire, "orders") == 0


@pytest.mark.clause("ES-14", "ES-19")
def test_a_link_that_waits_takes_itself_over_too(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait")
    owner = connect_amqp()
    owning(owner, log)
    first, again = (connect_amqp(fields={"container_id": f"same-{log}"}) for _ in range(2))
    ask_to_join(first, log)
    first.assert_nothing_came()
    ask_to_join(again, log)
    assert refusal(first, Condition.LINK_STOLEN).description is not None
    again.assert_nothing_came()
    close_link(owner)
    assert granted(again)[PARTITION] == "0"


@pytest.mark.clause("ES-18", "ES-14")
def test_a_link_that_names_an_epoch_and_no_partition_gets_one_that_had_no_greater(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, orders: str
) -> None:
    owner = connect_amqp()
    owning(owner, orders, 5)
    amqp_door.lose(owner)
    assert join(peer, orders, in_group("g", epoch=3)) == {
        **in_group("g", Symbol("1"), 3),
    }
    not_joined(peer, Condition.LINK_DETACH_FORCED, orders, in_group("g", epoch=4), handle=1)
    assert join(peer, orders, in_group("g", epoch=6), handle=2)[PARTITION] == "0"


@pytest.mark.clause("ES-14", "ES-19")
def test_a_link_that_waits_does_not_stand_in_the_way_of_one_with_an_epoch(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait")
    owner, waiting, thief = connect_amqp(), connect_amqp(), connect_amqp()
    owning(owner, log)
    ask_to_join(waiting, log)
    waiting.assert_nothing_came()
    assert owning(thief, log, 1) == 1
    ended(owner)
    waiting.assert_nothing_came()
    close_link(thief)
    assert granted(waiting)[EPOCH] == 0


@pytest.mark.clause("ES-19")
def test_a_partition_that_is_not_there_is_owned_by_nobody(peer: AmqpWire, orders: str) -> None:
    ask_to_join(peer, orders, in_group("g", Symbol("7"), 1))
    assert refusal(peer, Condition.NOT_FOUND).description == f"'{orders}' has no partition '7'; it has 0, 1"
