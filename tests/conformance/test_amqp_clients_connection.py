"""What AMQP clients need of a connection: headers, SASL, pipelined frames, idle time-outs, limits, the end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headwater.amqp.definitions import Condition, ErrorValue, Role
from headwater.amqp.frames import EMPTY_FRAME, encode_sasl_frame
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.amqp.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open
from headwater.amqp.sasl_frames import SaslCode, SaslInit, SaslMechanisms, SaslOutcome
from headwater.encoding.amqp_types import Symbol
from headwater.server.amqp.limits import Limits
from tests.conformance.amqp_listening import CONTAINER_ID, ListeningAmqp
from tests.conformance.amqp_wire import AMQP, SASL, AmqpWire, data, frame, transfer
from tests.conformance.conftest import ConnectAmqp

LOGIN = SASL + encode_sasl_frame(SaslInit(Symbol("PLAIN"), b"\0guest\0guest"))


def take_login(wire: AmqpWire) -> None:
    assert wire.exactly(8) == SASL
    wire.take_sasl(SaslMechanisms)
    assert wire.take_sasl(SaslOutcome).code is SaslCode.OK
    assert wire.exactly(8) == AMQP


@pytest.mark.clause("AMQP connection 1")
def test_sasl_comes_first_with_its_header_mechanisms_and_outcome(amqp_door: ListeningAmqp) -> None:
    with amqp_door.raw() as wire:
        wire.send(SASL)
        assert wire.exactly(8) == SASL
        offered = wire.take_sasl(SaslMechanisms).sasl_server_mechanisms
        assert {"PLAIN", "ANONYMOUS", "SCRAM-SHA-256"} <= set(offered)
        wire.assert_silent()
        wire.send(encode_sasl_frame(SaslInit(Symbol("PLAIN"), b"\0guest\0guest")))
        assert wire.take_sasl(SaslOutcome).code is SaslCode.OK
        wire.assert_silent()
        opened = wire.open()
        assert opened.container_id == CONTAINER_ID


@pytest.mark.clause("AMQP connection 1")
@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x01\x01\x00\x09",
        b"AMQP\x00\x01\x00\x01",
        b"AMQP\x03\x01\x01\x00",
        b"AMQP\x02\x01\x00\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"X",
    ],
)
def test_a_wrong_header_is_answered_with_ours_then_the_socket_closes(
    amqp_door: ListeningAmqp, header: bytes
) -> None:
    with amqp_door.raw() as wire:
        wire.send(header)
        assert wire.rest() == SASL


@pytest.mark.clause("AMQP connection 1")
@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"HELO", SASL])
def test_a_wrong_header_behind_sasl_is_answered_with_that_of_amqp(
    amqp_door: ListeningAmqp, header: bytes
) -> None:
    with amqp_door.raw() as wire:
        wire.greet()
        wire.send(header)
        assert wire.rest() == AMQP


@pytest.mark.clause("AMQP connection 1")
def test_a_client_without_sasl_is_anonymous_where_that_is_allowed(amqp_door: ListeningAmqp) -> None:
    with amqp_door.raw() as wire:
        wire.open()


@pytest.mark.clause("AMQP connection 1")
@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("PLAIN", b"\0guest\0wrong"), ("PLAIN", b"guest"), ("NONE", b""), ("", None)],
)
def test_a_failed_login_has_its_outcome_and_is_the_end(
    amqp_door: ListeningAmqp, mechanism: str, response: bytes | None
) -> None:
    with amqp_door.raw() as wire:
        assert wire.greet(mechanism, response).code is SaslCode.AUTH
        wire.assert_ended()


@pytest.mark.clause("AMQP connection 2")
def test_everything_from_the_header_to_transfers_may_come_in_one_segment(
    amqp_door: ListeningAmqp, log: str
) -> None:
    with amqp_door.raw() as wire:
        wire.send(
            LOGIN,
            AMQP,
            Open("all at once"),
            Begin(None, 0, 100, 100),
            Attach("up", 0, Role.SENDER, source=Source(), target=Target(log), initial_delivery_count=0),
            transfer(0, data(b"at once")),
        )
        take_login(wire)
        wire.take(Open)
        wire.take(Begin)
        assert isinstance(wire.take(Attach).target, Target)
        wire.take(Flow)
        assert wire.outcomes([0]) == {0: Accepted()}


@pytest.mark.clause("AMQP connection 2")
def test_a_whole_life_may_come_in_one_segment_and_be_cut_anywhere(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str
) -> None:
    connect_amqp().sender(log)
    life = b"".join(
        (
            LOGIN + AMQP,
            frame(Open("in pieces")),
            frame(Begin(None, 0, 100, 100)),
            frame(Attach("down", 0, Role.RECEIVER, source=Source(log), target=Target())),
            frame(Flow(0, 100, 0, 100, 0, 0, 10, drain=True)),
            EMPTY_FRAME,
            frame(Detach(0, closed=True)),
            frame(End()),
            frame(Close()),
        )
    )
    for size in (1, 7, 64, len(life)):
        with amqp_door.raw() as wire:
            for start in range(0, len(life), size):
                wire.send(life[start : start + size])
            take_login(wire)
            wire.take(Open)
            wire.take(Begin)
            wire.take(Attach)
            while not isinstance(came := wire.next().performative, Detach):
                assert isinstance(came, Flow)
            wire.take(End)
            assert wire.take(Close).error is None
            wire.assert_ended()


@pytest.mark.clause("AMQP connection 3")
def test_half_the_idle_time_out_is_announced(tmp_path: Path) -> None:
    for idle_s, announced in ((20.0, 10_000), (0.0, None)):
        with ListeningAmqp(tmp_path / str(idle_s), Limits(idle_timeout_s=idle_s)) as door, door.raw() as wire:
            wire.greet()
            assert wire.open().idle_time_out == announced


@pytest.mark.clause("AMQP connection 3")
def test_heartbeats_come_at_half_the_time_out_of_the_peer(amqp_door: ListeningAmqp) -> None:
    with amqp_door.raw() as wire:
        wire.greet()
        began = time.monotonic()
        wire.open(idle_time_out=400)
        for _ in range(3):
            assert wire.frame().performative is None
        assert time.monotonic() - began >= 0.5


@pytest.mark.clause("AMQP connection 3")
def test_no_heartbeats_come_where_none_are_asked_for(amqp_door: ListeningAmqp) -> None:
    for fields in ({}, {"idle_time_out": 0}, {"idle_time_out": 0xFFFFFFFF}):
        with amqp_door.raw() as wire:
            wire.greet()
            wire.open(**fields)
            wire.begin()
            wire.assert_silent()


@pytest.mark.clause("AMQP connection 3")
def test_a_time_out_too_short_to_be_kept_is_refused(amqp_door: ListeningAmqp) -> None:
    with amqp_door.raw() as wire:
        wire.greet()
        wire.send(AMQP, Open("hasty", idle_time_out=amqp_door.limits.peer_idle_timeout_ms_min - 1))
        assert wire.exactly(8) == AMQP
        wire.take(Open)
        wire.assert_closes(Condition.NOT_IMPLEMENTED)


@pytest.mark.clause("AMQP connection 3")
def test_who_is_silent_is_closed_with_an_error_and_who_sends_heartbeats_is_not(tmp_path: Path) -> None:
    door = ListeningAmqp(tmp_path / "data", Limits(idle_timeout_s=2.0))
    with door, door.connect() as silent, door.connect() as alive:
        while not silent.has_something(within_s=0.05):
            alive.send(EMPTY_FRAME)
        close = silent.take(Close)
        assert close.error is not None
        assert close.error.condition == Condition.RESOURCE_LIMIT_EXCEEDED
        alive.assert_nothing_came()


@pytest.mark.clause("AMQP connection 4")
def test_frames_are_no_larger_than_the_peer_takes(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    payloads = [
        data(bytes([number % 256]) * size) for number, size in enumerate((1, 300, 400, 500, 5_000, 90_000))
    ]
    writer = connect_amqp()
    writer.sender(log)
    writer.publish(payloads)
    for frame_max in (512, 513, 700, 65_536):
        wire = connect_amqp(fields={"max_frame_size": frame_max})
        wire.receiver(log)
        came = wire.messages(len(payloads))
        assert [each.record for each in came] == payloads
        assert (came[-1].frames > 1) == (frame_max < 90_000)


@pytest.mark.clause("AMQP connection 4")
def test_a_peer_that_takes_less_than_512_bytes_a_frame_is_refused(amqp_door: ListeningAmqp) -> None:
    with amqp_door.raw() as wire:
        wire.greet()
        wire.send(AMQP, Open("small", max_frame_size=511))
        wire.exactly(8)
        wire.take(Open)
        wire.assert_closes(Condition.INVALID_FIELD)


@pytest.mark.clause("AMQP connection 4")
def test_what_fits_no_frame_of_the_peer_is_said_to_be_too_large_for_it(connect_amqp: ConnectAmqp) -> None:
    wire = connect_amqp(fields={"max_frame_size": 512})
    wire.send(
        Attach("n" * 600, 0, Role.SENDER, source=Source(), target=Target("x"), initial_delivery_count=0)
    )
    wire.assert_ends(Condition.FRAME_SIZE_TOO_SMALL)


@pytest.mark.clause("AMQP connection 4")
def test_a_long_name_that_is_refused_fits_into_the_least_frame(connect_amqp: ConnectAmqp) -> None:
    wire = connect_amqp(fields={"max_frame_size": 512})
    wire.refused(Condition.NOT_FOUND, Role.RECEIVER, Source("é" * 120), Target())


@pytest.mark.clause("AMQP connection 4")
def test_a_peer_with_few_handles_gets_links_up_to_them(connect_amqp: ConnectAmqp, log: str) -> None:
    wire = connect_amqp(session=False)
    wire.send(Begin(None, 0, 100, 100, handle_max=1))
    wire.take(Begin)
    wire.sender(log)
    wire.sender(log, handle=1)
    wire.send(Attach("third", 2, Role.SENDER, source=Source(), target=Target(log), initial_delivery_count=0))
    wire.assert_ends(Condition.RESOURCE_LIMIT_EXCEEDED)
    wire.begin()
    wire.sender(log)
    wire.publish([data(b"goes on")])


@pytest.mark.clause("AMQP connection 4")
def test_a_peer_with_few_channels_gets_sessions_up_to_them(connect_amqp: ConnectAmqp) -> None:
    wire = connect_amqp(session=False, fields={"channel_max": 1})
    wire.begin()
    wire.begin(1)
    wire.send(Begin(None, 0, 100, 100), channel=2)
    wire.assert_closes(Condition.RESOURCE_LIMIT_EXCEEDED)


@pytest.mark.clause("AMQP connection 4")
def test_our_limits_are_announced_and_held(connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp) -> None:
    limits = amqp_door.limits
    with amqp_door.raw() as wire:
        wire.greet()
        opened = wire.open()
        assert opened.max_frame_size == limits.frame_size_bytes_max
        assert opened.channel_max == limits.sessions_max - 1
        wire.send(Begin(None, 0, 1, 1), channel=limits.sessions_max - 1)
        assert wire.take(Begin).remote_channel == limits.sessions_max - 1
        wire.send(Begin(None, 0, 100, 100), channel=limits.sessions_max)
        wire.assert_closes(Condition.CONNECTION_FRAMING_ERROR)
    wire = connect_amqp(session=False)
    begun = wire.begin()
    assert begun.handle_max == limits.links_max - 1
    assert begun.incoming_window == limits.incoming_window
    wire.sender("announced", handle=begun.handle_max)
    wire.send(Attach("above", limits.links_max, Role.RECEIVER, source=Source("announced"), target=Target()))
    wire.assert_closes(Condition.CONNECTION_FRAMING_ERROR)


@pytest.mark.clause("AMQP connection 5")
def test_a_close_with_an_error_waits_for_the_answer_of_the_peer(connect_amqp: ConnectAmqp) -> None:
    wire = connect_amqp()
    wire.send(Begin(None, 0, 1, 1))
    close = wire.take(Close)
    assert close.error is not None
    assert close.error.condition == Condition.NOT_ALLOWED
    wire.send(Flow(0, 1, 0, 1, echo=True), Begin(None, 0, 1, 1))
    wire.assert_silent()
    wire.send(Close())
    wire.assert_ended()


@pytest.mark.clause("AMQP connection 5")
def test_the_wait_for_the_answer_to_a_close_has_a_limit(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", Limits(close_timeout_s=0.1)) as door, door.connect() as wire:
        wire.send(Begin(None, 0, 1, 1))
        wire.take(Close)
        wire.assert_ended()


@pytest.mark.clause("AMQP connection 5")
def test_the_close_of_a_peer_is_answered_when_all_it_sent_is_settled(
    connect_amqp: ConnectAmqp, log: str
) -> None:
    wire = connect_amqp()
    wire.sender(log)
    error = ErrorValue(Condition.INTERNAL_ERROR, "the client broke")
    wire.send(transfer(0, data(b"last words")), Close(error))
    disposition = wire.take(Disposition)
    assert disposition.state == Accepted()
    assert wire.take(Close).error is None
    wire.assert_ended()


@pytest.mark.clause("AMQP connection 5")
def test_the_end_of_a_session_is_answered_when_all_it_sent_is_settled(
    connect_amqp: ConnectAmqp, log: str
) -> None:
    wire = connect_amqp()
    wire.sender(log)
    wire.send(transfer(0, data(b"last words")), End())
    assert wire.take(Disposition).state == Accepted()
    assert wire.take(End).error is None
    wire.begin()


@pytest.mark.clause("AMQP connection 1")
def test_who_takes_too_long_for_a_step_is_cut_off(tmp_path: Path) -> None:
    limits = Limits(step_timeout_s=0.1)
    with ListeningAmqp(tmp_path / "data", limits) as door:
        for said in ((), (SASL[:5],), (SASL,), (LOGIN, AMQP)):
            with door.raw() as wire:
                wire.send(*said)
                wire.rest()


@pytest.mark.clause("AMQP connection 1")
def test_an_unknown_vhost_and_one_that_a_user_may_not_enter_are_refused(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp
) -> None:
    for hostname in ("vhost:none", "vhost:"):
        with amqp_door.raw() as wire:
            wire.greet()
            wire.send(AMQP, Open("visitor", hostname=hostname))
            wire.exactly(8)
            wire.take(Open)
            wire.assert_closes(Condition.UNAUTHORIZED_ACCESS)
    for hostname in ("vhost:/", "example.org", ""):
        connect_amqp(fields={"hostname": hostname})


@pytest.mark.clause("AMQP connection 1")
def test_a_frame_before_open_may_be_16_kib_and_no_more(amqp_door: ListeningAmqp) -> None:
    size_max = 16 * 1024
    for more, is_taken in ((0, True), (1, False)):
        with amqp_door.raw() as wire:
            wire.greet()
            room = size_max + more - len(frame(Open("c" * 1000)))
            opening = frame(Open("c" * (1000 + room)))
            assert len(opening) == size_max + more
            wire.send(AMQP, opening)
            wire.exactly(8)
            wire.take(Open)
            if is_taken:
                wire.begin()
            else:
                wire.assert_closes(Condition.CONNECTION_FRAMING_ERROR)


@pytest.mark.clause("AMQP connection 2")
def test_transfers_cut_anywhere_are_taken_whole(connect_amqp: ConnectAmqp, log: str) -> None:
    wire = connect_amqp()
    wire.sender(log)
    payloads = [data(b"%d" % number) for number in range(20)]
    sent = b"".join(transfer(number, payload) for number, payload in enumerate(payloads))
    for start in range(0, len(sent), 11):
        wire.send(sent[start : start + 11])
    assert set(wire.outcomes(range(20)).values()) == {Accepted()}
    reader = connect_amqp()
    reader.receiver(log)
    assert [each.record for each in reader.messages(20)] == payloads
