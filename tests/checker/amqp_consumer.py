"""A consumer of the AMQP door: reads a stream to its end, message by message, whichever door they came in at."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.amqp.messaging import Source
from headwater.client.amqp_receiver import AmqpReceiver, ReceivedBatch, from_offset
from headwater.encoding.amqp_message import decode_message
from headwater.encoding.amqp_types import Symbol
from headwater.errors import MalformedValue
from tests.checker import plan
from tests.checker.board import UNKNOWN
from tests.checker.consumer import CUTS_PER_STEP, STEP_S
from tests.checker.history import Denied, Event, ReceivedMessages, Subscribed, now
from tests.checker.link import AmqpClient, AmqpLink, Place
from tests.checker.payload import BadPayload, Identity, body_of, digest_of

__all__ = ["CUTS_PER_STEP", "STEP_S", "AmqpConsumerClient", "runs_in"]

_OFFSET = Symbol("event-streams-offset")


class AmqpConsumerClient(AmqpClient):
    """Begins at an offset, accepts what comes, and notes which messages came under which offsets."""

    def __init__(self, place: Place, consumer: plan.Consumer) -> None:
        super().__init__(place, consumer.name)
        self.consumer = consumer
        self.stream = consumer.stream
        self._position = 0
        self._position_gauge = plan.position_gauge(consumer.name)
        self._target_gauge = plan.target_gauge(consumer.name)
        for event in place.earlier_of(self.who):
            self._recall(event)

    async def serve(self, link: AmqpLink) -> bool:
        """Read until the connection ends, or until the target is reached."""
        if self.consumer.resumes == "first":
            self._position = 0
        self.record(Subscribed(self.who, now(), self.attempt, self.stream, self._position))
        source = Source(self.stream, filter=dict(from_offset(self._position)))
        receiver = await AmqpReceiver.open(link, source, credit_count=self.consumer.credit)
        while True:
            target = self.board[self._target_gauge]
            if target != UNKNOWN and self._position >= target:
                return True
            batch = await receiver.receive_batch(self.rng.uniform(*STEP_S))
            if batch is not None:
                self._take(batch)
                receiver.accept(batch)
            if not self.is_draining() and self.rng.random() < CUTS_PER_STEP:
                self.cut(link, "cut while reading")
                return False

    def _take(self, batch: ReceivedBatch) -> None:
        for first, identities in runs_in(self, batch):
            count = len(identities)
            digest = digest_of(identities)
            self.record(ReceivedMessages(self.who, now(), self.attempt, self.stream, first, count, digest))
            self._position = self.board[self._position_gauge] = first + count

    def _recall(self, event: Event) -> None:
        """Take over what an earlier process of this consumer did."""
        if isinstance(event, Subscribed):
            self._position = event.offset
        elif isinstance(event, ReceivedMessages):
            self._position = event.first + event.count


def runs_in(client: AmqpClient, batch: ReceivedBatch) -> Iterator[tuple[int, list[Identity]]]:
    """Messages of consecutive offsets; what none of the run has sent is denied."""
    first, identities = 0, list[Identity]()
    for data in batch.messages():
        try:
            message = decode_message(data, 0, len(data))
            identity = client.place.payloads.read(body_of(message))
            offset = int((message.delivery_annotations or {})[_OFFSET], 16)
        except (BadPayload, MalformedValue, KeyError, ValueError) as error:
            client.record(Denied(client.who, now(), client.attempt, f"{error!r} in {data.hex():.400}"))
            continue
        if identities and offset != first + len(identities):
            yield first, identities
            identities = []
        if not identities:
            first = offset
        identities.append(identity)
    if identities:
        yield first, identities
