"""/api/vhosts and /api/permissions: made and deleted while the server runs, with all that is in them."""

from __future__ import annotations

import pytest

from headwater.streams import commands as c
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.peers.servers import Server
from tests.stream_client import StreamClient

STREAM = {"arguments": {"x-queue-type": "stream"}}
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def vhost(api: Api, name: str) -> str:
    """One in which guest may do everything."""
    api.do("PUT", f"/vhosts/{name}")
    api.do("PUT", f"/permissions/{name}/guest", ALL)
    return name


def test_a_vhost_is_made_once_and_nobody_has_rights_in_it(api: Api, ada: Api, name: str) -> None:
    assert [api.ask("PUT", f"/vhosts/{name}").status for _ in range(2)] == [201, 204]
    shown = api.get(f"/vhosts/{name}")
    assert (shown["name"], shown["messages"], shown["default_queue_type"]) == (name, 0, "stream")
    assert api.get(f"/vhosts/{name}/permissions") == []
    assert api.ask("PUT", f"/queues/{name}/x", STREAM).status == 401
    assert name not in [each["name"] for each in ada.get("/vhosts")]
    assert ada.ask("GET", f"/vhosts/{name}").status == 401


def test_a_vhost_keeps_its_streams_apart(api: Api, server: Server, vhost: str) -> None:
    for where in ("%2F", vhost):
        api.do("PUT", f"/queues/{where}/{vhost}-x", STREAM)
    with StreamClient(server.stream_port, vhost=vhost) as client:
        client.declare_publisher(1, f"{vhost}-x")
        client.publish(1, 5)
        assert [each["vhost"] for each in api.get(f"/stream/connections/{vhost}")] == [vhost]
        assert len(api.get(f"/stream/publishers/{vhost}")) == 1
    assert api.get(f"/queues/{vhost}/{vhost}-x")["messages"] == 5
    assert api.get(f"/queues/%2F/{vhost}-x")["messages"] == 0
    assert api.get(f"/vhosts/{vhost}")["messages"] == 5
    assert [queue["name"] for queue in api.get(f"/queues/{vhost}")] == [f"{vhost}-x"]


def test_a_deleted_vhost_is_gone_with_its_logs_permissions_and_connections(
    api: Api, server: Server, vhost: str
) -> None:
    api.do("PUT", f"/exchanges/{vhost}/orders", {"type": "direct"})
    for number in range(3):
        api.do("PUT", f"/queues/{vhost}/orders-{number}", STREAM)
        api.do("POST", f"/bindings/{vhost}/e/orders/q/orders-{number}", {"routing_key": str(number)})
    api.do("PUT", f"/stream/super-streams/{vhost}/whole", {"partitions": 2})
    with StreamClient(server.stream_port, vhost=vhost) as inside, StreamClient(server.stream_port) as outside:
        assert api.ask("DELETE", f"/vhosts/{vhost}").status == 204
        told = inside.wait_for(c.CloseRequest)
        assert isinstance(told, c.CloseRequest)
        assert told.closing_reason == f"the vhost {vhost!r} was deleted"
        inside.wait_until_closed()
        assert outside.name in [each["name"] for each in api.get("/connections")]
    for path in (f"/vhosts/{vhost}", f"/queues/{vhost}", f"/permissions/{vhost}/guest"):
        assert api.ask("GET", path).status == 404
    assert api.ask("DELETE", f"/vhosts/{vhost}").status == 404
    # Whoever makes it anew finds nothing of the old one in it, also after a restart.
    api.do("PUT", f"/vhosts/{vhost}")
    server.kill()
    server.start()
    assert api.get(f"/vhosts/{vhost}/permissions") == []
    assert api.get(f"/queues/{vhost}") == api.get(f"/exchanges/{vhost}") == []


def test_the_first_vhost_stays(api: Api) -> None:
    reply = api.ask("DELETE", "/vhosts/%2F")
    assert (reply.status, reply.body["reason"]) == (400, "the vhost '/' is always there")
    assert api.get("/vhosts/%2F")["name"] == "/"


@pytest.mark.parametrize("vhost", ["%20x", "a" * 256, "%C2%AD"])
def test_names_that_no_vhost_can_have_are_refused(api: Api, vhost: str) -> None:
    reply = api.ask("PUT", f"/vhosts/{vhost}")
    assert (reply.status, reply.body["error"]) == (400, "bad_request")


def test_a_permission_given_and_taken_counts_at_once(api: Api, ada: Api, vhost: str) -> None:
    path = f"/permissions/{vhost}/ada"
    patterns = {"configure": "a|b", "write": "", "read": ".*"}
    assert [api.ask("PUT", path, patterns).status for _ in range(2)] == [201, 204]
    assert api.get(path) == {"user": "ada", "vhost": vhost, **patterns}
    assert api.get(path) in api.get("/permissions")
    assert ada.ask("PUT", f"/queues/{vhost}/a", STREAM).status == 201
    assert ada.ask("PUT", f"/queues/{vhost}/c", STREAM).status == 401
    assert [api.ask("DELETE", path).status for _ in range(2)] == [204, 404]
    assert ada.ask("GET", f"/queues/{vhost}/a").status == 401


@pytest.mark.parametrize(
    ("user", "body"),
    [
        ("nobody-of-this-name", ALL),
        ("ada", {"configure": ".*"}),
        ("ada", {**ALL, "read": "(a+)+\\1"}),
        ("ada", {**ALL, "read": 1}),
        ("ada", {}),
    ],
)
def test_a_permission_that_cannot_be_is_refused(
    api: Api, vhost: str, user: str, body: dict[str, object]
) -> None:
    reply = api.ask("PUT", f"/permissions/{vhost}/{user}", body)
    assert (reply.status, reply.body["error"]) == (400, "bad_request")
    assert api.ask("GET", f"/permissions/{vhost}/{user}").status == 404


def test_administrators_alone_change_vhosts_and_permissions(
    ada: Api, watcher: Api, api: Api, vhost: str
) -> None:
    for user in (ada, watcher):
        for method, path in (
            ("PUT", f"/vhosts/{vhost}-2"),
            ("DELETE", f"/vhosts/{vhost}"),
            ("PUT", f"/permissions/{vhost}/ada"),
            ("DELETE", f"/permissions/{vhost}/guest"),
            ("GET", "/permissions"),
        ):
            reply = user.ask(method, path, ALL)
            assert (reply.status, reply.body["reason"]) == (401, "Not administrator user")
    assert vhost in [each["name"] for each in watcher.get("/vhosts")]
    assert api.get(f"/permissions/{vhost}/guest") == {"user": "guest", "vhost": vhost, **ALL}
    assert PASSWORD not in str(api.get("/permissions"))
