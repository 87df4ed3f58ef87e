"""Links on which we send: credit, drain, messages of several frames, and what the peer settles."""

from __future__ import annotations

from array import array
from contextlib import nullcontext

import pytest

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import Role, SenderSettleMode
from headwater.amqp.events import LinkFlow, Settled
from headwater.amqp.frames import read_frame
from headwater.amqp.messaging import Accepted
from headwater.amqp.performatives import Detach, Disposition, Flow, Transfer, decode_performative
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.serial import wrapped
from headwater.encoding._span_kernel import FRAME_HEAD_BYTES, SPAN_FIELDS
from headwater.encoding.amqp_message import data_section
from tests.amqp_pair import Pair, only
from tests.amqp_peer import BODY, Peer, payloads_of

ANNOTATIONS = b"\x00\x53\x71\xc1\x15\x02\xa3\x01o\xa1\x10" + b"0" * 16


def records(*bodies: bytes) -> tuple[bytes, array[int]]:
    """Messages one after the other, and their spans."""
    spans, position = array("q"), 0
    for body in bodies:
        spans.extend((position, position, position, position + len(body)))
        position += len(body)
    return b"".join(bodies), spans


def send_all(link: SenderLink, *bodies: bytes, bytes_max: int = 1 << 20) -> int:
    data, spans = records(*bodies)
    return link.send_records(data, spans, 0, len(spans) // SPAN_FIELDS, ANNOTATIONS, bytes_max)


# Credit


@pytest.mark.clause("AMQP 2.6.7")
@pytest.mark.parametrize("is_run", [True, False], ids=["records", "one by one"])
def test_no_more_is_sent_than_there_is_credit_for(is_run: bool) -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(credit=3)
    if is_run:
        assert send_all(link, *[BODY] * 10) == 3
    else:
        while link.may_send:
            link.send(BODY)
    assert (link.credit, link.delivery_count, link.unsettled.count) == (0, 3, 3)
    assert len(payloads_of(peer.heard())) == 3
    with pytest.raises(AssertionError):
        link.send(BODY)
    with pytest.raises(AssertionError):
        send_all(link, BODY)


@pytest.mark.clause("AMQP 2.6.7", "AMQP 2.8.10")
@pytest.mark.parametrize("start", [0, 5, 2**31 - 2, 2**32 - 2])
def test_credit_counts_from_the_delivery_count_that_the_receiver_knows(start: int) -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(credit=0)
    link.delivery_count = start
    peer.flow(handle=0, delivery_count=wrapped(start), link_credit=5)
    send_all(link, *[BODY] * 4)
    assert wrapped(link.delivery_count) == wrapped(start + 4)
    peer.flow(handle=0, delivery_count=wrapped(start + 1), link_credit=5)
    assert link.credit == 2
    peer.flow(handle=0, delivery_count=wrapped(start + 1), link_credit=1)
    assert link.credit == 0, "what was sent already is not taken back"
    peer.flow(handle=0, delivery_count=wrapped(start + 4), link_credit=2**32 - 1)
    assert link.credit == 2**32 - 1


def test_credit_from_a_delivery_count_ahead_of_ours_can_be_told() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(credit=0)
    peer.flow(handle=0, delivery_count=2**31 - 1, link_credit=2**32 - 1, echo=True)
    assert (peer.heard_one(Flow).link_credit, link.credit) == (2**32 - 1, 2**32 - 1)


@pytest.mark.clause("AMQP 2.6.7")
def test_a_receiver_that_has_not_seen_our_attach_counts_from_what_it_says() -> None:
    pair = Pair().open()
    session, _ = pair.session()
    link = SenderLink(session, "up")
    link.delivery_count = 2**32 - 1
    link.attach(None, None)
    pair.client.data_to_send()
    link.receive_flow(Flow(0, 1, 0, 1, 0, None, 5))
    assert link.credit == 5
    link.delivery_count += 2
    link.receive_flow(Flow(0, 1, 0, 1, 0, None, 5))
    assert link.credit == 3


def test_a_flow_without_credit_leaves_the_credit_as_it_is() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(credit=7)
    assert peer.flow(handle=0, echo=True) == [LinkFlow(link)]
    assert link.credit == 7
    assert peer.heard_one(Flow).link_credit == 7


@pytest.mark.clause("AMQP 2.6.7")
def test_an_echo_says_where_the_link_stands() -> None:
    peer = Peer(Limits(incoming_window=44)).opened().begun()
    link = peer.receiver(credit=9)
    link.available = 123
    send_all(link, BODY, BODY)
    peer.heard()
    peer.flow(handle=0, delivery_count=0, link_credit=9, echo=True)
    flow = peer.heard_one(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.available) == (0, 2, 7, 123)
    assert (flow.next_outgoing_id, flow.incoming_window, flow.drain) == (2, 44, False)


@pytest.mark.clause("AMQP 2.6.7")
@pytest.mark.parametrize("sent", [0, 2])
def test_a_drain_gives_up_the_credit_that_is_left(sent: int) -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(credit=0)
    peer.flow(handle=0, delivery_count=0, link_credit=5, drain=True)
    assert link.is_draining
    if sent:
        send_all(link, *[BODY] * sent)
        peer.heard()
    link.drained()
    flow = peer.heard_one(Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)
    assert (link.credit, link.is_draining, link.may_send) == (0, False, False)
    link.drained()
    assert not peer.heard()


@pytest.mark.clause("AMQP 2.6.7")
def test_a_drain_without_credit_is_answered_too() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(credit=0)
    peer.flow(handle=0, delivery_count=0, link_credit=0, drain=True)
    link.drained()
    assert (peer.heard_one(Flow).link_credit, link.delivery_count) == (0, 0)


def test_a_drain_waits_for_a_message_that_is_half_sent() -> None:
    peer = Peer().opened(max_frame_size=512).begun(window=1)
    peer.flow(incoming_window=1)
    link = peer.receiver(credit=0)
    peer.flow(incoming_window=1, handle=0, delivery_count=0, link_credit=5, drain=True)
    link.send(data_section(bytes(600)))
    link.drained()
    assert link.is_draining
    peer.flow(next_incoming_id=1, incoming_window=5)
    link.send_rest()
    link.drained()
    assert [type(said) for _, said, _ in peer.heard()] == [Transfer, Transfer, Flow]


def test_what_is_unsettled_in_too_many_ranges_waits_for_the_peer_to_settle() -> None:
    peer = Peer(Limits(unsettled_ranges_max=8)).opened().begun()
    link, other = peer.receiver(1000), peer.receiver(1000, 1, "other")
    count = 0
    while link.may_send:
        (link if count % 2 else other).send(BODY)
        count += 1
    assert count == 8
    assert not other.may_send
    budget = peer.tested.unsettled_budget
    heard = []
    for id_ in (0, 1):
        peer.say(Disposition(Role.RECEIVER, id_, None, True, Accepted()))
        heard.append((link.may_send, budget.has_room_again(), budget.has_room_again()))
    assert heard == [(False, False, False), (True, True, False)]
    link.detach()
    other.detach()
    assert budget.count == 0


def test_one_link_without_gaps_may_leave_any_number_unsettled() -> None:
    peer = Peer(Limits(unsettled_ranges_max=2)).opened().begun(window=10_000)
    link = peer.receiver(credit=5000)
    peer.flow(incoming_window=10_000)
    while link.may_send:
        send_all(link, *[BODY] * 500)
    assert (link.unsettled.count, link.unsettled.range_count) == (5000, 1)


# Frames


@pytest.mark.clause("AMQP 2.6.14", "AMQP 2.7.5")
@pytest.mark.parametrize("frame_max", [512, 513, 1000, 70_000])
@pytest.mark.parametrize("size", [0, 1, 431, 432, 433, 5000, 70_000])
def test_a_message_is_split_into_frames_that_the_peer_takes(frame_max: int, size: int) -> None:
    peer = Peer().opened(max_frame_size=frame_max).begun()
    link = peer.receiver()
    message = bytes(number % 251 for number in range(size))
    assert link.send(message, message_format=7, delivery_tag=b"t" * 32, is_settled=False) == 0
    assert link.send(BODY) == 1
    sent = bytes(peer.tested.data_to_send())
    frames: list[tuple[Transfer, bytes]] = []
    position = 0
    while position < len(sent):
        frame = read_frame(sent, position, len(sent), frame_max)
        assert frame is not None
        said, payload = decode_performative(sent, frame.position, frame.end)
        assert isinstance(said, Transfer)
        frames.append((said, sent[payload : frame.end]))
        position = frame.end
    (*parts, (following, last)) = frames
    assert b"".join(part for _, part in parts) == message
    assert [said.more for said, _ in parts] == [True] * (len(parts) - 1) + [False]
    first = parts[0][0]
    assert (first.delivery_id, first.delivery_tag, first.message_format) == (0, b"t" * 32, 7)
    assert {(said.delivery_id, said.delivery_tag, said.message_format) for said, _ in parts[1:]} <= {
        (None,) * 3
    }
    assert {said.settled for said, _ in parts} == {False}
    assert (following.delivery_id, last) == (1, BODY)
    assert link.session.window_left == 1000 - len(frames)


def test_records_that_need_several_frames_are_left_to_be_sent_alone() -> None:
    peer = Peer().opened(max_frame_size=512).begun()
    link = peer.receiver()
    short, long = data_section(bytes(100)), data_section(bytes(600))
    assert send_all(link, short, long, short) == 1
    assert send_all(link, long) == 0
    assert (link.delivery_count, link.unsettled.count, link.session.next_delivery_id) == (1, 1, 1)


def test_records_go_as_far_as_there_is_room() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver()
    frame = FRAME_HEAD_BYTES + len(ANNOTATIONS) + len(BODY)
    assert send_all(link, *[BODY] * 10, bytes_max=3 * frame + 5) == 3
    assert len(peer.tested.data_to_send()) == 3 * frame


@pytest.mark.clause("AMQP 2.7.3")
def test_a_message_above_what_the_peer_takes_is_not_sent() -> None:
    message = data_section(bytes(100))
    size = len(message) + len(ANNOTATIONS)
    for size_max, sent in ((size, 1), (size - 1, 0), (0, 1), (None, 1)):
        peer = Peer().opened().begun()
        link = peer.receiver(max_message_size=size_max)
        assert send_all(link, message) == sent
        with nullcontext() if sent else pytest.raises(AssertionError):
            link.send(message + ANNOTATIONS)


def test_the_annotations_of_records_count_up() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver()
    send_all(link, BODY, BODY, BODY)
    assert payloads_of(peer.heard()) == [ANNOTATIONS[:-1] + digit + BODY for digit in (b"0", b"1", b"2")]


@pytest.mark.clause("AMQP 2.7.5")
def test_each_delivery_has_an_id_and_a_tag_of_its_own() -> None:
    peer = Peer().opened().begun()
    link = peer.receiver()
    link.session.next_delivery_id = 2**32 - 2
    link.send(BODY)
    send_all(link, BODY, BODY)
    said = peer.heard_of(Transfer)
    assert [each.delivery_id for each in said] == [2**32 - 2, 2**32 - 1, 0]
    assert [each.delivery_tag for each in said] == [b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff", bytes(4)]


# Settling


@pytest.mark.clause("AMQP 2.6.12", "AMQP 2.7.3")
@pytest.mark.parametrize("mode", SenderSettleMode)
def test_deliveries_are_settled_as_the_link_agreed_on(mode: SenderSettleMode) -> None:
    peer = Peer().opened().begun()
    link = peer.receiver(snd_settle_mode=mode)
    link.send(BODY)
    send_all(link, BODY)
    is_settled = mode is SenderSettleMode.SETTLED
    assert [said.settled for said in peer.heard_of(Transfer)] == [is_settled] * 2
    assert link.unsettled.count == (0 if is_settled else 2)
    assert bool(peer.say(Disposition(Role.RECEIVER, 0, 1, True, Accepted()))) is not is_settled


@pytest.mark.clause("AMQP 2.6.12")
def test_settled_deliveries_cost_nothing() -> None:
    peer = Peer().opened().begun(window=100_000)
    links = [
        peer.receiver(10_000, handle, str(handle), snd_settle_mode=SenderSettleMode.SETTLED)
        for handle in (0, 1)
    ]
    peer.flow(incoming_window=100_000)
    for number in range(5000):
        links[number % 2].send(BODY)
    assert peer.tested.unsettled_budget.count == 0
    assert len(links[0].session._sent) == 0


def test_what_the_peer_settles_while_it_is_half_sent_is_sent_to_its_end() -> None:
    peer = Peer().opened(max_frame_size=512).begun(window=1)
    peer.flow(incoming_window=1)
    link = peer.receiver(credit=0)
    peer.flow(incoming_window=1, handle=0, delivery_count=0, link_credit=5)
    link.send(data_section(bytes(600)))
    assert only(peer.say(Disposition(Role.RECEIVER, 0, None, True, Accepted())), Settled).is_settled
    peer.flow(next_incoming_id=1, incoming_window=9)
    link.send_rest()
    assert [said.more for said in peer.heard_of(Transfer)] == [True, False]
    assert not link.unsettled


def test_the_rest_of_a_message_is_not_sent_on_a_link_that_is_gone() -> None:
    for ends in ("we", "the peer"):
        peer = Peer().opened(max_frame_size=512).begun(window=1)
        peer.flow(incoming_window=1)
        link = peer.receiver(credit=0)
        peer.flow(incoming_window=1, handle=0, delivery_count=0, link_credit=5)
        link.send(data_section(bytes(600)))
        peer.heard()
        if ends == "we":
            link.detach()
        else:
            peer.say(Detach(0))
        peer.flow(next_incoming_id=1, incoming_window=9)
        link.send_rest()
        assert not peer.heard_of(Transfer)
