"""AMQP connections under any bytes and any frames; cut anywhere; and two ends that agree when they are quiet."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz.amqp_connection_targets import ATTACHED, BUSY, STAGES, owner_at
from fuzz.amqp_owner import LIMITS, Owner
from fuzz.amqp_program import frames_of
from headwater.amqp.connection import Limits, State
from headwater.amqp.definitions import ReceiverSettleMode, SenderSettleMode
from headwater.amqp.events import Deliveries, Event, LinkDetached, LinkFlow, Settled
from headwater.amqp.frames import FRAME_HEADER
from headwater.amqp.messaging import Accepted, DeliveryState, Modified, Released
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.serial import wrapped
from headwater.encoding.amqp_message import data_section
from tests.amqp_pair import Pair
from tests.amqp_peer import BODY

stages = st.integers(0, len(STAGES) - 1)


@pytest.mark.clause("AMQP 2.3")
@given(stages, st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_at_any_state_give_events_or_end_the_connection(stage: int, pieces: list[bytes]) -> None:
    owner = owner_at(stage)
    for piece in pieces:
        owner.give(piece)
        owner.hear()
    if owner.is_broken:
        assert owner.connection.state in (State.CLOSE_SENT, State.END)


@given(stages, st.binary(max_size=400))
@settings(max_examples=300)
def test_any_frames_at_any_state_give_events_or_end_the_connection(stage: int, chosen: bytes) -> None:
    owner = owner_at(stage)
    for frame in frames_of(chosen):
        owner.give(frame)
        owner.hear()


@given(stages, st.binary(max_size=300), st.lists(st.integers(1, 50), min_size=1, max_size=20))
@example(4, bytes(range(1, 200)), [1])
@example(5, bytes(range(200, 0, -1)), [3, 40])
@settings(max_examples=200)
def test_the_same_is_told_wherever_the_bytes_are_cut(stage: int, chosen: bytes, steps: list[int]) -> None:
    data = b"".join(frames_of(chosen))
    whole, cut = owner_at(stage), owner_at(stage)
    whole.give(data)
    position = 0
    for step in itertools.cycle(steps):
        cut.give(data[position : position + step])
        position += step
        if position >= len(data):
            break
    assert cut.told == whole.told
    assert bytes(cut.connection.data_to_send()) == bytes(whole.connection.data_to_send())
    if not cut.is_broken:
        assert cut.connection.state is whole.connection.state


@pytest.mark.parametrize(
    "wish",
    [
        FRAME_HEADER.pack(0xFFFFFFFF, 2, 0, 0),
        FRAME_HEADER.pack(2000, 2, 0, 0) + b"\x00\x53\x12\xd0\xff\xff\xff\xff\xff\xff\xff\xff",
        FRAME_HEADER.pack(40, 2, 0, 0) + b"\x00\x53\x13\xd0\x00\x00\x00\x17\xff\xff\xff\xff" + bytes(20),
        FRAME_HEADER.pack(2000, 2, 0, 0)
        + b"\x00\x53\x14\xc0\x05\x03\x43\x43\xb0"
        + b"\xff" * 400
        + bytes(1600),
        FRAME_HEADER.pack(420, 2, 0, 0) + b"\x00" * 412,
        (
            FRAME_HEADER.pack(1000, 2, 0, 0)
            + b"\x00\x53\x12\xd0\x00\x00\x03\xd8\x00\x00\x00\x01"
            + b"\xd0" * 1000
        ),
    ],
)
def test_no_length_or_count_makes_memory_before_the_bytes_are_there(wish: bytes) -> None:
    owner = owner_at(4)
    tracemalloc.start()
    try:
        owner.give(wish)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_a_peer_that_repeats_itself_for_ever_costs_no_more_than_the_limits_say() -> None:
    """Links that are never given back, halves of messages, gaps in what is settled: each has its bound."""
    sizes = []
    for rounds in (40, 400):
        owner = Owner()
        owner.give(BUSY)
        tracemalloc.start()
        for number in range(rounds):
            for frame in frames_of(
                bytes((7, 0, 2, number % 256, 3, 1, 0, 13, 0, 9, 3, 0, 5, 4, 11, 0, 0, 0)) * 3
            ):
                owner.give(frame)
                owner.hear()
                owner.told.clear()
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert sizes[1] < sizes[0] + 50_000


def test_the_stages_are_different_states() -> None:
    states = {
        (owner.connection.state, len(owner.connection.sessions))
        for owner in map(owner_at, range(len(STAGES)))
    }
    assert len(states) >= 8
    assert owner_at(4).connection.sessions[0].links.keys() == {0, 1}
    assert ATTACHED in BUSY
    assert LIMITS.handle_max < 10


# Two ends

OUTCOMES: tuple[DeliveryState, ...] = (Accepted(), Released(), Modified(True))
SIZES = (0, 10, 400, 1500)
TERMS = Limits(frame_size_bytes_max=512, incoming_window=7, run_count_max=3, unsettled_ranges_max=9)

modes = st.tuples(st.sampled_from(SenderSettleMode), st.sampled_from(ReceiverSettleMode))
steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "settle", "settle", "grant", "drain", "exchange", "detach"]),
        st.integers(0, 3),
        st.integers(0, 11),
    ),
    max_size=60,
)


class Talk:
    """Four links on two sessions, half of which send each way; what was sent, delivered and settled is kept."""

    def __init__(self, terms: tuple[SenderSettleMode, ReceiverSettleMode], start: int) -> None:
        self.pair = Pair(TERMS, TERMS).open()
        self.links: list[tuple[SenderLink, ReceiverLink]] = []
        for number in range(2):
            session, theirs = self.pair.session()
            for each in (session, theirs):
                each.next_delivery_id = start
            fields = {"snd_settle_mode": terms[0], "rcv_settle_mode": terms[1]}
            self.links.append(self.pair.sender(session, f"up{number}", **fields))
            down = self.pair.receiver(session, f"down{number}", **fields)
            self.links.append((down[1], down[0]))
        self.sent: list[list[bytes]] = [[] for _ in self.links]
        self.came: list[list[bytes]] = [[] for _ in self.links]
        self.open_ids: list[list[tuple[int, int]]] = [[] for _ in self.links]
        self.count = 0
        self.pair.on_event = self.handle

    def step(self, what: str, number: int, amount: int) -> None:
        sender, receiver = self.links[number]
        match what:
            case "send":
                if sender.may_send:
                    body = data_section(bytes((self.count % 256,)) * SIZES[amount % 4])
                    self.count += 1
                    self.sent[number].append(body)
                    sender.send(body)
            case "settle":
                for ids in self.open_ids[number][: amount // 3]:
                    receiver.settle(*ids, OUTCOMES[amount % 3])
                del self.open_ids[number][: amount // 3]
            case "grant":
                receiver.grant(amount)
            case "drain":
                if receiver.is_attached:
                    receiver.drain()
            case "detach":
                if amount == 0:
                    sender.detach()
                elif amount == 1:
                    receiver.detach()
            case _:
                self.exchange(1 + 13 * amount)

    def exchange(self, step_bytes: int = 1 << 30) -> None:
        while self.pair.exchange(step_bytes):
            self.check()

    def handle(self, event: Event) -> None:
        if isinstance(event, Deliveries):
            number = [receiver for _, receiver in self.links].index(event.link)
            self.open_ids[number].append((event.first_id, event.first_id + event.count))
            for at in range(0, 4 * event.count, 4):
                head, head_end, rest, end = event.spans[at : at + 4]
                self.came[number].append(bytes(event.buffer[head:head_end]) + bytes(event.buffer[rest:end]))
        elif isinstance(event, Settled):
            for link, ranges in event.parts:
                for ids in ranges if not event.is_settled else []:
                    link.settle(ids, event.state)
        elif isinstance(event, LinkFlow) and isinstance(event.link, SenderLink):
            event.link.send_rest()
            event.link.drained()
        elif isinstance(event, LinkDetached) and not event.is_answered:
            event.link.detach()
        for sender, _ in self.links:
            sender.send_rest()

    def check(self) -> None:
        for sender, receiver in self.links:
            assert sender.credit >= 0
            assert receiver.credit >= 0 or not receiver.is_attached
        for end in (self.pair.client, self.pair.server):
            links = [link for session in end.sessions.values() for link in session.links.values()]
            held = sum(link.unsettled.range_count for link in links if isinstance(link, SenderLink))
            assert held <= end.unsettled_budget.count

    def finish(self) -> None:
        """Until nothing more can be said; then both ends agree."""
        for _ in range(50):
            self.exchange()
            for number, (_, receiver) in enumerate(self.links):
                for ids in self.open_ids[number]:
                    receiver.settle(*ids, Accepted())
                self.open_ids[number].clear()
        for number, (sender, receiver) in enumerate(self.links):
            if not sender.is_attached:
                assert not sender.unsettled
                assert not receiver.unsettled
                continue
            assert self.came[number] == self.sent[number]
            assert not sender.unsettled
            assert not receiver.unsettled
            assert sender.credit == receiver.credit
            assert wrapped(sender.delivery_count) == wrapped(receiver.delivery_count)
        for end in (self.pair.client, self.pair.server):
            assert end.budget.bytes_left == 64 << 20
            assert end.unsettled_budget.count == 0


@pytest.mark.clause("AMQP 2.6.7", "AMQP 2.6.12")
@given(modes, st.sampled_from([0, 2**31 - 3, 2**32 - 4]), steps)
@settings(max_examples=150)
@example(
    (SenderSettleMode.MIXED, ReceiverSettleMode.SECOND),
    2**32 - 4,
    [("grant", n, 11) for n in range(4)]
    + [("exchange", 0, 9)]
    + [("send", n % 4, n) for n in range(20)]
    + [("exchange", 0, 3), ("settle", 1, 11), ("drain", 2, 0), ("detach", 3, 1)],
)
def test_two_ends_agree_when_they_are_quiet(
    terms: tuple[SenderSettleMode, ReceiverSettleMode], start: int, chosen: list[tuple[str, int, int]]
) -> None:
    talk = Talk(terms, start)
    for step in chosen:
        talk.step(*step)
    talk.finish()


def test_what_the_random_talk_tells_of_is_reached() -> None:
    talk = Talk((SenderSettleMode.MIXED, ReceiverSettleMode.SECOND), 2**32 - 4)
    for _, receiver in talk.links:
        receiver.grant(11)
    for number in range(40):
        talk.step("send", number % 4, 2 + number % 2)
        talk.exchange(37)
    talk.finish()
    assert all(len(came) >= 9 for came in talk.came)
    assert BODY[:3] == talk.came[0][0][:3]
