"""The Java and the Go client of RabbitMQ Streams: single active consumers and super streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.encoding.murmur3 import partition_of
from tests.peers.programs import Program, connect, publish, texts
from tests.peers.servers import Server

pytestmark = pytest.mark.peers


@pytest.fixture
def other(command: list[str], server: Server) -> Iterator[Program]:
    """A second program with the same client."""
    with Program(command) as program:
        connect(program, server)
        yield program


def join(program: Program, name: str, **where: str) -> None:
    """Consume as one of the group `g`."""
    program(
        "consumer",
        **{"as": name, "offset": "first", "name": "g", "group": True, "tracking": "manual", **where},
    )


def told(program: Program, count: int) -> list[list[str]]:
    """So many changes of who is active, in their order."""
    events: list[list[str]] = []
    changes: list[list[str]] = []
    while len(changes) < count:
        before = len(events)
        events = program("told", count=before + 1)
        changes = [event for event in events if event[1] in {"active", "passive"}]
        assert len(events) > before, f"there are no {count} changes in {events}"
    return changes


def keyed(start: int, end: int) -> list[str]:
    return [f"key{number % 13} {number}" for number in range(start, end)]


def assert_keys_stay_together(items: list[list[Any]], messages: list[str], partitions: list[str]) -> None:
    """Every message once, in the partition of its key, and there in the order of sending."""
    assert sorted(body for *_, body in items) == sorted(messages)
    for number, name in enumerate(partitions):
        here = sorted((offset, body) for partition, offset, body in items if partition == name)
        wanted = [
            body for body in messages if partition_of(body.split()[0].encode(), len(partitions)) == number
        ]
        assert here == list(enumerate(wanted))


@pytest.mark.clause("SP-16")
def test_the_second_consumer_of_a_group_takes_over_when_the_first_is_gone(
    peer: Program, other: Program, stream: str
) -> None:
    peer("create", stream=stream)
    other("producer", **{"as": "p", "stream": stream})
    # A chunk begins at 7: of the one in which a new active consumer begins, the Java client shows all.
    publish(other, "p", texts(0, 7))
    publish(other, "p", texts(7, 10))
    join(peer, "one", stream=stream)
    assert len(peer("take", of="one", count=10)) == 10
    assert told(peer, 1) == [["one", "active", stream]]
    join(other, "two", stream=stream)
    peer("store", of="one", offset=6)
    publish(other, "p", texts(10, 12))
    assert [offset for _, offset, _ in peer("take", of="one", count=12)] == list(range(12))
    peer.kill()
    assert told(other, 1) == [["two", "active", stream]]
    publish(other, "p", texts(12, 15))
    expected = [[stream, number, f"message {number}"] for number in range(7, 15)]
    assert other("take", of="two", count=8) == expected


@pytest.mark.clause("SP-15", "SP-16")
def test_a_group_shares_the_partitions_of_a_super_stream(peer: Program, other: Program, stream: str) -> None:
    peer("create", stream=stream, partitions=3)
    names = [f"{stream}-{number}" for number in range(3)]
    other("producer", **{"as": "p", "super": stream, "route": "hash"})
    messages = keyed(0, 600)
    join(peer, "one", super=stream)
    assert {name for _, _, name in told(peer, 3)} == set(names)
    publish(other, "p", messages[:200])
    assert len(peer("take", of="one", count=200)) == 200
    join(other, "two", super=stream)
    # The middle partition moves: the first stores where it is and steps down, and the second goes on from there.
    assert told(peer, 4)[3] == ["one", "passive", names[1]]
    assert told(other, 1) == [["two", "active", names[1]]]
    publish(other, "p", messages[200:400])
    count = sum(1 for body in messages[200:400] if partition_of(body.split()[0].encode(), 3) == 1)
    assert len(peer("take", of="one", count=400 - count)) == 400 - count
    assert len(other("take", of="two", count=count)) == count
    peer("store", of="one")
    first = peer("take", of="one", count=0)
    peer.kill()
    assert {name for _, _, name in told(other, 3)[1:]} == {names[0], names[2]}
    publish(other, "p", messages[400:])
    second = other("take", of="two", count=600 - len(first))
    assert {name for name, *_ in second[:count]} == {names[1]}
    assert_keys_stay_together(first + second, messages, names)


def test_hashed_keys_of_a_super_stream_stay_in_order_in_the_partition_that_all_doors_give_them(
    peer: Program, stream: str
) -> None:
    peer("create", stream=stream, partitions=3)
    peer("producer", **{"as": "p", "super": stream, "route": "hash"})
    messages = keyed(0, 300)
    publish(peer, "p", messages)
    peer("consumer", **{"as": "c", "super": stream, "offset": "first"})
    items = peer("take", of="c", count=300)
    assert_keys_stay_together(items, messages, [f"{stream}-{number}" for number in range(3)])


def test_binding_keys_choose_the_partition_of_a_super_stream(peer: Program, stream: str) -> None:
    peer("create", stream=stream, keys=["north", "south"])
    peer("producer", **{"as": "p", "super": stream, "route": "key"})
    sent = {key: texts(0, 20, key) for key in ("north", "south")}
    mixed = [body for pair in zip(*sent.values(), strict=True) for body in pair]
    publish(peer, "p", mixed)
    peer("consumer", **{"as": "c", "super": stream, "offset": "first"})
    items = peer("take", of="c", count=40)
    for key, bodies in sent.items():
        here = [[offset, body] for name, offset, body in items if name == f"{stream}-{key}"]
        assert here == [list(pair) for pair in enumerate(bodies)]
    peer("close", of="p")
    peer("close", of="c")
    peer("delete", super=stream)
    assert not peer("exists", stream=f"{stream}-north")
