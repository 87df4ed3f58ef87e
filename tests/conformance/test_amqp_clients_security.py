"""Who comes in at the AMQP door, how and from where, and what permissions mean at attaches and transfers."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from headwater.amqp.definitions import Condition, ErrorValue, SenderSettleMode
from headwater.amqp.events import Closed, LinkAttached, LinkDetached
from headwater.amqp.link import Link
from headwater.amqp.messaging import Accepted, DeliveryState, Rejected, Source, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sasl_frames import SaslCode, SaslOutcome
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.amqp_message import AmqpValue, Properties
from headwater.encoding.amqp_message import Message as AmqpMessage
from headwater.encoding.sasl import SCRAM_SHA_256, Response
from headwater.encoding.scram import ScramClient
from headwater.server.amqp.limits import Limits
from headwater.server.security.identity import Peer
from headwater.server.security.permissions import Permission
from headwater.server.tls import ServerTls
from tests.amqp_client import AmqpClient, connect, plain
from tests.certificates import make_keys
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.listening import HOST, PASSWORD

ALL = Permission(".*", ".*", ".*")
FAR, NEAR = Peer(is_loopback=False), Peer(is_loopback=True)
FAR_WITH_TLS = Peer(is_loopback=False, is_encrypted=True)

Come = Callable[[Peer], None]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningAmqp]:
    """A door with `ada`, who may do everything, and the defaults of a server for passwords in the clear."""
    with ListeningAmqp(tmp_path_factory.mktemp("secured") / "data") as listening:
        listening.add_user("ada", {"/": ALL})
        listening.call(lambda: setattr(listening.amqp.sasl, "_allows_plain_without_tls", False))
        yield listening


@pytest.fixture
def come(monkeypatch: pytest.MonkeyPatch) -> Come:
    """Have clients come from elsewhere than they do."""

    def come_from(peer: Peer) -> None:
        monkeypatch.setattr("headwater.server.amqp.connection.peer_of", lambda _transport: peer)

    return come_from


def raw(door: ListeningAmqp) -> AmqpClient:
    """A client that has said nothing yet."""
    return AmqpClient(socket.create_connection((HOST, door.amqp_port), 20))


def open_as(door: ListeningAmqp, user: str, hostname: str | None = None) -> AmqpClient:
    return connect(HOST, door.amqp_port, data=plain(user, PASSWORD), hostname=hostname)


# Mechanisms


@pytest.mark.clause("AMQP security 1")
@pytest.mark.parametrize(
    ("peer", "mechanisms"),
    [
        (NEAR, ("SCRAM-SHA-256", "PLAIN", "ANONYMOUS")),
        (FAR, ("SCRAM-SHA-256",)),
        (FAR_WITH_TLS, ("SCRAM-SHA-256", "PLAIN")),
        (
            Peer(is_loopback=False, is_encrypted=True, certificate_user="ada"),
            ("EXTERNAL", "SCRAM-SHA-256", "PLAIN"),
        ),
    ],
)
def test_mechanisms_are_offered_by_where_a_client_is_and_how_it_came(
    secured: ListeningAmqp, come: Come, peer: Peer, mechanisms: tuple[str, ...]
) -> None:
    come(peer)
    with raw(secured) as client:
        assert client.authenticate("NONE OF THEM", b"").code is SaslCode.AUTH
        assert client.mechanisms == mechanisms


@pytest.mark.clause("AMQP security 1")
def test_passwords_cross_a_network_in_the_clear_only_where_a_setting_allows_it(
    secured: ListeningAmqp, come: Come, monkeypatch: pytest.MonkeyPatch
) -> None:
    come(FAR)
    with raw(secured) as client:
        assert client.authenticate("PLAIN", plain("ada", PASSWORD)).code is SaslCode.AUTH
    monkeypatch.setattr(secured.amqp.sasl, "_allows_plain_without_tls", True)
    with open_as(secured, "ada") as client:
        client.close()


@pytest.mark.clause("AMQP security 1")
@pytest.mark.parametrize("peer", [FAR, FAR_WITH_TLS])
def test_guest_comes_from_this_machine_alone(secured: ListeningAmqp, come: Come, peer: Peer) -> None:
    come(peer)
    for mechanism, data in (("ANONYMOUS", b""), ("PLAIN", plain())):
        with raw(secured) as client:
            assert client.authenticate(mechanism, data).code is SaslCode.AUTH
    with raw(secured) as client:
        assert scram(client, "guest", "guest").code is SaslCode.AUTH
    with raw(secured) as client:
        assert scram(client, "ada", PASSWORD).code is SaslCode.OK


def test_a_client_from_afar_that_skips_sasl_is_told_to_speak_it(secured: ListeningAmqp, come: Come) -> None:
    come(FAR)
    with socket.create_connection((HOST, secured.amqp_port), 20) as client:
        client.sendall(b"AMQP\0\1\0\0")
        assert client.recv(100) == b"AMQP\3\1\0\0"
        assert client.recv(100) == b""


@pytest.mark.clause("AMQP security 1")
def test_a_setting_turns_anonymous_off(secured: ListeningAmqp, monkeypatch: pytest.MonkeyPatch) -> None:
    with raw(secured) as client:
        assert client.authenticate("ANONYMOUS", b"").code is SaslCode.OK
    monkeypatch.setattr(secured.amqp.sasl, "_allows_anonymous", False)
    with raw(secured) as client:
        assert client.authenticate("ANONYMOUS", b"").code is SaslCode.AUTH
        assert client.mechanisms == ("SCRAM-SHA-256", "PLAIN")
    with socket.create_connection((HOST, secured.amqp_port), 20) as silent:
        silent.sendall(b"AMQP\0\1\0\0")
        assert silent.recv(100) == b"AMQP\3\1\0\0"


def scram(client: AmqpClient, user: str, password: str) -> SaslOutcome:
    """Log in, and hold the server to its proof."""
    machine = ScramClient(user, password, "nonce")
    first = machine.step(None)
    assert isinstance(first, Response)

    def respond(challenge: bytes) -> bytes:
        said = machine.step(challenge)
        assert isinstance(said, Response)
        return said.data

    outcome = client.authenticate(SCRAM_SHA_256, first.data, respond)
    if outcome.code is SaslCode.OK:
        assert outcome.additional_data is not None
        assert isinstance(machine.step(outcome.additional_data), Response)
        client.open()
    return outcome


@pytest.mark.clause("AMQP security 1")
def test_scram_proves_both_ends(secured: ListeningAmqp) -> None:
    for user, password, code in (
        ("ada", PASSWORD, SaslCode.OK),
        ("ada", "wrong", SaslCode.AUTH),
        ("nobody", PASSWORD, SaslCode.AUTH),
    ):
        with raw(secured) as client:
            assert scram(client, user, password).code is code


def test_a_wrong_password_and_an_unknown_user_are_answered_alike_and_late(tmp_path: Path) -> None:
    limits = Limits(failure_delay_s=0.2)
    with ListeningAmqp(tmp_path / "data", limits) as door:
        for user, password in (("guest", "wrong"), ("nobody", "guest")):
            with raw(door) as client:
                started = time.monotonic()
                outcome = client.authenticate("PLAIN", plain(user, password))
                assert time.monotonic() - started >= limits.failure_delay_s
                assert outcome == SaslOutcome(SaslCode.AUTH)
                client.wait_until_closed()
    assert Limits().failure_delay_s == 0.5


def test_connections_have_a_number_and_one_that_ends_makes_room(tmp_path: Path) -> None:
    limits = Limits(connections_max=2)
    with ListeningAmqp(tmp_path / "data", limits) as door, raw(door), raw(door) as second:
        with raw(door) as third:
            third.wait_until_closed()
        second.authenticate("PLAIN", plain())
        second.open().close()
        second.wait_until_closed()
        with connect(HOST, door.amqp_port) as another:
            another.close()


# TLS


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of `guest`, who is a user of every door."""
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder, "guest")
    return folder


@pytest.fixture(scope="module")
def tls_door(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningAmqp]:
    context = ServerTls(keys / "server.pem", keys / "server.key", keys / "ca.pem").context
    with ListeningAmqp(tmp_path_factory.mktemp("tls") / "data", tls=context) as listening:
        listening.call(lambda: setattr(listening.amqp.sasl, "_allows_plain_without_tls", False))
        yield listening


def proton_domain(keys: Path, client: str | None = None) -> SSLDomain:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(keys / "ca.pem"))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    if client is not None:
        domain.set_credentials(str(keys / f"{client}.pem"), str(keys / f"{client}.key"), None)
    return domain


@pytest.mark.clause("AMQP security 2")
@pytest.mark.parametrize(
    ("mechanism", "client"), [("PLAIN", None), ("ANONYMOUS", None), ("EXTERNAL", "client")]
)
def test_proton_comes_by_tls_with_a_password_or_a_certificate(
    tls_door: ListeningAmqp, keys: Path, mechanism: str, client: str | None
) -> None:
    user = "guest:guest@" if mechanism == "PLAIN" else ""
    connection = BlockingConnection(
        f"amqps://{user}localhost:{tls_door.amqp_port}",
        timeout=20,
        allowed_mechs=mechanism,
        ssl_domain=proton_domain(keys, client),
    )
    try:
        connection.create_sender("over-tls").send(Message(body="a message"))
        users = tls_door.call(
            lambda: [each.container.identity.user for each in tls_door.amqp.connections if each.container]
        )
        assert users == ["guest"]
        assert tls_door.call(lambda: [each.is_encrypted for each in tls_door.amqp.connections]) == [True]
    finally:
        connection.close()


@pytest.mark.clause("AMQP security 2")
def test_external_is_for_who_shows_a_certificate(tls_door: ListeningAmqp, keys: Path) -> None:
    trusting = ssl.create_default_context(cafile=keys / "ca.pem")
    with AmqpClient(secure(tls_door, trusting)) as client:
        assert client.authenticate("EXTERNAL", b"").code is SaslCode.AUTH
        assert "EXTERNAL" not in client.mechanisms
    trusting.load_cert_chain(keys / "client.pem", keys / "client.key")
    with AmqpClient(secure(tls_door, trusting)) as client:
        assert client.authenticate("EXTERNAL", b"").code is SaslCode.OK
        assert client.mechanisms[0] == "EXTERNAL"
    with AmqpClient(secure(tls_door, trusting)) as client:
        # A certificate says who one is, and nobody else.
        assert client.authenticate("EXTERNAL", b"ada").code is SaslCode.AUTH


@pytest.mark.clause("AMQP security 2")
def test_a_certificate_of_somebody_elses_authority_is_refused(
    tls_door: ListeningAmqp, keys: Path, tmp_path: Path
) -> None:
    make_keys(tmp_path, "guest")
    context = ssl.create_default_context(cafile=keys / "ca.pem")
    context.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    with pytest.raises((ssl.SSLError, ConnectionError)), AmqpClient(secure(tls_door, context)) as client:
        client.authenticate("EXTERNAL", b"")


def test_who_does_not_speak_tls_gets_nowhere(tls_door: ListeningAmqp) -> None:
    with pytest.raises(ConnectionError), raw(tls_door) as client:
        client.authenticate("PLAIN", plain())


def secure(door: ListeningAmqp, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain_socket = socket.create_connection((HOST, door.amqp_port), 20)
    return context.wrap_socket(plain_socket, server_hostname="localhost")


# Vhosts


def test_the_hostname_names_the_vhost_and_each_has_its_own_logs(secured: ListeningAmqp, log: str) -> None:
    secured.run(secured.catalogue.add_vhost(log))
    secured.run(secured.catalogue.set_permission("ada", log, ALL))
    with open_as(secured, "ada") as outside, open_as(secured, "ada", f"vhost:{log}") as inside:
        ups = [client.sender(log) for client in (outside, inside)]
        for client in (outside, inside):
            client.receiver(log)
        inside.send(ups[1], AmqpMessage(body=AmqpValue("inside")))
        outside.send(ups[0], AmqpMessage(body=AmqpValue("in /")))
        assert [client.message().body for client in (outside, inside)] == [
            AmqpValue("in /"),
            AmqpValue("inside"),
        ]
    assert sorted(vhost for vhost, name in secured.store.logs if name == log) == ["/", log]


def test_a_vhost_without_a_permission_is_closed_to_a_user(secured: ListeningAmqp, log: str) -> None:
    secured.run(secured.catalogue.add_vhost(log))
    with raw(secured) as client:
        client.authenticate("PLAIN", plain("ada", PASSWORD))
        client.machine.send_header()
        client.machine.open(hostname=f"vhost:{log}")
        error = client.wait_for(Closed).error
        assert error is not None
        assert error.condition == Condition.UNAUTHORIZED_ACCESS


# Permissions


@pytest.fixture
def bob(secured: ListeningAmqp) -> Iterator[AmqpClient]:
    """Who may do with one log what a test permits."""
    if "bob" not in secured.catalogue.state.users:
        secured.add_user("bob", {"/": Permission("", "", "")})
    secured.permit("bob")
    with open_as(secured, "bob") as client:
        yield client


def refused(client: AmqpClient, link: Link) -> Condition:
    """Why an attach was refused: it is answered without the terminus, then detached."""
    client.wait_for(LinkAttached)
    detached = client.wait_for(LinkDetached)
    assert detached.link is link
    assert detached.is_closed
    terminus = link.remote.target if isinstance(link, SenderLink) else link.remote.source
    assert terminus is None
    return condition(detached.error)


def condition(error: ErrorValue | None) -> Condition:
    assert error is not None
    assert error.description
    return Condition(error.condition)


def attach(client: AmqpClient, link: Link, address: str | None) -> Link:
    link.attach(Source(address), Target(address))
    return link


@pytest.mark.clause("AMQP security 3")
def test_it_takes_write_to_send_and_configure_to_make_the_log(
    secured: ListeningAmqp, bob: AmqpClient, log: str
) -> None:
    unauthorized = Condition.UNAUTHORIZED_ACCESS
    assert refused(bob, attach(bob, SenderLink(bob.session, "1"), log)) is unauthorized
    secured.permit("bob", write=log)
    assert refused(bob, attach(bob, SenderLink(bob.session, "2"), log)) is unauthorized
    assert ("/", log) not in secured.store.logs
    secured.permit("bob", write=log, configure=log)
    bob.send(bob.sender(log, "3"), AmqpMessage(body=AmqpValue(1)))
    assert isinstance(bob.outcome(), Accepted)
    secured.permit("bob", write=log)
    bob.sender(log, "4")


@pytest.mark.clause("AMQP security 3")
def test_it_takes_read_to_receive_whether_the_log_is_there_or_not(
    secured: ListeningAmqp, bob: AmqpClient, log: str
) -> None:
    unauthorized = Condition.UNAUTHORIZED_ACCESS
    assert refused(bob, attach(bob, ReceiverLink(bob.session, "1"), log)) is unauthorized
    with open_as(secured, "ada") as ada:
        ada.sender(log)
    assert refused(bob, attach(bob, ReceiverLink(bob.session, "2"), log)) is unauthorized
    secured.permit("bob", write=log, configure=log)
    assert refused(bob, attach(bob, ReceiverLink(bob.session, "3"), log)) is unauthorized
    secured.permit("bob", read=log)
    bob.receiver(log, name="4")
    assert refused(bob, attach(bob, ReceiverLink(bob.session, "5"), f"{log}-2")) is unauthorized


@pytest.mark.clause("AMQP security 3")
def test_what_is_taken_from_a_user_is_gone_with_its_next_message(
    secured: ListeningAmqp, bob: AmqpClient, log: str
) -> None:
    secured.permit("bob", configure=log, write=log, read=log)
    up, down = bob.sender(log), bob.receiver(log)
    bob.send(up, AmqpMessage(body=AmqpValue("first")))
    assert bob.message().body == AmqpValue("first")
    secured.permit("bob", read=log)
    bob.send(up, AmqpMessage(body=AmqpValue("second")))
    assert condition(bob.detached(up).error) is Condition.UNAUTHORIZED_ACCESS
    secured.permit("bob")
    with open_as(secured, "ada") as ada:
        ada.send(ada.sender(log), AmqpMessage(body=AmqpValue("third")))
    assert condition(bob.detached(down).error) is Condition.UNAUTHORIZED_ACCESS
    assert bob.messages == []


@pytest.mark.clause("AMQP security 3")
def test_the_relay_asks_for_each_message(secured: ListeningAmqp, bob: AmqpClient, log: str) -> None:
    relay = bob.sender(None)
    states: list[DeliveryState | None] = []
    for write in ("", log, ""):
        secured.permit("bob", configure=log, write=write)
        bob.send(relay, AmqpMessage(properties=Properties(to=log), body=AmqpValue(write)))
        states.append(bob.outcome())
    assert [type(state) for state in states] == [Rejected, Accepted, Rejected]
    assert isinstance(states[0], Rejected)
    assert condition(states[0].error) is Condition.UNAUTHORIZED_ACCESS
    assert relay.is_attached


def test_settled_messages_that_may_not_be_written_break_their_link(
    secured: ListeningAmqp, bob: AmqpClient, log: str
) -> None:
    secured.permit("bob", configure=log, write=log)
    up = bob.sender(log, snd_settle_mode=SenderSettleMode.SETTLED)
    secured.permit("bob")
    bob.send(up, AmqpMessage(body=AmqpValue(1)))
    assert condition(bob.detached(up).error) is Condition.UNAUTHORIZED_ACCESS


def test_it_takes_configure_to_make_a_dynamic_node(secured: ListeningAmqp, bob: AmqpClient) -> None:
    down = ReceiverLink(bob.session, "replies")
    down.attach(Source(dynamic=True), Target())
    assert refused(bob, down) is Condition.UNAUTHORIZED_ACCESS
    secured.permit("bob", configure="dynamic-.*")
    again = ReceiverLink(bob.session, "replies again")
    again.attach(Source(dynamic=True), Target())
    bob.wait_for(LinkAttached)
    assert isinstance(again.remote.source, Source)


@pytest.mark.clause("AMQP security 3")
def test_a_deleted_user_may_do_nothing_on_connections_that_are_open(secured: ListeningAmqp, log: str) -> None:
    secured.add_user("carol", {"/": ALL})
    with open_as(secured, "carol") as carol:
        up = carol.sender(log)
        secured.run(secured.catalogue.delete_user("carol"))
        secured.add_user("carol", {"/": ALL})
        carol.send(up, AmqpMessage(body=AmqpValue(1)))
        assert condition(carol.detached(up).error) is Condition.UNAUTHORIZED_ACCESS
        secured.run(secured.catalogue.delete_user("carol"))


def test_proton_hears_why_it_may_not_come_in(secured: ListeningAmqp) -> None:
    url = f"amqp://guest:wrong@{HOST}:{secured.amqp_port}"
    with pytest.raises(ConnectionException, match=r"unauthorized|Authentication failed"):
        BlockingConnection(url, timeout=20, allowed_mechs="PLAIN")
