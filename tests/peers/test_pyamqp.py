"""The AMQP stack of the Event Hubs SDK for Python, as it stands below its dialect: plain links to logs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from azure.eventhub._pyamqp import ReceiveClient, SendClient
from azure.eventhub._pyamqp.authentication import SASLPlainAuth
from azure.eventhub._pyamqp.constants import ReceiverSettleMode, SenderSettleMode
from azure.eventhub._pyamqp.endpoints import Source
from azure.eventhub._pyamqp.error import AMQPException, MessageException, RetryPolicy
from azure.eventhub._pyamqp.message import Header, Message, Properties
from azure.eventhub._pyamqp.sasl import SASLAnonymousCredential
from azure.eventhub._pyamqp.utils import amqp_long_value, amqp_string_value

from tests.http_api import Api
from tests.peers.proton_clients import connected, receive_from
from tests.peers.servers import HOST, PASSWORD, USER, Server

OFFSET_SPEC = b"rabbitmq:stream-offset-spec"
STEP_TIMEOUT_S = 20.0


class Anonymous:
    """The package has the mechanism, and no name for it in its authentication."""

    auth_type = None

    def __init__(self) -> None:
        self.sasl = SASLAnonymousCredential()


class Clients:
    """Makes clients of one server, which are closed at the end."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self._host = f"{HOST}:{server.amqp_port}"
        self._stack = stack

    def sender(self, address: str, **options: Any) -> Any:
        return self._opened(SendClient(self._host, address, **self._how(options)))

    def receiver(self, address: str, offset: object = "first", **options: Any) -> Any:
        value = amqp_string_value(offset) if isinstance(offset, str) else amqp_long_value(offset)
        filters = {} if offset is None else {OFFSET_SPEC: (OFFSET_SPEC, value)}
        return self._opened(ReceiveClient(self._host, Source(address, filters=filters), **self._how(options)))

    @staticmethod
    def _how(options: dict[str, Any]) -> dict[str, Any]:
        plain = {
            "auth": SASLPlainAuth(USER, PASSWORD),
            "use_tls": False,
            "retry_policy": RetryPolicy(retry_total=0),
        }
        return {**plain, **options}

    def _opened(self, client: Any) -> Any:
        self._stack.callback(client.close)
        client.open()
        return client


@pytest.fixture
def clients(server: Server) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(server, stack)


def attached(client: Any) -> Any:
    """The client when its link is there: what it gets is what comes from then on."""
    while not client.client_ready():
        pass
    return client


def send(sender: Any, *messages: Message) -> None:
    for message in messages:
        sender.send_message(message, timeout=STEP_TIMEOUT_S)


def receive(receiver: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        batch = receiver.receive_message_batch(max_batch_size=count - len(found), timeout=STEP_TIMEOUT_S)
        assert batch, f"{len(found)} of {count} came in time"
        found += batch
    return found


def data(*texts: str) -> list[Message]:
    return [Message(data=[text.encode()]) for text in texts]


def value_as_it_reads(value: Any) -> Any:
    """It gives strings back as bytes."""
    if isinstance(value, dict):
        return {key.encode(): each for key, each in value.items()}
    return value.encode() if isinstance(value, str) else value


def texts_of(messages: list[Any]) -> list[str]:
    return [b"".join(message.data).decode() for message in messages]


@pytest.mark.parametrize(
    "auth", [lambda: SASLPlainAuth(USER, PASSWORD), Anonymous], ids=["plain", "anonymous"]
)
def test_it_sends_and_receives(clients: Clients, stream: str, auth: Callable[[], Any]) -> None:
    texts = [f"message {number}" for number in range(30)]
    send(clients.sender(stream, auth=auth()), *data(*texts))
    assert texts_of(receive(clients.receiver(stream, auth=auth()), 30)) == texts


def test_it_reads_from_an_offset_and_from_now_on(clients: Clients, stream: str) -> None:
    sender = clients.sender(stream)
    send(sender, *data("zero", "one", "two"))
    late = attached(clients.receiver(stream, None))
    send(sender, *data("three"))
    assert texts_of(receive(late, 1)) == ["three"]
    assert texts_of(receive(clients.receiver(stream, 1), 3)) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "message",
    [
        Message(value="text"),
        Message(value={"map": [1, 2.5, None, True]}),
        Message(sequence=[[1, "two"], [3]]),
        Message(data=[b"one", b"two"]),
        Message(
            header=Header(durable=True, priority=3, ttl=5000),
            message_annotations={b"x-opt-a": 1},
            properties=Properties(message_id="id", user_id=b"user", subject="s", group_sequence=4),
            application_properties={"colour": "red"},
            data=[b"body"],
            footer={b"x-sum": 1},
        ),
    ],
    ids=["value", "map", "sequence", "data", "all"],
)
def test_messages_pass_as_they_are(clients: Clients, stream: str, message: Message) -> None:
    send(clients.sender(stream), message)
    (found,) = receive(clients.receiver(stream), 1)
    assert found.value == value_as_it_reads(message.value)
    assert list(found.data or []) == list(message.data or [])
    assert (found.sequence is None) == (message.sequence is None)
    if message.properties is not None:
        assert found.properties.message_id in ("id", b"id")
        assert found.application_properties == {b"colour": b"red"}
        assert found.message_annotations == {b"x-opt-a": 1}
        assert found.header.durable
    assert found.delivery_annotations[b"event-streams-offset"] == b"0000000000000000"


def test_large_messages_pass_in_frames_of_its_size(clients: Clients, stream: str) -> None:
    bodies = [bytes([number]) * 300_000 for number in range(4)]
    send(clients.sender(stream), *(Message(data=[body]) for body in bodies))
    found = receive(clients.receiver(stream, max_frame_size=4096), 4)
    assert [b"".join(message.data) for message in found] == bodies


@pytest.mark.parametrize("mode", [SenderSettleMode.Settled, SenderSettleMode.Unsettled])
@pytest.mark.parametrize("second", [ReceiverSettleMode.First, ReceiverSettleMode.Second])
def test_it_receives_settled_and_unsettled(clients: Clients, stream: str, mode: Any, second: Any) -> None:
    send(clients.sender(stream), *data("one", "two", "three"))
    receiver = clients.receiver(stream, receive_settle_mode=second, send_settle_mode=mode, link_credit=2)
    assert texts_of(receive(receiver, 3)) == ["one", "two", "three"]


def test_what_it_sends_settled_is_stored(clients: Clients, stream: str) -> None:
    # Its client waits for ever for what is settled already, so this is one layer below.
    sender = attached(clients.sender(stream, send_settle_mode=SenderSettleMode.Settled))
    for message in data("one", "two"):
        sender._link.send_transfer(message)
    assert texts_of(receive(clients.receiver(stream), 2)) == ["one", "two"]


@pytest.mark.parametrize("outcome", ["accepted", "rejected", "released", "modified"])
def test_what_it_says_of_a_message_is_taken(clients: Clients, stream: str, outcome: str) -> None:
    send(clients.sender(stream), *data("one", "two"))
    receiver = clients.receiver(stream, link_credit=1)
    for text in ("one", "two"):
        frame, message = take(receiver)
        assert texts_of([message]) == [text]
        receiver.settle_messages(frame[1], frame[2], outcome)


def take(receiver: Any) -> Any:
    """The next message with the transfer that brought it."""
    while receiver._received_messages.empty():
        receiver.do_work()
    return receiver._received_messages.get_nowait()


def test_what_proton_reads_is_what_it_sent(clients: Clients, server: Server, stream: str) -> None:
    send(clients.sender(stream), Message(value="text"), Message(value=7))
    with connected(server) as connection:
        receiver = receive_from(connection, stream)
        assert [receiver.receive().body for _ in range(2)] == ["text", 7]


def test_a_receiver_of_a_log_that_is_not_there_is_told_what_to_do(clients: Clients, stream: str) -> None:
    receiver = clients.receiver(stream)
    with pytest.raises(AMQPException, match="create it, or check the name"):
        receive(receiver, 1)


def test_a_deleted_log_ends_its_link(clients: Clients, server: Server, stream: str) -> None:
    sender = clients.sender(stream)
    send(sender, *data("one"))
    receiver = clients.receiver(stream)
    receive(receiver, 1)
    Api(server.http_port).do("DELETE", f"/queues/%2F/{stream}")
    with pytest.raises(AMQPException, match="was deleted"):
        receive(receiver, 1)


def test_a_message_that_is_too_large_is_not_sent(clients: Clients, stream: str) -> None:
    sender = attached(clients.sender(stream))
    assert sender._link.remote_max_message_size == (1 << 20) - 128
    with pytest.raises(MessageException):
        send(sender, Message(data=[bytes(1 << 20)]))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_password_is_refused(clients: Clients, stream: str) -> None:
    with pytest.raises((AMQPException, ValueError, OSError)):
        attached(clients.sender(stream, auth=SASLPlainAuth(USER, "wrong")))
    gc.collect()  # it forgets its socket without closing it, which is told here and not in a later test
