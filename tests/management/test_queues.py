"""/api/queues: streams made, shown and deleted, and what they tell of the events in them."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.http_api import Api
from tests.peers.servers import Server
from tests.stream_client import StreamClient

STREAM: dict[str, Any] = {"arguments": {"x-queue-type": "stream"}}
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-max-age": "120s",
    "x-max-length-bytes": 20_000,
    "x-stream-max-segment-size-bytes": 1000,
    "x-stream-filter-size-bytes": 32,
    "x-queue-leader-locator": "random",
    "x-initial-cluster-size": 5,
}


def test_a_stream_is_made_once_shown_and_deleted_once(api: Api, name: str) -> None:
    path = f"/queues/%2F/{name}"
    assert [api.ask("PUT", path, STREAM).status for _ in range(2)] == [201, 204]
    shown = api.get(path)
    assert (shown["name"], shown["vhost"], shown["type"], shown["state"]) == (name, "/", "stream", "running")
    assert (shown["messages"], shown["consumers"], shown["publishers"]) == (0, 0, 0)
    assert shown["super_stream"] is None
    assert [api.ask("DELETE", path).status for _ in range(2)] == [204, 404]
    assert api.ask("GET", path).status == 404


def test_arguments_come_back_as_they_were_given(api: Api, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", {"arguments": ARGUMENTS})
    assert api.get(f"/queues/%2F/{name}")["arguments"] == ARGUMENTS
    as_text = {argument: str(value) for argument, value in ARGUMENTS.items()}
    assert api.ask("PUT", f"/queues/%2F/{name}", {"arguments": as_text}).status == 204


def test_arguments_of_stream_clients_are_shown_in_the_same_words(
    api: Api, client: StreamClient, name: str
) -> None:
    arguments = {key.removeprefix("x-"): str(value) for key, value in ARGUMENTS.items()}
    del arguments["queue-type"]
    client.ask_well(c.CreateRequest(client.next_id(), name, arguments))
    assert api.get(f"/queues/%2F/{name}")["arguments"] == ARGUMENTS


def test_another_stream_of_the_name_is_not_what_was_asked_for(api: Api, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    other = {"arguments": {"x-queue-type": "stream", "x-max-age": "1h"}}
    reply = api.ask("PUT", f"/queues/%2F/{name}", other)
    assert (reply.status, reply.body["error"]) == (400, "bad_request")
    assert "exists already with other settings" in reply.body["reason"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "there are streams here alone"),
        ({"arguments": {"x-queue-type": "quorum"}}, "there are streams here alone"),
        ({**STREAM, "durable": False}, "a stream is durable"),
        ({**STREAM, "auto_delete": True}, "neither auto-delete"),
        ({**STREAM, "exclusive": True}, "nor exclusive"),
        ({"arguments": {"x-queue-type": "stream", "x-max-age": "soon"}}, "max-age"),
        ({"arguments": {"x-queue-type": "stream", "x-max-age": 7}}, "max-age"),
        ({"arguments": {"x-queue-type": "stream", "x-max-length-bytes": 1.5}}, "max-length-bytes"),
        ({"arguments": {"x-queue-type": "stream", "x-max-length-bytes": True}}, "max-length-bytes"),
        ({"arguments": {"x-queue-type": "stream", "x-max-length-bytes": -1}}, "max-length-bytes"),
        ({"arguments": {"x-queue-type": "stream", "x-stream-filter-size-bytes": 8}}, "filter-size"),
    ],
)
def test_what_no_stream_can_be_is_refused_with_the_reason(
    api: Api, name: str, body: dict[str, Any], words: str
) -> None:
    reply = api.ask("PUT", f"/queues/%2F/{name}", body)
    assert (reply.status, reply.body["error"]) == (400, "bad_request")
    assert words in reply.body["reason"]
    assert api.ask("GET", f"/queues/%2F/{name}").status == 404


@pytest.mark.parametrize("stream", ["amq.x", "%20"])
def test_names_that_streams_cannot_have_are_refused(api: Api, stream: str) -> None:
    assert api.ask("PUT", f"/queues/%2F/{stream}", STREAM).status == 400


def test_an_unknown_vhost_is_not_there(api: Api, name: str) -> None:
    for method, path in (("PUT", f"/queues/none/{name}"), ("GET", "/queues/none"), ("GET", "/queues/none/x")):
        assert api.ask(method, path, STREAM).status == 404


def test_counts_are_those_of_the_log(api: Api, server: Server, client: StreamClient, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    client.declare_publisher(1, name)
    client.publish(1, 250)
    client.subscribe(1, name)
    shown = api.get(f"/queues/%2F/{name}")
    assert (shown["messages"], shown["messages_ready"], shown["messages_unacknowledged"]) == (250, 250, 0)
    assert (shown["first_offset"], shown["committed_offset"], shown["segments"]) == (0, 249, 1)
    assert (shown["publishers"], shown["consumers"]) == (1, 1)
    assert shown["message_bytes"] > 250 * 6
    assert shown["last_published"].startswith("20")
    (listed,) = [queue for queue in api.get("/queues/%2F") if queue["name"] == name]
    assert listed["messages"] == 250


def test_who_is_at_a_stream_is_told_when_it_is_deleted(api: Api, client: StreamClient, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    client.declare_publisher(1, name)
    client.subscribe(1, name)
    api.do("DELETE", f"/queues/%2F/{name}")
    update = client.wait_for(c.MetadataUpdate)
    assert update == c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, name)
    assert api.get("/stream/publishers/%2F") == api.get("/stream/consumers/%2F") == []


def test_a_user_makes_sees_and_deletes_what_the_permissions_cover(
    api: Api, ada: Api, watcher: Api, name: str
) -> None:
    own = f"ada-{name}"
    assert ada.ask("PUT", f"/queues/%2F/{own}", STREAM).status == 201
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    assert [queue["name"] for queue in ada.get("/queues") if name in queue["name"]] == [own]
    assert ada.get(f"/queues/%2F/{own}")["name"] == own
    for method in ("GET", "PUT", "DELETE"):
        reply = ada.ask(method, f"/queues/%2F/{name}", STREAM)
        assert (reply.status, reply.body["error"]) == (401, "not_authorised")
    # A monitor sees everything and changes nothing.
    assert {name, own} <= {queue["name"] for queue in watcher.get("/queues")}
    assert watcher.ask("DELETE", f"/queues/%2F/{own}").status == 401
    assert watcher.ask("PUT", f"/queues/%2F/{own}-2", STREAM).status == 401
    assert ada.ask("DELETE", f"/queues/%2F/{own}").status == 204
