"""What events over HTTP may cost: bodies that are being received, streams that nobody may read any more."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.server.http.events.publishing import BODIES_BYTES_MAX
from headwater.server.security.permissions import Permission
from tests.event_source import EventSource, event, publish, word
from tests.http_api import Api
from tests.peers.servers import HOST, Server
from tests.security_material import catalogue

BODY_BYTES = 4 << 20


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Server]:
    """A server whose heart beats fast, with a user `ada`."""
    folder = tmp_path / "data"
    folder.mkdir()
    with catalogue(folder) as users:
        permissions = {"/": Permission("", "", ".*")}
        asyncio.run(users.add_user("ada", "pencil", permissions=permissions))
    config = tmp_path / "headwater.toml"
    config.write_text("http_event_heartbeat_s = 0.02\n")
    started = Server(folder, "--config", str(config))
    started.start()
    yield started
    started.end()


def test_who_comes_while_too_much_is_being_received_is_to_come_again(
    server: Server, root: Api, name: str
) -> None:
    head = f"POST /logs/{name}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    begun = f"{head}Content-Type: text/plain\r\nContent-Length: {BODY_BYTES}\r\n\r\nbegun".encode()
    clients = [
        socket.create_connection((HOST, server.http_port)) for _ in range(BODIES_BYTES_MAX // BODY_BYTES)
    ]
    try:
        for client in clients:
            client.sendall(begun)
        while (reply := publish(root, name, [event(1)])).status == 200:
            pass
        assert (reply.status, word(reply), reply.headers["Retry-After"]) == (503, "service-unavailable", "1")
    finally:
        for client in clients:
            client.close()
    while (reply := publish(root, name, [event(2)])).status != 200:
        assert reply.status == 503


def test_a_stream_shows_that_it_is_alive_and_ends_with_the_right_to_read(quick: Server) -> None:
    root = Api(quick.http_port, below="")
    publish(root, "log", [event(1)])
    with EventSource(quick.http_port, "/logs/log/events", user="ada", password="pencil") as source:
        (first,) = source.take(1)
        assert first.event["id"] == "1"
        root.do("PATCH", "/users/ada", {"permissions": {"/": None}})
        (end,) = list(source)
        assert (end.type, "may no longer read" in end.data) == ("end", True)
    with EventSource(quick.http_port, "/logs/log/events?offset=next") as idle:
        events = iter(idle)
        publish(root, "log", [event(2)])
        while not idle.comments:
            publish(root, "log", [event(3)])
            next(events)
