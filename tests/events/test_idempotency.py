"""Idempotency-Key: a request that is sent again is stored once, also after a restart and after kill -9."""

from __future__ import annotations

import http.client
import itertools
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.event_source import event, publish, read, word
from tests.http_api import Api
from tests.peers.servers import Server

ROUNDS = 4
WRITERS = 6
EVENTS = 5


def keyed(api: Api, log: str, events: list[Any], key: str, query: str = "") -> Any:
    return publish(api, log, events, query, Idempotency_Key=key)


def all_ids(api: Api, log: str) -> list[str]:
    """Of all events there are."""
    found, query = list[str](), "?limit=1000"
    while True:
        answer = read(api, log, query)
        found += [each["event"]["id"] for each in answer["events"]]
        if answer["at_end"]:
            return found
        query = f"?limit=1000&position={quote(answer['next'])}"


def test_the_same_request_is_stored_once_and_answered_alike(root: Api, name: str) -> None:
    first = keyed(root, name, [event(1), event(2)], "a key")
    publish(root, name, [event(3)])
    again = keyed(root, name, [event(1), event(2)], "a key")
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body == {"events": [{"partition": "0", "offset": each} for each in (0, 1)]}
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert all_ids(root, name) == ["1", "2", "3"]


@pytest.mark.parametrize("query", ["?partition=0", "?key=subject", "?plain=true"])
def test_another_request_under_the_same_key_is_refused(root: Api, name: str, query: str) -> None:
    assert keyed(root, name, [event(1)], "k").status == 200
    for reply in (keyed(root, name, [event(2)], "k"), keyed(root, name, [event(1)], "k", query)):
        assert (reply.status, word(reply)) == (422, "idempotency-key-reused")
    assert all_ids(root, name) == ["1"]


def test_a_key_is_its_users_and_its_logs(server: Server, root: Api, name: str) -> None:
    ada, log = Api(server.http_port, "ada", "pencil", below=""), f"ada-{name}"
    assert keyed(root, log, [event(1)], "k").status == 200
    assert keyed(ada, log, [event(2)], "k").status == 200
    assert keyed(root, name, [event(3)], "k").status == 200
    assert all_ids(root, log) == ["1", "2"]


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_has_1_to_255_characters(root: Api, name: str, key: str) -> None:
    reply = keyed(root, name, [event(1)], key)
    assert (reply.status, word(reply)) == (400, "bad-request")


def test_shares_of_several_partitions_are_found_in_each(root: Api, name: str) -> None:
    root.do("POST", "/logs", {"name": name, "partitions": 4})
    events = [event(number, partitionkey=f"key-{number}") for number in range(20)]
    first = keyed(root, name, events, "k")
    assert len({each["partition"] for each in first.body["events"]}) > 1
    assert keyed(root, name, events, "k").body == first.body
    unkeyed = [keyed(root, name, [event(99)], "unkeyed").body for _ in range(3)]
    assert unkeyed[0] == unkeyed[1] == unkeyed[2], "what has no key goes to one partition all the same"
    assert sorted(all_ids(root, name)) == sorted([*map(str, range(20)), "99"])


def test_requests_at_the_same_time_are_stored_once(root: Api, name: str) -> None:
    publish(root, name, [event(0)])
    replies: list[Any] = []
    threads = [
        threading.Thread(target=lambda: replies.append(keyed(root, name, [event(1)], "k"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(reply.status, str(reply.body)) for reply in replies} == {(200, str(replies[0].body))}
    assert all_ids(root, name) == ["0", "1"]


def test_what_was_answered_and_what_was_not_is_there_once_after_kill_9(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    api = Api(server.http_port, below="")
    api.do("POST", "/logs", {"name": "log", "partitions": 3})
    answered: dict[int, Any] = {}
    asked: set[int] = set()
    numbers = itertools.count()

    def request(number: int) -> Any:
        events = [event(f"{number}-{each}", partitionkey=f"{number}{each}") for each in range(EVENTS)]
        return keyed(Api(server.http_port, below=""), "log", events, f"key-{number}")

    def write(enough: threading.Event, wanted: int) -> None:
        try:
            while True:
                number = next(numbers)
                asked.add(number)
                reply = request(number)
                assert reply.status == 200, reply
                answered[number] = reply.body
                if len(answered) >= wanted:
                    enough.set()
        except (OSError, http.client.HTTPException):
            enough.set()

    try:
        for round_ in range(1, ROUNDS + 1):
            enough = threading.Event()
            writers = [threading.Thread(target=write, args=(enough, 40 * round_)) for _ in range(WRITERS)]
            for writer in writers:
                writer.start()
            assert enough.wait(60)
            server.kill()
            for writer in writers:
                writer.join()
            server.start()
            for number in asked:
                reply = request(number)
                assert reply.status == 200
                assert answered.setdefault(number, reply.body) == reply.body
        found = all_ids(api, "log")
        assert sorted(found) == sorted(f"{number}-{each}" for number in asked for each in range(EVENTS))
        placed = {
            (each["partition"], each["offset"]): each["event"]["id"]
            for part in range(3)
            for each in read(api, "log", f"?partition={part}&limit=1000")["events"]
        }
        for number, body in answered.items():
            for each, where in enumerate(body["events"]):
                assert (
                    placed.get((where["partition"], where["offset"]), f"{number}-{each}")
                    == f"{number}-{each}"
                )
    finally:
        server.end()


def test_a_restart_forgets_no_key(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    try:
        api = Api(server.http_port, below="")
        first = keyed(api, "log", [event(1)], "k")
        server.stop()
        server.start()
        again = keyed(api, "log", [event(1)], "k")
        assert (again.body, again.headers["Idempotent-Replayed"]) == (first.body, "true")
        assert word(keyed(api, "log", [event(2)], "k")) == "idempotency-key-reused"
    finally:
        server.end()
