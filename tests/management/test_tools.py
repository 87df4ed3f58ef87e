"""The calls of test suites and of users' tools, one after the other, against what the server holds."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.http_api import Api
from tests.stream_client import StreamClient

STREAM = {"arguments": {"x-queue-type": "stream"}}


@pytest.mark.clause("Test suite")
def test_every_call_of_test_suites_and_tools_is_answered(api: Api, client: StreamClient, name: str) -> None:
    api.do("PUT", f"/vhosts/{name}")
    assert name in [vhost["name"] for vhost in api.get("/vhosts")]
    api.do("DELETE", f"/vhosts/{name}")

    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    assert api.get(f"/queues/%2F/{name}")["name"] == name
    assert name in [queue["name"] for queue in api.get("/queues")]
    api.do("PUT", f"/exchanges/%2F/{name}-all", {"type": "direct", "arguments": {"x-super-stream": True}})
    binding = {"routing_key": "a", "arguments": {"x-stream-partition-order": 0}}
    api.do("POST", f"/bindings/%2F/e/{name}-all/q/{name}", binding)

    client.declare_publisher(1, name, "ada")
    client.publish(1, 3)
    client.subscribe(7, name)
    (publisher,) = api.get(f"/stream/publishers/%2F/{name}")
    assert (publisher["publisher_id"], publisher["reference"]) == (1, "ada")
    (consumer,) = api.get(f"/stream/consumers/%2F/{name}")
    assert consumer["subscription_id"] == 7
    assert [each["queue"]["name"] for each in api.get("/consumers") if each["queue"]["name"] == name] == [
        name
    ]

    mine = [each for each in api.get("/connections") if each["name"] == client.name]
    assert [each["client_properties"]["connection_name"] for each in mine] == ["a name"]
    (node,) = api.get("/nodes")
    assert node["running"]
    assert api.get("/overview")["object_totals"]["connections"] >= 1

    api.do("DELETE", f"/exchanges/%2F/{name}-all")
    api.do("DELETE", f"/queues/%2F/{name}")
    assert api.ask("GET", f"/queues/%2F/{name}").status == 404
    api.do("DELETE", f"/connections/{quote(client.name)}")
    client.wait_until_closed()
