"""`python -m bench.amqp.attacher`: attaches links, to see what that takes and what those that are kept cost."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time

import uvloop

from bench.figure import percentile
from headwater.amqp.messaging import Source, TerminusDurability, TerminusExpiryPolicy
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_receiver import AmqpReceiver, from_offset

__all__ = ["attach_at_offsets", "subscribe"]

AT_ONCE = 50
WAIT_S = 30.0


async def subscribe(connection: AmqpConnection, source: str, count: int) -> None:
    """Make so many durable subscriptions, and leave them."""
    kept = Source(source, TerminusDurability.UNSETTLED_STATE, TerminusExpiryPolicy.NEVER)

    async def one(number: int) -> None:
        receiver = await AmqpReceiver.open(connection, kept, name=f"subscription-{number}", credit_count=0)
        await receiver.detach()

    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(first, min(first + AT_ONCE, count))))


async def attach_at_offsets(
    connection: AmqpConnection, source: str, end: int, count: int
) -> dict[str, float]:
    """Attach one by one at offsets before `end`; gives milliseconds until the answer, and until a message."""
    chosen = random.Random(1)
    attached_us: list[int] = []
    first_us: list[int] = []
    for _ in range(count):
        at = Source(source, filter=dict(from_offset(chosen.randrange(end))))
        started = time.perf_counter()
        receiver = await AmqpReceiver.open(connection, at, credit_count=1)
        attached_us.append(int(1e6 * (time.perf_counter() - started)))
        assert await receiver.receive(WAIT_S) is not None, "there is a message at that offset"
        first_us.append(int(1e6 * (time.perf_counter() - started)))
        await receiver.close()
    return {
        "attached_p50_ms": percentile(sorted(attached_us), 0.5) / 1e3,
        "attached_p99_ms": percentile(sorted(attached_us), 0.99) / 1e3,
        "first_p50_ms": percentile(sorted(first_us), 0.5) / 1e3,
    }


async def _run(options: argparse.Namespace) -> dict[str, float]:
    url = f"amqp://guest:guest@127.0.0.1:{options.port}"
    async with await AmqpConnection.connect_url(url) as connection:
        if options.subscriptions:
            await subscribe(connection, options.source, options.subscriptions)
            return {"subscriptions": options.subscriptions}
        return await attach_at_offsets(connection, options.source, options.end, options.attaches)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.amqp.attacher")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--subscriptions", type=int, default=0, help="durable ones to make")
    parser.add_argument("--attaches", type=int, default=0, help="at offsets before --end")
    parser.add_argument("--end", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_run(_options(sys.argv[1:])))))
