"""Links: attaching and detaching from either end, refusals, and what is left of a link that is gone."""

from __future__ import annotations

import pytest

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.events import LinkAttached, LinkDetached, SessionEnded
from headwater.amqp.faults import EndpointGone
from headwater.amqp.frames import encode_frame
from headwater.amqp.link import LinkState
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.amqp.performatives import Attach, Detach, Disposition, End, Flow
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_types import Symbol
from tests.amqp_pair import Pair, only
from tests.amqp_peer import BODY, Peer, attach_receiver, attach_sender, transfer

NOT_FOUND = ErrorValue(Condition.NOT_FOUND, "no such log")


def attached(peer: Peer, attach: Attach) -> SenderLink | ReceiverLink:
    """The tested end of a link that the peer attaches, which its owner has not answered yet."""
    data = encode_frame(0, attach)
    event, _ = peer.tested.next_event(data, 0, len(data))
    assert isinstance(event, LinkAttached)
    link = event.link
    assert isinstance(link, SenderLink | ReceiverLink)
    assert link.state is LinkState.ATTACH_RECEIVED
    return link


# Attaching


@pytest.mark.clause("AMQP 2.6.3")
def test_a_link_goes_through_its_states() -> None:
    pair = Pair().open()
    session, _ = pair.session()
    link = SenderLink(session, "up")
    states = [link.state]
    link.attach(Source(), Target("log"))
    states.append(link.state)
    theirs = only(pair.exchange(), LinkAttached).link
    states.append(theirs.state)
    theirs.accept(Source(), Target("log"))
    pair.exchange()
    states += [link.state, theirs.state]
    link.detach()
    states.append(link.state)
    pair.exchange()
    states.append(theirs.state)
    theirs.detach()
    pair.exchange()
    states += [link.state, theirs.state]
    assert [state.name for state in states] == [
        "NEW",
        "ATTACH_SENT",
        "ATTACH_RECEIVED",
        "ATTACHED",
        "ATTACHED",
        "DETACH_SENT",
        "DETACH_RECEIVED",
        "DETACHED",
        "DETACHED",
    ]


@pytest.mark.clause("AMQP 2.6.3", "AMQP 2.7.3")
def test_both_ends_hear_every_field_of_attach() -> None:
    pair = Pair(server=Limits(message_size_bytes_max=5000)).open()
    session, _ = pair.session()
    link = SenderLink(session, "up")
    link.delivery_count = 7
    link.attach(
        Source("me", capabilities=(Symbol("a"),)),
        Target("log", dynamic_node_properties={Symbol("x"): 1}),
        snd_settle_mode=SenderSettleMode.UNSETTLED,
        rcv_settle_mode=ReceiverSettleMode.SECOND,
        desired_capabilities=(Symbol("shared"),),
        properties={Symbol("epoch"): 5},
    )
    theirs = only(pair.exchange(), LinkAttached).link
    said = theirs.remote
    assert (said.name, said.role, said.initial_delivery_count) == ("up", Role.SENDER, 7)
    assert (said.snd_settle_mode, said.rcv_settle_mode) == (0, 1)
    assert said.source == Source("me", capabilities=(Symbol("a"),))
    assert said.target == Target("log", dynamic_node_properties={Symbol("x"): 1})
    assert (said.desired_capabilities, said.properties, said.max_message_size) == (
        ("shared",),
        {"epoch": 5},
        None,
    )
    theirs.accept(
        Source("granted"),
        Target("log"),
        offered_capabilities=(Symbol("shared"),),
        properties={Symbol("y"): "z"},
    )
    assert only(pair.exchange(), LinkAttached).link is link
    said = link.remote
    assert (said.role, said.source, said.target) == (Role.RECEIVER, Source("granted"), Target("log"))
    assert (said.offered_capabilities, said.properties) == (("shared",), {"y": "z"})
    assert (said.initial_delivery_count, said.max_message_size) == (None, 5000)
    assert (said.snd_settle_mode, said.rcv_settle_mode) == (0, 1), "what was asked for is what is agreed on"
    assert isinstance(theirs, ReceiverLink)
    assert theirs.delivery_count == 7
    assert link.message_size_bytes_max == 5000


@pytest.mark.clause("AMQP 2.6.3", "AMQP links 1")
@pytest.mark.parametrize("make", [attach_sender, attach_receiver])
def test_a_refused_attach_is_answered_without_what_was_asked_for(make: object) -> None:
    assert callable(make)
    peer = Peer().opened().begun()
    link = attached(peer, make())
    link.refuse(NOT_FOUND)
    (_, attach, _), (_, detach, _) = peer.heard()
    assert isinstance(attach, Attach)
    if make is attach_sender:
        assert (attach.role, attach.source, attach.target) == (Role.RECEIVER, Source(), None)
    else:
        assert (attach.role, attach.source, attach.target) == (Role.SENDER, None, Target())
        assert attach.initial_delivery_count == 0
    assert detach == Detach(0, True, NOT_FOUND)
    assert only(peer.say(Detach(0, True)), LinkDetached).is_answered
    assert not link.session.links


@pytest.mark.clause("AMQP 4.5", "AMQP 2.6.3")
def test_a_coordinator_can_be_refused_like_any_other_target() -> None:
    peer = Peer().opened().begun()
    attach = Attach("txn", 0, Role.SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    link = attached(peer, attach)
    assert link.remote.target == Coordinator()
    link.refuse(ErrorValue(Condition.NOT_IMPLEMENTED, "there are no transactions"))
    (_, answer, _), (_, detach, _) = peer.heard()
    assert isinstance(answer, Attach)
    assert answer.target is None
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == Condition.NOT_IMPLEMENTED


def test_a_link_is_accepted_once() -> None:
    peer = Peer().opened().begun()
    link = attached(peer, attach_sender())
    link.accept(Source(), Target())
    with pytest.raises(EndpointGone):
        link.accept(Source(), Target())
    assert len(peer.heard_of(Attach)) == 1


@pytest.mark.parametrize("ends", ["session", "connection", "socket"])
def test_a_link_cannot_be_accepted_when_its_session_is_gone(ends: str) -> None:
    peer = Peer().opened().begun()
    link = attached(peer, attach_sender())
    match ends:
        case "session":
            link.session.end()
        case "connection":
            peer.tested.close()
        case _:
            peer.tested.drop()
    peer.heard()
    with pytest.raises(EndpointGone):
        link.accept(Source(), Target())
    link.refuse(NOT_FOUND)
    assert not peer.heard()


def test_a_null_initial_delivery_count_is_0() -> None:
    peer = Peer().opened().begun()
    assert peer.sender(initial_delivery_count=None).delivery_count == 0


# Detaching


@pytest.mark.clause("AMQP 2.6.6", "AMQP links 4")
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_detach_says_whether_the_link_is_gone_for_good(is_closed: bool) -> None:
    peer = Peer().opened().begun()
    link = peer.receiver()
    (event,) = peer.say(Detach(0, is_closed))
    assert event == LinkDetached(link, is_closed, None, is_answered=False)
    link.detach(is_closed=is_closed)
    link.detach()
    assert peer.heard_one(Detach) == Detach(0, is_closed)
    assert not link.session.links


@pytest.mark.clause("AMQP 2.6.6")
def test_a_detach_with_an_error_is_told_with_it() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    assert peer.say(Detach(0, True, NOT_FOUND)) == [LinkDetached(link, True, NOT_FOUND, is_answered=False)]


@pytest.mark.clause("AMQP 2.6.6")
def test_detaches_that_cross_end_a_link_once() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    link.detach(ErrorValue(Condition.LINK_STOLEN))
    assert only(peer.say(Detach(0, True)), LinkDetached).is_answered
    link.detach()
    assert peer.heard_of(Detach) == [Detach(0, True, ErrorValue(Condition.LINK_STOLEN))]
    assert not link.session.links


@pytest.mark.clause("AMQP 2.6.1")
def test_a_stolen_link_goes_and_the_one_that_took_its_name_stays() -> None:
    peer = Peer().opened().begun()
    first = peer.sender(name="same")
    second = peer.sender(name="same", handle=1)
    first.detach(ErrorValue(Condition.LINK_STOLEN))
    peer.heard()
    peer.say((transfer(0, 0), b"\x00\x53\x77\x43"), (transfer(1, 1), BODY), Detach(0, True))
    assert peer.messages == [BODY]
    assert second.is_attached
    assert list(second.session.links.values()) == [second]


def test_a_link_that_is_detached_before_it_was_accepted_is_answered_twice() -> None:
    peer = Peer().opened().begun()
    link = attached(peer, attach_sender())
    (event,) = peer.say(Detach(0, True))
    assert event == LinkDetached(link, True, None, is_answered=True)
    assert [type(said) for _, said, _ in peer.heard()] == [Attach, Detach]
    assert not link.session.links
    with pytest.raises(EndpointGone):
        link.accept(Source(), Target())


@pytest.mark.clause("AMQP 2.6.6")
def test_what_came_before_a_detach_is_settled_before_the_answer() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    peer.say((transfer(), BODY), Detach(0, True))
    link.settle(0, 1, Accepted())
    link.detach()
    assert [type(said) for _, said, _ in peer.heard()] == [Disposition, Detach]


def test_nothing_is_told_of_deliveries_of_a_link_that_we_detached() -> None:
    peer = Peer().opened().begun()
    receiver, sender = peer.sender(), peer.receiver(handle=1)
    peer.say((transfer(), BODY))
    sender.send(BODY)
    for link in (receiver, sender):
        link.detach()
        assert not link.unsettled
    receiver.settle(0, 1, Accepted())
    assert [type(said) for _, said, _ in peer.heard()][1:] == [Detach, Detach]
    assert not peer.say(Disposition(Role.RECEIVER, 0, None, True, Accepted()))
    assert peer.tested.unsettled_budget.count == 0


@pytest.mark.clause("AMQP 2.6.6", "AMQP 2.6.14")
@pytest.mark.parametrize("who", ["we", "the peer", "a fault"])
def test_half_a_message_is_given_back_when_its_link_goes(who: str) -> None:
    peer = Peer().opened().begun()
    left = peer.tested.budget.bytes_left
    link = peer.sender()
    peer.say((transfer(more=True), BODY), (transfer(None, more=True), BODY))
    assert peer.tested.budget.bytes_left == left - 2 * len(BODY)
    match who:
        case "we":
            link.detach()
        case "the peer":
            peer.say(Detach(0))
        case _:
            peer.say((transfer(7, more=True), BODY))
            assert link.is_detaching
    assert peer.tested.budget.bytes_left == left


# What is under way


@pytest.mark.clause("AMQP 2.6.5")
def test_what_was_under_way_as_we_detached_is_passed_over() -> None:
    peer = Peer(Limits(incoming_window=20)).opened().begun()
    link = peer.sender()
    peer.say((transfer(0, more=True), BODY))
    link.detach(ErrorValue(Condition.RESOURCE_DELETED))
    peer.heard()
    assert not peer.say(
        *((transfer(None if number < 3 else number, more=number < 3), BODY) for number in range(1, 15))
    )
    assert not peer.flow(handle=0, delivery_count=0, link_credit=0)
    assert not peer.messages
    assert only(peer.say(Detach(0, True)), LinkDetached).is_answered


@pytest.mark.clause("AMQP 2.6.5", "AMQP 2.8")
def test_what_is_sent_on_after_our_detach_ends_the_session() -> None:
    peer = Peer(Limits(incoming_window=20)).opened().begun()
    link = peer.sender()
    link.detach(ErrorValue(Condition.RESOURCE_DELETED))
    peer.heard()
    for number in range(20):
        assert not peer.say((transfer(number), BODY))
        peer.heard()  # flows open the window again, and come behind the detach
    error = only(peer.say((transfer(20), BODY)), SessionEnded).error
    assert error is not None
    assert error.condition == Condition.SESSION_ERRANT_LINK


def test_an_echo_is_answered_when_the_link_is_accepted() -> None:
    peer = Peer().opened().begun()
    link = attached(peer, attach_receiver())
    peer.flow(handle=0, delivery_count=0, link_credit=3, echo=True)
    assert not peer.heard()
    link.accept(Source(), Target())
    (_, attach, _), (_, flow, _) = peer.heard()
    assert isinstance(attach, Attach)
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.link_credit) == (0, 3)


@pytest.mark.parametrize("ends", ["refused", "detached"])
def test_an_echo_is_answered_before_the_link_goes(ends: str) -> None:
    peer = Peer().opened().begun()
    link = attached(peer, attach_receiver())
    peer.flow(handle=0, delivery_count=0, link_credit=3, echo=True)
    if ends == "refused":
        link.refuse(NOT_FOUND)
    else:
        peer.say(Detach(0))
    assert [type(said) for _, said, _ in peer.heard()] == [Attach, Flow, Detach]


def test_a_fault_is_told_once_unless_the_peer_adds_an_error() -> None:
    for said, count in ((Detach(0, True), 0), (Detach(0, True, NOT_FOUND), 1)):
        peer = Peer().opened().begun()
        link = peer.sender(credit=0)
        (event,) = peer.say((transfer(), BODY))
        assert isinstance(event, LinkDetached)
        assert event.is_answered
        assert event.error is not None
        assert event.error.condition == Condition.LINK_TRANSFER_LIMIT_EXCEEDED
        assert len(peer.say(said)) == count
        assert not link.session.links
        assert not peer.heard_of(End)
