"""/metrics: what is counted is what happened, whoever did it, and only those see it who may see everything."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.conformance.wire import Wire, plain
from tests.http_api import Api
from tests.management.test_amqp_connections import connected
from tests.management.test_logs import made, publish, word
from tests.peers.consuming import Durable, detach, receiver
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Metrics:
    """The figures of one moment."""

    def __init__(self, server: Server) -> None:
        text = Api(server.http_port, below="").text("/metrics")
        samples = [
            ((sample.name, frozenset(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
        self._series: Series = dict(samples)
        assert len(self._series) == len(samples), "Prometheus takes no series twice"

    def of(self, name: str, **labels: str) -> float | None:
        """One series; None if there is none such."""
        return self._series.get((f"headwater_{name}", frozenset(labels.items())))

    def count_of(self, name: str) -> int:
        """Series of this name."""
        return sum(each == f"headwater_{name}" for each, _ in self._series)

    def names(self) -> set[str]:
        return {name for name, _ in self._series}


def test_events_and_bytes_of_a_log_are_counted(
    server: Server, root: Api, client: StreamClient, name: str
) -> None:
    made(root, name, partitions=2)
    publish(client, f"{name}-0", 5)
    where = {"vhost": "/", "log": name}
    before = Metrics(server)
    assert (before.of("log_events_total", **where), before.of("log_kept_events", **where)) == (5, 5)
    written, size = before.of("log_written_bytes_total", **where), before.of("log_size_bytes", **where)
    assert written == size
    root.do("POST", f"/logs/{name}/truncate")
    after = Metrics(server)
    assert (after.of("log_events_total", **where), after.of("log_kept_events", **where)) == (5, 0)
    assert (after.of("log_written_bytes_total", **where) or 0) >= (written or 0) > 0
    root.do("DELETE", f"/logs/{name}")
    assert Metrics(server).of("log_events_total", **where) is None


def test_commits_are_counted_with_the_time_they_took(
    server: Server, root: Api, client: StreamClient, name: str
) -> None:
    made(root, name)
    before = Metrics(server)
    publish(client, name, 1)
    after = Metrics(server)
    count, total = "commit_seconds_count", "commit_seconds_sum"
    assert (after.of(count) or 0) > (before.of(count) or 0)
    assert (after.of(total) or 0) > (before.of(total) or 0)
    assert after.of("commit_seconds_bucket", le="+Inf") == after.of(count)
    assert after.of("commit_failures_total") == 0


def test_lag_is_that_of_the_reader_who_is_furthest_behind(
    server: Server, root: Api, client: StreamClient, name: str
) -> None:
    made(root, name)
    publish(client, name, 7)
    where = {"vhost": "/", "log": name, "kind": "stream", "consumer": ""}
    assert Metrics(server).of("consumer_lag_events", **where) is None
    with StreamClient(server.stream_port) as near, StreamClient(server.stream_port) as far:
        near.subscribe(1, name)
        near.wait_for(c.Deliver)
        assert Metrics(server).of("consumer_lag_events", **where) == 0
        far.ask_well(
            c.SubscribeRequest(far.next_id(), 1, name, c.OffsetSpecification(c.OffsetType.FIRST), 0, {})
        )
        assert Metrics(server).of("consumer_lag_events", **where) == 7


def test_lag_of_amqp_readers_and_of_groups_is_told_too(
    server: Server, root: Api, client: StreamClient, name: str
) -> None:
    made(root, name)
    publish(client, name, 4)
    with connected(server) as connection:
        receiver = connection.create_receiver(name, credit=1)
        where: dict[str, Any] = {"vhost": "/", "log": name, "kind": "amqp", "consumer": ""}
        assert Metrics(server).of("consumer_lag_events", **where) == 0  # it began at the end
        receiver.close()
        root.do("POST", "/groups", {"log": name, "name": "billing", "start": 1})
        lags = Metrics(server)
        assert lags.of("consumer_lag_events", **{**where, "kind": "group", "consumer": "billing"}) == 3
        assert lags.of("consumer_lag_events", **where) is None


def test_of_subscriptions_with_one_name_the_lag_is_that_of_the_one_furthest_behind(
    server: Server, root: Api, client: StreamClient, name: str
) -> None:
    made(root, name)
    with connected(server) as one, connected(server) as another:  # two containers
        detach(receiver(one, name, "same", Durable()))
        publish(client, name, 4)
        detach(receiver(another, name, "same", Durable()))
    where = {"vhost": "/", "log": name, "kind": "subscription", "consumer": "same"}
    assert len(root.get(f"/subscriptions?log={name}")["subscriptions"]) == 2
    assert Metrics(server).of("consumer_lag_events", **where) == 4


def test_connections_and_their_bytes_are_counted_also_when_they_are_gone(server: Server) -> None:
    def received(door: str) -> float:
        return Metrics(server).of("received_bytes_total", door=door) or 0

    before = received("stream")
    with StreamClient(server.stream_port) as client:
        during = Metrics(server)
        assert (during.of("connections", door="stream") or 0) >= 1
        assert (during.of("received_bytes_total", door="stream") or 0) > before
        client.say_goodbye()
    assert received("stream") > before
    amqp_before = received("amqp")
    with connected(server):
        pass
    assert received("amqp") > amqp_before
    assert (Metrics(server).of("connections", door="http") or 0) >= 1


def test_requests_are_counted_by_what_was_declared_and_not_by_what_was_sent(
    server: Server, root: Api
) -> None:
    labels = {"method": "GET", "path": "/logs/{log}", "status": "404"}
    before = Metrics(server).of("http_requests_total", **labels) or 0
    for number in range(3):
        root.ask("GET", f"/logs/missing-{number}")
    after = Metrics(server)
    assert after.of("http_requests_total", **labels) == before + 3
    assert (after.of("http_request_seconds_sum", method="GET", path="/logs/{log}") or 0) > 0


def test_wrong_passwords_are_counted_at_every_door(server: Server) -> None:
    before = Metrics(server).of("authentication_failures_total") or 0
    Api(server.http_port, "guest", "wrong").ask("GET", "/whoami")
    with Wire(HOST, server.stream_port) as wire:
        wire.greet()
        answer = wire.ask(plain(wire, "guest", "wrong"), c.SaslAuthenticateResponse)
        assert answer.response_code == ResponseCode.AUTHENTICATION_FAILURE
    assert Metrics(server).of("authentication_failures_total") == before + 2


def test_the_process_tells_its_memory_and_its_descriptors(server: Server) -> None:
    assert {"process_resident_memory_bytes", "process_open_fds"} <= Metrics(server).names()


def test_figures_are_for_those_who_see_everything(
    server: Server, watcher_at_root: Api, ada_at_root: Api
) -> None:
    assert watcher_at_root.text("/metrics").startswith("# HELP headwater_")
    refused = ada_at_root.ask("GET", "/metrics")
    assert (refused.status, word(refused)) == (403, "forbidden")
    assert word(Api(server.http_port, None, below="").ask("GET", "/metrics")) == "not-authorized"
