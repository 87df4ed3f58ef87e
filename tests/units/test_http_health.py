"""`GET /health`: what each state answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headwater.server.health import DataHealth, Health, ServerState
from headwater.server.http.application import make_application
from headwater.server.http.listener import HttpListener
from headwater.server.listening import ListenFailed
from tests.http_material import serving


def ask(health: Health, method: str = "GET", path: str = "/health") -> tuple[int, dict[str, str], Any]:
    async def conversation() -> tuple[int, dict[str, str], Any]:
        with serving() as made:
            application = make_application(made, lambda: health)
            async with (
                TestClient(TestServer(application)) as client,
                client.request(method, path) as answer,
            ):
                body = await answer.json(content_type=None)
                return answer.status, dict(answer.headers), body

    return asyncio.run(conversation())


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (ServerState.STARTING, 503),
        (ServerState.READY, 200),
        (ServerState.DEGRADED, 200),
        (ServerState.STOPPING, 503),
    ],
)
def test_each_state_answers_with_its_status(state: ServerState, status: int) -> None:
    figures = DataHealth(logs=3, partitions=12, damaged_partitions=1, read_only_partitions=2)
    answered, headers, body = ask(Health(state=state, version="1.2.3", uptime_s=4.5, data=figures))
    assert answered == status
    assert body == {
        "state": state.value,
        "version": "1.2.3",
        "uptime_s": 4.5,
        "data": {"logs": 3, "partitions": 12, "damaged_partitions": 1, "read_only_partitions": 2},
    }
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"


def test_no_figures_are_given_while_the_folder_is_not_open() -> None:
    _, _, body = ask(Health(state=ServerState.STARTING, version="1.2.3", uptime_s=0.0, data=None))
    assert body["data"] is None


def test_answers_do_not_name_the_library_they_are_made_with() -> None:
    health = Health(state=ServerState.READY, version="1.2.3", uptime_s=0.0, data=None)
    assert ask(health)[1]["Server"] == "headwater"
    status, headers, _ = ask(health, path="/nothing-here")
    assert (status, headers["Server"]) == (404, "headwater")


def test_only_reading_is_allowed() -> None:
    health = Health(state=ServerState.READY, version="1.2.3", uptime_s=0.0, data=None)
    assert ask(health, method="POST")[0] == 405


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("127.0.0.1", None, "the port is in use"),
        ("no-such-host.invalid", 0, "has no address; check --host"),
        ("192.0.2.1", 0, "this machine has no such address; check --host"),
    ],
)
def test_a_door_that_cannot_open_says_why(host: str, port: int | None, words: str) -> None:
    async def attempt() -> str:
        health = Health(state=ServerState.READY, version="1.2.3", uptime_s=0.0, data=None)
        with serving() as made:
            first = HttpListener(make_application(made, lambda: health))
            second = HttpListener(make_application(made, lambda: health))
            [address] = await first.open("127.0.0.1", 0)
            taken = int(address.rpartition(":")[2])
            try:
                with pytest.raises(ListenFailed) as caught:
                    await second.open(host, taken if port is None else port)
            finally:
                await first.close()
                await second.close()
        return str(caught.value)

    assert words in asyncio.run(attempt())
