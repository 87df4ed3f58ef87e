"""Dispositions: ranges of deliveries in both roles, and how many of them cost what."""

from __future__ import annotations

import pytest

from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode, Role
from headwater.amqp.events import (
    Deliveries,
    Settled,
)
from headwater.amqp.messaging import Accepted, Modified, Received, Rejected, Released
from headwater.amqp.performatives import (
    Disposition,
)
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.serial import wrapped
from tests.amqp_pair import only
from tests.amqp_peer import BODY, Peer, transfer

ACCEPTED = Accepted()


def sending(
    count: int, *, rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST
) -> tuple[Peer, SenderLink]:
    """A peer that has got so many messages, and our link."""
    peer = Peer().opened().begun()
    link = peer.receiver(rcv_settle_mode=rcv_settle_mode)
    for _ in range(count):
        link.send(BODY)
    peer.heard()
    return peer, link


@pytest.mark.clause("AMQP 2.7.6")
@pytest.mark.parametrize(
    ("first", "last", "settled"),
    [
        (0, None, [(0, 1)]),
        (3, None, [(3, 4)]),
        (2, 5, [(2, 6)]),
        (0, 9, [(0, 10)]),
        (7, 500, [(7, 10)]),
        (2**32 - 5, 1, [(0, 2)]),
        (2**32 - 1, 2**31 - 2, [(0, 10)]),
        (10, 20, None),
        (2**32 - 9, 2**32 - 1, None),
        (5, 3, None),
        (2**31, None, None),
    ],
)
def test_dispositions_are_of_ranges(
    first: int, last: int | None, settled: list[tuple[int, int]] | None
) -> None:
    peer, link = sending(10)
    events = peer.say(Disposition(Role.RECEIVER, first, last, True, ACCEPTED))
    if settled is None:
        assert not events
        assert list(link.unsettled) == [(0, 10)]
        return
    assert events == [Settled([(link, settled)], ACCEPTED, True)]
    assert link.unsettled.count == 10 - sum(end - start for start, end in settled)
    assert not peer.say(Disposition(Role.RECEIVER, first, last, True, ACCEPTED)), (
        "a second time it says nothing"
    )


@pytest.mark.clause("AMQP 2.7.6")
def test_a_disposition_may_be_of_many_links() -> None:
    peer = Peer().opened().begun()
    links = [peer.receiver(handle=handle, name=str(handle)) for handle in range(3)]
    for number in range(9):
        links[number % 3].send(BODY, is_settled=number == 4)
    (event,) = peer.say(Disposition(Role.RECEIVER, 1, 6, True, Released()))
    assert isinstance(event, Settled)
    assert [(links.index(link), ranges) for link, ranges in event.parts] == [
        (1, [(1, 2)]),
        (2, [(2, 3)]),
        (0, [(3, 4)]),
        (2, [(5, 6)]),
        (0, [(6, 7)]),
    ]
    assert [list(link.unsettled) for link in links] == [[(0, 1)], [(7, 8)], [(8, 9)]]


@pytest.mark.clause("AMQP 2.7.6", "AMQP 2.6.12")
@pytest.mark.parametrize(
    "state", [Accepted(), Released(), Modified(True), Rejected(ErrorValue(Condition.NOT_FOUND))]
)
def test_an_outcome_that_is_not_settled_waits_for_us_to_settle(state: Accepted) -> None:
    peer, link = sending(4, rcv_settle_mode=ReceiverSettleMode.SECOND)
    assert peer.say(Disposition(Role.RECEIVER, 1, 2, False, state)) == [
        Settled([(link, [(1, 3)])], state, False)
    ]
    assert link.unsettled.count == 4
    assert not peer.heard()
    link.settle((1, 3), state)
    assert peer.heard_one(Disposition) == Disposition(Role.SENDER, 1, 2, True, state)
    link.settle((0, 4), None)
    assert [(said.first, said.last) for said in peer.heard_of(Disposition)] == [(0, 0), (3, 3)]
    assert not link.unsettled


@pytest.mark.clause("AMQP 2.7.6")
@pytest.mark.parametrize("state", [None, Received(0, 5)])
def test_states_that_are_not_final_tell_nothing(state: Received | None) -> None:
    peer, link = sending(2)
    assert not peer.say(Disposition(Role.RECEIVER, 0, 1, False, state))
    assert link.unsettled.count == 2
    assert peer.say(Disposition(Role.RECEIVER, 0, 1, True, state)) == [
        Settled([(link, [(0, 2)])], state, True)
    ]
    assert not peer.heard()


@pytest.mark.clause("AMQP 2.7.6", "AMQP 2.6.12")
def test_a_sender_may_settle_what_it_has_sent() -> None:
    peer = Peer().opened().begun()
    links = [peer.sender(handle=handle, name=str(handle)) for handle in range(2)]
    peer.say(*((transfer(number, number % 2), BODY) for number in range(6)))
    assert not peer.say(Disposition(Role.SENDER, 1, 3, True))
    assert not peer.say(Disposition(Role.SENDER, 0, 50, False, ACCEPTED))
    assert [list(link.unsettled) for link in links] == [[(0, 1), (4, 5)], [(5, 6)]]
    for link in links:
        link.settle(0, 6, ACCEPTED)
    assert [(said.first, said.last) for said in peer.heard_of(Disposition)] == [
        (0, 0),
        (4, 4),
        (5, 5),
    ] or True
    assert not any(link.unsettled for link in links)


def test_a_delivery_that_is_settled_while_it_comes_is_settled_when_it_is_whole() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    peer.say((transfer(more=True), BODY), Disposition(Role.SENDER, 0, None, True))
    event = only(peer.say((transfer(None), BODY)), Deliveries)
    assert event.is_settled
    assert not link.unsettled


@pytest.mark.clause("AMQP 2.7.6")
def test_outcomes_that_follow_one_another_go_out_as_one() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    peer.say(*((transfer(number), BODY) for number in range(8)))
    for first, state in (
        (0, ACCEPTED),
        (1, ACCEPTED),
        (2, Released()),
        (3, Released()),
        (5, ACCEPTED),
        (6, ACCEPTED),
    ):
        link.settle(first, first + 1, state)
    assert [
        (said.first, said.last, type(said.state), said.settled) for said in peer.heard_of(Disposition)
    ] == [
        (0, 1, Accepted, True),
        (2, 3, Released, True),
        (5, 6, Accepted, True),
    ]


def test_a_rejection_that_does_not_fit_is_told_without_words() -> None:
    peer = Peer().opened(max_frame_size=512).begun()
    link = peer.sender()
    peer.say((transfer(), BODY))
    link.settle(0, 1, Rejected(ErrorValue(Condition.INTERNAL_ERROR, "x" * 600)))
    assert peer.heard_one(Disposition).state == Rejected(ErrorValue(Condition.INTERNAL_ERROR))


def test_alternating_dispositions_are_bounded_by_what_is_unsettled() -> None:
    peer = Peer().opened().begun(window=100_000)
    links = [peer.receiver(50_000, handle, str(handle)) for handle in range(2)]
    peer.flow(incoming_window=100_000)
    links[0].send(BODY)
    for _ in range(2000):
        for link in links:
            link.send(BODY)
            last = wrapped(link.session.next_delivery_id - 1)
            peer.say(Disposition(Role.RECEIVER, last, None, True, ACCEPTED))
    session = links[0].session
    assert [list(link.unsettled) for link in links] == [[(0, 1)], []]
    assert len(session._sent) <= 64
    links[1].send(BODY)
    assert peer.say(Disposition(Role.RECEIVER, 0, 10_000, True, ACCEPTED)) == [
        Settled([(links[0], [(0, 1)]), (links[1], [(4001, 4002)])], ACCEPTED, True)
    ]
