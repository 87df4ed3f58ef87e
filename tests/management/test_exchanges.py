"""Super streams: made by an exchange and bindings, or as a whole; what clients see of them, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.http_api import Api
from tests.peers.servers import Server
from tests.stream_client import StreamClient

STREAM: dict[str, Any] = {"arguments": {"x-queue-type": "stream"}}
EXCHANGE: dict[str, Any] = {"type": "direct", "arguments": {"x-super-stream": True}}


def bind(api: Api, exchange: str, stream: str, key: str, order: object = None) -> int:
    arguments = {} if order is None else {"x-stream-partition-order": order}
    body = {"routing_key": key, "arguments": arguments}
    return api.ask("POST", f"/bindings/%2F/e/{exchange}/q/{stream}", body).status


def partitions(client: StreamClient, name: str) -> tuple[str, ...] | None:
    answer = client.ask(c.PartitionsRequest(client.next_id(), name))
    assert isinstance(answer, c.PartitionsResponse)
    return answer.streams if answer.response_code == ResponseCode.OK else None


def test_a_super_stream_grows_by_bindings_in_the_order_they_ask_for(
    api: Api, client: StreamClient, name: str
) -> None:
    assert api.ask("PUT", f"/exchanges/%2F/{name}", EXCHANGE).status == 201
    assert api.ask("PUT", f"/exchanges/%2F/{name}", EXCHANGE).status == 204
    assert partitions(client, name) == ()
    for number in (2, 0, 1):
        api.do("PUT", f"/queues/%2F/{name}-{number}", STREAM)
        assert bind(api, name, f"{name}-{number}", str(number), str(number)) == 201
    assert partitions(client, name) == (f"{name}-0", f"{name}-1", f"{name}-2")
    assert bind(api, name, f"{name}-1", "1", 1) == 201
    route = client.ask(c.RouteRequest(client.next_id(), "2", name))
    assert isinstance(route, c.RouteResponse)
    assert route.streams == (f"{name}-2",)
    bindings = api.get(f"/exchanges/%2F/{name}/bindings/source")
    assert [(each["destination"], each["routing_key"]) for each in bindings] == [
        (f"{name}-{number}", str(number)) for number in range(3)
    ]
    assert api.get(f"/bindings/%2F/e/{name}/q/{name}-1") == [bindings[1]]
    assert bindings[2] in api.get("/bindings")
    assert api.get(f"/exchanges/%2F/{name}")["arguments"] == {"x-super-stream": True}


def test_streams_with_events_are_bound_with_them_and_outlive_the_super_stream(
    api: Api, client: StreamClient, name: str
) -> None:
    api.do("PUT", f"/queues/%2F/{name}-0", STREAM)
    client.declare_publisher(1, f"{name}-0")
    client.publish(1, 10)
    api.do("PUT", f"/exchanges/%2F/{name}", EXCHANGE)
    assert bind(api, name, f"{name}-0", "0") == 201
    client.publish(1, 20)
    assert api.ask("DELETE", f"/exchanges/%2F/{name}").status == 204
    assert partitions(client, name) is None
    assert api.get(f"/queues/%2F/{name}-0")["messages"] == 30
    assert client.events == []


def test_a_bound_stream_that_is_deleted_is_no_partition_any_more(
    api: Api, client: StreamClient, name: str
) -> None:
    api.do("PUT", f"/exchanges/%2F/{name}", EXCHANGE)
    for number in range(2):
        api.do("PUT", f"/queues/%2F/{name}-{number}", STREAM)
        bind(api, name, f"{name}-{number}", str(number), number)
    api.do("DELETE", f"/queues/%2F/{name}-0")
    assert partitions(client, name) == (f"{name}-1",)


def test_a_super_stream_is_made_as_a_whole_by_number_or_by_keys(
    api: Api, client: StreamClient, name: str
) -> None:
    arguments = {"x-max-age": "1h"}
    body = {"partitions": 3, "arguments": arguments}
    assert api.ask("PUT", f"/stream/super-streams/%2F/{name}", body).status == 201
    assert partitions(client, name) == tuple(f"{name}-{number}" for number in range(3))
    shown = api.get(f"/queues/%2F/{name}-1")
    assert (shown["super_stream"], shown["arguments"]["x-max-age"]) == (name, "1h")
    api.do("PUT", f"/stream/super-streams/%2F/{name}.eu", {"binding-keys": "amer, emea,,apac"})
    assert partitions(client, f"{name}.eu") == tuple(f"{name}.eu-{key}" for key in ("amer", "emea", "apac"))
    assert api.ask("PUT", f"/stream/super-streams/%2F/{name}", body).status == 400


def test_partitions_of_its_own_go_with_the_super_stream_and_not_alone_once_it_was_used(
    api: Api, client: StreamClient, name: str
) -> None:
    api.do("PUT", f"/stream/super-streams/%2F/{name}", {"partitions": 2})
    api.do("PUT", f"/queues/%2F/{name}-more", STREAM)
    assert bind(api, name, f"{name}-more", "more") == 201
    client.declare_publisher(1, f"{name}-0")
    client.publish(1, 1)
    for path in (f"/queues/%2F/{name}-1", f"/exchanges/%2F/{name}"):
        reply = api.ask("DELETE", path)
        assert (reply.status, reply.body["error"]) == (400, "bad_request")
        assert "DELETE /api/stream/super-streams/{vhost}/{name}" in reply.body["reason"]
    assert partitions(client, name) == (f"{name}-0", f"{name}-1", f"{name}-more")
    assert api.ask("DELETE", f"/stream/super-streams/%2F/{name}").status == 204
    update = client.wait_for(c.MetadataUpdate)
    assert update == c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, f"{name}-0")
    assert api.ask("GET", f"/queues/%2F/{name}-0").status == 404
    assert api.get(f"/queues/%2F/{name}-more")["messages"] == 0


def test_a_super_stream_that_was_never_used_may_be_taken_apart(
    api: Api, client: StreamClient, name: str
) -> None:
    api.do("PUT", f"/stream/super-streams/%2F/{name}", {"partitions": 2})
    client.declare_publisher(1, f"{name}-0")
    assert api.ask("DELETE", f"/queues/%2F/{name}-0").status == 204
    update = client.wait_for(c.MetadataUpdate)
    assert update == c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, f"{name}-0")
    assert partitions(client, name) == (f"{name}-1",)
    assert api.ask("DELETE", f"/queues/%2F/{name}-0").status == 404
    assert api.ask("DELETE", f"/queues/%2F/{name}-1").status == 204
    assert api.ask("DELETE", f"/exchanges/%2F/{name}").status == 204
    assert api.ask("GET", f"/exchanges/%2F/{name}").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"partitions": 0},
        {"partitions": -1},
        {"partitions": 1001},
        {"partitions": 10**18},
        {"partitions": 2, "binding-keys": "a"},
        {"binding-keys": " , "},
        {"binding-keys": "a,a"},
        {"partitions": 1, "arguments": {"x-max-age": "soon"}},
    ],
)
def test_a_super_stream_that_cannot_be_is_refused(api: Api, name: str, body: dict[str, Any]) -> None:
    reply = api.ask("PUT", f"/stream/super-streams/%2F/{name}", body)
    assert (reply.status, reply.body["error"]) == (400, "bad_request")
    assert api.ask("GET", f"/exchanges/%2F/{name}").status == 404


@pytest.mark.parametrize(
    "body", [{"type": "topic"}, {"durable": False}, {"auto_delete": True}, {"internal": True}]
)
def test_exchanges_are_super_streams_and_nothing_else(api: Api, name: str, body: dict[str, Any]) -> None:
    reply = api.ask("PUT", f"/exchanges/%2F/{name}", {**EXCHANGE, **body})
    assert reply.status == 400
    assert "exchanges are super streams here" in reply.body["reason"]


def test_a_name_is_taken_by_a_stream_or_a_super_stream(api: Api, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    assert api.ask("PUT", f"/exchanges/%2F/{name}", EXCHANGE).status == 400
    api.do("PUT", f"/exchanges/%2F/{name}-x", EXCHANGE)
    assert api.ask("PUT", f"/queues/%2F/{name}-x", STREAM).status == 400
    assert api.ask("DELETE", f"/queues/%2F/{name}-x").status == 404
    assert api.ask("DELETE", f"/exchanges/%2F/{name}").status == 404


@pytest.mark.parametrize("order", ["first", -1, 1.5, True, "9" * 40, []])
def test_an_order_that_is_no_number_is_refused(api: Api, name: str, order: object) -> None:
    api.do("PUT", f"/exchanges/%2F/{name}", EXCHANGE)
    api.do("PUT", f"/queues/%2F/{name}-0", STREAM)
    assert bind(api, name, f"{name}-0", "0", order) == 400


def test_what_is_not_there_is_not_bound(api: Api, name: str) -> None:
    api.do("PUT", f"/exchanges/%2F/{name}", EXCHANGE)
    api.do("PUT", f"/queues/%2F/{name}-0", STREAM)
    assert bind(api, name, "nothing", "0") == bind(api, "nothing", f"{name}-0", "0") == 404
    assert bind(api, name, f"{name}-0", "0") == 201
    assert bind(api, name, f"{name}-0", "another key") == 400


def test_binding_asks_for_the_rights_that_rabbitmq_asks_for(api: Api, ada: Api, name: str) -> None:
    for stream in (name, f"ada-{name}"):
        api.do("PUT", f"/exchanges/%2F/{stream}", EXCHANGE)
        api.do("PUT", f"/queues/%2F/{stream}-0", STREAM)
    assert bind(ada, f"ada-{name}", f"ada-{name}-0", "0") == 201
    assert bind(ada, f"ada-{name}", f"{name}-0", "0") == 401
    assert bind(ada, name, f"ada-{name}-0", "0") == 401
    assert [each["name"] for each in ada.get("/exchanges/%2F") if name in each["name"]] == [f"ada-{name}"]
    assert ada.ask("DELETE", f"/exchanges/%2F/{name}").status == 401
    assert ada.ask("PUT", f"/stream/super-streams/%2F/{name}-2", {"partitions": 1}).status == 401
    assert ada.ask("DELETE", f"/exchanges/%2F/ada-{name}").status == 204


def test_super_streams_are_as_they_were_after_a_restart(server: Server, api: Api, name: str) -> None:
    api.do("PUT", f"/exchanges/%2F/{name}", EXCHANGE)
    for number in (1, 0):
        api.do("PUT", f"/queues/%2F/{name}-{number}", STREAM)
        bind(api, name, f"{name}-{number}", str(number), number)
    before = api.get("/bindings"), api.get("/queues"), api.get("/exchanges")
    server.kill()
    server.start()
    assert (api.get("/bindings"), api.get("/queues"), api.get("/exchanges")) == before
