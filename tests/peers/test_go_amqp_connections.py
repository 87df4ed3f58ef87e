"""go-amqp, the scenarios of its own integration tests: connections, sessions and links that come, go, are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.programs import Program, Refused, go_command, texts
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers

IDLE_TIMEOUT_S = 1.5


@pytest.fixture
def peer() -> Iterator[Program]:
    """The program, with nothing open yet."""
    with Program(go_command("go-amqp")) as program:
        yield program


def connect(peer: Program, server: Server, **fields: Any) -> Any:
    return peer("connect", **{"host": HOST, "port": server.amqp_port, **fields})


def round_trip(peer: Program, address: str, **fields: Any) -> None:
    """On a session of its own."""
    peer("session", **{"as": address})
    peer("sender", **{"as": f"{address} s", "of": address, "address": address})
    peer("receiver", **{"as": f"{address} r", "of": address, "address": address, "offset": "first"})
    assert peer("send", to=f"{address} s", bodies=texts(0, 3), **fields) == {"accepted": 3}
    assert peer("receive", of=f"{address} r", count=3) == texts(0, 3)


# Who connects


@pytest.mark.clause("AMQP connection 1")
def test_sasl_is_anonymous_plain_or_left_out(peer: Program, server: Server, stream: str) -> None:
    users: tuple[dict[str, str], ...] = (
        {"mechanism": "ANONYMOUS"},
        {"mechanism": "PLAIN", "user": USER, "password": PASSWORD},
        {},
    )
    for number, fields in enumerate(users):
        assert connect(peer, server, **fields)["product"] == "Headwater"
        round_trip(peer, f"{stream}-{number}")


def test_a_wrong_password_is_told(peer: Program, server: Server) -> None:
    with pytest.raises(Refused, match=r"(?i)sasl.*auth"):
        connect(peer, server, mechanism="PLAIN", user=USER, password="wrong")


def test_an_unknown_vhost_is_told(peer: Program, server: Server) -> None:
    connect(peer, server, hostname="vhost:nowhere")
    with pytest.raises(Refused, match="may not enter vhost 'nowhere'") as refused:
        peer("ended")
    assert refused.value.code == "amqp:unauthorized-access"


@pytest.mark.clause("AMQP security 3")
def test_a_user_may_do_what_its_permissions_say(peer: Program, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "headwater.cli.main",
        "user",
        "add",
        "ada",
        "--data",
        str(tmp_path / "data"),
    ]
    may = ["--configure", "mine", "--write", "mine|dynamic.*", "--read", "mine"]
    subprocess.run([*command, *may], input="pencil\n", text=True, check=True, capture_output=True)
    server = Server(tmp_path / "data")
    server.start()
    try:
        connect(peer, server, mechanism="PLAIN", user="ada", password="pencil")
        round_trip(peer, "mine")
        for kind, address, words in (
            ("sender", "yours", "may not write to 'yours'"),
            ("receiver", "yours", "may not read 'yours'"),
            ("sender", "dynamic prices", "may not make it"),
        ):
            with pytest.raises(Refused, match=words) as refused:
                peer(kind, of="mine", address=address)
            assert refused.value.code == "amqp:unauthorized-access"
        with pytest.raises(Refused, match="may not make dynamic nodes"):
            peer("receiver", of="mine", dynamic=True)
    finally:
        server.end()


@pytest.mark.clause("AMQP security 2")
@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS", "EXTERNAL"])
def test_everything_goes_over_tls(
    peer: Program, tls_server: Server, keys: Path, stream: str, mechanism: str
) -> None:
    who = {"mechanism": mechanism}
    if mechanism == "PLAIN":
        who |= {"user": USER, "password": PASSWORD}
    if mechanism == "EXTERNAL":
        who |= {"certificate": str(keys / "client.pem"), "key": str(keys / "client.key")}
    connect(peer, tls_server, port=tls_server.amqp_tls_port, authority=str(keys / "ca.pem"), **who)
    round_trip(peer, stream)


def test_a_client_without_a_certificate_has_no_external(
    peer: Program, tls_server: Server, keys: Path
) -> None:
    with pytest.raises(Refused, match="no supported auth mechanism"):
        connect(
            peer,
            tls_server,
            port=tls_server.amqp_tls_port,
            authority=str(keys / "ca.pem"),
            mechanism="EXTERNAL",
        )


# Limits


@pytest.mark.clause("AMQP connection 4")
def test_sessions_are_as_many_as_the_server_says(peer: Program, server: Server, stream: str) -> None:
    connect(peer, server)
    for number in range(255):
        peer("session", **{"as": f"{number}"})
    round_trip(peer, stream)
    peer("close", of="17")
    peer("session", **{"as": "another"})
    with pytest.raises(Refused, match=r"reached connection channel max \(255\)"):
        peer("session", **{"as": "one more"})


@pytest.mark.parametrize(
    ("most", "opened", "closed", "refused"),
    [(4, 5, 0, 1), (5, 5, 0, 0), (4, 5, 1, 0), (4, 8, 4, 0), (62, 64, 2, 0), (62, 64, 1, 1)],
)
def test_a_session_has_as_many_links_as_the_client_wants(
    peer: Program, server: Server, stream: str, most: int, opened: int, closed: int, refused: int
) -> None:
    connect(peer, server)
    peer("session", max_links=most)
    seen = []
    for number in range(opened):
        try:
            peer("sender", **{"as": f"{number}", "address": stream})
        except Refused as error:
            seen.append(str(error))
        else:
            if number < closed:
                peer("close", of=f"{number}")
    assert len(seen) == refused
    assert all(f"handle max ({most})" in each for each in seen)


# Ends


def test_a_receiver_says_whether_it_its_session_or_its_connection_was_closed(
    peer: Program, server: Server, stream: str
) -> None:
    for number, (closed, code) in enumerate([("r", "link"), ("session", "session"), ("", "connection")]):
        connect(peer, server)
        peer("session", **{"as": "session"})
        peer("sender", **{"as": "s", "of": "session", "address": stream})
        peer("receiver", **{"as": "r", "of": "session", "address": stream})
        peer("close", of=closed)
        with pytest.raises(Refused) as refused:
            peer("receive", of="r", count=1)
        assert refused.value.code == code, number


def test_sessions_come_and_go_again_and_again(peer: Program, server: Server, stream: str) -> None:
    connect(peer, server)
    names = [f"{number}" for number in range(10)]
    for _ in range(10):
        for name in names:
            peer("session", **{"as": name})
        for name in names:
            peer("close", of=name)
    round_trip(peer, stream)


def test_a_hundred_sessions_come_and_go_at_once(peer: Program, server: Server, stream: str) -> None:
    connect(peer, server)
    peer("sessions_at_once", count=100)
    round_trip(peer, stream)


def test_a_hundred_senders_of_a_session_come_and_go_at_once(
    peer: Program, server: Server, stream: str
) -> None:
    connect(peer, server, mechanism="ANONYMOUS")
    peer("session")
    peer("sender", **{"as": "first", "address": stream})
    peer("receiver", **{"as": "r", "address": stream, "offset": "first", "credit": 100})
    peer("senders_at_once", address=stream, at_once=100, count=10, size=10 * 1024)
    wanted = [f"{sender} {again}" for sender in range(100) for again in range(10)]
    assert sorted(peer("receive", of="r", count=1000)) == sorted(wanted)


def test_links_sessions_and_the_connection_close_at_the_same_time(
    peer: Program, server: Server, stream: str
) -> None:
    connect(peer, server)
    names = []
    for number in range(20):
        session = f"session {number}"
        peer("session", **{"as": session})
        peer("sender", **{"as": f"s {number}", "of": session, "address": stream})
        peer("receiver", **{"as": f"r {number}", "of": session, "address": stream})
        names += [f"s {number}", f"r {number}", session]
    peer("close_at_once", names=names)
    round_trip(peer, stream)
    peer("close_at_once", names=["", f"{stream} s", f"{stream} r", stream])


def test_what_is_cancelled_before_it_begins_leaves_nothing_behind(
    peer: Program, server: Server, stream: str
) -> None:
    connect(peer, server)
    peer("session")
    peer("sender", address=stream)
    peer("receiver", **{"as": "r", "address": stream, "offset": "first"})
    tried = peer("with_no_time_left", address=stream, count=300)
    # What the client says of a message depends on where it was stopped.
    assert set(tried.pop("send")) <= {"cancelled", "amqp:link:transfer-limit-exceeded"}
    assert tried == {each: {"cancelled": True} for each in ("session", "sender", "receiver")}
    assert peer("send", bodies=["the only one"]) == {"accepted": 1}
    assert peer("receive", of="r", count=1) == ["the only one"]
    round_trip(peer, f"{stream}-after")


# Time


@pytest.mark.clause("AMQP connection 3")
def test_heartbeats_keep_a_connection_on_which_nothing_happens(
    peer: Program, own_server: Server, stream: str
) -> None:
    connect(peer, own_server, idle_timeout_ms=int(IDLE_TIMEOUT_S * 1000))
    time.sleep(2.5 * IDLE_TIMEOUT_S)  # nothing is to happen in this time
    round_trip(peer, stream)


def test_a_server_of_which_nothing_is_heard_is_given_up(peer: Program, own_server: Server) -> None:
    connect(peer, own_server, idle_timeout_ms=200)
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(Refused) as refused:
            peer("ended")
        assert refused.value.code == "connection"
    finally:
        os.kill(own_server.pid, signal.SIGCONT)


@pytest.mark.clause("AMQP logs 8")
def test_clients_are_told_that_the_server_stops_and_come_back_to_what_was_accepted(
    peer: Program, own_server: Server, stream: str
) -> None:
    connect(peer, own_server)
    round_trip(peer, stream)
    assert own_server.stop() == 0
    with pytest.raises(Refused, match="the server is stopping") as refused:
        peer("ended")
    assert refused.value.code == "amqp:connection:forced"
    own_server.start()
    connect(peer, own_server)
    peer("session")
    peer("receiver", **{"as": "r", "address": stream, "offset": "first"})
    assert peer("receive", of="r", count=3) == texts(0, 3)


def test_a_killed_server_ends_the_connection_and_keeps_what_was_accepted(
    peer: Program, own_server: Server, stream: str
) -> None:
    connect(peer, own_server)
    round_trip(peer, stream)
    own_server.kill()
    with pytest.raises(Refused) as refused:
        peer("ended")
    assert refused.value.code == "connection"
    own_server.start()
    connect(peer, own_server)
    peer("session")
    peer("receiver", **{"as": "r", "address": stream, "offset": "first"})
    assert peer("receive", of="r", count=3) == texts(0, 3)


@pytest.mark.clause("AMQP links 7")
def test_a_dynamic_address_does_not_outlive_a_server_that_is_killed(
    peer: Program, own_server: Server
) -> None:
    connect(peer, own_server)
    peer("session")
    address = peer("receiver", **{"as": "r"}, dynamic=True)["address"]
    peer("sender", address=address)
    own_server.kill()
    own_server.start()
    connect(peer, own_server)
    peer("session")
    for kind in ("sender", "receiver"):
        with pytest.raises(Refused, match=f"there is no log '{address}'"):
            peer(kind, address=address)
