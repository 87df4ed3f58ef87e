"""Qpid JMS: who connects and how, heartbeats, a server that stops or dies, and connections that mend themselves."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.programs import Program, Refused, java_command, texts
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers

IDLE_TIMEOUT_S = 1.5
STORE_PASSWORD = "pencil"


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """One for all tests: it takes a second to start."""
    with Program(java_command("jms")) as started:
        yield started


@pytest.fixture
def peer(program: Program) -> Iterator[Program]:
    """The program, with nothing open that a test does not open."""
    yield program
    with contextlib.suppress(Refused):
        program("close")


@pytest.fixture
def uri(server: Server) -> str:
    return f"amqp://{HOST}:{server.amqp_port}"


def topic(peer: Program, name: str) -> None:
    """A producer `p`, which makes the log, and a consumer `c`."""
    peer("session")
    peer("producer", **{"as": "p", "topic": name})
    peer("consumer", **{"as": "c", "topic": name})


def round_trip(peer: Program, bodies: list[str]) -> None:
    assert peer("send", to="p", bodies=bodies) == len(bodies)
    assert peer("receive", of="c", count=len(bodies)) == bodies


# Who connects


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_has_a_password(peer: Program, uri: str, stream: str, mechanism: str) -> None:
    chosen = f"{uri}?amqp.saslMechanisms={mechanism}"
    peer("connect", uri=chosen, user=USER, password=PASSWORD)
    topic(peer, stream)
    round_trip(peer, texts(0, 3))
    with pytest.raises(Refused, match="Client failed to authenticate") as refused:
        peer("connect", **{"as": "wrong"}, uri=chosen, user=USER, password="wrong")
    assert refused.value.code == "JMSSecuritySaslException"


def test_who_gives_no_name_is_anonymous(peer: Program, uri: str, stream: str) -> None:
    peer("connect", uri=f"{uri}?amqp.saslMechanisms=ANONYMOUS")
    topic(peer, stream)
    round_trip(peer, texts(0, 3))


def test_sasl_may_be_left_out(peer: Program, uri: str, stream: str) -> None:
    peer("connect", uri=f"{uri}?amqp.saslLayer=false")
    topic(peer, stream)
    round_trip(peer, texts(0, 3))


def test_an_unknown_vhost_is_refused_with_a_reason(peer: Program, uri: str) -> None:
    with pytest.raises(Refused, match="may not enter vhost 'nowhere'") as refused:
        peer("connect", uri=f"{uri}?amqp.vhost=vhost:nowhere", user=USER, password=PASSWORD)
    assert refused.value.code == "JMSSecurityException"


@pytest.fixture(scope="module")
def stores(keys: Path) -> Path:
    """The authority and the client's key as Java keeps them: `trust.p12` and `client.p12`."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed, so Java cannot be told whom to trust")
    trusted = ["-keystore", "trust.p12", "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    shown = ["-in", "client.pem", "-inkey", "client.key", "-out", "client.p12"]
    for command in (
        ["keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", "ca.pem", *trusted],
        ["openssl", "pkcs12", "-export", *shown, "-passout", f"pass:{STORE_PASSWORD}"],
    ):
        subprocess.run(command, cwd=keys, check=True, capture_output=True)
    return keys


@pytest.mark.clause("AMQP security 2")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "ANONYMOUS", "EXTERNAL"])
def test_everything_goes_over_tls(
    peer: Program, tls_server: Server, stores: Path, stream: str, mechanism: str
) -> None:
    options = {
        "amqp.saslMechanisms": mechanism,
        "transport.trustStoreLocation": stores / "trust.p12",
        "transport.trustStorePassword": STORE_PASSWORD,
        "transport.storeType": "PKCS12",
    }
    if mechanism == "EXTERNAL":
        options["transport.keyStoreLocation"] = stores / "client.p12"
        options["transport.keyStorePassword"] = STORE_PASSWORD
    query = "&".join(f"{name}={value}" for name, value in options.items())
    who = {"user": USER, "password": PASSWORD} if mechanism in ("PLAIN", "SCRAM-SHA-256") else {}
    peer("connect", uri=f"amqps://{HOST}:{tls_server.amqp_tls_port}?{query}", **who)
    topic(peer, stream)
    round_trip(peer, texts(0, 100))


def test_a_server_that_nobody_vouches_for_is_not_trusted(peer: Program, tls_server: Server) -> None:
    with pytest.raises(Refused, match="certification path"):
        peer("connect", uri=f"amqps://{HOST}:{tls_server.amqp_tls_port}")


# Over a WebSocket


@pytest.mark.clause("AMQP WebSocket")
def test_everything_goes_over_a_websocket(peer: Program, server: Server, stream: str) -> None:
    who = {"user": USER, "password": PASSWORD}
    peer("connect", uri=f"amqpws://{HOST}:{server.http_port}/amqp", **who)
    topic(peer, stream)
    round_trip(peer, texts(0, 1000))
    assert peer("send", to="p", size=1_000_000) == 1
    assert peer("receive", of="c", count=1) == ["1000000 bytes"]
    with pytest.raises(Refused, match="there is no log 'missing'"):
        peer("consumer", **{"as": "m", "topic": "missing"})


def test_a_websocket_to_somewhere_else_is_refused(peer: Program, server: Server) -> None:
    with pytest.raises(Refused, match="404"):
        peer("connect", uri=f"amqpws://{HOST}:{server.http_port}/nowhere")


# Time


@pytest.mark.clause("AMQP connection 3")
def test_heartbeats_keep_a_connection_on_which_nothing_happens(peer: Program, uri: str, stream: str) -> None:
    peer("connect", uri=f"{uri}?amqp.idleTimeout={int(IDLE_TIMEOUT_S * 1000)}")
    topic(peer, stream)
    time.sleep(2.5 * IDLE_TIMEOUT_S)  # nothing is to happen in this time
    round_trip(peer, texts(0, 3))


def test_a_server_of_which_nothing_is_heard_is_given_up(program: Program, own_server: Server) -> None:
    with Program(java_command("jms")) as peer:
        peer("connect", uri=f"amqp://{HOST}:{own_server.amqp_port}?amqp.idleTimeout=500")
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            assert peer("told", count=1)[0][1] == "failed"
        finally:
            os.kill(own_server.pid, signal.SIGCONT)


# A server that goes, and comes back


def mending(server: Server) -> str:
    """Of a connection that is made again, soon and often enough."""
    options = "failover.reconnectDelay=20&failover.maxReconnectDelay=200&failover.useReconnectBackOff=false"
    return f"failover:(amqp://{HOST}:{server.amqp_port})?{options}"


def test_clients_are_told_that_the_server_stops(own_server: Server, stream: str) -> None:
    with Program(java_command("jms")) as peer:
        peer("connect", uri=f"amqp://{HOST}:{own_server.amqp_port}")
        topic(peer, stream)
        assert own_server.stop() == 0
        assert "the server is stopping [condition = amqp:connection:forced]" in peer("told", count=1)[0]
        with pytest.raises(Refused):
            peer("send", to="p", bodies=["too late"])


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_connection_mends_itself_and_loses_nothing_that_was_accepted(
    own_server: Server, stream: str, end: str
) -> None:
    with Program(java_command("jms")) as peer:
        options = (
            "failover.reconnectDelay=20&failover.maxReconnectDelay=200&failover.useReconnectBackOff=false"
        )
        peer("connect", uri=f"failover:(amqp://{HOST}:{own_server.amqp_port})?{options}")
        topic(peer, stream)
        round_trip(peer, texts(0, 10))
        getattr(own_server, end)()
        assert [event for _, event, _ in peer("told", count=1)] == ["interrupted"]
        # What is sent while there is no server waits for one.
        starting = threading.Timer(0.2, own_server.start)
        starting.start()
        try:
            assert peer("send", to="p", bodies=texts(10, 20)) == 10
        finally:
            starting.join()
        assert [event for _, event, _ in peer("told", count=2)] == ["interrupted", "restored"]
        assert peer("browse", queue=stream) == texts(0, 20)
        # The subscriber is there again too.
        assert peer("send", to="p", bodies=["at the end"]) == 1
        seen = []
        while "at the end" not in seen:
            seen += peer("receive", of="c", count=1)


@pytest.mark.clause("AMQP logs 1")
def test_what_was_accepted_is_there_when_the_server_dies_under_load(own_server: Server, stream: str) -> None:
    def die_and_come_back() -> None:
        own_server.kill()
        own_server.start()

    with Program(java_command("jms")) as peer:
        peer("connect", uri=mending(own_server))
        topic(peer, stream)
        bodies = texts(0, 20_000)
        dying = threading.Timer(0.3, die_and_come_back)
        dying.start()
        try:
            accepted = peer("send", to="p", bodies=bodies, at_once=True, tells=True)
        finally:
            dying.join()
        kept = set(peer("browse", queue=stream))
        assert [number for number in accepted if bodies[number] not in kept] == []
        assert accepted  # the others failed with the connection that they were on


@pytest.mark.clause("AMQP logs 5")
def test_a_subscriber_is_told_when_what_it_reads_is_deleted(uri: str) -> None:
    with Program(java_command("jms")) as peer:
        peer("connect", **{"as": "owner"}, uri=uri)
        peer("session", **{"as": "owning", "of": "owner"})
        name = peer("temporary", **{"as": "t", "kind": "topic", "of": "owning"})
        peer("connect", uri=uri)
        peer("session")
        peer("consumer", **{"as": "c", "topic": name})
        peer("close", of="owner")
        told = peer("told", count=1)
        assert [event for _, event, _ in told] == ["consumer closed"]
        assert f"'{name}' was deleted" in told[0][2]
