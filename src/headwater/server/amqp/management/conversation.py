"""The requests of one connection to `$management`: taken in, answered one after the other, and where to."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headwater.amqp.definitions import Condition
from headwater.amqp.events import Deliveries
from headwater.amqp.management import (
    MANAGEMENT_NODE,
    OperationFailed,
    RequestMessage,
    Response,
    encode_response,
)
from headwater.amqp.messaging import Accepted, Rejected, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.errors import PeerError, StorageError
from headwater.server.amqp.intake import error_of
from headwater.server.amqp.link_owner import LinkHandler
from headwater.server.amqp.management.agent import Agent
from headwater.server.amqp.management.entity_types import Asker, too_large
from headwater.server.amqp.management.replies import NodeReplies, Replies, Responses
from headwater.server.amqp.nodes import Refused

if TYPE_CHECKING:
    from headwater.server.amqp.container import Container

__all__ = ["Conversation", "Requests"]

ACCEPTED = Accepted()

logger = logging.getLogger("headwater.amqp.management")


class _Delivery(NamedTuple):
    link: ReceiverLink
    id: int
    is_settled: bool
    data: bytes


class Conversation:
    """What one connection asks of the management node."""

    def __init__(self, container: Container, agent: Agent) -> None:
        self._container = container
        self._agent = agent
        self._limits = container.door.limits
        self._waiting: deque[_Delivery] = deque()
        self._responses: list[Responses] = []
        self._when_idle: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    # Links

    def responses(self, link: SenderLink) -> Responses:
        """The handler of a link from the management node."""
        waiting_bytes = self._container.door.waiting_responses
        made = Responses(
            link, self._container, self._limits.responses_max, waiting_bytes, self._responses.remove
        )
        self._responses.append(made)
        return made

    def credit_for(self, link: ReceiverLink) -> int | None:
        """Requests that may come on a link from now on, if it is time to tell its sender."""
        room = max(self._limits.requests_max - len(self._waiting), 0)
        return room if 2 * link.credit <= room else None

    def close(self) -> None:
        """The connection is gone."""
        self._is_closed = True
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def when_settled(self, call: Callable[[], None]) -> bool:
        """Call back when all that came is answered; False if it is already."""
        if self._task is None:
            return False
        self._when_idle.append(call)
        return True

    # Requests

    def take(self, event: Deliveries, index: int) -> None:
        """Take one message of an event; what cannot be taken is rejected."""
        start, end = event.spans[SPAN_FIELDS * index + 2 : SPAN_FIELDS * index + 4]
        bytes_max, waiting_max = self._limits.request_bytes_max, self._limits.requests_max
        delivery = _Delivery(event.link, event.first_id + index, event.is_settled, b"")
        if event.message_format:
            what = f"message format {event.message_format:#x} is unknown"
            self._reject(delivery, Refused(Condition.NOT_IMPLEMENTED, what))
        elif end - start > bytes_max:
            what = f"a request has {bytes_max} bytes at most"
            self._reject(delivery, Refused(Condition.LINK_MESSAGE_SIZE_EXCEEDED, what))
        elif len(self._waiting) >= waiting_max:
            what = f"{waiting_max} requests wait; send more when they are answered"
            self._reject(delivery, Refused(Condition.RESOURCE_LIMIT_EXCEEDED, what))
        else:
            self._waiting.append(delivery._replace(data=bytes(memoryview(event.buffer)[start:end])))
            if self._task is None:
                self._task = self._container.door.loop.create_task(self._answer_all())

    async def _answer_all(self) -> None:
        while self._waiting:
            delivery = self._waiting.popleft()
            try:
                await self._answer(delivery)
            except Refused as refused:
                self._reject(delivery, refused)
            except Exception:  # a bug of ours: this request is told so, and the others go on
                logger.exception("%s: a fault of the server", self._container.name)
                self._reject(delivery, Refused(Condition.INTERNAL_ERROR, "the log of the server says more"))
            else:
                delivery.link.settle(delivery.id, delivery.id + 1, ACCEPTED)
            handler = self._container.links.get(delivery.link)
            if handler is not None:
                handler.flow()
            self._container.answered()
        self._task = None
        calls, self._when_idle = self._when_idle, []
        for call in calls:
            call()

    async def _answer(self, delivery: _Delivery) -> None:
        """Answer one request; raises `Refused` if there is no way for an answer."""
        try:
            message = RequestMessage.decode(delivery.data)
        except PeerError as error:
            raise Refused(Condition.DECODE_ERROR, str(error)) from error
        replies = self._replies_to(message.reply_to, delivery.link)
        if not replies.has_room:
            what = "the responses that wait are as many as are kept; give credit for them and take them first"
            raise Refused(Condition.RESOURCE_LIMIT_EXCEEDED, what)
        own_max, its_max = self._limits.message_size_bytes_max, replies.bytes_max
        response_bytes_max = min(own_max, its_max or own_max)
        response = await self._response(message, response_bytes_max)
        if self._is_closed:
            return
        data = _encoded(response, message, response_bytes_max)
        try:
            replies.send(data)
        except StorageError as error:
            what = f"the request was carried out, but its response is lost: {error}"
            raise Refused(Condition(error_of(error).condition), what) from error

    async def _response(self, message: RequestMessage, bytes_max: int) -> Response:
        container = self._container
        asker = Asker(container.door.access, container.identity, container.vhost, bytes_max, container.name)
        try:
            request = message.request()
        except OperationFailed as failed:
            return failed.response
        return await self._agent.answer(asker, request)

    def _replies_to(self, reply_to: str | None, asked_on: ReceiverLink) -> Replies:
        """The way for an answer: a link from here whose target is the reply-to, or else the node of that name."""
        if reply_to in (None, MANAGEMENT_NODE):
            candidates = self._responses
        else:
            candidates = [each for each in self._responses if _target(each.link) == reply_to]
        if candidates:
            # Of several the one that belongs with the link of the request, and else the newest.
            return max(enumerate(candidates), key=lambda each: (*_nearness(each[1].link, asked_on), each[0]))[
                1
            ]
        if reply_to is None or reply_to == MANAGEMENT_NODE:
            what = f"there is no link for the response; attach one with the source {MANAGEMENT_NODE}, or set reply-to"
            raise Refused(Condition.PRECONDITION_FAILED, what)
        container = self._container
        partition = container.reply_partition(reply_to)
        if partition.intake.admission is not None:
            what = f"{reply_to!r:.100} takes CloudEvents alone; set reply-to to another node"
            raise Refused(Condition.PRECONDITION_FAILED, what)
        return NodeReplies(partition, self._limits.message_size_bytes_max, container)

    def _reject(self, delivery: _Delivery, refused: Refused) -> None:
        logger.info("%s: request refused: %s", self._container.name, refused)
        if delivery.is_settled:
            # Nobody waits for an outcome, so the link is how its sender hears of it.
            self._container.break_link(delivery.link, refused.value)
        else:
            delivery.link.settle(delivery.id, delivery.id + 1, Rejected(refused.value))


class Requests(LinkHandler):
    """A link with `$management` as its target."""

    def __init__(self, link: ReceiverLink, conversation: Conversation) -> None:
        self.link: ReceiverLink = link
        self._conversation = conversation

    def start(self) -> None:
        self.flow()

    def deliveries(self, event: Deliveries, index: int) -> int:
        for number in range(index, event.count):
            self._conversation.take(event, number)
        self.flow()
        return event.count

    def flow(self) -> None:
        credit = self._conversation.credit_for(self.link)
        if credit is not None:
            self.link.grant(credit)

    def when_settled(self, call: Callable[[], None]) -> bool:
        return self._conversation.when_settled(call)


def _encoded(response: Response, message: RequestMessage, bytes_max: int) -> bytes:
    """The message of a response, or of one that says why it cannot be sent."""
    to, correlation_id = message.reply_to, message.correlation_id
    data = encode_response(response, to, correlation_id)
    if len(data) > bytes_max:
        data = encode_response(too_large(bytes_max).response, to, correlation_id)
    return data


def _target(link: SenderLink) -> str | None:
    target = link.remote.target
    return target.address if isinstance(target, Target) else None


def _nearness(link: SenderLink, asked_on: ReceiverLink) -> tuple[bool, bool]:
    return link.session is asked_on.session, link.name == asked_on.name
