"""Events that are read over HTTP: by partition, offset, time and filter, in answers that join without a gap."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from tests.event_source import BATCH, event, publish, read, word
from tests.http_api import Api
from tests.peers.servers import Server
from tests.stream_client import StreamClient


def ids(answer: Any) -> list[str]:
    return [each["event"]["id"] for each in answer["events"]]


def made(api: Api, name: str, partitions: int) -> None:
    assert api.ask("POST", "/logs", {"name": name, "partitions": partitions}).status == 201


@pytest.fixture
def filled(root: Api, name: str) -> str:
    """A log of 3 partitions with 30 events, 10 in each."""
    made(root, name, 3)
    for number in range(3):
        events = [
            event(f"{number}-{index}", type=f"org.example.{'odd' if index % 2 else 'even'}", number=index)
            for index in range(10)
        ]
        assert publish(root, name, events, f"?partition={number}").status == 200
    return name


def test_answers_join_at_the_positions_that_they_give(root: Api, filled: str) -> None:
    seen, query = list[str](), "?limit=7"
    while True:
        answer = read(root, filled, query)
        assert len(answer["events"]) <= 7
        seen += ids(answer)
        if answer["at_end"]:
            break
        query = f"?limit=7&position={quote(answer['next'])}"
    assert sorted(seen) == sorted(f"{number}-{index}" for number in range(3) for index in range(10))
    for number in range(3):
        assert [each for each in seen if each[0] == str(number)] == [f"{number}-{i}" for i in range(10)]
    assert read(root, filled, f"?position={quote(answer['next'])}")["events"] == []


def test_an_offset_is_where_each_partition_begins(root: Api, filled: str) -> None:
    assert ids(read(root, filled, "?partition=1&offset=8")) == ["1-8", "1-9"]
    assert ids(read(root, filled, f"?partition={filled}-1&partition=2&offset=9")) == ["1-9", "2-9"]
    assert read(root, filled, "?offset=next")["next"] == "0:10,1:10,2:10"
    assert len(ids(read(root, filled, "?offset=first"))) == 30
    (first,) = read(root, f"{filled}-2", "?limit=1")["events"]
    assert (first["partition"], first["offset"], first["event"]["id"]) == ("2", 0, "2-0")


def test_a_partition_that_a_position_does_not_name_begins_with_its_first_event(
    root: Api, filled: str
) -> None:
    assert ids(read(root, filled, "?position=0:10,2:9")) == [f"1-{index}" for index in range(10)] + ["2-9"]


def test_filters_choose_in_each_of_their_languages(root: Api, filled: str) -> None:
    even = [f"1-{index}" for index in range(0, 10, 2)]
    subscription = json.dumps([{"suffix": {"type": ".even"}}])
    for query in (
        "filter=" + quote("type LIKE '%.even'"),
        "filters=" + quote(subscription),
        "sql=" + quote("a.cloudEvents_type = 'org.example.even'"),
    ):
        assert ids(read(root, filled, f"?partition=1&{query}")) == even, query
    answer = read(root, filled, "?partition=1&limit=2&filter=" + quote("number > 6"))
    assert (ids(answer), answer["next"]) == (["1-7", "1-8"], "1:9")


def test_what_no_filter_lets_through_is_passed_over_for_good(root: Api, filled: str) -> None:
    answer = read(root, filled, "?filter=" + quote("id = 'none'"))
    assert (answer["events"], answer["next"], answer["at_end"]) == ([], "0:10,1:10,2:10", True)


def test_times_bound_what_was_accepted(root: Api, filled: str) -> None:
    times = [each["accepted"] for each in read(root, filled, "?limit=1000")["events"]]
    behind = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert len(ids(read(root, filled, f"?since={min(times)}"))) == 30
    assert ids(read(root, filled, f"?since={behind}")) == []
    assert ids(read(root, filled, f"?until={min(times)}")) == []
    assert len(ids(read(root, filled, f"?until={behind}&since=1970-01-01T00:00:00Z"))) == 30


def test_a_batch_for_clients_of_cloudevents_has_the_position_in_a_header(root: Api, filled: str) -> None:
    reply = root.ask("GET", f"/logs/{filled}/events?partition=0&limit=2", headers={"Accept": BATCH})
    assert [each["id"] for each in reply.body] == ["0-0", "0-1"]
    assert reply.headers["Headwater-Next"] == "0:2"
    assert reply.headers["Content-Type"].startswith(BATCH)


def test_messages_of_other_clients_are_shown_with_what_they_are(server: Server, root: Api, name: str) -> None:
    made(root, name, 1)
    with StreamClient(server.stream_port) as client:
        client.declare_publisher(1, f"{name}")
        client.publish(1, 2)
    first, second = read(root, name)["events"]
    assert (first["event"]["type"], first["event"]["id"], second["event"]["id"]) == (
        "headwater.message",
        "0-0",
        "0-1",
    )
    assert first["event"]["source"] == f"/logs/{name}"
    assert read(root, name, "?filter=TRUE")["events"] == []


def test_who_waits_is_answered_by_the_first_event(server: Server, root: Api, name: str) -> None:
    made(root, name, 2)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(read(root, name, "?offset=next&wait=30")))
    waiting.start()
    while not found:
        publish(root, name, [event("late", partitionkey="k")])
        waiting.join(0.05)
    waiting.join()
    assert set(ids(found[0])) == {"late"}
    assert read(root, name, "?offset=next&wait=0.05")["events"] == []


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ("offset=-1", 400, "bad-request"),
        ("offset=soon", 400, "bad-request"),
        ("offset=11", 422, "invalid"),
        ("limit=0", 400, "bad-request"),
        ("limit=1001", 400, "bad-request"),
        ("wait=61", 400, "bad-request"),
        ("partition=7", 404, "unknown-partition"),
        ("position=0", 422, "invalid"),
        ("position=7:1", 422, "invalid"),
        ("position=0:1,0:2", 422, "invalid"),
        ("position=0:99999999999999999999", 422, "invalid"),
        ("position=0:%C2%B2", 422, "invalid"),
        ("position=0:11", 422, "invalid"),
        ("since=yesterday", 422, "invalid"),
        ("since=2026-01-31T12:00:00", 422, "invalid"),
        ("filter=type%20LIKE", 422, "invalid"),
        ("filters=[", 422, "invalid"),
        ("filters=%5B%7B%22no%22:1%7D%5D", 422, "invalid"),
        ("sql=%28", 422, "invalid"),
        ("sql=TRUE&filter=TRUE", 422, "invalid"),
        ("other=1", 400, "bad-request"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    root: Api, filled: str, query: str, status: int, kind: str
) -> None:
    reply = root.ask("GET", f"/logs/{filled}/events?{query}")
    assert (reply.status, word(reply)) == (status, kind)


def test_a_log_that_is_not_there_is_not_made_by_a_reader(root: Api, name: str) -> None:
    reply = root.ask("GET", f"/logs/{name}/events")
    assert (reply.status, word(reply)) == (404, "unknown-log")


def test_an_answer_ends_with_the_event_that_makes_it_large(root: Api, name: str) -> None:
    for number in range(4):
        publish(root, name, [event(number, data="x" * 600_000)])
    assert ids(read(root, name)) == ["0", "1"]
