"""Duplicates of CloudEvents over crashes that lose what was not synced: confirmed is stored, and nothing twice."""

from __future__ import annotations

from array import array
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.cloudevents import amqp_binding
from headwater.cloudevents.event import CloudEvent
from headwater.log.partition import Partition
from headwater.server.record_source import RecordSource
from tests.log_material import Machine

EVENTS = 40


def event(number: int) -> bytes:
    return amqp_binding.encode(
        CloudEvent({"specversion": "1.0", "id": f"e{number}", "source": "/s", "type": "t"})
    )


NUMBERS = {event(number): number for number in range(EVENTS)}


def send(partition: Partition, numbers: list[int], confirmed: set[int]) -> None:
    buffer, spans, at = b"".join(map(event, numbers)), array("q"), 0
    for number in numbers:
        spans.extend((at, at, at, at + len(event(number))))
        at += len(event(number))
    at = 0
    while at < len(numbers):
        taken = partition.append_some_spans(buffer, spans, at, len(numbers) - at)
        part = numbers[at : at + taken]
        partition.when_settled(lambda error, part=part: None if error else confirmed.update(part))  # type: ignore[misc]
        at += taken


def stored(machine: Machine) -> list[int]:
    machine.store.flush()
    source, found = RecordSource(machine.log(), 0, "0"), []
    while source.records or source.fill(lambda: None) or source.is_waiting:
        if source.is_waiting:
            machine.store.flush()
            continue
        found.append(NUMBERS[source.records[0].first_record()])
        source.take(1)
    return found


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_confirmed_is_stored_once_whatever_a_crash_loses(seed: int) -> None:
    rng, machine, confirmed = Random(seed), Machine(), set[int]()
    machine.log(content="cloudevents", duplicates_window_count=EVENTS, segment_bytes=2_048)
    for _ in range(rng.randint(2, 12)):
        for _ in range(rng.randint(1, 5)):
            numbers = [rng.randrange(EVENTS) for _ in range(rng.randint(1, 8))]
            send(machine.log(), numbers, confirmed)
            if rng.random() < 0.6:
                machine.store.dispatch()
            if rng.random() < 0.4:
                machine.store.flush()
        if rng.random() < 0.7:
            machine.lose_power(rng)
        else:
            machine.crash()
    found = stored(machine)
    assert len(found) == len(set(found)), "twice"
    assert confirmed <= set(found), "lost"
    send(machine.log(), list(range(EVENTS)), confirmed)
    assert sorted(stored(machine)) == list(range(EVENTS)) == sorted(confirmed)
