"""AMQP Management, section 3: requests to a node such as `$management`, and the answers that come back to us."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import msgspec

from headwater.amqp.management import MANAGEMENT_NODE
from headwater.amqp.messaging import Source, Target
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_errors import LinkEnded, ManagementRefused
from headwater.client.amqp_link import new_name
from headwater.client.amqp_receiver import AmqpReceiver
from headwater.client.amqp_sender import AmqpSender
from headwater.client.amqp_session import AmqpSession
from headwater.client.errors import RequestTimedOut
from headwater.encoding.amqp_message import AmqpValue, Message, MessageId, Properties
from headwater.errors import HeadwaterError, MalformedValue

__all__ = ["REQUESTS_MAX", "AmqpRequester"]

REQUESTS_MAX = 100
"""Requests that may be unanswered; a further one waits."""

_STATUS = ("statusCode", "status-code")
_DESCRIPTION = ("statusDescription", "status-description")


class AmqpRequester:
    """A pair of links to one node: requests go out, each answer finds its request by the correlation id."""

    def __init__(
        self, session: AmqpSession, sender: AmqpSender, receiver: AmqpReceiver, reply_to: str
    ) -> None:
        self.reply_to = reply_to
        """Where answers go."""
        self.timeout_s = session.connection.request_timeout_s
        """How long an answer may take, unless a request says otherwise."""
        self._session = session
        self._sender = sender
        self._receiver = receiver
        self._answers: dict[MessageId, asyncio.Future[Message]] = {}
        self._room = asyncio.Semaphore(REQUESTS_MAX)
        self._ids = itertools.count(1)
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def open(
        cls,
        connection: AmqpConnection,
        node: str = MANAGEMENT_NODE,
        *,
        reply_address: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> AmqpRequester:
        """Attach both links; raises LinkRefused.

        Answers come from a dynamic node; with a reply address from the node itself, to that address of ours.
        """
        session, name = AmqpSession(connection), new_name()
        source, target = Source(dynamic=True), None
        if reply_address is not None:
            source, target = Source(node), Target(reply_address)
        try:
            receiver = await AmqpReceiver.open(
                session, source, target=target, name=name, credit_count=REQUESTS_MAX, properties=properties
            )
            sender = await AmqpSender.open(session, node, name=name, properties=properties)
            reply_to = reply_address or receiver.address
            if reply_to is None:
                raise LinkEnded(receiver.what, "the server gave it no address")
        except BaseException:
            session.end_soon()
            raise
        return cls(session, sender, receiver, reply_to)

    async def request(self, message: Message, *, timeout_s: float | None = None) -> Message:
        """Send a request, under a message id of ours, and wait for its answer.

        Raises RequestTimedOut, MessageRefused, or what ended the links.
        """
        id_ = str(next(self._ids))
        properties = message.properties or Properties()
        asked = msgspec.structs.replace(properties, message_id=id_, reply_to=self.reply_to)
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s or None), self._room:
                self._check_alive()
                self._answers[id_] = answer
                await self._sender.send(msgspec.structs.replace(message, properties=asked))
                return await answer
        except TimeoutError:
            raise RequestTimedOut(f"a request to {self._sender.address}", timeout_s) from None
        finally:
            self._answers.pop(id_, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # told already, or another reason was

    async def call(
        self,
        operation: str,
        type_: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        body: object = None,
        timeout_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - the value that the node answers with
        """Carry out an operation on an entity of this type, which `arguments` name; gives the value of the answer.

        Raises ManagementRefused with the status of the answer unless that is a success.
        """
        asked = {"operation": operation, "type": type_, **(arguments or {})}
        answer = await self.request(
            Message(application_properties=asked, body=AmqpValue(body)), timeout_s=timeout_s
        )
        said = answer.application_properties or {}
        status = next((said[name] for name in _STATUS if isinstance(said.get(name), int)), 0)
        if not 200 <= status < 300:
            description = next((said[name] for name in _DESCRIPTION if isinstance(said.get(name), str)), "")
            raise ManagementRefused(f"{operation} of {type_}", status, description)
        return answer.body.value if isinstance(answer.body, AmqpValue) else answer.body

    async def close(self) -> None:
        """End both links; requests without an answer fail."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._fail(LinkEnded(self._sender.what, "it was closed here"))
        await self._session.end()

    async def __aenter__(self) -> AmqpRequester:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _read(self) -> None:
        try:
            async for received in self._receiver:
                if not received.is_settled:
                    self._receiver.accept(received)
                try:
                    self._answered(received.decode())
                except MalformedValue:
                    # No request is known that it could be the answer to.
                    continue
        except HeadwaterError as error:
            self._fail(error)

    def _answered(self, message: Message) -> None:
        properties = message.properties
        answer = (
            self._answers.get(properties.correlation_id) if properties and properties.correlation_id else None
        )
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _check_alive(self) -> None:
        for link in (self._receiver, self._sender):
            if link.error is not None:
                raise link.error.with_traceback(None)

    def _fail(self, error: HeadwaterError) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
