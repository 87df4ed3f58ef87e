"""Bodies and refusals of the HTTP door: what is read, what is too much, and what comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from headwater.server.http.answers import Refused, json_answer, read_json

BYTES_MAX = 100
TIMEOUT_S = 0.05


def post(data: object) -> tuple[int, Any]:
    """What comes back of a body through `read_json`."""

    async def echo(request: web.Request) -> web.Response:
        try:
            return json_answer(await read_json(request, dict[str, int], BYTES_MAX, TIMEOUT_S))
        except Refused as refused:
            return refused.answer()

    async def conversation() -> tuple[int, Any]:
        application = web.Application()
        application.router.add_post("/", echo)
        async with TestClient(TestServer(application)) as client, client.post("/", data=data) as answer:
            return answer.status, await answer.json()

    return asyncio.run(conversation())


async def in_parts(*parts: bytes, pause_s: float = 0.0) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
        await asyncio.sleep(pause_s)


def test_a_body_comes_whole_or_in_parts_and_may_be_empty() -> None:
    assert post(b'{"a": 1}') == (200, {"a": 1})
    assert post(in_parts(b'{"a"', b": 1", b"}")) == (200, {"a": 1})
    assert post(b"") == (200, {})


@pytest.mark.parametrize("data", [b'{"a": "x"}', b"{", b"\xff", b"[" * BYTES_MAX])
def test_a_body_of_another_type_is_refused(data: bytes) -> None:
    status, body = post(data)
    assert (status, body["error"]) == (400, "bad_request")


def test_a_body_above_the_bound_is_refused_whether_or_not_it_says_so() -> None:
    fitting = b'{"a": 1}'.ljust(BYTES_MAX)
    assert post(fitting)[0] == 200
    for data in (fitting + b" ", in_parts(fitting, b" ")):
        status, body = post(data)
        assert (status, body["error"]) == (413, "payload_too_large")


def test_a_body_that_does_not_end_in_time_is_refused() -> None:
    status, body = post(in_parts(b'{"a"', b": 1}", pause_s=4 * TIMEOUT_S))
    assert (status, body["error"]) == (408, "request_timeout")


def test_a_refusal_carries_its_headers() -> None:
    answer = Refused(503, "busy", "later", {"Retry-After": "1"}).answer()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.body == b'{"error":"busy","reason":"later"}'
