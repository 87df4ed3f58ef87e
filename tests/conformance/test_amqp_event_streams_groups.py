"""Event Stream Extensions, section 4.5: who is in a consumer group, what members get, and where the group stands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.messaging import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    Source,
)
from headwater.amqp.performatives import Attach, Detach, Disposition, End, Flow, Transfer
from headwater.encoding.amqp_message import SectionCode, decode_section, read_sections
from headwater.encoding.amqp_types import Array, Described, Symbol, Timestamp, Uint
from headwater.engine.group_record import GroupDefinition, GroupId
from headwater.server.management.policies import cursor_limits, group_policy
from headwater.server.security.permissions import Permission
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, Delivered, data, from_offset
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.group_links import (
    EARLIEST,
    EPOCH,
    GROUP,
    LATEST,
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
from tests.conformance.listening import PASSWORD

GARBAGE = [1, b"g", True, ["g"], {"g": 1}, Described(Symbol("x"), "g"), Array(("g",), str), 1.5, ""]


def delivery_count(message: Delivered) -> int:
    """What the header says of deliveries before."""
    sections = read_sections(message.record, 0, len(message.record))
    headers = [decode_section(message.record, each) for each in sections if each.code is SectionCode.HEADER]
    return headers[0].delivery_count if headers else 0


# Who is in a group


@pytest.mark.clause("ES-11", "ES-12", "ES-13", "ES-14", "ES-18", "ES-21", "ES-23")
def test_links_that_name_a_group_are_bound_to_a_partition_each_and_get_its_events(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    publish(amqp_door, log, 0, range(3))
    publish(amqp_door, log, 1, range(3))
    for number in ("0", "1"):
        wire = connect_amqp()
        properties = join(wire, log, filter=EARLIEST)
        assert properties == {GROUP: "g", EPOCH: 0, PARTITION: number}
        assert (type(properties[GROUP]), type(properties[EPOCH])) == (str, int), "a string and a long"
        assert type(properties[PARTITION]) is Symbol
        came = wire.messages(3)
        assert places(came) == [(number, 0), (number, 1), (number, 2)]
        assert all(type(each.annotations[Symbol("event-streams-timestamp")]) is Timestamp for each in came)
        assert len(came[0].annotations) == 3
        wire.assert_nothing_came()


@pytest.mark.clause("ES-12", "ES-2")
def test_a_link_that_names_no_group_is_in_none_whatever_else_is_there(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(2))
    join(peer, log, filter=EARLIEST)
    peer.messages(2)
    assert peer.receiver(log, handle=1, filter=FIRST).properties is None
    assert places(peer.messages(2)) == [("0", 0), ("0", 1)]


@pytest.mark.clause("ES-12")
@pytest.mark.parametrize("name", ["ü 漢字 \n", "x" * 4096, Symbol("symbol"), "$state", "a/b?c#d"])
def test_a_group_has_any_name_and_is_given_back_as_a_string(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, name: str
) -> None:
    amqp_door.super_stream(log, 2)
    properties = join(peer, log, in_group(name))
    assert properties[GROUP] == name
    assert type(properties[GROUP]) is str
    assert join(peer, log, in_group(str(name)), handle=1)[PARTITION] == "1"


@pytest.mark.clause("ES-12")
def test_what_is_no_name_of_a_group_is_refused_and_makes_no_log(peer: AmqpWire, log: str) -> None:
    for handle, name in enumerate(GARBAGE):
        not_joined(peer, Condition.INVALID_FIELD, log, in_group(name), handle=handle)
    error = not_joined(peer, Condition.INVALID_FIELD, log, {GROUP: "g", EPOCH: "7"}, handle=50)
    assert error.description == "event-streams-epoch is '7'; it is an integer"
    assert peer.attach(Role.RECEIVER, Source(log), None, handle=60).source is None


@pytest.mark.clause("ES-12")
def test_a_name_that_is_too_long_is_refused(peer: AmqpWire, amqp_door: ListeningAmqp, log: str) -> None:
    amqp_door.super_stream(log, 1)
    error = not_joined(peer, Condition.INVALID_FIELD, log, in_group("ü" * 2049))
    assert len(error.description or "") < 400


@pytest.mark.clause("ES-12")
def test_where_groups_are_configured_a_link_makes_none(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2, group_creation="configured")
    error = not_joined(peer, Condition.NOT_FOUND, log)
    assert "'g'" in (error.description or "")
    configure(amqp_door, log, "g")
    assert joined_partition(peer, log, handle=1) == "0"
    not_joined(peer, Condition.NOT_FOUND, log, in_group("other"), handle=2)


@pytest.mark.clause("ES-12")
def test_groups_and_their_members_have_bounds(peer: AmqpWire, amqp_door: ListeningAmqp, log: str) -> None:
    amqp_door.super_stream(log, 3, groups_max=1, group_members_max=2)
    join(peer, log, handle=0)
    join(peer, log, handle=1)
    not_joined(peer, Condition.RESOURCE_LIMIT_EXCEEDED, log, handle=2)
    not_joined(peer, Condition.RESOURCE_LIMIT_EXCEEDED, log, in_group("other"), handle=3)


@pytest.mark.clause("ES-12")
def test_who_may_not_read_is_in_no_group_and_who_may_no_longer_leaves_it(
    peer: AmqpWire, amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    amqp_door.add_user(f"reader-{log}", {"/": Permission("", "", "other")})
    reader = connect_amqp(user=f"reader-{log}", password=PASSWORD)
    not_joined(reader, Condition.UNAUTHORIZED_ACCESS, log)
    amqp_door.permit(f"reader-{log}", read=log)
    assert joined_partition(reader, log, handle=1, filter=EARLIEST) == "0"
    amqp_door.permit(f"reader-{log}", read="other")
    publish(amqp_door, log, 0, range(1))
    assert error_of(ended(reader, 1)) == Condition.UNAUTHORIZED_ACCESS
    assert joined_partition(peer, log) == "0"
    assert places([peer.message()]) == [("0", 0)], "nothing of it was delivered before"


@pytest.mark.clause("ES-12", "ES-14")
def test_the_only_partition_of_a_log_and_the_address_of_a_partition_are_bound_too(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 3)
    assert join(peer, f"{log}-2", handle=0) == {GROUP: "g", EPOCH: 0, PARTITION: "2"}
    not_joined(peer, Condition.RESOURCE_LOCKED, log, in_group("g", Symbol("2")), handle=1)
    amqp_door.call(lambda: amqp_door.store.create_log(f"{log}-alone"))
    assert join(peer, f"{log}-alone", handle=2) == {GROUP: "g", EPOCH: 0, PARTITION: "0"}


# A free partition, or none


@pytest.mark.clause("ES-14")
def test_a_link_for_which_no_partition_is_free_is_detached_by_force(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    join(peer, log, in_group("g", Symbol("1")), handle=0)
    assert joined_partition(peer, log, handle=1) == "0"
    error = not_joined(peer, Condition.LINK_DETACH_FORCED, log, handle=2)
    assert error.description == f"all partitions have owners in this group: 'g' on '{log}'"
    assert joined_partition(peer, log, asked=in_group("other"), handle=3) == "0"
    close_link(peer, 1)
    assert joined_partition(peer, log, handle=4) == "0"


@pytest.mark.clause("ES-14")
def test_where_links_wait_the_attach_is_answered_when_a_partition_is_free(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait")
    owner, second, third = connect_amqp(), connect_amqp(), connect_amqp()
    join(owner, log)
    for waiting in (second, third):
        ask_to_join(waiting, log)
        waiting.assert_nothing_came()
    close_link(owner)
    assert granted(second)[PARTITION] == "0"
    third.assert_nothing_came()
    amqp_door.lose(second)
    assert granted(third)[PARTITION] == "0"


@pytest.mark.clause("ES-14")
def test_credit_that_came_while_the_attach_waited_counts(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait")
    owner, waiting = connect_amqp(), connect_amqp()
    join(owner, log, filter=EARLIEST)
    publish(amqp_door, log, 0, range(3))
    owner.messages(3)
    ask_to_join(waiting, log)
    waiting.credit(2)
    waiting.assert_nothing_came()
    amqp_door.lose(owner)
    granted(waiting, credit=0)
    assert places(waiting.messages(2)) == [("0", 0), ("0", 1)]
    waiting.assert_nothing_came()


@pytest.mark.clause("ES-14")
def test_nobody_waits_for_longer_than_the_limit(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait", group_wait_ms_max=50)
    owner, waiting = connect_amqp(), connect_amqp()
    join(owner, log)
    error = not_joined(waiting, Condition.LINK_DETACH_FORCED, log)
    assert error.description == f"no partition became free in time: 'g' on '{log}'"
    owner.assert_nothing_came()


@pytest.mark.clause("ES-14")
@pytest.mark.parametrize("way", ["detach", "end", "cut"])
def test_one_that_waited_and_went_gets_nothing(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str, way: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait")
    owner, gone, waiting = connect_amqp(), connect_amqp(), connect_amqp()
    join(owner, log)
    ask_to_join(gone, log)
    gone.assert_nothing_came()
    ask_to_join(waiting, log)
    waiting.assert_nothing_came()
    if way == "detach":
        gone.send(Detach(0, closed=True))
        assert gone.take(Attach).source is None
        gone.take(Detach)
    elif way == "end":
        gone.send(End())
        gone.take(End)
    else:
        amqp_door.lose(gone)
    close_link(owner)
    assert granted(waiting)[PARTITION] == "0"


# Where the group stands


@pytest.mark.clause("ES-15", "ES-3")
def test_a_new_group_begins_where_its_filter_says_or_with_what_comes_from_now_on(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(3))
    filters: list[dict[Symbol, Any] | None] = [None, EARLIEST, LATEST, from_offset(1)]
    for handle, each in enumerate(filters):
        join(peer, log, in_group(f"group {handle}"), handle=handle, filter=each, credit=0)
    counts = []
    for handle in range(len(filters)):
        peer.credit(10, handle, drain=True)
        counts.append(0)
        while isinstance(peer.next().performative, Transfer):
            counts[-1] += 1
    assert counts == [0, 3, 0, 2]


@pytest.mark.clause("ES-15", "ES-16")
def test_a_receiver_without_a_filter_goes_on_where_the_group_stands_and_one_with_a_filter_there(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    first, second, third, fourth = (connect_amqp() for _ in range(4))
    publish(amqp_door, log, 0, range(6))
    join(first, log, filter=EARLIEST)
    came = first.messages(6)
    settle(first, came[0].id, came[1].id)
    settle(first, came[3].id)
    close_link(first)
    join(second, log)
    again = second.messages(3)
    assert places(again) == [("0", 2), ("0", 4), ("0", 5)]
    assert [delivery_count(each) for each in again] == [1, 1, 1]
    close_link(second)
    join(third, log, filter=EARLIEST)
    assert places(third.messages(6)) == [("0", number) for number in range(6)]
    close_link(third)
    join(fourth, log, filter=LATEST)
    fourth.assert_nothing_came()


@pytest.mark.clause("ES-15")
@pytest.mark.parametrize(
    ("state", "comes_again"),
    [
        (Accepted(), False),
        (Rejected(), False),
        (Released(), True),
        (Modified(delivery_failed=True), True),
        (Modified(), True),
    ],
)
def test_outcomes_mean_what_they_say(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, state: DeliveryState, *, comes_again: bool
) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(2))
    join(peer, log, filter=EARLIEST)
    first, _ = peer.messages(2)
    settle(peer, first.id, state=state)
    if comes_again:
        (again,) = peer.messages(1)
        assert places([again]) == [("0", 0)]
        assert delivery_count(again) == (1 if isinstance(state, Modified) and state.delivery_failed else 0)
    peer.assert_nothing_came()


@pytest.mark.clause("ES-15")
def test_what_is_settled_without_an_outcome_is_released_unless_the_source_says_else(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(1))
    join(peer, log, filter=EARLIEST)
    peer.send(Disposition(Role.RECEIVER, peer.message().id, None, settled=True))
    assert places([peer.message()]) == [("0", 0)]


@pytest.mark.clause("ES-15")
def test_events_that_were_sent_settled_do_not_come_again(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    first, second = connect_amqp(), connect_amqp()
    publish(amqp_door, log, 0, range(5))
    join(first, log, filter=EARLIEST, credit=3, snd_settle_mode=SenderSettleMode.SETTLED)
    assert all(each.settled for each in first.messages(3))
    amqp_door.lose(first)
    join(second, log)
    assert places(second.messages(2)) == [("0", 3), ("0", 4)]


@pytest.mark.clause("ES-15", "ES-26")
def test_what_a_filter_leaves_out_is_settled_for_the_group(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    first, second = connect_amqp(), connect_amqp()
    publish(amqp_door, log, 0, range(1000))
    sql = Symbol("amqp:event-streams-sql-filter")
    words = "d.event-streams-offset = '0000000000000007' OR d.event-streams-offset = '00000000000003e6'"
    join(first, log, filter={Symbol("f"): Described(sql, words)}, credit=1)
    (came,) = first.messages(1)
    assert came.offset == 7
    settle(first, came.id)
    first.assert_nothing_came()
    first.credit(1, delivery_count=1)
    assert first.message().offset == 998
    close_link(first)
    join(second, log)
    assert second.message().offset == 998
    assert second.message().offset == 999
    second.assert_nothing_came()


# Credit, windows, drain


@pytest.mark.clause("ES-14")
def test_credit_is_kept_to_one_by_one(peer: AmqpWire, amqp_door: ListeningAmqp, log: str) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(4))
    join(peer, log, filter=EARLIEST, credit=1)
    for number in range(4):
        came = peer.message()
        assert came.offset == number
        settle(peer, came.id)
        peer.assert_nothing_came()
        peer.credit(1, delivery_count=number + 1)
    peer.assert_nothing_came()


@pytest.mark.clause("ES-2")
def test_drain_gives_all_there_is_and_the_rest_of_the_credit_back(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(3))
    join(peer, log, filter=EARLIEST, credit=0)
    peer.credit(10, drain=True)
    assert len(peer.messages(3)) == 3
    flow = peer.take(Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 10, True)
    publish(amqp_door, log, 0, range(3, 4))
    peer.assert_nothing_came()


@pytest.mark.clause("ES-2")
def test_drain_waits_for_a_window_that_is_full(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(5))
    wire = connect_amqp(session=False)
    wire.begin(window=2)
    join(wire, log, filter=EARLIEST, credit=0)
    wire.send(Flow(0, 2, 0, 1, 0, 0, 10, drain=True))
    assert places(wire.messages(2)) == [("0", 0), ("0", 1)]
    wire.send(Flow(2, 2, 0, 1))
    assert places(wire.messages(2)) == [("0", 2), ("0", 3)]
    wire.send(Flow(4, 2, 0, 1))
    assert places(wire.messages(1)) == [("0", 4)]
    flow = wire.take(Flow)
    assert (flow.link_credit, flow.delivery_count) == (0, 10)


@pytest.mark.clause("ES-2")
def test_large_messages_go_out_in_small_frames(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    peer.sender(f"{log}-0")
    bodies = [data(b"before"), data(b"x" * 50_000), data(b"behind")]
    peer.publish(bodies)
    small = connect_amqp(fields={"max_frame_size": 512})
    join(small, log, filter=EARLIEST)
    came = small.messages(3)
    assert [each.record for each in came] == bodies
    assert came[1].frames > 50
    settle(small, came[0].id, came[2].id)
    close_link(small)
    join(peer, log, handle=1)
    peer.assert_nothing_came()


@pytest.mark.clause("ES-2")
def test_a_message_that_the_receiver_does_not_take_ends_its_link_behind_those_before(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    peer.sender(f"{log}-0")
    peer.publish([data(b"before"), data(b"x" * 50_000), data(b"behind")])
    picky, second = connect_amqp(), connect_amqp()
    join(picky, log, filter=EARLIEST, max_message_size=1000, snd_settle_mode=SenderSettleMode.SETTLED)
    assert picky.message().offset == 0
    picky.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED)
    join(second, log)
    came = second.messages(2)
    assert places(came) == [("0", 1), ("0", 2)], "what was sent settled is settled"
    assert [delivery_count(each) for each in came] == [1, 0], "only the one that did not fit was tried"


# Settling second


@pytest.mark.clause("ES-16")
def test_with_settle_mode_second_ours_comes_when_a_crash_would_find_it(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", cursor_flush_s=0.2) as door:
        door.super_stream("orders", 1)
        with door.connect() as wire:
            publish(door, "orders", 0, range(6))
            join(wire, "orders", filter=EARLIEST, rcv_settle_mode=ReceiverSettleMode.SECOND)
            came = wire.messages(6)
            settle(wire, came[0].id, came[1].id, settled=False)
            settle(wire, came[3].id, settled=False)
            told = [wire.take(Disposition) for _ in range(2)]
            assert all(each.settled for each in told)
            shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    with ListeningAmqp(tmp_path / "crashed") as door, door.connect() as wire:
        join(wire, "orders")
        assert places(wire.messages(3)) == [("0", 2), ("0", 4), ("0", 5)]


# What becomes of the log


@pytest.mark.clause("ES-12")
def test_a_log_that_is_deleted_ends_the_links_of_its_groups_pending_ones_too(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1, group_waiting="wait")
    join(peer, log, handle=0)
    ask_to_join(peer, log, handle=1)
    peer.assert_nothing_came()
    amqp_door.call(lambda: amqp_door.store.delete_log(log))
    assert error_of(ended(peer, 0)) == Condition.RESOURCE_DELETED
    assert peer.take(Attach).source is None
    assert error_of(ended(peer, 1)) == Condition.RESOURCE_DELETED
    amqp_door.super_stream(log, 1)
    publish(amqp_door, log, 0, range(1))
    join(peer, log, handle=2)
    peer.assert_nothing_came()


@pytest.mark.clause("ES-13")
def test_a_partition_that_is_added_is_free_and_read_from_its_beginning(
    connect_amqp: ConnectAmqp, peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    join(peer, log)
    store = amqp_door.store
    amqp_door.call(lambda: store.create_log(f"{log}-new"))
    with amqp_door.connect() as publisher:
        publisher.sender(f"{log}-new")
        publisher.publish([data(b"before it was bound")])
    amqp_door.call(lambda: store.bind_stream(log, f"{log}-new", key="1"))
    wire = connect_amqp()
    assert joined_partition(wire, log) == "1"
    assert places([wire.message()]) == [("1", 0)]


@pytest.mark.clause("ES-13")
def test_a_partition_that_is_taken_away_ends_the_link_that_is_bound_to_it(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 1)
    store = amqp_door.store
    amqp_door.call(lambda: store.create_log(f"{log}-new"))
    amqp_door.call(lambda: store.bind_stream(log, f"{log}-new", key="1"))
    join(peer, log, in_group("g", Symbol("1")), handle=0)
    join(peer, log, in_group("g", Symbol("0")), handle=1)
    amqp_door.call(lambda: store.delete_log(f"{log}-new"))
    assert ended(peer, 0).error is not None
    publish(amqp_door, log, 0, range(1))
    assert places([peer.message()]) == [("0", 0)]


# After a restart


@pytest.mark.clause("ES-15", "ES-20")
def test_a_group_stands_where_it_stood_after_a_restart(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data") as door:
        door.super_stream("orders", 2)
        with door.connect() as wire:
            publish(door, "orders", 0, range(5))
            join(wire, "orders", in_group("g", Symbol("0"), 7), filter=EARLIEST)
            came = wire.messages(5)
            settle(wire, came[0].id, came[2].id)
            wire.assert_nothing_came()
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        error = not_joined(wire, Condition.RESOURCE_LOCKED, "orders", in_group("g", Symbol("0"), 6), handle=1)
        assert error.info == {EPOCH: 7}
        assert join(wire, "orders", in_group("g", Symbol("0")))[EPOCH] == 7
        assert places(wire.messages(2)) == [("0", 3), ("0", 4)]
        assert joined_partition(wire, "orders", handle=2, asked=in_group("g", epoch=Uint(1))) == "1"


def error_of(detach: Detach) -> Symbol:
    """Why a link was detached."""
    assert detach.error is not None
    return detach.error.condition


def configure(door: ListeningAmqp, log: str, group: str) -> None:
    """Make a group as an operator does."""

    def make() -> None:
        found = door.store.log(log)
        settings = found.definition.settings
        definition = GroupDefinition(GroupId("/", log, group), found.definition.id, is_configured=True)
        door.consumers.configure_group(
            definition, group_policy(settings), found.numbers, cursor_limits(settings)
        )

    door.call(make)
