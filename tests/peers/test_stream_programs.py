"""The Java and the Go client of RabbitMQ Streams: publishing, reading, tracking, restarts, refusals, TLS."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.peers.programs import Program, Refused, connect, publish, texts
from tests.peers.servers import Server

pytestmark = pytest.mark.peers

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def as_on(stream: str, bodies: list[str], first_offset: int = 0) -> list[list[Any]]:
    """Messages as a consumer is given them."""
    return [[stream, first_offset + number, body] for number, body in enumerate(bodies)]


def make_stream(peer: Program, stream: str) -> None:
    """A stream, and the producer `p` on it."""
    peer("create", stream=stream)
    peer("producer", **{"as": "p", "stream": stream})


def consume(peer: Program, as_: str, stream: str, offset: Any = "first", **fields: Any) -> None:
    peer("consumer", **{"as": as_, "stream": stream, "offset": offset, **fields})


def wait_until_told(peer: Program, *wanted: list[str]) -> None:
    """Until the client has told all of these, each a name and an event."""
    told: list[list[str]] = []
    while not all(event in told for event in wanted):
        before = len(told)
        told = [[name, event] for name, event, _ in peer("told", count=before + 1)]
        assert len(told) > before, f"{wanted} is not among {told}"


# Publishing


def test_single_messages_and_batches_are_confirmed_and_arrive_in_order(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    peer("producer", **{"as": "b", "stream": stream, "batch": 25})
    publish(peer, "p", texts(0, 1))
    publish(peer, "p", texts(1, 50))
    publish(peer, "b", texts(50, 175))
    consume(peer, "c", stream)
    assert peer("take", of="c", count=175) == as_on(stream, texts(0, 175))


@pytest.mark.clause("SP-5")
def test_a_named_producer_writes_nothing_twice_over_restarts(
    command: list[str], own_server: Server, stream: str
) -> None:
    def send(first: int, end: int, last_id: int) -> None:
        """What ends at `last_id` is already there."""
        with Program(command) as peer:
            connect(peer, own_server)
            peer("producer", **{"as": "p", "stream": stream, "name": "ada"})
            assert peer("last_id", of="p") == last_id
            publish(peer, "p", texts(first, end), first_id=first)
            assert peer("last_id", of="p") == end - 1

    with Program(command) as peer:
        connect(peer, own_server)
        peer("create", stream=stream)
    send(1, 11, 0)
    own_server.kill()
    own_server.start()
    send(5, 21, 10)
    assert own_server.stop() == 0
    own_server.start()
    send(1, 31, 20)
    with Program(command) as peer:
        connect(peer, own_server)
        peer("producer", **{"as": "p", "stream": stream})
        publish(peer, "p", ["end"])
        consume(peer, "c", stream)
        assert peer("take", of="c", count=31) == as_on(stream, [*texts(1, 31), "end"])


@pytest.mark.clause("SP-3")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_sub_batches_arrive_between_other_messages(peer: Program, stream: str, compression: str) -> None:
    make_stream(peer, stream)
    batches = {"stream": stream, "sub_entry": 10, "compression": compression}
    peer("producer", **{"as": "s", **batches})
    publish(peer, "p", texts(0, 3))
    publish(peer, "s", texts(3, 103))
    publish(peer, "p", texts(103, 105))
    consume(peer, "c", stream)
    assert peer("take", of="c", count=105) == as_on(stream, texts(0, 105))
    consume(peer, "middle", stream, {"offset": 58})
    assert peer("take", of="middle", count=47) == as_on(stream, texts(58, 105), 58)


@pytest.mark.clause("SP-18")
def test_a_filter_lets_through_its_values_and_what_has_none_if_asked(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    peer("producer", **{"as": "f", "stream": stream, "filtered": True})
    north, south, none = (texts(0, 20, word) for word in ("north", "south", "-"))
    publish(peer, "f", north)
    publish(peer, "f", south)
    publish(peer, "p", none)
    # The last message shows that nothing else was on its way.
    publish(peer, "f", ["north end"])
    consume(peer, "strict", stream, filter=["north"])
    consume(peer, "lenient", stream, filter=["north"], match_unfiltered=True)
    consume(peer, "both", stream, filter=["north", "south"])
    seen = {name: [body for *_, body in peer("take", of=name, count=count)] for name, count in WANTED.items()}
    assert seen["strict"] == [*north, "north end"]
    assert seen["lenient"] == [*north, *none, "north end"]
    assert seen["both"] == [*north, *south, "north end"]


WANTED = {"strict": 21, "lenient": 41, "both": 41}


# Where consumers begin


def next_millisecond() -> int:
    """A time after that of all chunks so far, and before that of the next."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now + 1:
        time.sleep(0.001)
    return now + 1


@pytest.mark.clause("SP-7")
def test_consumers_begin_at_the_offset_they_name(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    publish(peer, "p", texts(0, 10))
    second = next_millisecond()
    publish(peer, "p", texts(10, 20))
    next_millisecond()
    publish(peer, "p", texts(20, 30))
    last = peer("stats", stream=stream)["committed_chunk_id"]
    starts: dict[str, tuple[Any, int]] = {
        "first": ("first", 0),
        "last": ("last", last),
        "next": ("next", 30),
        "offset": ({"offset": 13}, 13),
        "beyond": ({"offset": 31}, 31),
        "timestamp": ({"timestamp": second}, 10),
        "early": ({"timestamp": 1}, 0),
    }
    for name, (offset, _) in starts.items():
        consume(peer, name, stream, offset)
    publish(peer, "p", texts(30, 32))
    assert 20 <= last < 30
    for name, (_, first) in starts.items():
        assert peer("take", of=name, count=32 - first) == as_on(stream, texts(first, 32), first), name


@pytest.mark.clause("SP-10")
def test_a_consumer_goes_on_behind_the_offset_that_it_stored(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    publish(peer, "p", texts(0, 10))
    consume(peer, "one", stream, name="ada", tracking="manual")
    peer("take", of="one", count=10)
    assert peer("stored", of="one") is None
    peer("store", of="one", offset=6)
    assert peer("stored", of="one") == 6
    peer("close", of="one")
    consume(peer, "two", stream, name="ada", tracking="manual")
    assert peer("take", of="two", count=3) == as_on(stream, texts(7, 10), 7)


def test_offsets_are_stored_by_themselves(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    publish(peer, "p", texts(0, 22))
    consume(peer, "one", stream, name="ada", tracking="auto", every=5)
    peer("take", of="one", count=22)
    peer("close", of="one")
    publish(peer, "p", texts(22, 25))
    consume(peer, "two", stream, name="ada", tracking="auto", every=5)
    assert peer("take", of="two", count=3) == as_on(stream, texts(22, 25), 22)


def test_a_single_credit_at_a_time_is_enough_for_a_large_log(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    bodies = [f"{number} {'.' * 500}" for number in range(10_000)]
    publish(peer, "p", bodies)
    consume(peer, "c", stream, credit=1)
    assert peer("take", of="c", count=len(bodies)) == as_on(stream, bodies)


# Streams that come and go


@pytest.mark.clause("SP-17")
def test_statistics_tell_where_a_stream_begins_and_ends(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    assert peer("stats", stream=stream) == {}
    publish(peer, "p", texts(0, 5))
    publish(peer, "p", texts(5, 6))
    seen = peer("stats", stream=stream)
    assert seen["first_offset"] == 0
    assert seen["committed_chunk_id"] == 5
    assert seen.get("committed_offset", 5) == 5


def test_a_stream_is_made_with_limits_and_not_made_again_with_others(peer: Program, stream: str) -> None:
    limits = {"max_age_s": 3600, "max_length_bytes": 10_000_000, "segment_bytes": 1_000_000}
    assert not peer("exists", stream=stream)
    peer("create", stream=stream, **limits)
    assert peer("exists", stream=stream)
    with pytest.raises(Refused) as refused:
        peer("create", stream=stream, **{**limits, "max_age_s": 7200})
    assert refused.value.code == 17
    peer("delete", stream=stream)
    assert not peer("exists", stream=stream)


@pytest.mark.clause("SP-13")
def test_clients_are_told_when_their_stream_goes_away(peer: Program, stream: str) -> None:
    make_stream(peer, stream)
    publish(peer, "p", texts(0, 10))
    consume(peer, "c", stream)
    assert len(peer("take", of="c", count=10)) >= 10
    peer("flood", to="p")
    assert len(peer("take", of="c", count=500)) >= 500
    peer("delete", stream=stream)
    outcomes = peer("flooded", to="p")
    assert 490 <= outcomes["confirmed"] < outcomes["sent"]
    wait_until_told(peer, ["p", "closed"], ["c", "closed"])
    offsets = [offset for _, offset, _ in peer("take", of="c", count=0)]
    assert offsets == list(range(len(offsets)))
    assert not peer("exists", stream=stream)


# Restarts and refusals


def test_clients_go_on_after_a_restart_of_the_server(
    command: list[str], own_server: Server, stream: str
) -> None:
    with Program(command) as peer:
        connect(peer, own_server)
        peer("create", stream=stream)
        peer("producer", **{"as": "p", "stream": stream, "recovers": True})
        consume(peer, "c", stream, recovers=True)
        publish(peer, "p", texts(0, 50))
        assert len(peer("take", of="c", count=50)) == 50
        own_server.kill()
        own_server.start()
        wait_until_told(
            peer, ["p", "recovering"], ["c", "recovering"], ["p", "recovered"], ["c", "recovered"]
        )
        publish(peer, "p", texts(50, 100))
        # The Java client begins again at the last message that it was given.
        again = 49 if "Main" in command else 50
        expected = as_on(stream, texts(0, 50)) + as_on(stream, texts(again, 100), again)
        assert peer("take", of="c", count=len(expected)) == expected


def test_the_client_shows_what_the_server_refuses(peer: Program, server: Server, stream: str) -> None:
    def refused(command: str, **fields: Any) -> int | str:
        with pytest.raises(Refused) as error:
            peer(command, **fields)
        return error.value.code

    missing = {"as": "x", "stream": stream, "offset": "first"}
    assert refused("producer", **missing) == 2
    assert refused("consumer", **missing) == 2
    assert refused("delete", stream=stream) == 2
    assert refused("stats", stream=stream) == 2
    assert refused("delete", super=stream) == 2
    assert refused("create", stream="amq.reserved") == 17
    assert refused("create", stream=" ") == 17
    peer("create", stream=stream, partitions=2)
    assert refused("delete", stream=f"{stream}-0") == 17


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"user": "guest", "password": "wrong"}, 8),
        ({"user": "eve", "password": "x"}, 8),
        ({"vhost": "no"}, 12),
    ],
)
def test_a_stranger_is_told_why(command: list[str], server: Server, wrong: dict[str, str], code: int) -> None:
    with Program(command) as peer, pytest.raises(Refused) as refused:
        connect(peer, server, **wrong)
    # Of a vhost, the Java client says the code in words alone.
    assert refused.value.code == code or f": {code} (" in str(refused.value)
