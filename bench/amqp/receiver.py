"""`python -m bench.amqp.receiver`: receives on links of kinds that the load generator does not have.

Our own client, a process of its own; it reports as the load generator does: one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

import uvloop

from bench.doors.servers import cpu_seconds
from headwater.amqp.definitions import SenderSettleMode
from headwater.amqp.event_streams import GROUP
from headwater.amqp.messaging import Source, TerminusDurability, TerminusExpiryPolicy
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_receiver import AmqpReceiver, from_offset
from headwater.encoding.amqp_types import Described, Symbol

__all__ = ["receive"]

SELECTOR_FILTER = Symbol("apache.org:selector-filter:string")
IDLE_S = 30.0


def _source(options: argparse.Namespace) -> Source:
    filters: dict[Symbol, Described] = {}
    if options.offset is not None:
        filters |= from_offset(options.offset)
    if options.selector is not None:
        filters[SELECTOR_FILTER] = Described(SELECTOR_FILTER, options.selector)
    kept = TerminusDurability.UNSETTLED_STATE if options.durable else TerminusDurability.NONE
    capabilities = (Symbol("shared"), Symbol("global")) if options.shared else ()
    return Source(
        options.source,
        kept,
        TerminusExpiryPolicy.NEVER,
        filter=dict(filters) or None,
        capabilities=capabilities,
    )


async def receive(options: argparse.Namespace) -> dict[str, float]:
    """Attach all links, then take messages until as many as asked for have come."""
    url = f"amqp://guest:guest@{options.host}:{options.port}"
    connections = [await AmqpConnection.connect_url(url) for _ in range(options.cons)]
    mode = SenderSettleMode.SETTLED if options.settled else SenderSettleMode.UNSETTLED
    properties = None if options.group is None else {str(GROUP): options.group}
    receivers = [
        await AmqpReceiver.open(
            connection,
            _source(options),
            name=f"{options.link}|{number}",
            credit_count=options.credit,
            settle_mode=mode,
            properties=properties,
        )
        for number, connection in enumerate(connections)
    ]
    left = options.n
    cpu_s, started = cpu_seconds(options.pid), time.perf_counter()

    async def take(receiver: AmqpReceiver) -> None:
        nonlocal left
        while left > 0:
            batch = await receiver.receive_batch(IDLE_S)
            if batch is None:
                raise SystemExit(f"nothing came for {IDLE_S:.0f} s, and {left} are missing")
            if not batch.is_settled:
                receiver.accept(batch)
            left -= batch.count
        done.set()

    done = asyncio.Event()
    tasks = [asyncio.create_task(take(receiver)) for receiver in receivers]
    await done.wait()
    seconds = time.perf_counter() - started
    cpu_s = cpu_seconds(options.pid) - cpu_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for connection in connections:
        await connection.close()
    count = options.n - left
    return {
        "consumed": count,
        "con_s": seconds,
        "con_msgs_s": count / seconds,
        "broker_cpu_s": cpu_s,
        "broker_cpu_s_per_M": cpu_s / count * 1e6,
    }


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.amqp.receiver")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server, whose CPU is told")
    parser.add_argument("--source", required=True)
    parser.add_argument("--n", type=int, required=True, help="messages in all")
    parser.add_argument("--cons", type=int, default=1)
    parser.add_argument("--link", default="bench", help="what the links are named, with a number behind |")
    parser.add_argument("--credit", type=int, default=10_000)
    parser.add_argument("--offset", help="where to begin: first, or next")
    parser.add_argument("--selector")
    parser.add_argument("--group")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--settled", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(json.dumps(uvloop.run(receive(_options(sys.argv[1:])))))
