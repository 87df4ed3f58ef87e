"""The work of `headwater publish` over AMQP 1.0: batches to one node, at a rate, with what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from headwater.amqp.messaging import Accepted, DeliveryState
from headwater.cli.connecting import Misused, Server, Stop
from headwater.cli.publishing import FLUSH_TIMEOUT_S, Outcome, Plan, Unconfirmed, paced
from headwater.client.amqp_sender import AmqpSender

__all__ = ["publish_over_amqp"]


async def publish_over_amqp(
    server: Server, plan: Plan, batches: AsyncIterator[list[bytes]], outcome: Outcome, stop: Stop
) -> None:
    """Send all batches and wait for their outcomes; raises what went wrong, with the outcome up to then."""
    _check(plan)

    def count(_: int, settled_count: int, state: DeliveryState | None) -> None:
        if isinstance(state, Accepted):
            outcome.confirmed += settled_count

    async with await server.connect_amqp("headwater publish") as connection:
        sender = await AmqpSender.open(connection, plan.stream)
        sender.on_settled = count
        started = time.monotonic()
        try:
            async for batch in paced(batches, plan, started, outcome, stop):
                if stop.is_set:
                    break
                outcome.read += len(batch)
                await sender.post(batch, as_data=True)
                outcome.sent += len(batch)
                outcome.byte_count += sum(map(len, batch))
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await sender.flush()
        except TimeoutError:
            raise Unconfirmed(outcome.sent - outcome.confirmed, FLUSH_TIMEOUT_S) from None
        finally:
            outcome.seconds = time.monotonic() - started


def _check(plan: Plan) -> None:
    """Refuse what only streams have."""
    of_streams = {
        "--name": plan.name is not None,
        "--key": plan.key is not None,
        "--key-separator": plan.key_separator is not None,
        "--filter-value": plan.filter_value is not None,
        "--compression": plan.compression is not None,
        "--create": plan.create,
    }
    given = [option for option, is_given in of_streams.items() if is_given]
    if given:
        raise Misused(f"{', '.join(given)} cannot be had over AMQP; leave out, or use a URL of streams")
