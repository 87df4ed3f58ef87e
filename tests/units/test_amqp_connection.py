"""Connections: headers, open, close, channels, limits, and what of a broken peer ends."""

from __future__ import annotations

import pytest

from headwater.amqp.connection import _STATES, Connection, Limits, State, _Step
from headwater.amqp.definitions import Condition, ErrorValue, Role
from headwater.amqp.events import Closed, LinkAttached, Opened, SessionBegun, SessionEnded
from headwater.amqp.faults import EndpointGone, NoNumberLeft
from headwater.amqp.frames import (
    EMPTY_FRAME,
    FRAME_HEADER,
    ProtocolId,
    encode_frame,
    encode_sasl_frame,
    protocol_header,
)
from headwater.amqp.messaging import Accepted
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
)
from headwater.amqp.sasl_frames import SaslInit
from headwater.encoding.amqp_types import Symbol
from tests.amqp_pair import Pair, only
from tests.amqp_peer import AMQP_HEADER, BODY, Peer, attach_receiver, attach_sender, transfer


def closed_for(events: object) -> Symbol:
    """The condition for which a connection was closed."""
    assert isinstance(events, list)
    error = only(events, Closed).error
    assert error is not None
    return error.condition


# States


@pytest.mark.clause("AMQP 2.4.6")
def test_a_connection_goes_through_its_states() -> None:
    pair = Pair()
    states = [pair.client.state]
    for step in (pair.client.send_header, pair.exchange, pair.client.open, pair.exchange, pair.client.close):
        step()
        states.append(pair.client.state)
    pair.exchange()
    assert states == [
        State.START,
        State.HEADER_SENT,
        State.HEADERS_EXCHANGED,
        State.OPEN_SENT,
        State.OPENED,
        State.CLOSE_SENT,
    ]
    assert (pair.client.state, pair.server.state) == (State.END, State.END)


RECEIVED = {
    _Step.RECEIVE_OPEN: encode_frame(0, Open("peer")),
    _Step.RECEIVE_CLOSE: encode_frame(0, Close()),
}
WAYS: dict[State, list[str]] = {
    State.HEADERS_EXCHANGED: ["header"],
    State.OPEN_RECEIVED: ["header", "open"],
    State.OPEN_SENT: ["header", "our open"],
    State.OPENED: ["header", "open", "our open"],
    State.CLOSE_RECEIVED: ["header", "open", "our open", "close"],
    State.CLOSE_SENT: ["header", "open", "our open", "our close"],
}


def connection_in(state: State) -> Connection:
    """A server's connection that has come so far."""
    connection = Connection("tested")
    given = {
        "header": AMQP_HEADER,
        "open": RECEIVED[_Step.RECEIVE_OPEN],
        "close": RECEIVED[_Step.RECEIVE_CLOSE],
    }
    for step in WAYS[state]:
        if step == "our open":
            connection.open()
        elif step == "our close":
            connection.close()
        else:
            connection.next_event(given[step], 0, len(given[step]))
    assert connection.state is state
    connection.data_to_send()
    return connection


@pytest.mark.clause("AMQP 2.4.6")
@pytest.mark.parametrize("step", RECEIVED, ids=lambda step: step.name)
@pytest.mark.parametrize("state", WAYS, ids=lambda state: state.name)
def test_a_step_that_the_table_of_states_does_not_list_closes_the_connection(
    state: State, step: _Step
) -> None:
    connection = connection_in(state)
    event, _ = connection.next_event(RECEIVED[step], 0, len(RECEIVED[step]))
    following = _STATES.get((state, step))
    if following is not None:
        assert connection.state is following
    elif state is State.CLOSE_SENT:
        assert (event, connection.state) == (None, state), "what comes behind our close is passed over"
    else:
        assert isinstance(event, Closed)
        assert event.error is not None
        assert event.error.condition == Condition.ILLEGAL_STATE
        # Close is the last thing ever written, so one that was due is all that is said.
        assert connection.state is (State.END if state is State.CLOSE_RECEIVED else State.CLOSE_SENT)


def test_our_own_steps_out_of_turn_are_our_callers_fault() -> None:
    connection = Connection("tested")
    with pytest.raises(EndpointGone):
        connection.open()
    with pytest.raises(EndpointGone):
        connection.begin()
    connection.send_header()
    with pytest.raises(EndpointGone):
        connection.send_header()


@pytest.mark.clause("AMQP 2.2")
@pytest.mark.parametrize(
    "header",
    [b"HTTP/1.1", b"AMQP\x00\x00\x09\x01", protocol_header(ProtocolId.TLS), protocol_header(ProtocolId.SASL)],
)
def test_another_protocol_is_answered_with_our_header_and_the_end(header: bytes) -> None:
    peer = Peer()
    event = only(peer.give(header), Closed)
    assert event.is_answered
    assert bytes(peer.tested.data_to_send()) == AMQP_HEADER
    assert peer.tested.state is State.END


@pytest.mark.clause("AMQP 2.2")
def test_a_client_that_is_answered_by_another_protocol_says_nothing_more() -> None:
    client = Connection("client")
    client.send_header()
    client.open()
    client.data_to_send()
    header = protocol_header(ProtocolId.SASL)
    event, position = client.next_event(header, 0, len(header))
    assert isinstance(event, Closed)
    assert (position, client.state, client.pending_bytes) == (8, State.END, 0)


def test_a_header_may_come_byte_by_byte() -> None:
    peer = Peer()
    for number in range(7):
        assert not peer.give(AMQP_HEADER[number : number + 1])
        assert peer.tested.state is State.START
    peer.give(AMQP_HEADER[7:])
    assert peer.tested.state is State.HEADERS_EXCHANGED


# Open


@pytest.mark.clause("AMQP 2.4.1", "AMQP 2.7.1")
def test_both_ends_hear_every_field_of_open() -> None:
    pair = Pair(
        Limits(frame_size_bytes_max=4096, channel_max=7, idle_time_out_ms=30_000),
        Limits(frame_size_bytes_max=8192, channel_max=9),
    )
    pair.client.send_header()
    pair.client.open(
        hostname="vhost:a",
        offered_capabilities=(Symbol("one"),),
        desired_capabilities=(Symbol("two"), Symbol("three")),
        properties={Symbol("product"): "test"},
    )
    events = pair.exchange()
    opened = events[0]
    assert isinstance(opened, Opened)
    said = opened.open
    assert (said.container_id, said.hostname, said.max_frame_size) == ("client", "vhost:a", 4096)
    assert (said.channel_max, said.idle_time_out, said.properties) == (7, 30_000, {"product": "test"})
    assert (said.offered_capabilities, said.desired_capabilities) == (("one",), ("two", "three"))
    assert pair.client.remote is not None
    assert (pair.client.remote.max_frame_size, pair.client.remote.channel_max) == (8192, 9)
    assert pair.client.remote.idle_time_out is None


@pytest.mark.clause("AMQP 2.4.1")
def test_open_comes_on_channel_0_alone() -> None:
    peer = Peer()
    peer.give(AMQP_HEADER)
    assert closed_for(peer.say(Open("peer"), channel=1)) == Condition.NOT_ALLOWED


@pytest.mark.clause("AMQP 2.7.1")
@pytest.mark.parametrize(("size", "is_taken"), [(512, True), (511, False), (0, False)])
def test_a_peer_takes_frames_of_512_bytes_at_least(size: int, is_taken: bool) -> None:
    peer = Peer()
    peer.give(AMQP_HEADER)
    events = peer.say(Open("peer", max_frame_size=size))
    if is_taken:
        assert peer.tested.remote_frame_size_bytes_max == 512
        return
    assert closed_for(events) == Condition.INVALID_FIELD
    assert [type(said) for _, said, _ in peer.heard()] == [Open, Close]


@pytest.mark.clause("AMQP 2.4.6")
def test_a_second_open_closes_the_connection() -> None:
    peer = Peer().opened()
    assert closed_for(peer.say(Open("again"))) == Condition.ILLEGAL_STATE
    error = peer.heard_one(Close).error
    assert error is not None
    assert error.condition == Condition.ILLEGAL_STATE


@pytest.mark.clause("AMQP 2.4.1", "AMQP 2.4.2")
def test_header_open_begin_attach_and_transfers_may_come_in_one_piece() -> None:
    peer = Peer()
    frames = (Open("peer"), Begin(None, 0, 10, 10), attach_sender(), attach_receiver(1))
    events = peer.give(AMQP_HEADER + b"".join(encode_frame(0, each) for each in frames))
    assert [type(event) for event in events] == [Opened, SessionBegun, LinkAttached, LinkAttached]
    assert [type(said) for _, said, _ in peer.heard()] == [Open, Begin, Attach, Attach]


@pytest.mark.clause("AMQP 2.4.1", "AMQP 2.4.2")
def test_a_client_may_send_all_before_anything_is_heard() -> None:
    pair = Pair()
    pair.client.send_header()
    pair.client.open()
    session = pair.client.begin()
    kinds = [type(event) for event in pair.exchange()]
    assert kinds == [Opened, SessionBegun, Opened, SessionBegun]
    assert session.remote_channel == 0
    assert pair.client.state is State.OPENED


@pytest.mark.clause("AMQP 2.4.1")
def test_before_the_peer_has_opened_it_gets_small_frames_on_channel_0() -> None:
    client = Connection("client")
    client.send_header()
    client.open(properties={Symbol("product"): "x" * 600}, offered_capabilities=(Symbol("kept"),))
    client.begin()
    with pytest.raises(NoNumberLeft):
        client.begin()
    server = Connection("server")
    sent = bytes(client.data_to_send())
    opened, position = server.next_event(sent, 0, len(sent))
    assert isinstance(opened, Opened)
    assert opened.open.properties is None
    assert opened.open.offered_capabilities == ("kept",)
    assert position - len(AMQP_HEADER) <= 512


@pytest.mark.clause("AMQP 2.4.1")
@pytest.mark.parametrize(
    "said", [Begin(None, 0, 1, 1), End(), Flow(0, 1, 0, 1), transfer(), Disposition(Role.SENDER, 0)], ids=repr
)
def test_nothing_of_a_session_comes_before_open(said: Performative) -> None:
    peer = Peer()
    peer.give(AMQP_HEADER)
    assert closed_for(peer.say(said)) == Condition.ILLEGAL_STATE
    assert [type(heard) for _, heard, _ in peer.heard()] == [Open, Close]


# Close


@pytest.mark.clause("AMQP 2.4.3")
def test_a_close_is_answered_by_a_close_and_nothing_more() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    event = only(peer.say(Close(ErrorValue(Condition.CONNECTION_FORCED, "bye")), channel=5), Closed)
    assert event == Closed(ErrorValue(Condition.CONNECTION_FORCED, "bye"), is_answered=False)
    assert peer.heard_one(Close) == Close()
    assert peer.tested.state is State.END
    peer.tested.heartbeat()
    peer.tested.close(ErrorValue(Condition.INTERNAL_ERROR))
    link.grant(5)
    link.detach()
    assert not peer.tested.data_to_send()
    assert not peer.give(encode_frame(0, Open("x")) + b"rubbish")


@pytest.mark.clause("AMQP 2.4.3")
def test_after_our_close_all_is_passed_over_until_the_peers() -> None:
    peer = Peer().opened().begun()
    peer.sender()
    peer.tested.close(ErrorValue(Condition.CONNECTION_FORCED, "stopping"))
    assert peer.heard_one(Close).error == ErrorValue(Condition.CONNECTION_FORCED, "stopping")
    assert not peer.say((transfer(), BODY), Flow(0, 1, 0, 1, 77), Begin(None, 0, 1, 1), End(), Detach(3))
    assert not peer.messages
    assert only(peer.say(Close()), Closed).is_answered
    assert peer.tested.state is State.END
    assert not peer.heard()


@pytest.mark.clause("AMQP 2.4.3")
def test_rubbish_after_our_close_ends_the_connection_without_another_word() -> None:
    peer = Peer().opened()
    peer.tested.close()
    peer.heard()
    assert only(peer.give(b"\x00\x00\x00\x01rubbish"), Closed).is_answered
    assert peer.tested.state is State.END
    assert not peer.tested.data_to_send()
    assert not peer.give(b"\x00\x00\x00\x01rubbish")


@pytest.mark.clause("AMQP 2.4.3")
def test_outcomes_may_be_told_between_a_close_and_its_answer() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    peer.say((transfer(), BODY))
    tested = peer.tested
    data = encode_frame(0, Close())
    event, _ = tested.next_event(data, 0, len(data))
    assert isinstance(event, Closed)
    link.settle(0, 1, Accepted())
    tested.close()
    assert [type(said) for _, said, _ in peer.heard()] == [Disposition, Close]


def test_closing_twice_is_closing_once() -> None:
    peer = Peer().opened()
    peer.tested.close()
    peer.tested.close(ErrorValue(Condition.INTERNAL_ERROR))
    assert peer.heard_one(Close).error is None


@pytest.mark.parametrize("steps", [0, 1, 2], ids=["before the header", "before open", "before our open"])
def test_a_connection_can_be_closed_before_it_is_open(steps: int) -> None:
    tested = Connection("tested")
    for data in (AMQP_HEADER, encode_frame(0, Open("peer")))[:steps]:
        tested.next_event(data, 0, len(data))
    tested.close(ErrorValue(Condition.CONNECTION_FORCED))
    sent = bytes(tested.data_to_send())
    assert tested.state is (State.CLOSE_SENT if steps else State.END)
    assert sent.startswith(AMQP_HEADER) == bool(steps)


def test_an_error_that_does_not_fit_is_told_without_words() -> None:
    peer = Peer().opened(max_frame_size=512)
    peer.tested.close(ErrorValue(Condition.NOT_FOUND, "é" * 5000))
    assert peer.heard_one(Close).error == ErrorValue(Condition.NOT_FOUND)


# Frames


@pytest.mark.clause("AMQP 2.3", "AMQP 2.8")
@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", Condition.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", Condition.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x02\x07\x00\x00", Condition.CONNECTION_FRAMING_ERROR),
        (b"\xff\xff\xff\xff\x02\x00\x00\x00", Condition.CONNECTION_FRAMING_ERROR),
        (encode_sasl_frame(SaslInit(Symbol("PLAIN"))), Condition.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00rubb", Condition.DECODE_ERROR),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x24\x45", Condition.DECODE_ERROR),
    ],
)
def test_bytes_that_are_no_frame_close_the_connection(data: bytes, condition: Condition) -> None:
    peer = Peer().opened().begun()
    assert closed_for(peer.give(data)) == condition
    error = peer.heard_one(Close).error
    assert error is not None
    assert error.condition == condition


@pytest.mark.clause("AMQP 2.4.1", "AMQP 2.7.1")
def test_a_frame_above_our_maximum_closes_the_connection_before_its_bytes_come() -> None:
    peer = Peer(Limits(frame_size_bytes_max=1024)).opened().begun()
    assert closed_for(peer.give(FRAME_HEADER.pack(1025, 2, 0, 0))) == Condition.CONNECTION_FRAMING_ERROR
    peer = Peer(Limits(frame_size_bytes_max=1024)).opened().begun()
    assert not peer.give(FRAME_HEADER.pack(1024, 2, 0, 0))
    assert peer.tested.state is State.OPENED


def test_until_open_a_frame_has_a_smaller_maximum() -> None:
    limits = Limits(opening_frame_bytes_max=600)
    peer = Peer(limits)
    peer.give(AMQP_HEADER)
    assert closed_for(peer.give(FRAME_HEADER.pack(601, 2, 0, 0))) == Condition.CONNECTION_FRAMING_ERROR


def test_a_performative_has_a_size_of_its_own() -> None:
    limits = Limits(performative_bytes_max=200)
    peer = Peer(limits).opened().begun()
    peer.sender()
    peer.say((transfer(), b"\x00\x53\x75\xb0\x00\x00\x10\x00" + bytes(4096)))
    assert [len(message) for message in peer.messages] == [4096 + 8]
    long = {Symbol("filler"): "x" * 300}
    assert closed_for(peer.flow(properties=long)) == Condition.RESOURCE_LIMIT_EXCEEDED


@pytest.mark.clause("AMQP 2.8")
@pytest.mark.parametrize(
    "said",
    [
        encode_frame(0, attach_sender(1)).replace(b"\x42\x50\x02", b"\x42\x50\x07"),
        encode_frame(0, Detach(0)).replace(b"\x43", b"\x41"),
        encode_frame(0, transfer()).replace(b"\xa0\x04\0\0\0\0", b"\xa1\x04\0\0\0\0"),
    ],
    ids=["attach", "detach", "transfer"],
)
def test_a_field_that_is_wrong_ends_the_session_that_it_was_sent_to(said: bytes) -> None:
    peer = Peer().opened().begun()
    peer.sender()
    event = only(peer.give(said), SessionEnded)
    assert event.is_answered
    assert event.error is not None
    assert event.error.condition == Condition.INVALID_FIELD
    assert peer.heard_one(End).error == event.error
    assert not peer.give(said), "what was under way is passed over"
    assert peer.tested.state is State.OPENED


@pytest.mark.parametrize("said", [Open("x"), Begin(None, 0, 1, 1)])
def test_a_wrong_field_of_open_or_begin_closes_the_connection(said: Performative) -> None:
    peer = Peer().opened().begun()
    data = encode_frame(0, said)
    wrong = (
        data[:13]
        + bytes((data[13],))
        + data[14:].replace(b"\xa1\x01x", b"\xa3\x01x").replace(b"\x40\x43", b"\x41\x43")
    )
    assert wrong != data
    assert closed_for(peer.give(wrong)) == Condition.INVALID_FIELD


@pytest.mark.clause("AMQP 2.4.5")
def test_frames_without_a_body_keep_a_connection_alive_and_say_nothing() -> None:
    peer = Peer().opened()
    assert not peer.give(EMPTY_FRAME * 3)
    assert not peer.give(FRAME_HEADER.pack(12, 3, 0, 4) + bytes(4))
    peer.tested.heartbeat()
    assert bytes(peer.tested.data_to_send()) == EMPTY_FRAME


@pytest.mark.clause("AMQP 2.4.5")
def test_the_idle_time_out_is_told() -> None:
    peer = Peer(Limits(idle_time_out_ms=15_000))
    peer.give(AMQP_HEADER)
    peer.say(Open("peer"))
    assert peer.heard_one(Open).idle_time_out == 15_000


# Channels


@pytest.mark.clause("AMQP 2.5.1")
def test_a_session_that_the_peer_begins_is_answered_with_its_channel() -> None:
    peer = Peer(Limits(incoming_window=77, handle_max=5)).opened()
    event = only(peer.say(Begin(None, 11, 22, 33, handle_max=44), channel=3), SessionBegun)
    ((channel, said, _),) = peer.heard()
    assert (channel, event.session.channel) == (0, 0)
    assert isinstance(said, Begin)
    assert (said.remote_channel, said.incoming_window, said.handle_max) == (3, 77, 5)
    assert event.session.window_left == 22


@pytest.mark.clause("AMQP 2.7.1", "AMQP 2.8")
@pytest.mark.parametrize("said", [Begin(None, 0, 1, 1), End(), Flow(0, 1, 0, 1)], ids=repr)
def test_a_channel_above_our_maximum_closes_the_connection(said: Performative) -> None:
    peer = Peer(Limits(channel_max=3)).opened()
    assert only(peer.say(Begin(None, 0, 1, 1), channel=3), SessionBegun).session.channel == 0
    assert closed_for(peer.say(said, channel=4)) == Condition.CONNECTION_FRAMING_ERROR


def test_a_channel_without_a_session_closes_the_connection() -> None:
    for said in (Flow(0, 1, 0, 1), attach_sender(), (transfer(), BODY), Detach(0)):
        peer = Peer().opened().begun()
        assert closed_for(peer.say(said, channel=1)) == Condition.NOT_ALLOWED


def test_an_end_of_no_session_is_passed_over() -> None:
    peer = Peer().opened()
    assert not peer.say(End())
    assert peer.tested.state is State.OPENED
    assert not peer.heard()


def test_a_channel_has_one_session_at_a_time() -> None:
    peer = Peer().opened().begun()
    assert closed_for(peer.say(Begin(None, 0, 1, 1))) == Condition.NOT_ALLOWED


@pytest.mark.parametrize("channel", [0, 1])
def test_an_answer_to_no_begin_of_ours_closes_the_connection(channel: int) -> None:
    peer = Peer().opened().begun()
    assert closed_for(peer.say(Begin(channel, 0, 1, 1), channel=2)) == Condition.NOT_ALLOWED


@pytest.mark.clause("AMQP 2.5.1")
def test_a_channel_may_be_used_again_as_soon_as_its_session_was_ended() -> None:
    peer = Peer().opened().begun()
    events = peer.say(End(), Begin(None, 0, 1, 1))
    ended, begun = only(events, SessionEnded), only(events, SessionBegun)
    assert begun.session is not ended.session
    ended.session.end()
    assert [(channel, type(said)) for channel, said, _ in peer.heard()] == [(1, Begin), (0, End)]
    assert list(peer.tested.sessions.values()) == [begun.session]
    assert only(peer.say(End()), SessionEnded).session is begun.session


@pytest.mark.clause("AMQP 2.7.1")
def test_our_channels_are_those_that_the_peer_takes() -> None:
    peer = Peer().opened(channel_max=1)
    assert [peer.tested.begin().channel for _ in range(2)] == [0, 1]
    with pytest.raises(NoNumberLeft, match="no channel"):
        peer.tested.begin()
    peer = Peer().opened(channel_max=0).begun()
    assert closed_for(peer.say(Begin(None, 0, 1, 1), channel=1)) == Condition.RESOURCE_LIMIT_EXCEEDED


def test_a_channel_is_free_when_both_ends_have_ended() -> None:
    pair = Pair().open()
    ours, theirs = pair.session()
    ours.end()
    assert ours.channel in pair.client.sessions
    assert not only(pair.exchange(), SessionEnded).is_answered
    theirs.end()
    assert only(pair.exchange(), SessionEnded).is_answered
    assert not pair.client.sessions
    assert not pair.server.sessions
    assert pair.client.begin().channel == 0


@pytest.mark.parametrize("step_bytes", [1, 3, 8, 100])
def test_frames_may_be_cut_anywhere(step_bytes: int) -> None:
    pair = Pair()
    pair.client.send_header()
    pair.client.open()
    assert [type(event) for event in pair.exchange(step_bytes)] == [Opened, Opened]
    session = pair.client.begin()
    assert [type(event) for event in pair.exchange(step_bytes)] == [SessionBegun, SessionBegun]
    session.end()
    assert [type(event) for event in pair.exchange(step_bytes)] == [SessionEnded]


def test_the_end_of_the_socket_is_the_end_of_all() -> None:
    peer = Peer().opened().begun()
    link = peer.sender()
    peer.say((transfer(more=True), BODY))
    left = peer.tested.budget.bytes_left
    peer.tested.drop()
    assert (peer.tested.state, peer.tested.sessions) == (State.END, {})
    assert peer.tested.budget.bytes_left == left + len(BODY)
    assert not link.is_attached
    assert not isinstance(peer.give(encode_frame(0, Transfer(0))), Closed)
