"""The AMQP door among peers that are hostile, broken, slow, greedy or gone: nobody else is harmed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.amqp_targets import PERFORMATIVES
from headwater.amqp.definitions import Condition, Role
from headwater.amqp.frames import EMPTY_FRAME, encode_sasl_frame
from headwater.amqp.messaging import Accepted, Source, Target
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
from headwater.amqp.sasl_frames import SaslInit, SaslResponse
from headwater.encoding.amqp_types import Symbol
from headwater.server.amqp.limits import Limits
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AMQP, FIRST, SASL, AmqpWire, data, frame, from_offset, transfer
from tests.conformance.conftest import ConnectAmqp

FUZZED_PER_STATE = 80
LOG = "s"
MINE = "mine"
UP = Attach("up", 0, Role.SENDER, source=Source(), target=Target(LOG), initial_delivery_count=0)
DOWN = Attach("down", 1, Role.RECEIVER, source=Source(LOG, filter=FIRST), target=Target())
FRAMES = [
    SASL,
    AMQP,
    EMPTY_FRAME,
    encode_sasl_frame(SaslInit(Symbol("PLAIN"), b"\0guest\0guest")),
    encode_sasl_frame(SaslResponse(b"x")),
    *(frame(each, b"payload" if isinstance(each, Transfer) else b"") for each in PERFORMATIVES),
    *(
        frame(each)
        for each in (Open("again"), Begin(None, 0, 9, 9), UP, DOWN, End(), Detach(0), Detach(1, closed=True))
    ),
    *(transfer(number, data(b"x")) for number in range(4)),
    transfer(4, b"part", more=True),
    frame(Transfer(0, aborted=True)),
    frame(Flow(0, 100, 0, 100, 1, 0, 100, drain=True, echo=True)),
    frame(Flow(0, 0xFFFFFFFF, 0, 0xFFFFFFFF, 1, 0, 0xFFFFFFFF)),
    frame(Disposition(Role.RECEIVER, 0, 0x7FFFFFF0, True, Accepted())),
    frame(Disposition(Role.SENDER, 0, 0xFFFFFFFF, True)),
]

QUESTION = frame(Attach("n" * 4_000, 9, Role.RECEIVER, source=Source("missing"), target=Target())) + frame(
    Detach(9, closed=True)
)
"""Its answer is as large as itself."""


def eventually(holds: Callable[[], object]) -> None:
    """Wait until something holds; who waits in vain fails."""
    deadline = time.monotonic() + 10.0
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)


def steps(wire: AmqpWire) -> list[Callable[[], object]]:
    """A life until both kinds of links are attached, step by step."""
    return [
        lambda: wire.send(SASL),
        lambda: wire.send(encode_sasl_frame(SaslInit(Symbol("PLAIN"), b"\0guest\0guest"))),
        lambda: wire.send(AMQP),
        lambda: wire.send(Open("fuzzer")),
        lambda: wire.send(Begin(None, 0, 100, 100)),
        lambda: wire.send(UP),
        lambda: wire.send(DOWN, Flow(0, 100, 0, 100, 1, 0, 10)),
        lambda: wire.send(transfer(0, data(b"x")), Close()),
    ]


def mutated(rng: random.Random) -> bytes:
    """Frames of clients, some of them broken in one way or another; or bytes of no form at all."""
    if rng.random() < 0.15:
        return rng.randbytes(rng.randrange(1, 200))
    data = bytearray(b"".join(rng.choices(FRAMES, k=rng.randrange(1, 6))))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.choice(
            (0, 1, 0x40, 0x45, 0x7F, 0x80, 0xC0, 0xFF, rng.randrange(256))
        )
    return bytes(data if rng.random() < 0.7 else data[: rng.randrange(1, len(data) + 1)])


class Bystander:
    """Somebody who goes on publishing and reading, and expects to be served at once."""

    def __init__(self, wire: AmqpWire) -> None:
        self._wire = wire
        self._id = 0
        wire.sender(MINE)
        wire.receiver(MINE, handle=1, credit=1_000_000, settled=True)

    def goes_on(self) -> None:
        """One message there and back."""
        payload = data(b"%d" % self._id)
        self._wire.send(transfer(self._id, payload))
        self._id += 1
        came: dict[type[Performative], int] = {Disposition: 0, Transfer: 0}
        while not all(came.values()):
            next_ = self._wire.next()
            if isinstance(next_.performative, Flow):
                continue
            assert isinstance(next_.performative, Disposition | Transfer)
            came[type(next_.performative)] += 1
        assert set(came.values()) == {1}


@pytest.mark.clause("AMQP harm 1")
@pytest.mark.parametrize("state", range(9))
def test_any_bytes_in_any_state_harm_nobody_else(tmp_path: Path, state: int) -> None:
    """When the door is closed its harness sees that nothing was raised in its loop."""
    rng = random.Random(state)
    limits = Limits(failure_delay_s=0, step_timeout_s=1.0, close_timeout_s=0.2)
    with ListeningAmqp(tmp_path / "data", limits) as door, door.connect() as wire:
        bystander = Bystander(wire)
        for _ in range(FUZZED_PER_STATE):
            with door.raw() as fuzzer:
                try:
                    for step in steps(fuzzer)[:state]:
                        step()
                    for _ in range(3):
                        fuzzer.send(mutated(rng))
                except ConnectionError:
                    pass
            bystander.goes_on()
        eventually(lambda: len(door.amqp.connections) == 1)
        assert door.call(lambda: door.amqp.budget.bytes_left) == limits.partial_bytes_max


@pytest.mark.clause("AMQP harm 1")
def test_frames_of_sense_in_no_order_end_what_they_are_of_and_harm_nobody_else(tmp_path: Path) -> None:
    rng = random.Random(4)
    limits = Limits(failure_delay_s=0, close_timeout_s=0.2)
    opening = SASL + FRAMES[3] + AMQP + frame(Open("no order"))
    with ListeningAmqp(tmp_path / "data", limits) as door, door.connect() as wire:
        bystander = Bystander(wire)
        for _ in range(150):
            with door.raw() as fuzzer:
                fuzzer.send(opening, frame(Begin(None, 0, 100, 100)), UP, DOWN)
                try:
                    for _ in range(3):
                        fuzzer.send(b"".join(rng.choices(FRAMES[5:], k=rng.randrange(1, 12))))
                except ConnectionError:
                    pass
            bystander.goes_on()
        eventually(lambda: len(door.amqp.connections) == 1)


@pytest.mark.clause("AMQP harm 1", "AMQP connection 2")
def test_a_transfer_may_come_byte_by_byte_between_others(connect_amqp: ConnectAmqp, log: str) -> None:
    slow, quick = connect_amqp(), connect_amqp()
    for wire in (slow, quick):
        wire.sender(log)
    for number, byte in enumerate(transfer(0, data(b"slow"))):
        slow.send(bytes((byte,)))
        quick.publish([data(b"x")], first_id=number)
    assert slow.outcomes([0]) == {0: Accepted()}


@pytest.mark.clause("AMQP harm 2")
def test_who_reads_no_answers_is_read_no_further_until_it_does(tmp_path: Path) -> None:
    limits = Limits(delivery_bytes_high=1 << 16, answer_bytes_max=1 << 17)
    with ListeningAmqp(tmp_path / "data", limits) as door, door.connect() as other:
        bystander = Bystander(other)
        with door.connect(receive_buffer_bytes=1 << 14) as greedy:
            count = 10_000
            sent = greedy.send_some(QUESTION * count, within_s=1.0)  # more than the sockets hold
            assert 0 < sent < count * len(QUESTION)
            assert limits.delivery_bytes_high < door.unsent_bytes_max() <= limits.answer_bytes_max + (4 << 20)
            bystander.goes_on()
            for _ in range(sent // len(QUESTION)):
                assert isinstance(greedy.next().performative, Attach)
                assert isinstance(greedy.next().performative, Detach)


@pytest.mark.clause("AMQP harm 2", "AMQP connection 3")
def test_who_asks_and_never_reads_is_dropped_in_the_end(tmp_path: Path) -> None:
    limits = Limits(
        delivery_bytes_high=1 << 16, answer_bytes_max=1 << 17, idle_timeout_s=0.5, close_timeout_s=0.1
    )
    door = ListeningAmqp(tmp_path / "data", limits)
    with door, door.connect(receive_buffer_bytes=1 << 14) as greedy:
        greedy.send_some(QUESTION * 10_000)
        eventually(lambda: not door.amqp.connections)


@pytest.mark.clause("AMQP harm 2")
def test_a_receiver_that_does_not_read_has_little_queued_whatever_its_credit(tmp_path: Path) -> None:
    limits = Limits(delivery_bytes_high=1 << 18)
    with (
        ListeningAmqp(tmp_path / "data", limits) as door,
        door.connect() as other,
        door.connect(receive_buffer_bytes=1 << 14) as stopped,
    ):
        other.sender(LOG)
        payloads = [data(bytes([number]) * 500_000) for number in range(64)]
        for number, payload in enumerate(payloads):
            other.publish([payload], first_id=number)
        for handle in range(4):
            stopped.receiver(LOG, handle=handle, credit=0)
        for handle in range(4):
            stopped.credit(2**32 - 1, handle)
        other.receiver(LOG, handle=1)
        assert [each.record for each in other.messages(64)] == payloads
        assert 0 < door.unsent_bytes_max() <= limits.delivery_bytes_high + 1_100_000
        came = stopped.messages(4 * 64)
        assert sorted(each.offset for each in came) == sorted(list(range(64)) * 4), "and it can go on"


@pytest.mark.clause("AMQP harm 3")
def test_every_frame_may_have_to_wait_for_its_turn(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data", Limits(turn_s_max=0.0)) as door, door.connect() as wire:
        wire.sender(LOG)
        wire.send(
            b"".join(
                transfer(number, data(b"x"))
                + frame(Begin(None, 0, 9, 9), channel=1)
                + frame(End(), channel=1)
                for number in range(200)
            )
        )
        came = [wire.next().performative for _ in range(400)]
        while sum(isinstance(each, Begin) for each in came) < 200:
            came.append(wire.next().performative)
        ids = [each.first for each in came if isinstance(each, Disposition)]
        assert ids == sorted(ids)


@pytest.mark.clause("AMQP harm 3")
def test_a_peer_with_much_to_do_lets_others_have_their_turns(tmp_path: Path) -> None:
    """All that one read brings is dealt with in turns, between which others are served."""
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as other, door.connect() as flood:
        bystander = Bystander(other)
        count = 10_000
        flood.send((frame(Begin(None, 0, 1, 1), channel=1) + frame(End(), channel=1)) * count)
        answered, served = 0, 0
        while answered < 2 * count:
            bystander.goes_on()
            served += 1
            for _ in range(min(500, 2 * count - answered)):
                flood.next()
                answered += 1
        assert served == 2 * count // 500


@pytest.mark.clause("AMQP harm 3")
def test_a_link_with_unlimited_traffic_leaves_room_for_the_others(tmp_path: Path) -> None:
    """A receiver with all credit, of a log far longer than a turn of the loop sends, beside somebody's round trips."""
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as other, door.connect() as greedy:
        bystander = Bystander(other)
        greedy.sender(LOG)
        payload = data(bytes(1_000))
        for number in range(30):
            greedy.publish([payload] * 1_000, first_id=1_000 * number)
        greedy.receiver(LOG, handle=1, credit=2**31 - 1, settled=True)
        for _ in range(30):
            greedy.messages(1_000)
            bystander.goes_on()


@pytest.mark.clause("AMQP harm 4")
def test_partial_messages_share_one_budget_and_give_it_back(tmp_path: Path) -> None:
    limits = Limits(partial_bytes_max=300_000)
    with ListeningAmqp(tmp_path / "data", limits) as door, door.connect() as one, door.connect() as two:
        part = data(bytes(200_000))
        for wire in (one, two):
            wire.sender(LOG)
        one.send(transfer(0, part, more=True))
        one.assert_nothing_came()
        assert door.amqp.budget.bytes_left == 300_000 - len(part)
        two.send(transfer(0, part, more=True))
        two.assert_detaches(Condition.RESOURCE_LIMIT_EXCEEDED)
        two.sender(LOG)
        two.publish([part], first_id=1)
        one.vanish()
        eventually(lambda: door.amqp.budget.bytes_left == 300_000)
        two.send(transfer(2, part, more=True), frame(Transfer(0), b""))
        assert two.outcomes([2]) == {2: Accepted()}
        two.send(transfer(3, part, more=True), frame(Transfer(0, aborted=True)))
        two.assert_nothing_came()
        assert door.amqp.budget.bytes_left == 300_000
        two.send(transfer(4, part, more=True), Detach(0, closed=True))
        two.take(Detach)
        assert door.amqp.budget.bytes_left == 300_000
        two.sender(LOG)
        two.send(transfer(5, part, more=True), End())
        two.take(End)
        assert door.amqp.budget.bytes_left == 300_000


@pytest.mark.clause("AMQP harm 5")
def test_whoever_vanishes_leaves_nothing_behind(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str
) -> None:
    survivor = connect_amqp()
    survivor.sender(log)
    before = amqp_door.call(lambda: len(amqp_door.amqp.connections))
    for number in range(30):
        wire = amqp_door.connect(fields={"container_id": "gone"})
        wire.sender(log, name="up")
        wire.receiver(log, handle=1, name="down", filter=from_offset("first"))
        wire.attach(Role.RECEIVER, Source(dynamic=True), Target(), handle=2)
        wire.send(transfer(0, data(bytes(20_000)), more=True)[: 40 if number % 2 else None])
        wire.vanish()
    eventually(lambda: amqp_door.call(lambda: len(amqp_door.amqp.connections)) == before)
    (partition,) = amqp_door.store.log(log).partitions
    assert amqp_door.call(lambda: (len(partition.on_committed), len(partition.on_deleted))) == (0, 1)
    assert not [name for _, name in amqp_door.store.logs if name.startswith("dynamic-gone")]
    survivor.publish([data(b"x")])
