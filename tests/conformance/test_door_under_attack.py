"""The door among peers that are hostile, broken, slow, greedy or gone: nobody else is harmed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.stream_targets import REQUESTS
from headwater.log.settings import StoreSettings
from headwater.server.streams.consuming import CREDIT_MAX
from headwater.server.streams.limits import Limits
from headwater.server.streams.session import FILTER_VALUES_MAX, METADATA_STREAMS_MAX
from headwater.streams import commands as c
from headwater.streams.codec import encode
from headwater.streams.commands import Key, ResponseCode
from tests.conformance.conftest import Connect
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened, plain, publish_frame
from tests.delayed_files import DelayedFiles

FUZZED_PER_STATE = 60
STREAM = "s"


def eventually(holds: Callable[[], object]) -> None:
    """Wait until something holds; who waits in vain fails."""
    deadline = time.monotonic() + 10.0
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)


def steps(wire: Wire) -> list[Callable[[], object]]:
    """The handshake, step by step."""
    return [
        lambda: wire.ask(c.PeerPropertiesRequest(wire.id(), {}), c.PeerPropertiesResponse),
        lambda: wire.ask(c.SaslHandshakeRequest(wire.id()), c.SaslHandshakeResponse),
        lambda: (wire.ask(plain(wire), c.SaslAuthenticateResponse), wire.take(c.TuneRequest)),
        lambda: wire.send(c.TuneResponse(1 << 20, 0)),
        lambda: wire.ask(c.OpenRequest(wire.id(), "/"), c.OpenResponse),
    ]


def mutated(rng: random.Random) -> bytes:
    """Frames of clients, some of them broken in one way or another; or bytes of no form at all."""
    if rng.random() < 0.2:
        return rng.randbytes(rng.randrange(1, 200))
    data = bytearray(b"".join(rng.choices(REQUESTS, k=rng.randrange(1, 5))))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(data[: rng.randrange(1, len(data) + 1)])


@pytest.mark.clause("SP-19")
@pytest.mark.parametrize("state", range(6))
def test_any_bytes_in_any_state_harm_nobody_else(tmp_path: Path, state: int) -> None:
    """When the door is closed its harness sees that nothing was raised in its loop."""
    rng = random.Random(state)
    limits = Limits(failure_delay_s=0, step_timeout_s=0.2, close_timeout_s=0.2)
    with ListeningDoor(tmp_path / "data", limits) as door, opened(HOST, door.port) as bystander:
        bystander.create("mine")
        bystander.declare(1, "mine", "me")
        bystander.subscribe(1, "mine", credit=CREDIT_MAX)
        for number in range(FUZZED_PER_STATE):
            with Wire(HOST, door.port) as wire:
                for step in steps(wire)[:state]:
                    step()
                try:
                    for _ in range(3):
                        wire.send(mutated(rng))
                except ConnectionError:
                    continue
            bystander.send(publish_frame(1, [(number, b"%d" % number)]))
            came = {type(bystander.next()) for _ in range(2)}
            assert came == {c.PublishConfirm, c.Deliver}
        eventually(lambda: len(door.door.connections) == 1)


@pytest.mark.clause("SP-19", "Framing 4")
def test_a_publish_may_come_byte_by_byte_between_others(connect: Connect, stream: str) -> None:
    slow, quick = connect(), connect()
    quick.create(stream)
    for wire in (slow, quick):
        wire.declare(1, stream)
    frame = publish_frame(1, [(1, b"abc"), (2, b"def")])
    for number, byte in enumerate(frame):
        slow.send(bytes((byte,)))
        quick.publish(1, [(number, b"x")])
    slow.take_confirms(1, [1, 2])


@pytest.mark.clause("Framing 4")
def test_requests_in_one_write_are_answered_in_their_order(wire: Wire, stream: str) -> None:
    wire.create(stream)
    count = 20_000
    wire.send(b"".join(encode(c.StreamStatsRequest(number, stream)) for number in range(count)))
    for number in range(count):
        assert wire.take(c.StreamStatsResponse).correlation_id == number


@pytest.mark.clause("SP-19")
def test_every_command_may_have_to_wait_for_its_turn(tmp_path: Path) -> None:
    limits = Limits(turn_s_max=0.0, commands_per_write=1)
    with ListeningDoor(tmp_path / "data", limits) as door, opened(HOST, door.port) as wire:
        wire.create(STREAM)
        wire.declare(1, STREAM)
        frames = [publish_frame(1, [(number, b"x")]) for number in range(200)]
        frames += [encode(c.StreamStatsRequest(number, STREAM)) for number in range(200)]
        wire.send(*frames)
        answers = [wire.until(c.StreamStatsResponse).correlation_id for _ in range(200)]
        assert answers == list(range(200))


@pytest.mark.clause("SP-19")
def test_who_reads_no_answers_is_read_no_further_until_it_does(tmp_path: Path) -> None:
    limits = Limits(delivery_bytes_high=1 << 16, answer_bytes_max=1 << 17)
    with ListeningDoor(tmp_path / "data", limits) as door:
        greedy = opened(HOST, door.port, receive_buffer_bytes=1 << 14)
        with greedy, opened(HOST, door.port) as other:
            other.create(STREAM)
            question = c.MetadataRequest(1, tuple(f"stream {number}" for number in range(600)))
            data = encode(question)
            sent = greedy.send_some(data * 6000, within_s=1.0)  # more than the sockets hold
            assert 0 < sent < 6000 * len(data)
            answer_bytes = 3 * len(data)
            most = limits.answer_bytes_max + limits.commands_per_write * answer_bytes
            assert limits.delivery_bytes_high < door.unread_bytes_max() <= most
            other.declare(1, STREAM)
            other.publish(1, [(1, b"x")])
            for _ in range(sent // len(data)):
                assert greedy.frame()[5] == Key.METADATA


@pytest.mark.clause("SP-9", "SP-19")
def test_a_consumer_that_does_not_read_has_little_queued_whatever_its_credit(tmp_path: Path) -> None:
    limits = Limits(delivery_bytes_high=1 << 18)
    with ListeningDoor(tmp_path / "data", limits) as door:
        stopped = opened(HOST, door.port, receive_buffer_bytes=1 << 14)
        with stopped, opened(HOST, door.port) as other:
            other.create(STREAM)
            other.declare(1, STREAM)
            for number in range(64):
                other.publish(1, [(number, bytes(500_000))])
            stopped.subscribe(1, STREAM, credit=CREDIT_MAX)
            stopped.send(c.Credit(1, CREDIT_MAX))
            other.subscribe(1, STREAM, credit=64)
            assert len(other.messages(64)) == 64
            assert 0 < door.unread_bytes_max() <= limits.delivery_bytes_high + 600_000
            assert len(stopped.messages(64)) == 64, "and it can go on"


@pytest.mark.clause("SP-4", "SP-19")
def test_publishers_wait_for_a_slow_disk_and_nobody_is_dropped_for_it(tmp_path: Path) -> None:
    """Heartbeats that the door does not read while it waits do not count against the client."""
    files = DelayedFiles()
    settings = StoreSettings(uncommitted_bytes_max=2 << 20, partition_uncommitted_bytes_max=1 << 20)
    door = ListeningDoor(tmp_path / "data", settings=settings, files=files)
    with door, opened(HOST, door.port, tune=(1 << 20, 1)) as writer, opened(HOST, door.port) as other:
        other.create(STREAM)
        writer.declare(1, STREAM, "ada")
        files.hold_back()
        count = 400
        frames = b"".join(publish_frame(1, [(number, bytes(50_000))]) for number in range(1, count + 1))
        sent = writer.send_some(frames)
        assert sent < len(frames)
        assert door.call(lambda: door.store.uncommitted_bytes) <= (1 << 20) + 60_000
        other.subscribe(1, STREAM, credit=CREDIT_MAX)
        other.assert_nothing_came()
        time.sleep(2.5)  # more than two intervals in which the door reads no heartbeat
        files.go_on.set()
        writer.send(frames[sent:])
        confirmed = 0
        while confirmed < count:
            confirmed += writer.until(c.PublishConfirm).count
        assert len(other.messages(count)) == count


@pytest.mark.clause("SP-4")
def test_nothing_is_confirmed_before_the_disk_has_it(tmp_path: Path) -> None:
    files = DelayedFiles()
    with (
        ListeningDoor(tmp_path / "data", files=files) as door,
        opened(HOST, door.port) as wire,
        opened(HOST, door.port) as again,
        opened(HOST, door.port) as reader,
    ):
        wire.create(STREAM)
        for each in (wire, again):
            each.declare(1, STREAM, "ada")
        wire.publish(1, [(1, b"first")])
        reader.subscribe(1, STREAM)
        assert reader.messages(1) == [(0, b"first")]
        files.hold_back()
        wire.send(publish_frame(1, [(2, b"second")]))
        assert files.entered.wait(10)
        reader.assert_nothing_came()
        wire.assert_silent()
        again.send(publish_frame(1, [(2, b"again")]))
        reader.assert_nothing_came()
        for each in (wire, again):
            each.assert_silent()
        files.go_on.set()
        for each in (wire, again):
            each.take_confirms(1, [2])
        assert reader.messages(1) == [(1, b"second")]


@pytest.mark.clause("SP-13")
def test_a_stream_that_goes_while_messages_are_on_their_way_answers_each_once(tmp_path: Path) -> None:
    files = DelayedFiles()
    with (
        ListeningDoor(tmp_path / "data", files=files) as door,
        opened(HOST, door.port) as wire,
        opened(HOST, door.port) as other,
    ):
        wire.create(STREAM)
        wire.declare(1, STREAM)
        wire.publish(1, [(0, b"there")])
        files.hold_back()
        wire.send(publish_frame(1, [(number, b"x") for number in range(1, 101)]))
        assert files.entered.wait(10)
        wire.send(publish_frame(1, [(number, b"x") for number in range(101, 201)]))
        assert other.code(c.DeleteRequest(1, STREAM), c.DeleteResponse) == OK
        files.go_on.set()
        answered = 0
        codes = set()
        told = False
        while answered < 200 or not told:
            command = wire.next()
            if isinstance(command, c.PublishConfirm):
                answered += command.count
            elif isinstance(command, c.PublishError):
                answered += len(command.publishing_errors)
                codes |= {each.code for each in command.publishing_errors}
            else:
                assert isinstance(command, c.MetadataUpdate)
                told = True
        assert answered == 200
        assert codes <= {ResponseCode.STREAM_DOES_NOT_EXIST, ResponseCode.PUBLISHER_DOES_NOT_EXIST}
        wire.assert_nothing_came()


@pytest.mark.clause("SP-19")
def test_whoever_vanishes_leaves_nothing_behind(door: ListeningDoor, connect: Connect, stream: str) -> None:
    survivor = connect()
    survivor.create(stream)
    before = door.call(lambda: len(door.door.connections))
    single = {"single-active-consumer": "true", "name": "group"}
    for number in range(30):
        wire = opened(HOST, door.port)
        wire.declare(1, stream, "ada")
        wire.subscribe(1, stream, properties=single)
        wire.send(publish_frame(1, [(number, bytes(20_000))])[: 40 if number % 2 else None])
        wire.vanish()
    eventually(lambda: door.call(lambda: len(door.door.connections)) == before)
    survivor.declare(1, stream, "ada")
    survivor.subscribe(1, stream, properties=single)
    assert survivor.until(c.ConsumerUpdateRequest).active


@pytest.mark.clause("SP-19")
def test_one_connection_too_many_is_closed_and_the_others_stay(tmp_path: Path) -> None:
    door = ListeningDoor(tmp_path / "data", Limits(connections_max=2))
    with door, opened(HOST, door.port) as one, opened(HOST, door.port) as two:
        with Wire(HOST, door.port) as three:
            three.assert_ended()
        one.assert_nothing_came()
        two.vanish()
        eventually(lambda: len(door.door.connections) == 1)
        with opened(HOST, door.port) as again:
            again.assert_nothing_came()


@pytest.mark.clause("SP-19")
def test_too_many_names_in_one_metadata_and_filters_in_one_subscription(
    connect: Connect, stream: str
) -> None:
    wire = connect()
    wire.create(stream)
    most = c.MetadataRequest(wire.id(), ("",) * METADATA_STREAMS_MAX)
    assert len(wire.ask(most, c.MetadataResponse).stream_metadata) == METADATA_STREAMS_MAX
    for count, code in ((FILTER_VALUES_MAX, OK), (FILTER_VALUES_MAX + 1, ResponseCode.PRECONDITION_FAILED)):
        filters = {f"filter.{number}": str(number) for number in range(count)}
        request = c.SubscribeRequest(wire.id(), 1, stream, FIRST, 1, filters)
        assert wire.code(request, c.SubscribeResponse) == code
        wire.send(c.UnsubscribeRequest(wire.id(), 1))
        wire.take(c.UnsubscribeResponse)
    wire.send(c.MetadataRequest(wire.id(), ("",) * (METADATA_STREAMS_MAX + 1)))
    assert wire.take(c.CloseRequest).closing_code == ResponseCode.PRECONDITION_FAILED


@pytest.mark.clause("SP-9")
def test_credit_is_counted_up_to_its_bound(door: ListeningDoor, wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.subscribe(1, stream, credit=CREDIT_MAX)
    wire.send(c.Credit(1, CREDIT_MAX))
    wire.assert_nothing_came()
    sessions = [connection.session for connection in door.door.connections if connection.session]
    (subscription,) = [
        each
        for session in sessions
        for each in session.subscriptions.values()
        if each.partition.name == stream
    ]
    assert subscription.credit == CREDIT_MAX


@pytest.mark.clause("SP-19", "SP-14")
def test_a_server_that_stops_confirms_what_it_took_and_says_goodbye(tmp_path: Path) -> None:
    with ListeningDoor(tmp_path / "data") as door:
        wire = opened(HOST, door.port)
        wire.create(STREAM)
        wire.declare(1, STREAM)
        wire.publish(1, [(number, b"x") for number in range(100)])
    with wire:
        close = wire.take(c.CloseRequest)
        assert close.closing_code == OK
        wire.assert_ended()
