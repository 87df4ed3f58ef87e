"""Sessions: windows, numbers that begin again at 0, dispositions by range, handles, and what a fault ends."""

from __future__ import annotations

import pytest

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import Condition, ErrorValue, Role
from headwater.amqp.events import (
    Closed,
    Deliveries,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    SessionEnded,
    WindowOpened,
)
from headwater.amqp.faults import EndpointGone, LinkNameInUse, NoNumberLeft
from headwater.amqp.frames import encode_frame
from headwater.amqp.link import Link
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.amqp.performatives import (
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
)
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.serial import wrapped
from headwater.amqp.session import Session, SessionState
from tests.amqp_pair import Pair, only
from tests.amqp_peer import BODY, Peer, attach_receiver, attach_sender, payloads_of, transfer

ACCEPTED = Accepted()


def ended_for(events: object) -> str:
    """The condition for which a session was ended."""
    assert isinstance(events, list)
    event = only(events, SessionEnded)
    assert event.is_answered
    assert event.error is not None
    return event.error.condition


def the_session(peer: Peer) -> Session:
    (session,) = peer.tested.sessions.values()
    return session


# Beginning and ending


@pytest.mark.clause("AMQP 2.5.1")
def test_a_session_goes_through_its_states() -> None:
    pair = Pair().open()
    ours = pair.client.begin()
    states = [ours.state]
    pair.exchange()
    states.append(ours.state)
    ours.end()
    states.append(ours.state)
    theirs = only(pair.exchange(), SessionEnded).session
    states.append(theirs.state)
    theirs.end()
    pair.exchange()
    assert states == [
        SessionState.BEGIN_SENT,
        SessionState.MAPPED,
        SessionState.END_SENT,
        SessionState.END_RECEIVED,
    ]
    assert (ours.state, theirs.state) == (SessionState.UNMAPPED, SessionState.UNMAPPED)


@pytest.mark.clause("AMQP 2.5.2")
def test_ends_that_cross_end_a_session_once() -> None:
    pair = Pair().open()
    ours, theirs = pair.session()
    ours.end()
    theirs.end()
    ended = pair.exchange()
    assert [type(event) for event in ended] == [SessionEnded, SessionEnded]
    assert all(isinstance(event, SessionEnded) and event.is_answered for event in ended)
    assert not pair.client.sessions
    assert not pair.server.sessions


@pytest.mark.clause("AMQP 2.5.2")
def test_a_session_that_we_ended_before_it_was_answered_stays_ended() -> None:
    peer = Peer().opened()
    session = peer.tested.begin()
    session.end(ErrorValue(Condition.INTERNAL_ERROR))
    session.end()
    assert [type(said) for _, said, _ in peer.heard()] == [Begin, End]
    assert not peer.say(Begin(0, 0, 10, 10), attach_sender(), channel=4)
    assert session.state is SessionState.END_SENT
    assert only(peer.say(End(), channel=4), SessionEnded).is_answered
    assert not peer.tested.sessions
    assert not peer.heard()


@pytest.mark.clause("AMQP 2.5.2")
def test_what_came_before_an_end_is_settled_before_the_answer() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    session = the_session(peer)
    event = only(peer.say((transfer(), BODY), End(ErrorValue(Condition.INTERNAL_ERROR, "x"))), SessionEnded)
    assert event == SessionEnded(session, ErrorValue(Condition.INTERNAL_ERROR, "x"), is_answered=False)
    link.settle(0, 1, ACCEPTED)
    session.end()
    assert [type(said) for _, said, _ in peer.heard()] == [Disposition, End]
    assert (session.links, link.is_attached, link.unsettled.count) == ({0: link}, False, 0)


def test_nothing_is_written_behind_an_end() -> None:
    pair = Pair().open()
    ours, _ = pair.session()
    link, _ = pair.sender(ours)
    ours.end()
    pair.client.data_to_send()
    link.detach()
    ours.write_flow()
    ours.settle(Role.SENDER, (0, 5), ACCEPTED, is_settled=True)
    ours.end()
    assert not pair.client.data_to_send()
    with pytest.raises(EndpointGone):
        SenderLink(ours, "late").attach(None, None)


@pytest.mark.clause("AMQP 2.5.4")
def test_what_comes_behind_an_end_for_a_fault_is_passed_over() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    assert ended_for(peer.say(Detach(9))) == Condition.SESSION_UNATTACHED_HANDLE
    assert not peer.say((transfer(), BODY), attach_sender(5, "more"), Detach(9), Flow(0, 1, 0, 1, 77))
    assert not peer.messages
    assert [type(said) for _, said, _ in peer.heard()] == [End]
    assert only(peer.say(End()), SessionEnded).is_answered
    peer.begun()
    peer.sender()
    peer.say((transfer(), BODY))
    assert peer.messages == [BODY]


@pytest.mark.parametrize("ends", ["session", "fault", "drop", "end of the peer", "close of the peer"])
def test_halves_of_messages_are_given_back_when_a_session_ends(ends: str) -> None:
    peer = Peer().opened().begun()
    left = peer.tested.budget.bytes_left
    peer.sender()
    peer.sender(handle=1, name="other")
    peer.say((transfer(0, more=True), BODY), (transfer(1, 1, more=True), BODY))
    assert peer.tested.budget.bytes_left == left - 2 * len(BODY)
    match ends:
        case "session":
            the_session(peer).end()
        case "fault":
            peer.say(Detach(9))
        case "drop":
            peer.tested.drop()
        case "end of the peer":
            peer.say(End())
        case _:
            data = encode_frame(0, Close())
            event, _ = peer.tested.next_event(data, 0, len(data))
            assert isinstance(event, Closed)
    assert peer.tested.budget.bytes_left == left


# Windows


@pytest.mark.clause("AMQP 2.5.6")
def test_a_transfer_beyond_our_window_ends_the_session() -> None:
    peer = Peer(Limits(incoming_window=3)).opened().begun()
    link = peer.sender()
    session = the_session(peer)
    frames = [(transfer(number), BODY) for number in range(4)]
    # The window is opened again only with the next bytes that are asked for.
    events = peer.say(*frames)
    assert [event.count for event in events if isinstance(event, Deliveries)] == [3]
    assert ended_for(events) == Condition.SESSION_WINDOW_VIOLATION
    assert (session.state, link.is_attached) == (SessionState.END_SENT, False)


@pytest.mark.clause("AMQP 2.5.6")
@pytest.mark.parametrize("first_id", [0, 7, 2**32 - 5, 2**32 - 1])
def test_our_window_is_opened_again_when_half_of_it_is_used(first_id: int) -> None:
    peer = Peer(Limits(incoming_window=8)).opened().begun(first_id)
    peer.sender()
    peer.say(*((transfer(number), BODY) for number in range(3)))
    assert not peer.heard_of(Flow)
    for number in range(3, 40):
        assert len(peer.say((transfer(number), BODY))) == 1
        for flow in peer.heard_of(Flow):
            assert (flow.incoming_window, flow.handle) == (8, None)
            assert flow.next_incoming_id == wrapped(first_id + number + 1)
    assert len(peer.messages) == 40


@pytest.mark.clause("AMQP 2.5.6")
@pytest.mark.parametrize("is_run", [True, False], ids=["runs", "frame by frame"])
def test_we_send_as_far_as_the_peers_window_goes(is_run: bool) -> None:
    peer = Peer().opened().begun(window=3)
    link = peer.receiver(credit=0)
    assert (
        only(peer.flow(incoming_window=3, handle=0, delivery_count=0, link_credit=100), LinkFlow).link is link
    )
    sent = 0
    while link.may_send:
        link.send(BODY)
        sent += 1
    assert (sent, link.session.window_left) == (3, 0)
    peer.heard()
    if is_run:
        assert only(peer.flow(next_incoming_id=3, incoming_window=2), WindowOpened).session is link.session
    else:
        assert peer.flow(next_incoming_id=1, incoming_window=4, handle=0) == [WindowOpened(link.session)]
    assert link.session.window_left == 2


@pytest.mark.clause("AMQP 2.5.6")
def test_a_window_counts_from_what_the_peer_has_seen() -> None:
    peer = Peer().opened().begun(window=10)
    link = peer.receiver()
    for _ in range(6):
        link.send(BODY)
    peer.flow(next_incoming_id=4, incoming_window=10)
    assert link.session.window_left == 8
    # A peer that has not seen our begin counts from what begin said.
    peer.flow(next_incoming_id=None, incoming_window=10)
    assert link.session.window_left == 4
    peer.flow(next_incoming_id=4, incoming_window=0)
    assert link.session.window_left <= 0
    assert not link.may_send


def test_a_window_that_shrinks_to_nothing_stops_a_message_in_its_middle() -> None:
    peer = Peer().opened(max_frame_size=512).begun(window=2)
    link = peer.receiver(credit=0)
    peer.flow(incoming_window=2, handle=0, delivery_count=0, link_credit=9)
    message = b"\x00\x53\x75\xb0\x00\x00\x07\xd0" + bytes(range(250)) * 8
    link.send(message)
    first = payloads_of(peer.heard())
    assert len(first) == 2
    assert not link.may_send
    peer.flow(next_incoming_id=2, incoming_window=1)
    link.send_rest()
    peer.flow(next_incoming_id=3, incoming_window=100)
    link.send_rest()
    assert b"".join(first + payloads_of(peer.heard())) == message
    assert link.may_send


@pytest.mark.clause("AMQP 2.5.6")
def test_an_echo_for_the_session_is_answered_once() -> None:
    peer = Peer(Limits(incoming_window=55)).opened().begun()
    assert not peer.flow(echo=True)
    assert not peer.flow(echo=True)
    flow = peer.heard_one(Flow)
    assert (flow.handle, flow.incoming_window, flow.echo) == (None, 55, False)
    assert (flow.next_incoming_id, flow.next_outgoing_id) == (0, 0)
    peer.flow()
    assert not peer.heard()


def test_a_flow_says_where_the_peers_numbers_are() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    peer.flow(next_outgoing_id=2**32 - 2, echo=True)
    assert peer.heard_one(Flow).next_incoming_id == 2**32 - 2
    peer.say((transfer(), BODY), (transfer(1), BODY), (transfer(2), BODY))
    peer.flow(next_outgoing_id=1, echo=True)
    assert peer.heard_one(Flow).next_incoming_id == 1


@pytest.mark.clause("AMQP 2.8.10")
def test_our_numbers_begin_again_at_0() -> None:
    pair = Pair(server=Limits(incoming_window=4)).open()
    ours = pair.client.begin()
    # As after four thousand million of them.
    ours._next_outgoing_id = ours._first_outgoing_id = ours.next_delivery_id = 2**32 - 3
    pair.client._out.clear()
    ours.begin()
    pair.exchange()
    link = SenderLink(ours, "up")
    link.delivery_count = 2**32 - 2
    link.attach(Source(), Target("log"))
    receiver = only(pair.exchange(), LinkAttached).link
    assert isinstance(receiver, ReceiverLink)
    receiver.accept(None, Target())
    receiver.grant(50)
    pair.exchange()
    firsts = []
    for _ in range(5):
        while link.may_send:
            link.send(BODY)
        for event in pair.exchange():
            if isinstance(event, Deliveries):
                firsts += [wrapped(event.first_id + number) for number in range(event.count)]
                receiver.settle(event.first_id, event.first_id + event.count, ACCEPTED)
        pair.exchange()
    assert firsts == [wrapped(2**32 - 3 + number) for number in range(len(firsts))]
    assert len(firsts) > 8
    assert not link.unsettled
    assert not receiver.unsettled
    assert (link.credit, wrapped(link.delivery_count)) == (receiver.credit, wrapped(receiver.delivery_count))


# Links of a session


@pytest.mark.clause("AMQP 2.6.2", "AMQP 2.8")
def test_a_handle_in_use_ends_the_session() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    assert ended_for(peer.say(attach_sender(0, "another"))) == Condition.SESSION_HANDLE_IN_USE
    assert peer.heard_one(End).error is not None


@pytest.mark.clause("AMQP 2.6.2", "AMQP 2.8")
@pytest.mark.parametrize(
    "said", [Detach(5), Flow(0, 1, 0, 1, 5, 0, 1), transfer(0, 5)], ids=["detach", "flow", "transfer"]
)
def test_a_handle_without_a_link_ends_the_session(said: Performative) -> None:
    peer = Peer().opened().begun()
    peer.sender()
    assert ended_for(peer.say(said)) == Condition.SESSION_UNATTACHED_HANDLE


@pytest.mark.clause("AMQP 2.7.2")
def test_a_handle_above_our_maximum_closes_the_connection() -> None:
    peer = Peer(Limits(handle_max=4)).opened().begun()
    peer.sender(handle=4)
    error = only(peer.say(attach_sender(5, "another")), Closed).error
    assert error is not None
    assert error.condition == Condition.CONNECTION_FRAMING_ERROR


@pytest.mark.clause("AMQP 2.7.2")
def test_our_handles_are_those_that_the_peer_takes() -> None:
    peer = Peer().opened().begun(handle_max=1)
    peer.sender()
    session = the_session(peer)
    SenderLink(session, "ours").attach(Source(), Target("x"))
    with pytest.raises(NoNumberLeft, match="no handle"):
        SenderLink(session, "more").attach(Source(), Target("x"))
    assert ended_for(peer.say(attach_sender(1, "third"))) == Condition.RESOURCE_LIMIT_EXCEEDED


def test_many_links_may_be_attached_before_begin_is_answered() -> None:
    pair = Pair().open()
    session = pair.client.begin()
    links = [SenderLink(session, str(number)) for number in range(5)]
    for link in links:
        link.attach(Source(), Target("x"))
    assert [link.handle for link in links] == [0, 1, 2, 3, 4]
    attached = [event.link for event in pair.exchange() if isinstance(event, LinkAttached)]
    assert [link.name for link in attached] == ["0", "1", "2", "3", "4"]


@pytest.mark.clause("AMQP 2.6.2")
def test_a_handle_may_be_used_again_before_its_detach_is_answered() -> None:
    peer = Peer().opened().begun()
    first = peer.sender()
    (event,) = peer.say(Detach(0))
    assert isinstance(event, LinkDetached)
    second = peer.sender(name="second")
    assert second.handle == 1
    first.detach()
    assert peer.heard_one(Detach).handle == 0
    peer.say((transfer(), BODY))
    assert peer.messages == [BODY]
    assert only(peer.say(Detach(0)), LinkDetached).link is second


@pytest.mark.clause("AMQP 2.6.1")
def test_links_of_both_roles_may_share_a_name() -> None:
    peer = Peer().opened().begun()
    peer.sender(name="same")
    peer.receiver(handle=1, name="same")
    assert [link.role for link in the_session(peer).links.values()] == [Role.RECEIVER, Role.SENDER]


@pytest.mark.clause("AMQP 2.6.1")
def test_an_attach_is_the_answer_to_ours_if_name_and_role_are() -> None:
    peer = Peer().opened().begun()
    session = the_session(peer)
    ours = SenderLink(session, "x")
    ours.attach(Source(), Target("log"))
    with pytest.raises(LinkNameInUse):
        SenderLink(session, "x").attach(Source(), Target("log"))
    ReceiverLink(session, "x").attach(Source("log"), Target())
    assert peer.say(attach_sender(7, "x"))[0] == LinkAttached(session.links[1])
    assert peer.say(attach_receiver(8, "y"))[0] == LinkAttached(session.links[2])
    assert peer.say(attach_receiver(9, "x"))[0] == LinkAttached(ours)
    assert ours.is_attached
    assert ours.remote_handle == 9


def test_a_link_that_was_given_up_before_it_was_answered_stays_so() -> None:
    peer = Peer().opened().begun()
    session = the_session(peer)
    link = SenderLink(session, "x")
    link.attach(Source(), Target("log"))
    link.detach()
    peer.heard()
    assert not peer.say(attach_receiver(3, "x"))
    assert link.is_detaching
    assert only(peer.say(Detach(3, True)), LinkDetached).is_answered
    assert not session.links
    assert not peer.heard()


def test_what_links_take_has_a_limit_until_they_are_gone() -> None:
    peer = Peer(Limits(attach_bytes_max=20_000)).opened().begun()
    count = 0
    while the_session(peer).state is SessionState.MAPPED:
        events = peer.say(attach_sender(count, "n" * 1000))
        count += 1
    assert ended_for(events) == Condition.RESOURCE_LIMIT_EXCEEDED
    assert 5 < count < 20
    peer.heard()
    # A peer that does not end the session has used up what its next one may take.
    peer.say(Begin(None, 0, 9, 9), channel=1)
    assert ended_for(peer.say(attach_sender(0, "n" * 1000), channel=1)) == Condition.RESOURCE_LIMIT_EXCEEDED
    peer.say(End())
    peer.say(Begin(None, 0, 9, 9))
    for number in range(100):
        assert [type(each) for each in peer.say(attach_sender(0, "n" * 1000))] == [LinkAttached]
        link: Link = only(peer.say(Detach(0)), LinkDetached).link
        link.detach()
        assert peer.tested.attach_bytes == 0, number


@pytest.mark.clause("AMQP 2.8")
def test_an_attach_whose_answer_would_not_fit_ends_the_session() -> None:
    peer = Peer().opened(max_frame_size=512).begun()
    events = peer.say(attach_sender(0, "n" * 600))
    assert [type(event) for event in events] == [LinkAttached, SessionEnded]
    assert ended_for(events) == Condition.FRAME_SIZE_TOO_SMALL
    said = peer.heard()
    assert [type(each) for _, each, _ in said] == [End]
    assert not the_session(peer).links[0].is_attached


def test_frames_that_belong_to_no_session_are_refused_in_one() -> None:
    peer = Peer().opened().begun()
    error = only(peer.say(attach_sender(0, "x"), Begin(None, 0, 1, 1)), Closed).error
    assert error is not None
    assert error.condition == Condition.NOT_ALLOWED


# Deliveries of a session


@pytest.mark.clause("AMQP 2.6.12", "AMQP 2.8.10")
@pytest.mark.parametrize("first", [0, 1, 2**31, 2**32 - 2, 2**32 - 1])
@pytest.mark.parametrize("is_run", [True, False], ids=["runs", "frame by frame"])
def test_the_first_delivery_may_have_any_id(first: int, is_run: bool) -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    tag = {} if is_run else {"message_format": 1}
    events = peer.say(*((transfer(wrapped(first + number), **tag), BODY) for number in range(4)))
    assert sum(event.count for event in events if isinstance(event, Deliveries)) == 4
    deliveries = only(events[:1], Deliveries)
    link.settle(deliveries.first_id, deliveries.first_id + 4, ACCEPTED)
    assert [(said.first, said.last) for said in peer.heard_of(Disposition)] == [(first, wrapped(first + 3))]


@pytest.mark.clause("AMQP 2.6.12")
@pytest.mark.parametrize("second", [5, 4, 0, 2**32 - 1])
@pytest.mark.parametrize("is_run", [True, False], ids=["runs", "frame by frame"])
def test_a_delivery_id_that_does_not_go_up_ends_the_session(second: int, is_run: bool) -> None:
    peer = Peer().opened().begun()
    peer.sender()
    peer.sender(handle=1, name="other")
    fields = {} if is_run else {"message_format": 1}
    events = peer.say((transfer(5), BODY), (transfer(second, 1, **fields), BODY))
    assert ended_for(events) == Condition.INVALID_FIELD
    assert len(peer.messages) == 1


def test_delivery_ids_may_leave_some_out() -> None:
    """A client of Event Hubs counts frames, not deliveries."""
    peer = Peer().opened().begun()
    peer.sender()
    peer.say(*((transfer(number), BODY) for number in (0, 2, 3, 7)))
    assert len(peer.messages) == 4


@pytest.mark.clause("AMQP 2.6.14")
def test_frames_of_other_links_may_come_between_those_of_a_message() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    peer.sender(handle=1, name="other")
    peer.say(
        (transfer(0, 0, more=True), BODY[:3]),
        (transfer(1, 1, more=True), BODY[:5]),
        (transfer(None, 1), BODY[5:]),
        (transfer(2, 1), b"\x00\x53\x77\x43"),
        (transfer(None, 0), BODY[3:]),
    )
    assert peer.messages == [BODY, b"\x00\x53\x77\x43", BODY]


def test_our_frames_of_many_links_may_come_between_those_of_a_message() -> None:
    peer = Peer().opened(max_frame_size=512).begun(window=1)
    peer.flow(incoming_window=1)
    links = [peer.receiver(handle=handle, name=str(handle), credit=0) for handle in range(2)]
    for handle in range(2):
        peer.flow(incoming_window=1, handle=handle, delivery_count=0, link_credit=5)
    long = b"\x00\x53\x75\xb0\x00\x00\x02\x58" + bytes(600)
    links[0].send(long)
    peer.flow(next_incoming_id=1, incoming_window=1)
    links[1].send(BODY)
    peer.flow(next_incoming_id=2, incoming_window=5)
    links[0].send_rest()
    transfers = [(said, payload) for _, said, payload in peer.heard() if isinstance(said, Transfer)]
    assert [said.handle for said, _ in transfers] == [0, 1, 0]
    assert transfers[0][1] + transfers[2][1] == long
    assert [said.more for said, _ in transfers] == [True, False, False]
    assert [said.delivery_id for said, _ in transfers] == [0, 1, None]


def test_the_answer_to_a_session_that_was_begun_has_its_channel() -> None:
    peer = Peer().opened()
    session = peer.tested.begin()
    assert [type(said) for _, said, _ in peer.heard()] == [Begin]
    peer.say(Begin(0, 5, 77, 88, handle_max=3), channel=9)
    assert (session.remote_channel, session.window_left, session.state) == (9, 77, SessionState.MAPPED)
    session.attach(link := ReceiverLink(session, "x"))
    assert link.handle == 0
    peer.say(attach_sender(3), channel=9)
    assert [link.name for link in session.links.values()] == ["x", "up"]
