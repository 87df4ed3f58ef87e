"""Links on which we receive: credit, messages of one frame and of several, limits, and who settles first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.amqp.connection import Connection, Limits, PartialBudget
from headwater.amqp.definitions import Condition, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.events import Deliveries, Event, LinkDetached, LinkFlow
from headwater.amqp.faults import EndpointGone
from headwater.amqp.frames import encode_frame
from headwater.amqp.messaging import Accepted, Received, Rejected
from headwater.amqp.performatives import Detach, Disposition, Flow, Transfer
from headwater.encoding.amqp_message import data_section
from headwater.encoding.amqp_types import Described, Ulong
from tests.amqp_pair import only
from tests.amqp_peer import BODY, Peer, messages_of, transfer

ACCEPTED = Accepted()
FIRST, SECOND = ReceiverSettleMode.FIRST, ReceiverSettleMode.SECOND
FORMS = pytest.mark.parametrize("fields", [{}, {"message_format": 1}], ids=["runs", "frame by frame"])


def detached_for(events: Sequence[Event]) -> str:
    """The condition for which a link was detached, while its session goes on."""
    event = only(events, LinkDetached)
    assert (event.is_closed, event.is_answered) == (True, True)
    assert event.error is not None
    return event.error.condition


# Credit


@pytest.mark.clause("AMQP 2.6.7")
def test_credit_is_given_by_a_flow_that_says_where_the_link_stands() -> None:
    peer = Peer(Limits(incoming_window=33)).opened().begun(7)
    link = peer.sender(credit=0, initial_delivery_count=2**32 - 1)
    link.grant(5)
    flow = peer.heard_one(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (0, 2**32 - 1, 5, False)
    assert (flow.next_incoming_id, flow.incoming_window) == (7, 33)
    peer.say((transfer(0), BODY), (transfer(1), BODY))
    link.grant(9)
    flow = peer.heard_one(Flow)
    assert (flow.delivery_count, flow.link_credit, flow.next_incoming_id) == (1, 9, 9)


@pytest.mark.clause("AMQP 2.6.7", "AMQP 2.8")
@FORMS
def test_a_delivery_without_credit_detaches_the_link(fields: dict[str, Any]) -> None:
    peer = Peer().opened().begun()
    link = peer.sender(credit=2)
    other = peer.sender(handle=1, name="other")
    events = peer.say(*((transfer(number, **fields), BODY) for number in range(3)))
    assert detached_for(events) == Condition.LINK_TRANSFER_LIMIT_EXCEEDED
    assert len(peer.messages) == 2
    assert peer.heard_one(Detach).closed
    assert link.is_detaching
    peer.say((transfer(5, 1), BODY))
    assert len(peer.messages) == 3
    assert other.is_attached


@pytest.mark.clause("AMQP 2.6.7")
def test_a_sender_may_give_up_credit() -> None:
    peer = Peer().opened().begun()
    link = peer.sender(credit=10)
    assert peer.flow(handle=0, delivery_count=4, link_credit=6, available=77) == [LinkFlow(link)]
    assert (link.credit, link.delivery_count, link.available) == (6, 4, 77)
    peer.flow(handle=0, delivery_count=2)
    assert (link.credit, link.delivery_count) == (6, 4), "what was sent is not unsent"
    peer.flow(handle=0, delivery_count=40)
    assert (link.credit, link.delivery_count) == (0, 40)


@pytest.mark.clause("AMQP 2.6.7")
def test_a_drain_asks_the_sender_to_give_up_its_credit() -> None:
    peer = Peer().opened().begun()
    link = peer.sender(credit=10)
    link.drain()
    flow = peer.heard_one(Flow)
    assert (flow.drain, flow.echo, flow.link_credit) == (True, True, 10)
    peer.flow(handle=0, delivery_count=10, link_credit=0, drain=True)
    assert link.credit == 0
    link.grant(3)
    assert (peer.heard_one(Flow).drain, link.credit) == (False, 3)
    link.detach()
    with pytest.raises(EndpointGone):
        link.drain()
    link.grant(10)
    assert not peer.heard_of(Flow)


# Messages of one frame


@pytest.mark.clause("AMQP 2.6.12")
@FORMS
@pytest.mark.parametrize("is_settled", [True, False])
def test_messages_come_in_one_event_or_alone(fields: dict[str, Any], is_settled: bool) -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    events = peer.say(*((transfer(number, settled=is_settled, **fields), BODY) for number in range(5)))
    assert len(events) == (5 if fields else 1)
    assert all(isinstance(event, Deliveries) and event.is_settled is is_settled for event in events)
    assert peer.messages == [BODY] * 5
    assert link.unsettled.count == (0 if is_settled else 5)
    assert (link.credit, link.delivery_count) == (95, 5)


@FORMS
def test_delivery_annotations_are_told_apart(fields: dict[str, Any]) -> None:
    header, annotations = b"\x00\x53\x70\xc0\x02\x01\x41", b"\x00\x53\x71\xc1\x01\x00"
    peer = Peer().opened().begun()
    peer.sender()
    peer.say(
        (transfer(0, **fields), header + annotations + BODY), (transfer(1, **fields), annotations + BODY)
    )
    peer.say((transfer(2, more=True), header + annotations[:3]), (transfer(None), annotations[3:] + BODY))
    assert peer.messages == [header + BODY, BODY, header + BODY]


@pytest.mark.clause("AMQP 2.7.5")
def test_a_transfer_without_payload_is_an_empty_message() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    event = only(peer.say(transfer()), Deliveries)
    assert (event.count, messages_of(event)) == (1, [b""])
    peer.say(transfer(1, more=True), transfer(None, more=True), transfer(None))
    assert peer.messages == [b"", b""]


# Messages of several frames


@pytest.mark.clause("AMQP 2.6.14", "AMQP 2.7.5")
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_message_of_several_frames_is_put_together(step: int) -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    message = data_section(bytes(number % 251 for number in range(500)))
    left = peer.tested.budget.bytes_left
    frames: list[tuple[Transfer, bytes]] = [
        (transfer(None if at else 9, more=at + step < len(message)), message[at : at + step])
        for at in range(0, len(message), step)
    ]
    frames[0] = (transfer(9, more=len(frames) > 1, message_format=3, settled=None), frames[0][1])
    (event,) = [each for each in peer.say(*frames[:900]) if isinstance(each, Deliveries)]
    assert (event.first_id, event.count, event.message_format, event.is_settled) == (9, 1, 3, False)
    assert peer.messages == [message]
    assert peer.tested.budget.bytes_left == left
    assert (link.credit, link.unsettled.count) == (99, 1)


@pytest.mark.clause("AMQP 2.7.5")
def test_what_identifies_a_delivery_may_be_said_again() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    peer.say(
        (transfer(5, more=True, message_format=2), BODY[:4]),
        (transfer(5, more=True, message_format=2), BODY[4:6]),
        (transfer(None, delivery_tag=bytes((0, 0, 0, 5))), BODY[6:]),
    )
    assert peer.messages == [BODY]


@pytest.mark.clause("AMQP 2.7.5", "AMQP 2.6.5")
@pytest.mark.parametrize(
    ("following", "condition"),
    [
        (transfer(6), Condition.NOT_ALLOWED),
        (transfer(5, delivery_tag=b"other"), Condition.NOT_ALLOWED),
        (transfer(None, message_format=1), Condition.NOT_ALLOWED),
        (transfer(None, settled=False), Condition.INVALID_FIELD),
        (transfer(None, delivery_tag=bytes(33)), Condition.INVALID_FIELD),
        (transfer(None, state=Described(Ulong(0x34), [b"txn"])), Condition.NOT_IMPLEMENTED),
        (transfer(None, settled=False, rcv_settle_mode=SECOND), Condition.INVALID_FIELD),
    ],
)
def test_a_delivery_that_changes_in_its_middle_detaches_the_link(
    following: Transfer, condition: Condition
) -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    left = peer.tested.budget.bytes_left
    peer.say((transfer(5, more=True, settled=True), BODY))
    assert detached_for(peer.say((following, BODY))) == condition
    assert peer.heard_one(Detach).closed
    assert peer.tested.budget.bytes_left == left
    assert not peer.messages
    assert link.session.links == {0: link}


@pytest.mark.clause("AMQP 2.7.5")
@pytest.mark.parametrize(
    ("first", "condition"),
    [
        (Transfer(0, delivery_tag=b"t"), Condition.INVALID_FIELD),
        (Transfer(0, 0), Condition.INVALID_FIELD),
        (transfer(0, delivery_tag=bytes(33)), Condition.INVALID_FIELD),
        (transfer(0, rcv_settle_mode=SECOND), Condition.INVALID_FIELD),
        (transfer(0, state=Described(Ulong(0x34), [b"txn"])), Condition.NOT_IMPLEMENTED),
    ],
)
def test_a_delivery_that_begins_wrongly_detaches_the_link(first: Transfer, condition: Condition) -> None:
    peer = Peer().opened().begun()
    peer.sender()
    assert detached_for(peer.say((first, BODY))) == condition


def test_a_transfer_of_a_link_that_the_peer_receives_on_detaches_it() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver()
    assert detached_for(peer.say((transfer(), BODY))) == Condition.NOT_ALLOWED
    assert link.is_detaching
    assert not peer.say((transfer(1), BODY))


@pytest.mark.clause("AMQP 2.6.14", "AMQP 2.7.5")
def test_an_aborted_message_leaves_nothing() -> None:
    peer = Peer().opened().begun()
    link = peer.sender(credit=3)
    left = peer.tested.budget.bytes_left
    events = peer.say((transfer(0, more=True), BODY), (transfer(None, aborted=True), BODY))
    assert events == [LinkFlow(link)]
    assert peer.say(transfer(1, aborted=True)) == [LinkFlow(link)]
    assert (link.credit, link.delivery_count, link.unsettled.count) == (1, 2, 0)
    assert peer.tested.budget.bytes_left == left
    peer.say((transfer(2), BODY))
    assert peer.messages == [BODY]


@pytest.mark.clause("AMQP 2.6.13", "AMQP 2.7.5")
def test_a_resumed_delivery_is_passed_over_to_its_end() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    left = peer.tested.budget.bytes_left
    events = peer.say(
        (transfer(0, resume=True, more=True), BODY),
        (transfer(None, more=True), BODY),
        (transfer(None, resume=True), BODY),
        transfer(1, resume=True, state=Received(0, 0)),
    )
    assert events == [LinkFlow(link), LinkFlow(link)]
    assert not link.unsettled
    assert peer.tested.budget.bytes_left == left
    peer.say((transfer(2), BODY))
    assert peer.messages == [BODY]


# Limits


@pytest.mark.clause("AMQP 2.7.3", "AMQP 2.8")
@pytest.mark.parametrize("parts", [1, 2, 3])
@FORMS
def test_a_message_above_our_maximum_detaches_the_link(parts: int, fields: dict[str, Any]) -> None:
    message = data_section(bytes(200))
    cuts = [len(message) * part // parts for part in range(parts + 1)]

    def frames(id_: int, data: bytes) -> list[tuple[Transfer, bytes]]:
        return [
            (
                transfer(None if part else id_, more=part + 1 < parts, **({} if part else fields)),
                data[cuts[part] : cuts[part + 1] if part + 1 < parts else None],
            )
            for part in range(parts)
        ]

    peer = Peer(Limits(message_size_bytes_max=len(message))).opened().begun()
    peer.sender()
    left = peer.tested.budget.bytes_left
    peer.say(*frames(0, message))
    assert peer.messages == [message]
    events = peer.say(*frames(1, message + b"\0"))
    assert detached_for(events) == Condition.LINK_MESSAGE_SIZE_EXCEEDED
    assert peer.messages == [message]
    assert peer.tested.budget.bytes_left == left


def test_half_messages_of_all_connections_share_one_budget() -> None:
    budget = PartialBudget(100)
    peers = [Peer(budget=budget).opened().begun() for _ in range(3)]
    for peer in peers:
        peer.sender()
    for peer in peers[:2]:
        assert not peer.say((transfer(0, more=True), bytes(40)))
    assert (
        detached_for(peers[2].say((transfer(0, more=True), bytes(40)))) == Condition.RESOURCE_LIMIT_EXCEEDED
    )
    assert budget.bytes_left == 20
    # What is in one frame needs none of it.
    peers[2].sender(handle=1, name="whole")
    peers[2].say((transfer(1, 1), data_section(bytes(500))))
    assert len(peers[2].messages) == 1
    # The last part counts too.
    assert detached_for(peers[0].say((transfer(None), bytes(40)))) == Condition.RESOURCE_LIMIT_EXCEEDED
    assert budget.bytes_left == 60
    peers[1].tested.drop()
    assert budget.bytes_left == 100


# Settling


@pytest.mark.clause("AMQP 2.7.3", "AMQP 2.7.5")
@pytest.mark.parametrize("parts", [1, 2])
@FORMS
@pytest.mark.parametrize(
    ("mode", "is_settled", "is_taken"),
    [
        (SenderSettleMode.SETTLED, True, True),
        (SenderSettleMode.SETTLED, False, False),
        (SenderSettleMode.SETTLED, None, False),
        (SenderSettleMode.UNSETTLED, True, False),
        (SenderSettleMode.UNSETTLED, False, True),
        (SenderSettleMode.UNSETTLED, None, True),
        (SenderSettleMode.MIXED, True, True),
        (SenderSettleMode.MIXED, None, True),
    ],
)
def test_deliveries_are_settled_as_the_link_was_attached(
    mode: SenderSettleMode, is_settled: bool | None, is_taken: bool, parts: int, fields: dict[str, Any]
) -> None:
    peer = Peer().opened().begun()
    peer.sender(snd_settle_mode=mode)
    if parts == 1:
        events = peer.say((transfer(settled=is_settled, **fields), BODY))
    else:
        events = peer.say(
            (transfer(more=True, **fields), BODY[:3]), (transfer(None, settled=is_settled), BODY[3:])
        )
    if is_taken:
        assert only(events, Deliveries).is_settled is bool(is_settled)
    else:
        assert detached_for(events) == Condition.INVALID_FIELD


@pytest.mark.clause("AMQP 2.6.12", "AMQP 2.7.6")
def test_a_link_that_settles_first_settles_with_its_outcome() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    peer.say(*((transfer(number), BODY) for number in range(4)))
    link.settle(0, 3, ACCEPTED)
    link.settle(2, 9, Rejected())
    assert peer.heard_of(Disposition) == [
        Disposition(Role.RECEIVER, 0, 2, True, ACCEPTED),
        Disposition(Role.RECEIVER, 3, 3, True, Rejected()),
    ]
    assert not link.unsettled


@pytest.mark.clause("AMQP 2.6.12", "AMQP 2.7.6")
def test_a_link_that_settles_second_waits_for_its_sender() -> None:
    peer = Peer().opened().begun()
    link = peer.sender(rcv_settle_mode=SECOND)
    peer.say(*((transfer(number), BODY) for number in range(4)))
    link.settle(0, 4, ACCEPTED)
    assert peer.heard_of(Disposition) == [Disposition(Role.RECEIVER, 0, 3, False, ACCEPTED)]
    assert list(link.unsettled) == [(0, 4)]
    peer.say(Disposition(Role.SENDER, 1, 2, True, ACCEPTED))
    assert list(link.unsettled) == [(0, 1), (3, 4)]
    peer.say(Disposition(Role.SENDER, 0, 3, True))
    assert not link.unsettled
    assert not peer.heard_of(Disposition)


@pytest.mark.clause("AMQP 2.7.5", "AMQP 2.6.12")
def test_one_delivery_may_be_settled_first_on_a_link_that_settles_second() -> None:
    peer = Peer().opened().begun()
    link = peer.sender(rcv_settle_mode=SECOND)
    modes = (None, FIRST, SECOND)
    peer.say(*((transfer(number, rcv_settle_mode=modes[number]), BODY) for number in range(3)))
    link.settle(0, 3, ACCEPTED)
    assert [(said.first, said.settled) for said in peer.heard_of(Disposition)] == [(0, False), (1, True)]
    assert list(link.unsettled) == [(0, 1), (2, 3)]


def test_the_mode_of_a_settled_delivery_means_nothing() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    peer.say((transfer(settled=True, rcv_settle_mode=SECOND), BODY))
    assert peer.messages == [BODY]


def test_a_sender_that_settles_with_gaps_has_a_limit() -> None:
    peer = Peer(Limits(unsettled_ranges_max=10)).opened().begun()
    link = peer.sender(rcv_settle_mode=SECOND)
    first = peer.sender(handle=1, name="first")
    events: list[Event] = []
    number = 0
    while link.is_attached:
        events = peer.say((transfer(number), BODY), (transfer(number + 1), BODY))
        link.settle(number, number + 2, ACCEPTED)
        peer.say(Disposition(Role.SENDER, number, None, True))
        number += 2
        assert number < 100
    assert detached_for(events) == Condition.RESOURCE_LIMIT_EXCEEDED
    # It was the link's own choice to let its sender settle last: others are not concerned.
    peer.say((transfer(number + 2, 1), BODY))
    assert first.is_attached
    assert first.unsettled.count == 1
    assert peer.tested.unsettled_budget.count == 0


def test_a_run_ends_where_an_event_does() -> None:
    connection = Connection("tested", Limits(run_count_max=3))
    peer = Peer()
    peer.tested = connection
    peer.opened().begun()
    peer.sender()
    data = b"".join(encode_frame(0, transfer(number), BODY) for number in range(8))
    assert [event.count for event in peer.give(data) if isinstance(event, Deliveries)] == [3, 3, 2]
