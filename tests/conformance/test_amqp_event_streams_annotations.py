"""Event Stream Extensions, sections 4.4 and 5.1: what every delivery says of its event."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headwater.encoding.amqp_types import Symbol, Timestamp
from headwater.encoding.delivery_annotations import offset_digits
from headwater.log.settings import LogSettings, StoreSettings
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, Delivered, data, from_offset
from tests.conformance.listening import HOST
from tests.conformance.wire import opened

LOG = "orders"
PARTITION = Symbol("event-streams-partition")
NAMES = ["event-streams-source-partition", "event-streams-timestamp", "event-streams-offset"]


def time_of(delivered: Delivered) -> int:
    """When the event was accepted."""
    value = delivered.annotations[Symbol("event-streams-timestamp")]
    assert type(value) is Timestamp
    return int(value)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.clause("ES-11", "ES-21", "ES-23")
@pytest.mark.parametrize(
    ("address", "properties", "partition_id"),
    [
        ("single", None, "0"),
        ("single", {PARTITION: Symbol("0")}, "0"),
        ("several", None, "1"),
        ("several", {PARTITION: Symbol("1")}, "1"),
        ("several-1", None, "1"),
    ],
)
def test_every_delivery_says_its_partition_its_offset_and_its_time(
    peer: AmqpWire,
    amqp_door: ListeningAmqp,
    log: str,
    address: str,
    properties: dict[Symbol, Any] | None,
    partition_id: str,
) -> None:
    amqp_door.super_stream(f"{log}-several", 2)
    target = f"{log}-single" if address == "single" else f"{log}-several-1"
    before = time.time_ns() // 1_000_000
    peer.sender(target)
    peer.publish([data(b"%d" % number) for number in range(3)])
    after = time.time_ns() // 1_000_000
    peer.receiver(f"{log}-{address}", handle=1, properties=properties)
    for number, each in enumerate(peer.messages(3)):
        assert sorted(each.annotations) == sorted(NAMES)
        assert all(type(name) is Symbol for name in each.annotations)
        assert type(each.annotations[Symbol(NAMES[0])]) is Symbol
        assert (each.partition, each.offset) == (partition_id, number)
        assert before <= time_of(each) <= after


@pytest.mark.clause("ES-11", "ES-21", "ES-23")
def test_what_stream_clients_published_says_it_too(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    with opened(HOST, amqp_door.port) as stream:
        stream.declare(1, f"{log}-1")
        stream.publish(1, [(number, data(b"x")) for number in range(3)])
        peer.receiver(log)
        came = peer.messages(3)
    assert [(each.partition, each.offset) for each in came] == [("1", number) for number in range(3)]
    assert len({time_of(each) for each in came}) == 1


@pytest.mark.clause("ES-23")
@pytest.mark.parametrize("tail_bytes", [1 << 20, 1], ids=["in memory", "from disk"])
def test_time_never_falls_within_a_partition_when_the_clock_steps_back(
    tmp_path: Path, tail_bytes: int
) -> None:
    clock, start = Clock(), Clock().now_ms
    steps = [0, 1_000, -60_000, -59_000, 500, 2_000]
    expected = [start, start + 1_000, start + 1_000, start + 1_000, start + 1_000, start + 2_000]
    settings = StoreSettings(tail_bytes_max=tail_bytes)
    log_settings = LogSettings(segment_bytes=1 << 12)

    def publish(door: ListeningAmqp, numbers: range) -> None:
        with door.connect() as wire:
            wire.sender(LOG)
            for first_id, number in enumerate(numbers):
                clock.now_ms = start + steps[number]
                wire.publish([data(b"%d" % number + bytes(3_000))], first_id=first_id)

    with ListeningAmqp(tmp_path / "data", settings=settings, clock=clock) as door:
        door.call(lambda: door.store.create_log(LOG, settings=log_settings))
        publish(door, range(3))
    # And over a restart, with the clock still behind.
    with ListeningAmqp(tmp_path / "data", settings=settings, clock=clock) as door:
        publish(door, range(3, 6))
        with door.connect() as wire:
            wire.receiver(LOG)
            came = wire.messages(6)
            assert [time_of(each) for each in came] == expected
            assert [each.offset for each in came] == list(range(6))
            for handle, time_ms in enumerate(sorted(set(expected)), 1):
                wire.receiver(LOG, filter=from_offset(Timestamp(time_ms)), handle=handle)
                found = wire.messages(sum(each >= time_ms for each in expected))
                assert [time_of(each) for each in found] == [each for each in expected if each >= time_ms]


@pytest.mark.clause("ES-21")
def test_offsets_of_any_size_are_in_the_order_of_their_digits() -> None:
    numbers = [0, 1, 9, 10, 15, 16, 255, 256, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
    written = [offset_digits(number).decode() for number in numbers]
    assert written == sorted(written)
    assert {len(each) for each in written} == {16}
