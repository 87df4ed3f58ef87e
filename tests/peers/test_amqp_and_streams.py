"""One log, several doors: what clients of streams in Java and Go publish AMQP clients read, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.programs import Program, go_command, java_command, publish, texts
from tests.peers.servers import HOST, Server

pytestmark = pytest.mark.peers

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def amqp(server: Server) -> Iterator[Program]:
    """go-amqp with one session."""
    with Program(go_command("go-amqp")) as program:
        program("connect", host=HOST, port=server.amqp_port)
        program("session")
        yield program


@pytest.fixture(scope="module")
def jms(server: Server) -> Iterator[Program]:
    """Qpid JMS with one session."""
    with Program(java_command("jms")) as program:
        program("connect", uri=f"amqp://{HOST}:{server.amqp_port}")
        program("session")
        yield program


def read(amqp: Program, address: str, count: int, offset: str | int = "first") -> list[str]:
    amqp("receiver", **{"as": f"{address} {offset}", "address": address, "offset": offset, "credit": 100})
    seen: list[str] = amqp("receive", of=f"{address} {offset}", count=count)
    return seen


@pytest.mark.clause("AMQP logs 11")
def test_what_a_stream_client_publishes_amqp_clients_receive(
    peer: Program, amqp: Program, jms: Program, stream: str
) -> None:
    peer("create", stream=stream)
    peer("producer", **{"as": "p", "stream": stream})
    jms("consumer", **{"as": "c", "topic": stream})
    publish(peer, "p", texts(0, 500))
    assert read(amqp, stream, 500) == texts(0, 500)
    assert jms("receive", of="c", count=500) == texts(0, 500)


@pytest.mark.clause("AMQP logs 11")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_sub_batches_are_received_message_by_message(
    peer: Program, amqp: Program, stream: str, compression: str
) -> None:
    peer("create", stream=stream)
    peer("producer", **{"as": "p", "stream": stream})
    packed = {"stream": stream, "sub_entry": 10, "compression": compression}
    peer("producer", **{"as": "s", **packed})
    publish(peer, "p", texts(0, 3))
    publish(peer, "s", texts(3, 103))
    publish(peer, "p", texts(103, 105))
    assert read(amqp, stream, 105) == texts(0, 105)
    assert read(amqp, stream, 47, offset=58) == texts(58, 105)


@pytest.mark.clause("AMQP logs 11")
def test_what_amqp_clients_send_a_stream_client_consumes(
    peer: Program, amqp: Program, jms: Program, stream: str
) -> None:
    amqp("sender", **{"as": "s", "address": stream})
    assert amqp("send", to="s", bodies=texts(0, 100)) == {"accepted": 100}
    peer("consumer", **{"as": "c", "stream": stream, "offset": "first"})
    expected = [[stream, offset, f"message {offset}"] for offset in range(100)]
    assert peer("take", of="c", count=100) == expected


@pytest.mark.clause("AMQP logs 4")
def test_partitions_of_a_super_stream_are_received_together_or_one_by_one(
    peer: Program, amqp: Program, jms: Program, stream: str
) -> None:
    peer("create", stream=stream, partitions=3)
    jms("consumer", **{"as": "c", "topic": stream})
    amqp("sender", **{"as": "s", "address": stream})
    amqp("sender", **{"as": "one", "address": f"{stream}-1"})
    assert amqp("send", to="s", bodies=texts(0, 300)) == {"accepted": 300}
    assert amqp("send", to="one", bodies=["for the second"]) == {"accepted": 1}
    expected = sorted([*texts(0, 300), "for the second"])
    assert sorted(read(amqp, stream, 301)) == expected
    assert sorted(jms("receive", of="c", count=301)) == expected
    assert "for the second" in read(amqp, f"{stream}-1", 1, offset="last")
