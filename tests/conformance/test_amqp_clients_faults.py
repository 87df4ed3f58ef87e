"""What each fault of an AMQP peer ends, and with which condition: the smallest thing that it can."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.amqp.definitions import Condition, ReceiverSettleMode, Role
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.amqp.performatives import Attach, Begin, Close, Disposition, End, Flow, Open, Transfer
from headwater.errors import PartitionDeleted, WriteFailed
from headwater.log.reader import Reader
from headwater.server.amqp.limits import Limits
from tests.amqp_frames import described
from tests.amqp_frames import frame as hand_made_frame
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AMQP, AmqpWire, data, frame, transfer
from tests.conformance.conftest import ConnectAmqp

FRAMING = Condition.CONNECTION_FRAMING_ERROR
UP = Attach("up", 5, Role.SENDER, source=Source(), target=Target("x"), initial_delivery_count=0)


@pytest.mark.clause("AMQP harm 6")
@pytest.mark.parametrize(
    ("sent", "condition"),
    [
        (b"\0\0\0\x07\x02\0\0\0", FRAMING),
        (b"\0\0\0\x08\x01\0\0\0", FRAMING),
        (b"\0\0\0\x08\x03\0\0\0", FRAMING),
        (b"\0\0\0\x08\x02\x02\0\0", FRAMING),
        (b"\0\0\0\x08\x02\x01\0\0", FRAMING),
        (b"\xff\xff\xff\xff\x02\0\0\0", FRAMING),
        (b"HTTP/1.1", FRAMING),
        (AMQP, FRAMING),
        (hand_made_frame(0, b"garbage"), Condition.DECODE_ERROR),
        (hand_made_frame(0, described(0x19, b"\x45")), Condition.DECODE_ERROR),
        (hand_made_frame(0, b"\0\x53\x11\xc0\xff"), Condition.DECODE_ERROR),
        (frame(Open("again")), Condition.ILLEGAL_STATE),
        (frame(Begin(None, 0, 1, 1)), Condition.NOT_ALLOWED),
        (frame(Begin(77, 0, 1, 1), channel=3), Condition.NOT_ALLOWED),
        (frame(Begin(None, 0, 1, 1), channel=9_999), FRAMING),
        (frame(UP, channel=9), Condition.NOT_ALLOWED),
        (frame(Transfer(0), b"", 9), Condition.NOT_ALLOWED),
    ],
)
def test_what_ends_the_connection(
    connect_amqp: ConnectAmqp, log: str, sent: bytes, condition: Condition
) -> None:
    wire, other = connect_amqp(), connect_amqp()
    wire.sender(log)
    other.sender(log)
    wire.send(sent)
    close = wire.take(Close)
    assert close.error is not None
    assert close.error.condition == condition
    other.publish([data(b"goes on")])


@pytest.mark.clause("AMQP harm 6")
@pytest.mark.parametrize(
    ("sent", "condition"),
    [
        (Attach("up", 0, Role.SENDER, initial_delivery_count=0), Condition.SESSION_HANDLE_IN_USE),
        (Flow(0, 1, 0, 1, 66, 0, 1), Condition.SESSION_UNATTACHED_HANDLE),
        (Transfer(66, 0, b"t"), Condition.SESSION_UNATTACHED_HANDLE),
    ],
)
def test_what_ends_the_session(
    connect_amqp: ConnectAmqp, log: str, sent: Attach | Flow | Transfer, condition: Condition
) -> None:
    wire = connect_amqp()
    wire.begin(1)
    wire.sender(log)
    wire.receiver(log, handle=1, credit=0)
    wire.send(sent, transfer(0, data(b"passed over")), Flow(0, 1, 0, 1, echo=True))
    wire.assert_ends(condition)
    wire.assert_nothing_came(1)
    wire.begin()
    wire.receiver(log)
    wire.assert_nothing_came()


@pytest.mark.clause("AMQP harm 6")
@pytest.mark.parametrize(
    ("sent", "condition"),
    [
        (Transfer(0), Condition.INVALID_FIELD),
        (Transfer(0, 0, b"t" * 33), Condition.INVALID_FIELD),
        (Transfer(0, 0, b"t", rcv_settle_mode=ReceiverSettleMode.SECOND), Condition.INVALID_FIELD),
    ],
)
def test_what_ends_the_link(peer: AmqpWire, log: str, sent: Transfer, condition: Condition) -> None:
    peer.sender(log)
    peer.sender(f"{log}-other", handle=1, name="other")
    peer.send(frame(sent, data(b"x")), transfer(1, data(b"passed over")))
    peer.assert_detaches(condition)
    peer.publish([data(b"goes on")], first_id=2, handle=1)


@pytest.mark.clause("AMQP harm 6")
def test_a_transfer_on_a_link_that_receives_ends_that_link(peer: AmqpWire, log: str) -> None:
    peer.sender(log)
    peer.receiver(log, handle=1, credit=0)
    peer.send(transfer(0, data(b"x"), handle=1))
    peer.assert_detaches(Condition.NOT_ALLOWED, 1)
    peer.publish([data(b"goes on")], first_id=1)


@pytest.mark.clause("AMQP harm 6")
def test_a_partition_that_cannot_be_read_ends_the_links_that_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        wire.sender("orders")
        wire.publish([data(b"x")])
        path = tmp_path / "segment"
        for error, condition in (
            (WriteFailed(path, 5), Condition.INTERNAL_ERROR),
            (PartitionDeleted("orders"), Condition.RESOURCE_DELETED),
        ):

            def failing(*_: object, error: Exception = error, **__: object) -> None:
                raise error

            with monkeypatch.context() as patched:
                patched.setattr(Reader, "read", failing)
                wire.receiver("orders", handle=1)
                detach = wire.next().performative
            assert getattr(detach, "error", None) is not None
            assert detach.error.condition == condition  # type: ignore[union-attr]
            wire.send(End())
            wire.take(End)
            wire.begin()
            wire.sender("orders")


@pytest.mark.clause("AMQP harm 7")
def test_a_connection_has_so_many_links_and_no_more(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", Limits(connection_links_max=3)) as door, door.connect() as wire:
        wire.begin(1)
        for handle in range(3):
            wire.sender("orders", handle=handle)
        wire.refused(Condition.RESOURCE_LIMIT_EXCEEDED, Role.SENDER, Source(), Target("orders"), handle=3)
        wire.publish([data(b"x")], handle=2)


@pytest.mark.clause("AMQP harm 7")
def test_a_frame_may_have_the_size_that_is_announced_and_no_more(tmp_path: Path) -> None:
    limits = Limits(frame_size_bytes_max=4_096)
    with ListeningAmqp(tmp_path / "data", limits) as door:
        for more, is_taken in ((0, True), (1, False)):
            with door.connect() as wire:
                wire.sender("orders")
                room = 4_096 - len(transfer(0, data(bytes(300)))) + 300
                sent = transfer(0, data(bytes(room + more)))
                assert len(sent) == 4_096 + more
                wire.send(sent)
                if is_taken:
                    assert wire.outcomes([0]) == {0: Accepted()}
                else:
                    wire.assert_closes(FRAMING)


@pytest.mark.clause("AMQP harm 7")
def test_a_connection_has_so_many_sessions_and_a_session_so_many_links(tmp_path: Path) -> None:
    limits = Limits(sessions_max=2, links_max=2)
    with ListeningAmqp(tmp_path / "data", limits) as door:
        with door.connect() as wire:
            assert wire.begin(1).handle_max == 1
            wire.sender("orders")
            wire.sender("orders", handle=1)
            wire.send(Attach("third", 2, Role.SENDER, target=Target("orders"), initial_delivery_count=0))
            wire.assert_closes(FRAMING)
        with door.connect() as wire:
            wire.send(Begin(None, 0, 1, 1), channel=2)
            wire.assert_closes(FRAMING)


@pytest.mark.clause("AMQP harm 7")
def test_clients_that_do_not_answer_hold_up_no_stop(tmp_path: Path) -> None:
    limits = Limits(stop_timeout_s=0.1)
    with ListeningAmqp(tmp_path / "data", limits) as door:
        silent = door.connect()
    with silent:
        assert silent.take(Close).error is not None
        silent.assert_ended()


@pytest.mark.clause("AMQP harm 6")
def test_dispositions_of_what_was_never_sent_are_passed_over(peer: AmqpWire, log: str) -> None:
    peer.sender(log)
    peer.publish([data(b"x")] * 3)
    peer.receiver(log, handle=1)
    peer.messages(3)
    for role in Role:
        peer.send(
            Disposition(role, 1_000, 2_000, settled=True, state=Accepted()),
            Disposition(role, 0, 2**31 - 5, settled=True, state=Accepted()),
            Disposition(role, 0, 2, settled=True, state=Accepted()),
            Disposition(role, 0, 2, settled=True),
        )
    peer.assert_nothing_came()
