"""Qpid Proton's blocking client and its containers: sending, receiving, refusals, restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import ConnectionException, Delivery, Event, Message, Timeout, symbol, timestamp
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Backoff, Container
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse

from tests.http_api import Api
from tests.peers.proton_clients import (
    STEP_TIMEOUT_S,
    bodies,
    connected,
    from_offset,
    numbered,
    receive_from,
    send_all,
    url_of,
)
from tests.peers.servers import HOST, PASSWORD, USER, Server

WAITS_FOR_NOTHING_S = 0.2

# Sending and receiving


def test_what_was_sent_is_accepted_and_read_from_the_first(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream)
        for text in numbered(0, 20):
            assert sender.send(Message(body=text)).remote_state == Delivery.ACCEPTED
        receiver = receive_from(connection, stream, credit=10)
        assert bodies(receiver, 20) == numbered(0, 20)


def test_a_receiver_without_a_filter_gets_what_comes_from_now_on(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 5))
        receiver = connection.create_receiver(stream)
        with pytest.raises(Timeout):
            receiver.receive(timeout=WAITS_FOR_NOTHING_S)
        send_all(connection, stream, numbered(5, 8))
        assert bodies(receiver, 3) == numbered(5, 8)


@pytest.mark.parametrize(
    ("spec", "first"), [("first", 0), ("last", 5), ("next", 6), (3, 3), (0, 0), (5, 5), (6, 6)]
)
def test_a_receiver_begins_where_its_filter_says(
    server: Server, stream: str, spec: object, first: int
) -> None:
    with connected(server) as connection:
        # One chunk each, for `last` is the last chunk.
        sender = connection.create_sender(stream)
        for text in numbered(0, 6):
            sender.send(Message(body=text))
        receiver = receive_from(connection, stream, spec)
        sender.send(Message(body="message 6"))
        assert bodies(receiver, 7 - first) == numbered(first, 7)


def test_a_receiver_begins_at_a_time(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 3))
        between_ms = time.time_ns() // 1_000_000 + 1
        while time.time_ns() // 1_000_000 <= between_ms:
            pass
        send_all(connection, stream, numbered(3, 6))
        receiver = receive_from(connection, stream, timestamp(between_ms))
        assert bodies(receiver, 3) == numbered(3, 6)
        receiver = receive_from(connection, stream, timestamp(0))
        assert bodies(receiver, 6) == numbered(0, 6)


def test_a_filter_that_makes_no_sense_is_refused(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, ["one"])
        with pytest.raises(LinkDetached, match="it is first, last, next, an offset or a timestamp"):
            receive_from(connection, stream, "yesterday")


def test_receivers_of_a_log_get_all_of_it_each(server: Server, stream: str) -> None:
    with connected(server) as one, connected(server) as other:
        send_all(one, stream, numbered(0, 10))
        for connection in (one, other, one):
            receiver = receive_from(connection, stream, credit=20)
            assert bodies(receiver, 10) == numbered(0, 10)


@pytest.mark.parametrize("settle", ["accept", "reject", "release", "modify", "nothing"])
def test_whatever_a_receiver_says_of_a_message_the_log_goes_on(
    server: Server, stream: str, settle: str
) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 3))
        receiver = receive_from(connection, stream)
        for text in numbered(0, 3):
            assert receiver.receive().body == text
            {
                "accept": receiver.accept,
                "reject": receiver.reject,
                "release": lambda: receiver.release(delivered=False),
                "modify": lambda: receiver.release(delivered=True),
                "nothing": lambda: None,
            }[settle]()
        assert bodies(receive_from(connection, stream), 3) == numbered(0, 3)


def test_what_is_sent_settled_is_stored(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream, options=AtMostOnce())
        for text in numbered(0, 50):
            sender.send(Message(body=text))
        receiver = receive_from(connection, stream, "first", 50, AtMostOnce())
        assert bodies(receiver, 50) == numbered(0, 50)
        assert not receiver.fetcher.unsettled, "what was asked for settled came settled"


# Refusals


def test_a_receiver_of_a_log_that_is_not_there_is_told_what_to_do(server: Server, stream: str) -> None:
    with connected(server) as connection:
        with pytest.raises(LinkDetached, match="create it, or check the name") as refused:
            connection.create_receiver(stream)
        assert refused.value.condition == "amqp:not-found"
        send_all(connection, stream, ["the connection goes on"])


@pytest.mark.parametrize("address", ["$unknown", "amq.topic", "one/two", "/queues/one%2Ftwo"])
def test_names_that_are_no_logs_are_refused_to_senders(server: Server, address: str) -> None:
    with connected(server) as connection:
        with pytest.raises(LinkDetached, match="none of this name can be made") as refused:
            connection.create_sender(address)
        assert refused.value.condition == "amqp:not-found"


def test_rabbitmqs_addresses_of_queues_lead_to_logs(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, f"/queues/{stream}%3A1", ["one"])
        receiver = receive_from(connection, f"/queues/{stream}%3A1")
        assert bodies(receiver, 1) == ["one"]
        assert bodies(receive_from(connection, f"{stream}:1"), 1) == ["one"]


def test_a_message_that_is_too_large_breaks_its_link_and_nothing_else(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream)
        size_max = sender.link.remote_max_message_size
        assert size_max == (1 << 20) - 128
        with pytest.raises(LinkDetached) as refused:
            sender.send(Message(body=bytes(size_max)))
        assert refused.value.condition == "amqp:link:message-size-exceeded"
        largest = Message(body="x" * (size_max - 200))
        assert connection.create_sender(stream).send(largest).remote_state == Delivery.ACCEPTED
        receiver = receive_from(connection, stream)
        assert bodies(receiver, 1) == [largest.body]


def test_a_message_to_nowhere_is_rejected_by_the_relay(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(None)
        for message in (Message(body="no address"), Message(address="$nowhere", body="no such node")):
            with pytest.raises(SendException) as rejected:
                sender.send(message)
            assert rejected.value.state == Delivery.REJECTED
        assert sender.send(Message(address=stream, body="here")).remote_state == Delivery.ACCEPTED
        assert bodies(receive_from(connection, stream), 1) == ["here"]


def test_a_wrong_password_is_refused(server: Server) -> None:
    with pytest.raises(ConnectionException, match="uthentication"):
        BlockingConnection(f"amqp://{USER}:wrong@{HOST}:{server.amqp_port}", timeout=STEP_TIMEOUT_S)


def test_a_vhost_that_is_not_there_is_refused(server: Server) -> None:
    with pytest.raises(ConnectionException, match="may not enter vhost 'elsewhere'"):
        BlockingConnection(url_of(server), timeout=STEP_TIMEOUT_S, virtual_host="vhost:elsewhere")


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS", None])
def test_mechanisms_of_sasl_and_none(server: Server, stream: str, mechanism: str | None) -> None:
    address = f"amqp://{HOST}:{server.amqp_port}"
    options: dict[str, object] = {"sasl_enabled": False}
    if mechanism is not None:
        options = {"allowed_mechs": mechanism}
    if mechanism == "PLAIN":
        options |= {"user": USER, "password": PASSWORD}
    connection = BlockingConnection(address, timeout=STEP_TIMEOUT_S, **options)
    send_all(connection, stream, ["one"])
    connection.close()


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Makes logs by themselves for names that begin with `free-`, of two partitions."""
    folder = tmp_path_factory.mktemp("strict")
    config = folder / "headwater.toml"
    config.write_text('auto_create_pattern = "free-.*"\nauto_create_partitions = 2\n')
    started = Server(folder / "data", "--config", str(config))
    started.start()
    yield started
    started.end()


def test_logs_come_into_being_by_their_senders_where_their_names_allow(
    strict_server: Server, stream: str
) -> None:
    with connected(strict_server) as connection:
        with pytest.raises(LinkDetached, match="auto_create_pattern does not match it"):
            connection.create_sender(stream)
        send_all(connection, f"free-{stream}", numbered(0, 10))
        receiver = receive_from(connection, f"free-{stream}", credit=10)
        assert sorted(map(str, bodies(receiver, 10))) == numbered(0, 10)
        queues = {queue["name"] for queue in Api(strict_server.http_port).get("/queues")}
        assert queues >= {f"free-{stream}-0", f"free-{stream}-1"}
        assert stream not in queues


def test_a_partition_is_an_address_of_its_own(strict_server: Server, stream: str) -> None:
    with connected(strict_server) as connection:
        send_all(connection, f"free-{stream}", ["anywhere"])
        sender = connection.create_sender(f"free-{stream}-1")
        receivers = [connection.create_receiver(f"free-{stream}-{number}", credit=10) for number in range(2)]
        sender.send(Message(body="one"))
        assert receivers[1].receive().body == "one"
        with pytest.raises(Timeout):
            receivers[0].receive(timeout=WAITS_FOR_NOTHING_S)


# Nodes of a link's own


def test_requests_are_answered_at_a_dynamic_node(server: Server, stream: str) -> None:
    with connected(server) as service, connected(server) as connection:
        send_all(service, stream, ["there is a log"])
        requests = service.create_receiver(stream)
        relay = service.create_sender(None)
        client = SyncRequestResponse(connection, stream)
        assert client.reply_to.startswith("dynamic-")

        def answer() -> None:
            request = requests.receive()
            requests.accept()
            relay.send(
                Message(
                    address=request.reply_to, body=request.body.upper(), correlation_id=request.correlation_id
                )
            )

        for text in ("one", "two"):
            answering = threading.Thread(target=answer)
            answering.start()
            assert client.call(Message(body=text)).body == text.upper()
            answering.join(STEP_TIMEOUT_S)


def test_a_dynamic_node_goes_with_its_link(server: Server) -> None:
    with connected(server) as connection:
        receiver = connection.create_receiver(None, dynamic=True)
        address = receiver.link.remote_source.address
        sender = connection.create_sender(address)
        sender.send(Message(body="one"))
        assert receiver.receive().body == "one"
        receiver.accept()
        with pytest.raises(LinkDetached) as deleted:
            receiver.close()
        assert deleted.value.condition == "amqp:resource-deleted"
        with pytest.raises(LinkDetached) as gone:
            connection.create_receiver(address)
        assert gone.value.condition == "amqp:not-found"


# Restarts


class Reconnecting(MessagingHandler):
    """Sends numbered messages and receives them, over whatever happens to its connection."""

    def __init__(self, url: str, address: str, count: int) -> None:
        super().__init__()
        self._url, self._address, self._count = url, address, count
        self._confirmed = 0
        self._sent = 0
        self.received: list[int] = []
        self.disconnections = 0
        self.half_way = threading.Event()

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self._url, reconnect=Backoff(initial=0.05, max_delay=0.5))
        event.container.create_sender(connection, self._address)
        event.container.create_receiver(connection, self._address, options=from_offset())

    def on_sendable(self, event: Event) -> None:
        half = self._count // 2
        end = half if not self.disconnections else self._count
        while event.sender.credit and self._sent < end:
            event.sender.send(Message(id=self._sent, body=self._sent))
            self._sent += 1

    def on_accepted(self, event: Event) -> None:
        self._confirmed += 1

    def on_message(self, event: Event) -> None:
        # The filter says `first` at each attach.
        if event.message.body not in self.received:
            self.received.append(event.message.body)
        if len(self.received) == self._count // 2:
            self.half_way.set()
        if len(self.received) == self._count:
            event.connection.close()

    def on_disconnected(self, event: Event) -> None:
        self.disconnections += 1
        self._sent = self._confirmed


@pytest.fixture
def heartbeating_server(tmp_path: Path) -> Iterator[Server]:
    """Asks for heartbeats often: a container that was told `amqp:connection:forced` connects again when one fails."""
    config = tmp_path / "headwater.toml"
    config.write_text("amqp_idle_timeout_s = 2\n")
    started = Server(tmp_path / "data", "--config", str(config))
    started.start()
    yield started
    started.end()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_container_reconnects_and_goes_on(heartbeating_server: Server, stream: str, end: str) -> None:
    Api(heartbeating_server.http_port).do(
        "PUT", f"/queues/%2F/{stream}", {"arguments": {"x-queue-type": "stream"}}
    )
    handler = Reconnecting(url_of(heartbeating_server), stream, 200)
    running = threading.Thread(target=Container(handler).run, daemon=True)
    running.start()
    assert handler.half_way.wait(STEP_TIMEOUT_S)
    getattr(heartbeating_server, end)()
    heartbeating_server.start()
    running.join(2 * STEP_TIMEOUT_S)
    assert not running.is_alive()
    assert handler.disconnections
    assert handler.received == list(range(200))


def test_a_blocking_connection_hears_of_a_stopped_server_and_a_new_one_goes_on(
    own_server: Server, stream: str
) -> None:
    with connected(own_server) as connection:
        send_all(connection, stream, numbered(0, 5))
        receiver = connection.create_receiver(stream)
        assert own_server.stop() == 0
        with pytest.raises(ConnectionException, match="the server is stopping"):
            receiver.receive()
    own_server.start()
    with connected(own_server) as connection:
        send_all(connection, stream, numbered(5, 10))
        receiver = receive_from(connection, stream, credit=10)
        assert bodies(receiver, 10) == numbered(0, 10)


def test_the_open_says_who_serves_and_what_it_offers(server: Server) -> None:
    with connected(server) as connection:
        opened = connection.conn
        assert opened.remote_properties[symbol("product")] == "Headwater"
        assert symbol("ANONYMOUS-RELAY") in opened.remote_offered_capabilities
        assert opened.remote_container.startswith("headwater-")
