"""The Java and the Go client of RabbitMQ Streams: TLS, client certificates, and the other ways to prove a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.programs import Program, Refused, connect, java_command, publish, texts
from tests.peers.servers import PASSWORD, USER, Server

pytestmark = pytest.mark.peers


def assert_it_works(peer: Program, stream: str) -> None:
    """Publish and read: producers and consumers have connections of their own."""
    peer("create", stream=stream)
    peer("producer", **{"as": "p", "stream": stream})
    publish(peer, "p", texts(0, 100))
    peer("consumer", **{"as": "c", "stream": stream, "offset": "first"})
    assert peer("take", of="c", count=100) == [[stream, n, f"message {n}"] for n in range(100)]


@pytest.mark.clause("SP-14")
def test_everything_goes_over_tls(command: list[str], tls_server: Server, keys: Path, stream: str) -> None:
    with Program(command) as peer:
        connect(peer, tls_server, port=tls_server.stream_tls_port, authority=str(keys / "ca.pem"))
        assert_it_works(peer, stream)


@pytest.mark.clause("SP-14")
def test_a_client_certificate_proves_who_one_is(
    command: list[str], tls_server: Server, keys: Path, stream: str
) -> None:
    shown = {
        "certificate": str(keys / "client.pem"),
        "key": str(keys / "client.key"),
        "mechanism": "EXTERNAL",
    }
    tls = {"port": tls_server.stream_tls_port, "authority": str(keys / "ca.pem")}
    with Program(command) as peer:
        connect(peer, tls_server, user="nobody", password="wrong", **tls, **shown)
        assert_it_works(peer, stream)


# The Go client knows PLAIN and EXTERNAL alone.


@pytest.mark.clause("SP-14")
def test_scram_goes_to_and_fro_with_the_java_client(server: Server, stream: str) -> None:
    scram = {"mechanism": "SCRAM-SHA-256", "user": USER}
    with Program(java_command()) as peer:
        connect(peer, server, password=PASSWORD, **scram)
        assert_it_works(peer, stream)
    with Program(java_command()) as peer, pytest.raises(Refused) as refused:
        connect(peer, server, password="wrong", **scram)
    assert refused.value.code == 8


def test_whoever_is_on_this_machine_may_be_anonymous_with_the_java_client(
    server: Server, stream: str
) -> None:
    with Program(java_command()) as peer:
        connect(peer, server, mechanism="ANONYMOUS")
        assert_it_works(peer, stream)
