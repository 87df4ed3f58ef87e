"""Serving endpoints: each request is held to what its endpoint declares, before and after the handler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from aiohttp import ClientConnectionError, web
from aiohttp.test_utils import TestClient, TestServer

from headwater.errors import DiskFull, UnknownLog
from headwater.server.health import Health, ServerState
from headwater.server.http.answers import read_body
from headwater.server.http.application import make_application
from headwater.server.http.endpoint import (
    ADMIN,
    PUBLIC,
    READ,
    USER,
    Answer,
    Call,
    Empty,
    Endpoint,
    InVhost,
    Media,
    forbidden,
)
from headwater.server.http.problems import LOG_EXISTS
from tests.http_material import serving

HEALTH = Health(state=ServerState.READY, version="1", uptime_s=0.0, data=None)
EVENTS = Media({"application/cloudevents+json": {"type": "object"}, "*/*": {}})
TEXT = Media({"text/plain": {"type": "string"}})


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is made here."""

    name: str
    size: int = 1


class Colours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    colour: list[str] = []
    size: int | None = None


class Things:
    """Endpoints of every kind."""

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        nothing = [Answer(204)]
        return [
            Endpoint("GET", "/things", self.list_things, PUBLIC, [Answer(200, Colours)], Colours),
            Endpoint("POST", "/things", self.make_thing, ADMIN, [Answer(201, Thing)], Empty, Thing),
            Endpoint("DELETE", "/things/{thing}", self.fail, PUBLIC, nothing, Empty),
            Endpoint("POST", "/events", self.take_events, PUBLIC, nothing, body=EVENTS, is_change=False),
            Endpoint("POST", "/text", self.take_events, PUBLIC, nothing, body=TEXT, is_change=False),
            Endpoint("GET", "/stream", self.stream, USER, [Answer(200, TEXT)]),
            Endpoint("GET", "/logs/{log}/things", self.list_things, READ, nothing, InVhost),
        ]

    async def list_things(self, call: Call[Any, None]) -> Any:
        """Give back what was asked for."""
        return call.query

    async def make_thing(self, call: Call[Empty, Thing]) -> Thing:
        """Make a thing."""
        call.location = f"/things/{call.body.name}"
        call.changed = f"by {call.identity.user}"
        return call.body

    async def fail(self, call: Call[Empty, None]) -> None:
        """Fail in the way that the path names."""
        match call.part("thing"):
            case "unknown":
                raise UnknownLog("x")
            case "disk":
                raise DiskFull("/secret/path")
            case "refused":
                raise LOG_EXISTS.refused("there already", {"X-Reason": "because"})
            case "forbidden":
                raise forbidden("touch that")
            case "http":
                raise web.HTTPTooManyRequests
            case "cancelled":
                raise asyncio.CancelledError
        raise ZeroDivisionError("a bug")

    async def take_events(self, call: Call[Empty, None]) -> None:
        """Take bytes."""
        assert await read_body(call.request, 100) == b"bytes"

    async def stream(self, call: Call[Empty, None]) -> web.StreamResponse:
        """Answer in pieces."""
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(call.request)
        await response.write(b"one ")
        await response.write(b"two")
        return response


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)


def ask(method: str, path: str, *, as_guest: bool = True, **how: Any) -> Answered:
    """What one request is answered."""

    async def conversation() -> Answered:
        with serving() as made:
            login = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="} if as_guest else {}
            application = make_application(made, lambda: HEALTH, [Things()])
            headers = {**login, **how.pop("headers", {})}
            async with (
                TestClient(TestServer(application)) as client,
                client.request(method, path, headers=headers, **how) as answer,
            ):
                return Answered(answer.status, dict(answer.headers), await answer.text())

    return asyncio.run(conversation())


def word(answered: Answered) -> str:
    assert answered.headers["Content-Type"] == "application/problem+json"
    return str(answered.json["type"].removeprefix("urn:headwater:problem:"))


def test_parameters_come_as_they_are_declared() -> None:
    assert ask("GET", "/things?colour=red&colour=blue&size=3").json == {"colour": ["red", "blue"], "size": 3}
    assert ask("GET", "/things").json == {"colour": [], "size": None}
    assert word(ask("GET", "/things?size=x")) == "bad-request"
    assert word(ask("GET", "/things?size=1&size=2")) == "bad-request"


def test_a_value_is_the_body_of_the_first_answer_and_says_where_it_is() -> None:
    made = ask("POST", "/things", json={"name": "a"})
    assert (made.status, made.json, made.headers["Location"]) == (201, {"name": "a", "size": 1}, "/things/a")


def test_a_handler_may_answer_by_itself() -> None:
    assert ask("GET", "/stream").text == "one two"


@pytest.mark.parametrize(
    ("thing", "status", "expected"),
    [
        ("unknown", 404, "unknown-log"),
        ("disk", 507, "disk-full"),
        ("refused", 409, "log-exists"),
        ("forbidden", 403, "forbidden"),
        ("http", 429, "too-many-requests"),
        ("bug", 500, "internal-server-error"),
    ],
)
def test_whatever_a_handler_raises_is_a_problem(thing: str, status: int, expected: str) -> None:
    answered = ask("DELETE", f"/things/{thing}")
    assert (answered.status, word(answered)) == (status, expected)
    assert "secret" not in answered.text
    assert "division" not in answered.text


def test_a_refusal_carries_its_headers() -> None:
    assert ask("DELETE", "/things/refused").headers["X-Reason"] == "because"


def test_a_fault_of_ours_stands_in_the_log_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    ask("DELETE", "/things/bug")
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == "DELETE /things/bug failed"


def test_media_are_taken_by_their_types_alone_unless_all_are() -> None:
    for kind in ("application/cloudevents+json; charset=utf-8", "text/xml"):
        assert ask("POST", "/events", data=b"bytes", headers={"Content-Type": kind}).status == 204
    assert ask("POST", "/text", data=b"bytes", headers={"Content-Type": "text/plain"}).status == 204
    refused = ask("POST", "/text", data=b"bytes", headers={"Content-Type": "text/xml"})
    assert (refused.status, word(refused)) == (415, "unsupported-media-type")


def test_who_asks_is_looked_at_before_the_body() -> None:
    refused = ask("POST", "/things", data=b"no json", as_guest=False)
    assert (refused.status, word(refused)) == (401, "not-authorized")
    assert ask("GET", "/things", as_guest=False).status == 200
    unseen = ask("GET", "/logs/a/things?vhost=elsewhere")
    assert (unseen.status, word(unseen)) == (403, "forbidden")


def test_changes_are_audited_and_other_requests_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headwater.audit"):
        ask("POST", "/things", json={"name": "a"})
        ask("GET", "/things")
        ask("POST", "/events", data=b"bytes")
        ask("DELETE", "/things/bug")
    fields = [record.__dict__["audit"] for record in caplog.records if record.name == "headwater.audit"]
    assert [(each["action"], each["outcome"]) for each in fields] == [
        ("POST /things", 201),
        ("DELETE /things/bug", 500),
    ]
    assert (fields[0]["user"], fields[0]["changed"]) == ("guest", "by guest")


def test_a_change_that_is_cut_off_is_noted_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headwater.audit"), pytest.raises(ClientConnectionError):
        ask("DELETE", "/things/cancelled")
    (fields,) = [record.__dict__["audit"] for record in caplog.records if record.name == "headwater.audit"]
    assert (fields["action"], fields["outcome"]) == ("DELETE /things/cancelled", "unanswered")


def test_the_document_has_them_all() -> None:
    paths = ask("GET", "/openapi.json").json["paths"]
    declared = {(each.path, each.method.lower()) for each in Things().endpoints()}
    assert declared <= {(path, method) for path, methods in paths.items() for method in methods}
