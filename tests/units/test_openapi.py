"""The OpenAPI document: it says what endpoints declare, whatever they declare."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from headwater.server.http.endpoint import (
    ADMIN,
    PUBLIC,
    READ,
    Answer,
    Call,
    Empty,
    Endpoint,
    InVhost,
    Media,
)
from headwater.server.http.openapi import document
from headwater.server.http.problems import LOG_EXISTS


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """What is wanted."""

    name: Annotated[str, Meta(min_length=1)]
    colours: list[str] = []


class Filtered(msgspec.Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=5, description="How many.")] = 3
    filter: list[str] = []


async def do_it(call: Call[Any, Any]) -> None:
    """Do it, whatever it is.

    And say more
    about it.
    """


def operation(**declared: Any) -> dict[str, Any]:
    """What the document says of one endpoint."""
    values = {"method": "GET", "path": "/things", "needs": PUBLIC, "answers": [Answer(204)], **declared}
    said = document([Endpoint(handler=do_it, **values)])
    found: dict[str, Any] = said["paths"][values["path"]][values["method"].lower()]
    return found


def test_words_come_from_the_handler_and_from_who_may_ask() -> None:
    said = operation(needs=ADMIN)
    assert (said["operationId"], said["summary"]) == ("do_it", "Do it, whatever it is")
    assert said["description"] == "And say more about it. For users with the role admin."
    assert said["security"] == [{"basic": []}, {"certificate": []}]
    assert operation()["security"] == []


def test_parts_of_the_path_and_parameters_are_listed_with_their_bounds() -> None:
    said = operation(path="/things/{thing}", query=Filtered)
    thing, limit, filter_ = said["parameters"]
    assert (thing["name"], thing["in"], thing["required"]) == ("thing", "path", True)
    assert limit == {
        "name": "limit",
        "in": "query",
        "required": False,
        "description": "How many.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
    }
    assert filter_["schema"]["type"] == "array"


def test_bodies_and_answers_are_schemas() -> None:
    endpoint = Endpoint("POST", "/things", do_it, ADMIN, [Answer(201, Wanted, "Made.")], Empty, Wanted)
    said = document([endpoint])
    operation = said["paths"]["/things"]["post"]
    schema = {"$ref": "#/components/schemas/Wanted"}
    assert operation["requestBody"] == {"required": True, "content": {"application/json": {"schema": schema}}}
    made = operation["responses"]["201"]
    assert (made["description"], made["content"]["application/json"]["schema"]) == ("Made.", schema)
    assert said["components"]["schemas"]["Wanted"]["required"] == ["name"]


def test_bodies_that_are_no_json_have_types_of_their_own() -> None:
    media = Media(
        {"application/cloudevents+json": {"type": "object"}, "text/event-stream": {"type": "string"}}
    )
    said = operation(method="POST", body=media, answers=[Answer(200, media)])
    assert list(said["requestBody"]["content"]) == list(media.schemas)
    assert said["responses"]["200"]["content"]["text/event-stream"] == {"schema": {"type": "string"}}


@pytest.mark.parametrize(
    ("declared", "statuses"),
    [
        ({}, {"204", "400", "500"}),
        ({"needs": ADMIN}, {"204", "400", "401", "403", "500", "503"}),
        ({"needs": READ, "path": "/logs/{log}"}, {"204", "400", "401", "403", "404", "500", "503"}),
        ({"problems": (LOG_EXISTS,)}, {"204", "400", "409", "500"}),
        ({"method": "PUT", "body": Wanted}, {"204", "400", "408", "413", "415", "500"}),
    ],
)
def test_what_may_go_wrong_is_listed(declared: dict[str, Any], statuses: set[str]) -> None:
    responses = operation(query=InVhost, **declared)["responses"]
    assert set(responses) == statuses
    for status in statuses - {"204"}:
        assert list(responses[status]["content"]) == ["application/problem+json"]


def test_two_problems_of_one_status_are_both_described() -> None:
    said = operation(needs=READ, path="/logs/{log}", problems=(LOG_EXISTS,))["responses"]
    assert "log-exists" in said["409"]["description"]
    assert "unknown-log" in said["404"]["description"]
