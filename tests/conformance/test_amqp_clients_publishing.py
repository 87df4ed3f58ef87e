"""What AMQP senders can rely on: accepted is on disk, stored is what was sent, failures are told where they were."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Accepted, DeliveryState, Rejected, Source, Target
from headwater.amqp.performatives import Detach, Disposition, End, Flow
from headwater.encoding.amqp_message import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    encode_message,
)
from headwater.encoding.amqp_types import Symbol, Ulong
from headwater.log.settings import StoreSettings
from headwater.server.amqp.limits import Limits
from headwater.server.amqp.publishing import RUN_BYTES_MAX
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, data, transfer
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.listening import HOST
from tests.conformance.wire import opened
from tests.delayed_files import DelayedFiles
from tests.failing_files import FailingFiles

LOG = "orders"
ANNOTATION = Symbol("x-opt-mine")

MESSAGES = (
    Message(body=Data((b"plain",))),
    Message(header=Header(True, 9, 1000, True, 3), body=AmqpValue({"a": [1, 2.5, None]})),
    Message(message_annotations={ANNOTATION: Ulong(7)}, body=AmqpSequence(([1], ["x"]))),
    Message(
        header=Header(),
        properties=Properties("id", b"user", "to", "subject", content_type=Symbol("text/plain")),
        application_properties={"n": 1},
        body=Data((b"one", b"two")),
        footer={ANNOTATION: "end"},
    ),
)


def condition_of(state: DeliveryState | None) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return str(state.error.condition)


@pytest.mark.clause("AMQP logs 1")
def test_nothing_is_accepted_or_delivered_before_the_disk_has_it(tmp_path: Path) -> None:
    files = DelayedFiles()
    with (
        ListeningAmqp(tmp_path / "data", files=files) as door,
        door.connect() as writer,
        door.connect() as again,
        door.connect() as reader,
    ):
        writer.sender(LOG)
        again.sender(LOG)
        reader.receiver(LOG)
        writer.publish([data(b"first")])
        assert reader.message().record == data(b"first")
        files.hold_back()
        writer.send(transfer(1, data(b"second")))
        assert files.entered.wait(10)
        again.send(b"".join(transfer(number, data(b"behind")) for number in range(3)))
        for wire in (writer, again, reader):
            wire.assert_nothing_came()
        files.go_on.set()
        assert writer.outcomes([1]) == {1: Accepted()}
        assert set(again.outcomes(range(3)).values()) == {Accepted()}
        assert [each.record for each in reader.messages(4)] == [data(b"second"), *[data(b"behind")] * 3]


@pytest.mark.clause("AMQP logs 1")
@pytest.mark.parametrize("how", ["detach", "end"])
def test_what_was_taken_is_settled_before_a_detach_or_an_end_is_answered(tmp_path: Path, how: str) -> None:
    files = DelayedFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        wire.sender(LOG)
        wire.publish([data(b"first")])
        files.hold_back()
        wire.send(transfer(1, data(b"second")), Detach(0, closed=True) if how == "detach" else End())
        assert files.entered.wait(10)
        wire.assert_silent()
        files.go_on.set()
        assert wire.take(Disposition).state == Accepted()
        wire.take(Detach if how == "detach" else End)


@pytest.mark.clause("AMQP logs 2")
def test_a_full_disk_rejects_the_delivery_and_the_link_lives_on(tmp_path: Path) -> None:
    files = FailingFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        wire.sender(LOG)
        wire.publish([data(b"kept")])
        files.write_error = errno.ENOSPC
        wire.send(transfer(1, data(b"lost")))
        (state,) = wire.outcomes([1]).values()
        assert condition_of(state) == Condition.RESOURCE_LIMIT_EXCEEDED
        wire.publish([data(b"lost")], first_id=2)
        wire.receiver(LOG, handle=1)
        assert [(each.offset, each.record) for each in wire.messages(2)] == [
            (0, data(b"kept")),
            (1, data(b"lost")),
        ]


@pytest.mark.clause("AMQP logs 2")
def test_a_full_disk_detaches_a_link_that_waits_for_no_outcome(tmp_path: Path) -> None:
    files = FailingFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        wire.sender(LOG)
        wire.publish([data(b"kept")])
        files.write_error = errno.ENOSPC
        wire.send(transfer(1, data(b"lost"), settled=True))
        wire.assert_detaches(Condition.RESOURCE_LIMIT_EXCEEDED)
        wire.sender(LOG)
        wire.publish([data(b"goes on")], first_id=2)


@pytest.mark.clause("AMQP logs 2")
def test_a_failed_sync_rejects_and_the_partition_is_locked(tmp_path: Path) -> None:
    files = FailingFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        wire.sender(LOG)
        wire.sender("other", handle=1)
        wire.publish([data(b"kept")])
        files.sync_error = errno.EIO
        wire.send(transfer(1, data(b"in doubt")))
        (state,) = wire.outcomes([1]).values()
        assert condition_of(state) == Condition.INTERNAL_ERROR
        wire.send(transfer(2, data(b"refused")))
        (state,) = wire.outcomes([2]).values()
        assert condition_of(state) == Condition.RESOURCE_LOCKED
        wire.publish([data(b"another log goes on")], first_id=3, handle=1)


@pytest.mark.clause("AMQP logs 3")
@pytest.mark.parametrize("frame_max", [0, 30])
def test_stored_is_what_was_sent_less_delivery_annotations(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, frame_max: int
) -> None:
    with opened(HOST, amqp_door.port) as stream:
        peer.sender(log)
        annotated = [
            encode_message(Message(**{**fields(each), "delivery_annotations": {ANNOTATION: "secret"}}))
            for each in MESSAGES
        ]
        for number, payload in enumerate(annotated):
            if frame_max:
                parts = [payload[at : at + frame_max] for at in range(0, len(payload), frame_max)]
                for at, part in enumerate(parts):
                    peer.send(transfer(number, part, more=at + 1 < len(parts)))
            else:
                peer.send(transfer(number, payload))
        peer.outcomes(range(len(annotated)))
        plain = [encode_message(each) for each in MESSAGES]
        stream.subscribe(1, log)
        assert [body for _, body in stream.messages(len(plain))] == plain
        peer.receiver(log, handle=1)
        assert [each.record for each in peer.messages(len(plain))] == plain


def fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


@pytest.mark.clause("AMQP logs 3")
def test_what_is_no_message_is_stored_as_it_came(peer: AmqpWire, amqp_door: ListeningAmqp, log: str) -> None:
    garbage = [b"garbage", b"\0", b"\0\x53", b"\0\x53\x75", bytes(300)]
    peer.sender(log)
    peer.publish(garbage)
    with opened(HOST, amqp_door.port) as stream:
        stream.subscribe(1, log)
        assert [body for _, body in stream.messages(len(garbage))] == garbage
    peer.receiver(log, handle=1)
    assert [each.record for each in peer.messages(len(garbage))] == [data(each) for each in garbage]


@pytest.mark.clause("AMQP logs 3")
def test_a_run_of_messages_is_accepted_once_each_and_stored_in_order(
    peer: AmqpWire, connect_amqp: ConnectAmqp, log: str
) -> None:
    peer.sender(log)
    count = 5_000
    payloads = [data(b"%d" % number) for number in range(count)]
    peer.publish(payloads)
    wire = connect_amqp()
    wire.receiver(log, credit=count)
    came = wire.messages(count)
    assert [each.record for each in came] == payloads
    assert [each.offset for each in came] == list(range(count))
    assert [each.id for each in came] == list(range(count))


@pytest.mark.clause("AMQP logs 3")
def test_a_message_format_that_is_unknown_is_rejected(peer: AmqpWire, log: str) -> None:
    for handle, address in ((0, log), (1, None)):
        peer.sender(address, handle=handle)
        peer.send(transfer(handle, data(b"x"), handle=handle, message_format=0x80013700))
        (state,) = peer.outcomes([handle]).values()
        assert condition_of(state) == Condition.NOT_IMPLEMENTED
    peer.publish([data(b"x")], first_id=2)


@pytest.mark.clause("AMQP logs 4")
def test_messages_without_a_key_are_spread_evenly_one_by_one(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 3)
    peer.sender(log)
    for number in range(9):
        peer.publish([data(b"%d" % number)], first_id=number)
    assert amqp_door.counts(log) == [3, 3, 3]


@pytest.mark.clause("AMQP logs 4")
def test_a_burst_goes_to_partitions_in_runs_of_64_kib(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 4)
    peer.sender(log)
    per_run = RUN_BYTES_MAX // len(data(bytes(1_000))) + 1
    count = 40 * per_run
    peer.publish([data(b"%01000d" % number) for number in range(count)])
    found = amqp_door.counts(log)
    assert sum(found) == count
    assert min(found) >= 4 * per_run
    runs = []
    for handle, stored in enumerate(found, 1):
        peer.receiver(f"{log}-{handle - 1}", handle=handle, credit=count)
        numbers = [int(each.record[-1_000:]) for each in peer.messages(stored)]
        breaks = [at for at in range(1, stored) if numbers[at] != numbers[at - 1] + 1]
        runs += [end - start for start, end in itertools.pairwise([0, *breaks, stored])]
    assert 0.9 * per_run <= max(runs) <= per_run, "what a run takes is counted with its frames"


@pytest.mark.clause("AMQP logs 4")
def test_a_link_on_one_partition_of_a_log_is_of_that_alone(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 3)
    peer.sender(f"{log}-1")
    peer.publish([data(b"%d" % number) for number in range(5)])
    assert amqp_door.counts(log) == [0, 5, 0]
    peer.receiver(log, handle=1)
    came = peer.messages(5)
    assert {each.partition for each in came} == {"1"}
    peer.receiver(f"{log}-1", handle=2)
    assert [(each.partition, each.offset) for each in peer.messages(5)] == [("1", n) for n in range(5)]
    peer.receiver(f"{log}-2", handle=3)
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP logs 5")
def test_a_deleted_log_detaches_its_links_and_nothing_else(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    wires = [connect_amqp() for _ in range(2)]
    wires[0].sender(log)
    wires[1].receiver(log)
    for wire in wires:
        wire.sender(f"{log}-stays", handle=7)
    amqp_door.call(lambda: amqp_door.store.delete_log(log))
    for wire in wires:
        wire.assert_detaches(Condition.RESOURCE_DELETED)
        wire.send(transfer(0, data(b"x"), handle=7))
        assert wire.outcomes([0]) == {0: Accepted()}
    wires[1].refused(Condition.NOT_FOUND, Role.RECEIVER, Source(log), Target())


@pytest.mark.clause("AMQP logs 5")
def test_a_log_deleted_while_messages_are_on_their_way_answers_no_more_than_once(tmp_path: Path) -> None:
    files = DelayedFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        wire.sender(LOG)
        wire.publish([data(b"there")])
        files.hold_back()
        wire.send(b"".join(transfer(number, data(b"x")) for number in range(1, 101)))
        assert files.entered.wait(10)
        wire.send(b"".join(transfer(number, data(b"x")) for number in range(101, 201)))
        wire.assert_nothing_came()
        door.call(lambda: door.store.delete_log(LOG))
        files.go_on.set()
        wire.send(b"".join(transfer(number, data(b"x")) for number in range(201, 301)))
        answered: list[int] = []
        while True:
            came = wire.next().performative
            if isinstance(came, Disposition):
                last = came.first if came.last is None else came.last
                answered += range(came.first, last + 1)
            elif isinstance(came, Detach):
                break
        assert came.error is not None
        assert came.error.condition == Condition.RESOURCE_DELETED
        assert len(set(answered)) == len(answered)


@pytest.mark.clause("AMQP logs 6")
def test_who_loses_the_right_to_write_is_detached_before_the_next_message(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    user = f"writer-{log}"
    amqp_door.add_user(user)
    amqp_door.permit(user, configure=log, write=f"{log}.*")
    wire = connect_amqp(user=user, password="pencil")
    wire.sender(log)
    wire.sender(None, handle=1)
    wire.publish([data(b"allowed")])
    amqp_door.permit(user)
    to_log = encode_message(Message(properties=Properties(to=log), body=Data((b"x",))))
    wire.send(transfer(1, to_log, handle=1))
    (state,) = wire.outcomes([1]).values()
    assert condition_of(state) == Condition.UNAUTHORIZED_ACCESS
    wire.send(b"".join(transfer(number, data(b"forbidden")) for number in range(2, 50)))
    wire.assert_detaches(Condition.UNAUTHORIZED_ACCESS)
    assert amqp_door.counts(log) == [1]
    wire.refused(Condition.UNAUTHORIZED_ACCESS, Role.SENDER, Source(), Target(log), handle=2)


@pytest.mark.clause("AMQP logs 6")
def test_rights_are_asked_for_at_every_attach(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    user = f"visitor-{log}"
    amqp_door.add_user(user)
    amqp_door.permit(user, read=f"{log}-r", write=f"{log}-w")
    owner = connect_amqp()
    for name in ("r", "w"):
        owner.sender(f"{log}-{name}", handle=ord(name))
    wire = connect_amqp(user=user, password="pencil")
    wire.receiver(f"{log}-r")
    wire.sender(f"{log}-w", handle=1)
    for role, name in (
        (Role.RECEIVER, "w"),
        (Role.SENDER, "r"),
        (Role.RECEIVER, "none"),
        (Role.SENDER, "none"),
    ):
        terminus = f"{log}-{name}"
        source, target = (
            (Source(terminus), Target()) if role is Role.RECEIVER else (Source(), Target(terminus))
        )
        wire.refused(Condition.UNAUTHORIZED_ACCESS, role, source, target, handle=2)
    wire.refused(Condition.UNAUTHORIZED_ACCESS, Role.RECEIVER, Source(dynamic=True), Target(), handle=2)
    amqp_door.permit(user, write=f"{log}-new")
    wire.refused(Condition.UNAUTHORIZED_ACCESS, Role.SENDER, Source(), Target(f"{log}-new"), handle=2)
    amqp_door.permit(user, write=f"{log}-new", configure=f"{log}-new")
    wire.sender(f"{log}-new", handle=2)


@pytest.mark.clause("AMQP logs 7")
def test_senders_wait_for_a_slow_disk_and_nobody_is_dropped_for_it(tmp_path: Path) -> None:
    """Neither heartbeats that the door does not read while it waits nor its own silence count against the client."""
    files = DelayedFiles()
    settings = StoreSettings(uncommitted_bytes_max=2 << 20, partition_uncommitted_bytes_max=1 << 20)
    limits = Limits(idle_timeout_s=1.0, credit_count=1_000)
    door = ListeningAmqp(tmp_path / "data", limits, settings=settings, files=files)
    with door, door.connect(fields={"idle_time_out": 1_000}) as writer:
        writer.sender(LOG)
        files.hold_back()
        payload = data(bytes(50_000))
        frames = [transfer(number, payload) for number in range(400)]
        sent = writer.send_some(b"".join(frames))
        assert sent < len(b"".join(frames))
        assert door.call(lambda: door.store.uncommitted_bytes) <= (1 << 20) + (1 << 20)
        for _ in range(5):  # of half a second each, in which the door reads nothing of the writer
            assert writer.frame().performative is None
        files.go_on.set()
        writer.send_bytes(b"".join(frames)[sent:])
        assert set(writer.outcomes(range(400)).values()) == {Accepted()}


@pytest.mark.clause("AMQP logs 7")
def test_credit_is_withheld_while_there_is_no_room_and_given_again(tmp_path: Path) -> None:
    files = DelayedFiles()
    settings = StoreSettings(uncommitted_bytes_max=2 << 20, partition_uncommitted_bytes_max=1 << 17)
    limits = Limits(credit_count=4)
    door = ListeningAmqp(tmp_path / "data", limits, settings=settings, files=files)
    with door, door.connect() as wire:
        assert wire.sender(LOG).link_credit == 4
        files.hold_back()
        payload = data(bytes(100_000))
        for number in range(2):
            wire.send(transfer(number, payload))
        assert files.entered.wait(10)
        wire.assert_nothing_came()
        files.go_on.set()
        take_credit_and_outcomes(wire, 2)
        for number in range(2, 40):
            wire.send(transfer(number, payload))
            wire.until(Disposition)


def take_credit_and_outcomes(wire: AmqpWire, count: int) -> None:
    """Until so many deliveries are accepted and there is credit for others."""
    accepted, credit = 0, 0
    while accepted < count or not credit:
        came = wire.next().performative
        if isinstance(came, Flow):
            credit = came.link_credit or credit
        else:
            assert isinstance(came, Disposition)
            assert came.state == Accepted()
            accepted += (came.first if came.last is None else came.last) - came.first + 1
    assert accepted == count


@pytest.mark.clause("AMQP logs 8")
def test_a_restart_says_goodbye_and_keeps_every_message_and_offset(tmp_path: Path) -> None:
    payloads = [data(b"%d" % number) for number in range(100)]
    with ListeningAmqp(tmp_path / "data") as door:
        wire = door.connect()
        wire.sender(LOG)
        wire.publish(payloads)
    with wire:
        wire.assert_closes(Condition.CONNECTION_FORCED)
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        wire.receiver(LOG)
        assert [(each.offset, each.record) for each in wire.messages(100)] == list(enumerate(payloads))
        with door.connect() as writer:
            writer.sender(LOG)
            writer.publish([data(b"more")])
        assert wire.message().offset == 100
