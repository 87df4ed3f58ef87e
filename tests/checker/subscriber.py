"""A consumer of a durable shared subscription: accepts, gives back, leaves without a word, and hears what is kept."""

from __future__ import annotations

import asyncio

from headwater.amqp.definitions import ReceiverSettleMode
from headwater.amqp.messaging import Source, TerminusDurability, TerminusExpiryPolicy
from headwater.client.amqp_receiver import AmqpReceiver, ReceivedBatch, from_offset
from headwater.encoding.amqp_types import Symbol
from tests.checker import plan
from tests.checker.amqp_consumer import CUTS_PER_STEP, STEP_S, runs_in
from tests.checker.board import UNKNOWN
from tests.checker.history import Disposed, OutcomeKept, ReceivedMessages, Subscribed, now
from tests.checker.link import AmqpClient, AmqpLink, Place
from tests.checker.payload import digest_of

__all__ = ["ACCEPTED", "FAILED", "RELEASED", "SubscriberClient"]

ACCEPTED, RELEASED, FAILED = "accepted", "released", "failed"
GIVEN_BACK_PER_BATCH = {RELEASED: 0.05, FAILED: 0.05}
LEFT_PER_BATCH = 0.03
LOOK_S = 0.002
CAPABILITIES = (Symbol("shared"), Symbol("global"))

Run = tuple[int, int]
"""The first offset, and how many."""


class SubscriberClient(AmqpClient):
    """One of those who share; with receiver-settle-mode second the server settles when an outcome is on its disk."""

    def __init__(self, place: Place, subscriber: plan.Subscriber) -> None:
        super().__init__(place, subscriber.name)
        self.subscriber = subscriber
        self.stream = subscriber.stream
        self._position_gauge = plan.position_gauge(subscriber.name)
        self._held_gauge = plan.held_gauge(subscriber.name)
        self._all_held = [
            plan.held_gauge(each.name)
            for each in place.plan.subscribers
            if each.subscription == subscriber.subscription
        ]
        self.board[self._held_gauge] = 0

    async def serve(self, link: AmqpLink) -> bool:
        """Consume until the connection ends, or until nothing is left."""
        self.board[self._held_gauge] = 0
        self.record(Subscribed(self.who, now(), self.attempt, self.stream, 0))
        receiver = await self._attach(link)
        while True:
            batch = await receiver.receive_batch(self.rng.uniform(*STEP_S))
            if batch is not None:
                if not await self._take(link, receiver, batch):
                    return False
            elif self.board[plan.target_gauge(self.subscriber.subscription)] != UNKNOWN:
                await receiver.drain()
                rest = await receiver.receive_batch(0)
                if rest is None and not any(self.board[each] for each in self._all_held):
                    return True
                receiver.grant()
                if rest is not None and not await self._take(link, receiver, rest):
                    return False
            if not self.is_draining() and self.rng.random() < CUTS_PER_STEP:
                self.cut(link, "cut while reading")
                return False

    async def _attach(self, link: AmqpLink) -> AmqpReceiver:
        source = Source(
            self.stream,
            durable=TerminusDurability.UNSETTLED_STATE,
            expiry_policy=TerminusExpiryPolicy.NEVER,
            filter=dict(from_offset("first")),
            capabilities=CAPABILITIES,
        )
        return await AmqpReceiver.open(
            link,
            source,
            name=f"{self.subscriber.subscription}|{self.who} {self.attempt}",
            credit_count=self.subscriber.credit,
            receiver_settle_mode=ReceiverSettleMode.SECOND,
        )

    async def _take(self, link: AmqpLink, receiver: AmqpReceiver, batch: ReceivedBatch) -> bool:
        """Say something of all messages, and wait for the server to settle them; False if it left instead."""
        self.board[self._held_gauge] = batch.count
        runs: list[Run] = []
        for first, identities in runs_in(self, batch):
            count, digest = len(identities), digest_of(identities)
            self.record(ReceivedMessages(self.who, now(), self.attempt, self.stream, first, count, digest))
            runs.append((first, count))
        if not self.is_draining() and self.rng.random() < LEFT_PER_BATCH:
            self.cut(link, "cut without a word of what it held")
            return False
        outcome = self._outcome()
        for first, count in runs:
            self.record(Disposed(self.who, now(), self.attempt, self.stream, first, count, outcome))
        if outcome == ACCEPTED:
            receiver.accept(batch)
        elif outcome == RELEASED:
            receiver.release(batch)
        else:
            receiver.modify(batch)
        while receiver.error is None and receiver._machine.holds(*batch.ids):
            await asyncio.sleep(LOOK_S)
        if receiver.error is not None:
            raise receiver.error
        if outcome == ACCEPTED:
            for first, count in runs:
                self.record(OutcomeKept(self.who, now(), self.attempt, self.stream, first, count))
                self.board[self._position_gauge] += count
        self.board[self._held_gauge] = 0
        return True

    def _outcome(self) -> str:
        if not self.is_draining():
            for outcome, chance in GIVEN_BACK_PER_BATCH.items():
                if self.rng.random() < chance:
                    return outcome
        return ACCEPTED
