"""One client process of a run: `python -m tests.checker.client FOLDER PROCESS`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvloop

from tests.checker.amqp_consumer import AmqpConsumerClient
from tests.checker.amqp_publisher import AmqpPublisherClient
from tests.checker.board import Phase
from tests.checker.consumer import ConsumerClient
from tests.checker.link import AnyClient, Place
from tests.checker.member import MemberClient
from tests.checker.plan import AMQP_DOOR, Plan
from tests.checker.publisher import PublisherClient
from tests.checker.side import SideClient
from tests.checker.subscriber import SubscriberClient

LOOK_S = 0.05


def main() -> int:
    """Run the clients of the process until all are done, or until the run stops."""
    folder, process = Path(sys.argv[1]), sys.argv[2]
    plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=Plan)
    uvloop.run(_run(Place(folder, plan, process)))
    return 0


async def _run(place: Place) -> None:
    tasks = [asyncio.create_task(client.run(), name=client.who) for client in _clients(place)]
    runner = os.getppid()
    pending = set(tasks)
    while pending and place.board.phase is not Phase.STOP and os.getppid() == runner:
        done, pending = await asyncio.wait(pending, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


def _clients(place: Place) -> Iterator[AnyClient]:
    plan, process = place.plan, place.process
    for publisher in plan.publishers:
        if publisher.process == process:
            is_amqp = publisher.door == AMQP_DOOR
            yield (AmqpPublisherClient if is_amqp else PublisherClient)(place, publisher)
    for consumer in plan.consumers:
        if consumer.process == process:
            is_amqp = consumer.door == AMQP_DOOR
            yield (AmqpConsumerClient if is_amqp else ConsumerClient)(place, consumer)
    for subscriber in plan.subscribers:
        if subscriber.process == process:
            yield SubscriberClient(place, subscriber)
    if process in plan.members:
        yield MemberClient(place, process)
    if process == plan.side_process:
        for stream in plan.side_streams:
            yield SideClient(place, stream)


if __name__ == "__main__":
    sys.exit(main())
