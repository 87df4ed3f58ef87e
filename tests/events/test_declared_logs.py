"""Logs that are declared to hold CloudEvents, over HTTP: what is refused, and where duplicates are said to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.event_source import event, publish, read, word
from tests.http_api import Api
from tests.peers.servers import Server

DECLARED = {"content": "cloudevents", "duplicates_window_count": 100}


def made(api: Api, name: str, **wanted: Any) -> None:
    assert api.ask("POST", "/logs", {"name": name, "settings": wanted}).status == 201


def offsets(told: Any) -> list[int]:
    return [each["offset"] for each in told["events"]]


def ids(api: Api, log: str) -> list[str]:
    return [each["event"]["id"] for each in read(api, log, "?limit=1000")["events"]]


@pytest.mark.clause("CE-9")
def test_a_body_that_is_no_event_is_refused_with_the_reason(root: Api, name: str) -> None:
    made(root, name, **DECLARED)
    plain = {"Content-Type": "text/plain"}
    reply = root.ask("POST", f"/logs/{name}/events?plain=true", raw=b"no event", headers=plain)
    assert (reply.status, word(reply)) == (400, "invalid-cloudevent")
    assert "its specversion is missing" in reply.body["detail"]
    reply = publish(root, name, [event(1), {**event(2), "time": "yesterday"}])
    assert reply.status == 400
    assert "its time" in reply.body["detail"]
    assert ids(root, name) == []


def test_the_answer_tells_where_an_event_is_that_was_there_already(root: Api, name: str) -> None:
    made(root, name, **DECLARED)
    assert offsets(publish(root, name, [event(number) for number in (1, 2, 1)]).body) == [0, 1, 0]
    assert offsets(publish(root, name, [event(number) for number in (3, 2, 4, 3)]).body) == [2, 1, 3, 2]
    assert ids(root, name) == ["1", "2", "3", "4"]


def test_a_request_that_is_tried_again_under_its_key_is_answered_alike(root: Api, name: str) -> None:
    made(root, name, **DECLARED)
    publish(root, name, [event(1)])
    batch = [event(number) for number in (2, 1, 3)]
    answers = [publish(root, name, batch, Idempotency_Key="again").body for _ in range(2)]
    assert [offsets(each) for each in answers] == [[1, 0, 2]] * 2


def test_duplicates_are_known_after_a_kill(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    try:
        api = Api(server.http_port, below="")
        made(api, "log", **DECLARED)
        assert offsets(publish(api, "log", [event(number) for number in range(50)]).body) == list(range(50))
        server.kill()
        server.start()
        api = Api(server.http_port, below="")
        assert offsets(publish(api, "log", [event(number) for number in range(48, 52)]).body) == [
            48,
            49,
            50,
            51,
        ]
        assert ids(api, "log") == [str(number) for number in range(52)]
    finally:
        server.end()
