"""/connections: the clients of all doors over HTTP, who sees which, and closing them."""

from __future__ import annotations

from urllib.parse import quote

from headwater.streams import commands as c
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected
from tests.management.test_logs import word
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient


def path_of(name: str) -> str:
    return f"/connections/{quote(name, safe='')}"


def test_a_connection_tells_who_is_at_its_end(root: Api, client: StreamClient) -> None:
    shown = root.get(path_of(client.name))
    assert shown in root.get("/connections?limit=1000")["connections"] or shown["received_bytes"] > 0
    assert shown["properties"]["connection_name"] == shown["given_name"] == "a name"
    told = {key: shown[key] for key in ("user", "vhost", "protocol", "state", "peer", "is_encrypted")}
    assert told == {
        "user": "guest",
        "vhost": "/",
        "protocol": "stream",
        "state": "running",
        "peer": HOST,
        "is_encrypted": False,
    }
    assert shown["sent_bytes"] > 100


def test_clients_of_all_doors_are_in_one_list_in_pages(
    root: Api, server: Server, client: StreamClient
) -> None:
    with connected(server):
        listed = root.get("/connections?limit=1000")["connections"]
        assert {"stream", "AMQP 1-0"} <= {each["protocol"] for each in listed}
        first = root.get("/connections?limit=1")
        second = root.get(f"/connections?limit=1000&after={quote(first['next'])}")
        joined = [each["name"] for each in first["connections"] + second["connections"]]
        assert joined == sorted(joined) == [each["name"] for each in listed]
        assert client.name in joined


def test_an_administrator_closes_a_connection_with_a_reason(root: Api, client: StreamClient) -> None:
    assert root.do("DELETE", f"{path_of(client.name)}?reason=maintenance").status == 204
    close = client.wait_for(c.CloseRequest)
    assert isinstance(close, c.CloseRequest)
    assert close.closing_reason == "maintenance"
    client.wait_until_closed()
    assert word(root.ask("GET", path_of(client.name))) == "unknown-connection"


def test_everybody_sees_and_closes_the_own_connections_alone(
    ada_at_root: Api, watcher_at_root: Api, server: Server, client: StreamClient
) -> None:
    with StreamClient(server.stream_port, "ada", PASSWORD) as own:
        assert [each["name"] for each in ada_at_root.get("/connections")["connections"]] == [own.name]
        for method in ("GET", "DELETE"):
            assert word(ada_at_root.ask(method, path_of(client.name))) == "unknown-connection"
        assert watcher_at_root.get(path_of(client.name))["user"] == "guest"
        refused = watcher_at_root.ask("DELETE", path_of(client.name))
        assert (refused.status, word(refused)) == (403, "forbidden")
        assert ada_at_root.do("DELETE", path_of(own.name)).status == 204
        own.wait_until_closed()
    assert watcher_at_root.get(path_of(client.name))["state"] == "running"
