"""Ten thousand subscriptions: what is shown of them comes in pages, at every door."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.engine.cursor import DEFAULT_LIMITS
from headwater.engine.link_id import LinkId
from headwater.engine.subscriptions import Attach, Granted, Refused
from headwater.engine.topic_subscription import TopicSubscription
from headwater.errors import StorageError
from headwater.log.log import PartitionDefinition
from headwater.log.store import Store
from headwater.server.consumers.consumer import Subscriber
from headwater.server.consumers.consumers import Consumers
from headwater.server.metrics import CONSUMERS_MAX
from tests.http_api import Api
from tests.management.test_amqp_connections import connected
from tests.management.test_amqp_management import SELF, SUBSCRIPTION, asking, code, rows
from tests.management.test_cli import Commands
from tests.management.test_metrics import Metrics
from tests.peers.servers import Server

COUNT = 10_000
LOGS = ("orders", "payments")


class Granting:
    """A link that only attaches."""

    connection_name = ""

    def __init__(self) -> None:
        self.is_granted = False

    def granted(self, granted: Granted[Subscriber]) -> None:
        self.is_granted = True

    def refused(self, refused: Refused[Subscriber]) -> None: ...
    def woken(self, subscription: TopicSubscription[Subscriber]) -> None: ...
    def failed(self, error: StorageError) -> None: ...
    def stolen(self) -> None: ...
    def reset(self) -> None: ...
    def ended(self) -> None: ...


async def subscribe(folder: Path) -> None:
    """Make the subscriptions, half of them to each log, as links that attach one after the other do."""
    store = Store.open(folder, loop=asyncio.get_running_loop())
    parts = [PartitionDefinition(f"payments-{number}", str(number)) for number in range(2)]
    ids = (store.create_log("orders"), store.create_log("payments", kind="super_stream", partitions=parts))
    consumers = Consumers(store, asyncio.get_running_loop(), 0.05)
    links = [Granting() for _ in range(COUNT)]
    for number, link in enumerate(links):
        log = ids[number % 2]
        attach = Attach(
            "/",
            log.name,
            log.definition.id,
            LinkId(f"container-{number % 100}", f"link-{number}", "guest"),
            is_durable=True,
        )
        consumers.subscribe(link, attach, dict.fromkeys(log.numbers, 0), DEFAULT_LIMITS)
    store.flush()
    assert all(link.is_granted for link in links)
    consumers.close()
    store.close()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("crowded") / "data"
    asyncio.run(subscribe(folder))
    started = Server(folder)
    started.start()
    yield started
    started.end()


def test_pages_of_http_have_each_subscription_once_while_others_are_served(crowded: Server) -> None:
    api = Api(crowded.http_port, below="")
    seen: list[str] = []
    after: str | None = ""
    served, is_over = [0], threading.Event()

    def look_meanwhile() -> None:
        while not is_over.is_set():
            api.get("/health")
            served[0] += 1

    others = threading.Thread(target=look_meanwhile)
    others.start()
    try:
        while after is not None:
            page = api.get(f"/subscriptions?limit=1000&after={after}")
            seen += [each["id"] for each in page["subscriptions"]]
            after = page["next"]
    finally:
        is_over.set()
        others.join()
    assert (len(seen), len(set(seen)), seen == sorted(seen)) == (COUNT, COUNT, True)
    assert served[0] > 0
    of_log = api.get("/subscriptions?log=payments&limit=3")
    assert {each["log"] for each in of_log["subscriptions"]} == {"payments"}
    assert len(of_log["subscriptions"]) == 3
    shown = api.get(f"/subscriptions/{seen[COUNT // 2]}")
    assert (shown["id"], shown["consumer_count"], shown["lag"]) == (seen[COUNT // 2], 0, 0)


def test_a_query_gives_parts_and_says_that_all_are_too_many(crowded: Server) -> None:
    with connected(crowded) as amqp:
        ask = asking(amqp)
        assert code(ask("QUERY", SELF, entityType=SUBSCRIPTION)) == 413
        wanted = {"attributeNames": ["identity", "lag"]}
        seen = [
            row["identity"]
            for offset in range(0, COUNT + 1, 2_500)
            for row in rows(ask("QUERY", SELF, wanted, entityType=SUBSCRIPTION, offset=offset, count=2_500))
        ]
    assert (len(seen), len(set(seen))) == (COUNT, COUNT)


def test_the_command_lists_all_of_them_and_finds_one_by_its_name(crowded: Server) -> None:
    commands = Commands(crowded)
    listed = commands.json("subscription", "list")["subscriptions"]
    assert len(listed) == COUNT
    assert [each["log"] for each in listed] == sorted(LOGS * (COUNT // 2))
    shown = commands.json("subscription", "info", "link-4321")
    assert (shown["name"], shown["log"]) == ("link-4321", "payments")


def test_metrics_have_names_for_no_more_than_a_bound(crowded: Server) -> None:
    metrics = Metrics(crowded)
    of_subscriptions = {"vhost": "/", "kind": "subscription", "consumer": ""}
    assert metrics.count_of("consumer_lag_events") == COUNT == CONSUMERS_MAX
    assert [metrics.of("consumer_lag_events", log=log, **of_subscriptions) for log in LOGS] == [None, None]
    Api(crowded.http_port, below="").do("POST", "/groups", {"log": "orders", "name": "billing"})
    metrics = Metrics(crowded)
    assert metrics.count_of("consumer_lag_events") == COUNT + 1
    assert [metrics.of("consumer_lag_events", log=log, **of_subscriptions) for log in LOGS] == [None, 0]


def test_one_of_them_is_ended_and_the_others_stay(crowded: Server) -> None:
    commands, api = Commands(crowded), Api(crowded.http_port, below="")
    (first,) = api.get("/subscriptions?limit=1")["subscriptions"]
    commands.succeed("subscription", "end", first["id"])
    (second,) = api.get("/subscriptions?limit=1")["subscriptions"]
    assert second["id"] > first["id"]
    assert len(commands.json("subscription", "list")["subscriptions"]) == COUNT - 1
