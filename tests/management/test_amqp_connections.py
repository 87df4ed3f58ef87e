"""/api/connections with clients of the AMQP door: what they look like beside the others, and how one is sent away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from proton import ConnectionException
from proton.utils import BlockingConnection

from headwater.server.amqp.limits import Limits
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_connections import encoded, eventually, named
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient


@contextlib.contextmanager
def connected(
    server: Server, user: str = "guest", password: str = "guest", host: str | None = None
) -> Iterator[BlockingConnection]:
    """An AMQP client, which also answers a close before it goes."""
    url = f"amqp://{user}:{password}@{HOST}:{server.amqp_port}"
    connection = BlockingConnection(url, timeout=10, allowed_mechs="PLAIN", virtual_host=host)
    try:
        yield connection
    finally:
        connection.close()


def name_of(api: Api, connection: BlockingConnection) -> str:
    """Its name, which the client does not know, by its container id, which it does."""
    container = connection.container.container_id
    (found,) = [
        each
        for each in api.get("/connections")
        if each["client_properties"].get("container_id") == container and each["state"] == "running"
    ]
    return str(found["name"])


@pytest.fixture
def amqp(server: Server) -> Iterator[BlockingConnection]:
    """An AMQP client of guest."""
    with connected(server) as connection:
        yield connection


def test_amqp_clients_are_listed_beside_those_of_streams(
    api: Api, server: Server, client: StreamClient, amqp: BlockingConnection
) -> None:
    amqp.create_sender("listed")
    name = name_of(api, amqp)
    (shown,) = named(api.get("/connections"), name)
    expected = {
        "user": "guest",
        "vhost": "/",
        "peer_host": HOST,
        "host": HOST,
        "port": server.amqp_port,
        "protocol": "AMQP 1-0",
        "state": "running",
        "ssl": False,
        "auth_mechanism": "PLAIN",
        "user_provided_name": amqp.container.container_id,
        "channels": 1,
    }
    assert {key: shown[key] for key in expected} == expected
    assert int(str(shown["frame_max"])) <= Limits().frame_size_bytes_max
    assert int(str(shown["recv_oct"])) > 100
    assert int(str(shown["send_oct"])) > 100
    assert named(api.get("/connections"), client.name)
    assert api.get(f"/connections/{encoded(name)}")["name"] == name
    assert named(api.get("/vhosts/%2F/connections"), name)
    assert api.get("/overview")["object_totals"]["connections"] == len(api.get("/connections"))


def test_lists_of_the_stream_door_leave_amqp_clients_out(
    api: Api, client: StreamClient, amqp: BlockingConnection
) -> None:
    name = name_of(api, amqp)
    listed = [each["name"] for each in api.get("/stream/connections")]
    assert client.name in listed
    assert name not in listed
    assert api.ask("GET", f"/stream/connections/%2F/{encoded(name)}").status == 404
    assert api.ask("DELETE", f"/stream/connections/%2F/{encoded(name)}").status == 404
    assert api.ask("GET", f"/stream/connections/%2F/{encoded(name)}/consumers").status == 404


def test_a_closed_amqp_client_is_told_why(api: Api, server: Server) -> None:
    with connected(server) as victim:
        path = f"/connections/{encoded(name_of(api, victim))}"
        assert api.ask("DELETE", path, headers={"X-Reason": "go away"}).status == 204
        with pytest.raises(ConnectionException, match="go away") as told:
            victim.wait(lambda: False)
        assert "amqp:connection:forced" in str(told.value)
        assert api.get(path)["state"] == "closing"
    eventually(lambda: api.ask("GET", path).status == 404)


def test_users_see_and_close_their_own_amqp_connections(
    server: Server, api: Api, ada: Api, watcher: Api, amqp: BlockingConnection
) -> None:
    with connected(server, "ada", PASSWORD) as own:
        name = name_of(api, own)
        assert [each["name"] for each in ada.get("/connections")] == [name]
        foreign = f"/connections/{encoded(name_of(api, amqp))}"
        assert ada.ask("GET", foreign).status == ada.ask("DELETE", foreign).status == 401
        assert watcher.get(foreign)["user"] == "guest"
        assert watcher.ask("DELETE", foreign).status == 401
        assert ada.ask("DELETE", f"/connections/{encoded(name)}").status == 204
        with pytest.raises(ConnectionException, match="Closed via management plugin"):
            own.wait(lambda: False)


def test_a_deleted_vhost_closes_its_amqp_connections(
    server: Server, api: Api, amqp: BlockingConnection, name: str
) -> None:
    api.do("PUT", f"/vhosts/{name}")
    api.do("PUT", f"/permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    with connected(server, host=f"vhost:{name}") as inside:
        assert [each["protocol"] for each in api.get(f"/vhosts/{name}/connections")] == ["AMQP 1-0"]
        api.do("DELETE", f"/vhosts/{name}")
        with pytest.raises(ConnectionException, match="was deleted"):
            inside.wait(lambda: False)
        amqp.create_sender("still-there")
