"""The AMQP client for programs without a loop: a thread runs it, so heartbeats go on whatever the caller does."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from headwater.amqp.management import MANAGEMENT_NODE
from headwater.amqp.messaging import DeliveryState, Source, Target
from headwater.client.address import Address, Credentials
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_receiver import AmqpReceiver, ReceivedBatch, ReceivedMessage
from headwater.client.amqp_requester import AmqpRequester
from headwater.client.amqp_sender import AmqpSender
from headwater.client.amqp_sent import SentBatch
from headwater.client.loop_thread import LoopThread
from headwater.encoding.amqp_message import Message
from headwater.encoding.ranges import IdRange

__all__ = [
    "BlockingAmqpConnection",
    "BlockingAmqpReceiver",
    "BlockingAmqpRequester",
    "BlockingAmqpSender",
]

_Result = TypeVar("_Result")


class _Closing:
    """What is closed behind a `with`."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingAmqpConnection(_Closing):
    """An `AmqpConnection` for threads; `run` carries out whatever has no method of its own here."""

    def __init__(
        self,
        address: Address | None = None,
        credentials: Credentials | None = None,
        **options: Any,  # noqa: ANN401 - those of `AmqpConnection.connect`
    ) -> None:
        """Connect, as `AmqpConnection.connect` does."""
        self._begin(AmqpConnection.connect(address, credentials, **options))

    @classmethod
    def connect_url(cls, url: str, **options: Any) -> BlockingAmqpConnection:  # noqa: ANN401
        """Connect, as `AmqpConnection.connect_url` does."""
        connection = cls.__new__(cls)
        connection._begin(AmqpConnection.connect_url(url, **options))
        return connection

    def _begin(self, connecting: Coroutine[Any, Any, AmqpConnection]) -> None:
        self._thread = LoopThread()
        self._is_closed = False
        try:
            self.connection = self.run(connecting)
        except BaseException:
            self._thread.stop()
            raise

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Carry out a coroutine of the connection, or of what was opened on it."""
        return self._thread.run(work)

    def sender(self, target: str | Target, **options: Any) -> BlockingAmqpSender:  # noqa: ANN401
        """As `AmqpSender.open`."""
        return BlockingAmqpSender(self, self.run(AmqpSender.open(self.connection, target, **options)))

    def receiver(self, source: str | Source, **options: Any) -> BlockingAmqpReceiver:  # noqa: ANN401
        """As `AmqpReceiver.open`."""
        return BlockingAmqpReceiver(self, self.run(AmqpReceiver.open(self.connection, source, **options)))

    def requester(self, node: str = MANAGEMENT_NODE, **options: Any) -> BlockingAmqpRequester:  # noqa: ANN401
        """As `AmqpRequester.open`."""
        return BlockingAmqpRequester(self, self.run(AmqpRequester.open(self.connection, node, **options)))

    def close(self) -> None:
        """Close the connection and end the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.run(self.connection.close())
        finally:
            self._thread.stop()


class BlockingAmqpSender(_Closing):
    """An `AmqpSender` for threads."""

    def __init__(self, connection: BlockingAmqpConnection, sender: AmqpSender) -> None:
        self._connection = connection
        self.sender = sender

    def send(self, message: bytes | Message) -> None:
        """Send one message and wait until it is accepted."""
        self._connection.run(self.sender.send(message))

    def send_batch(self, messages: Sequence[bytes], *, as_data: bool = False) -> None:
        """Send messages and wait until all are accepted."""
        self._connection.run(self.sender.send_batch(messages, as_data=as_data))

    def post(self, messages: Sequence[bytes], *, as_data: bool = False) -> SentBatch:
        """Send messages; returns when they are on their way."""
        return self._connection.run(self.sender.post(messages, as_data=as_data))

    def flush(self) -> None:
        """Wait until all is settled; raises MessageRefused if some was not accepted."""
        self._connection.run(self.sender.flush())

    def close(self) -> None:
        """Wait for what is unsettled, then detach for good."""
        self._connection.run(self.sender.close())


class BlockingAmqpReceiver(_Closing):
    """An `AmqpReceiver` for threads."""

    def __init__(self, connection: BlockingAmqpConnection, receiver: AmqpReceiver) -> None:
        self._connection = connection
        self.receiver = receiver

    def __iter__(self) -> Iterator[ReceivedMessage]:
        while (batch := self.receive_batch()) is not None:
            for index in range(batch.count):
                yield batch[index]

    def receive(self, timeout_s: float | None = None) -> ReceivedMessage | None:
        """The next message; None when the time is up, or once it is closed here."""
        return self._connection.run(self.receiver.receive(timeout_s))

    def receive_batch(self, timeout_s: float | None = None) -> ReceivedBatch | None:
        """The next messages that came together; None when the time is up, or once it is closed here."""
        return self._connection.run(self.receiver.receive_batch(timeout_s))

    def accept(self, what: ReceivedMessage | ReceivedBatch) -> None:
        """These are processed."""

        async def accept() -> None:
            self.receiver.accept(what)

        self._connection.run(accept())

    def settle(self, ids: IdRange, outcome: DeliveryState) -> None:
        """Say what became of deliveries."""

        async def settle() -> None:
            self.receiver.settle(ids, outcome)

        self._connection.run(settle())

    def close(self) -> None:
        """Detach for good."""
        self._connection.run(self.receiver.close())


class BlockingAmqpRequester(_Closing):
    """An `AmqpRequester` for threads."""

    def __init__(self, connection: BlockingAmqpConnection, requester: AmqpRequester) -> None:
        self._connection = connection
        self.requester = requester

    def request(self, message: Message, *, timeout_s: float | None = None) -> Message:
        """Send a request and wait for its answer."""
        return self._connection.run(self.requester.request(message, timeout_s=timeout_s))

    def call(
        self,
        operation: str,
        type_: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        body: object = None,
        timeout_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - the value that the node answers with
        """Carry out an operation; gives the value of the answer."""
        calling = self.requester.call(operation, type_, arguments, body=body, timeout_s=timeout_s)
        return self._connection.run(calling)

    def close(self) -> None:
        """End both links."""
        self._connection.run(self.requester.close())
