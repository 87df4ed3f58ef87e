"""The part of the demo that AMQP 1.0 clients play: orders sent back, and those of the shop read."""

from __future__ import annotations

import time

from headwater.amqp.definitions import SenderSettleMode
from headwater.amqp.messaging import Source
from headwater.client.address import Address
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_receiver import AmqpReceiver, from_offset
from headwater.client.amqp_sender import AmqpSender

__all__ = ["RETURNS", "read_over_amqp", "send_over_amqp"]

RETURNS = "returns"
BATCH_MESSAGES = 1000
CREDIT_COUNT = 20_000


async def send_over_amqp(port: int, seconds: float) -> tuple[int, float]:
    """Send to a log that is made by the attach; gives how many messages were accepted, and in what time."""
    async with await AmqpConnection.connect(Address(port=port)) as connection:
        sender = await AmqpSender.open(connection, RETURNS)
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            first = sender.sent_count + 1
            bodies = [b'{"return": %d}' % number for number in range(first, first + BATCH_MESSAGES)]
            await sender.post(bodies, as_data=True)
        await sender.flush()
        return sender.accepted_count, time.monotonic() - started


async def read_over_amqp(port: int, log: str, count: int) -> float:
    """Read so many messages of a log from its first; gives the time that took."""
    async with await AmqpConnection.connect(Address(port=port)) as connection:
        started = time.monotonic()
        receiver = await AmqpReceiver.open(
            connection,
            Source(log, filter=dict(from_offset("first"))),
            credit_count=CREDIT_COUNT,
            settle_mode=SenderSettleMode.SETTLED,
        )
        while count > 0:
            batch = await receiver.receive_batch()
            assert batch is not None, "nobody closes it"
            count -= batch.count
        return time.monotonic() - started
