"""A publisher of the AMQP door: what is accepted is in the log; what nobody knows of is sent again."""

from __future__ import annotations

from headwater.amqp.messaging import Accepted, DeliveryState
from headwater.client.amqp_sender import AmqpSender
from tests.checker.link import AmqpClient, AmqpLink
from tests.checker.publishing import PublishingClient

__all__ = ["AmqpPublisherClient"]

REJECTED = 0
"""Stands for the code that the other door has."""


class AmqpPublisherClient(PublishingClient[AmqpLink], AmqpClient):
    """One sender; messages are numbered on it as they are sent, so outcomes tell ids."""

    _sender: AmqpSender
    _first_id = 1

    async def begin(self) -> None:
        self._first_id = self.next_id
        self._sender = await AmqpSender.open(self.link, self.stream, unsettled_max=self.publisher.window)
        self._sender.on_settled = self._settled

    async def send(self, ids: range, *, is_cut: bool) -> None:
        bodies = self.place.payloads.bodies(self.publisher.number, self.attempt, ids)
        await self._sender.post(bodies, as_data=True)
        if is_cut:
            self.cut(self.link, "cut behind messages")

    def _settled(self, number: int, count: int, state: DeliveryState | None) -> None:
        first = self._first_id + number
        if isinstance(state, Accepted):
            self.note_confirmed([(first, count)])
        else:
            self.note_refused(tuple(range(first, first + count)), REJECTED)
