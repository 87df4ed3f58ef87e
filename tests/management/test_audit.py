"""The audit log: one line for every change at every door, refused ones too, and none for looking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.streams import commands as c
from tests.http_api import Api
from tests.management.test_amqp_connections import connected
from tests.management.test_amqp_management import asking_on_links
from tests.management.test_connections import eventually
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient

STREAM = {"arguments": {"x-queue-type": "stream"}}
ADDRESS = f"{HOST}:"


class Records:
    """What the log of a server holds since a moment; the server answers before the line is read here."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._start = len(server.lines)

    def of(self, count: int) -> list[dict[str, Any]]:
        """The changes, as soon as there are so many."""
        eventually(lambda: len(self._found()) >= count)
        return self._found()

    def _found(self) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in self._server.lines[self._start :]]
        return [record["audit"] for record in records if record["logger"] == "headwater.audit"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that logs JSON."""
    folder = tmp_path_factory.mktemp("audit") / "data"
    started = Server(folder, "--log-format", "json")
    started.start()
    yield started
    started.end()


@pytest.fixture
def records(server: Server) -> Records:
    return Records(server)


@pytest.fixture
def root(server: Server) -> Api:
    return Api(server.http_port, below="")


def test_a_change_over_http_says_who_from_where_what_and_its_outcome(
    records: Records, root: Api, name: str
) -> None:
    root.do("POST", "/logs", {"name": name})
    root.do("PATCH", f"/logs/{name}", {"settings": {"max_bytes": 5}})
    root.ask("POST", "/logs", {"name": name})
    made, changed, refused = records.of(3)
    assert made.pop("peer").startswith(ADDRESS)
    assert made == {
        "user": "guest",
        "door": "http",
        "action": "POST /logs",
        "outcome": 201,
        "changed": f"made the log '{name}' of 1 partitions",
    }
    assert (changed["outcome"], changed["changed"]) == (200, '{"max_bytes":5}')
    assert (refused["outcome"], refused["action"]) == (409, "POST /logs")


def test_who_tried_without_rights_is_noted_and_who_did_not_come_in_fills_no_log(
    records: Records, server: Server, root: Api, name: str
) -> None:
    root.do("POST", "/users", {"name": name, "password": "pencil"})
    Api(server.http_port, name, "pencil", below="").ask("DELETE", "/users/guest")
    for user, below in ((None, ""), ("guest", ""), (None, "/api")):
        assert Api(server.http_port, user, "wrong", below=below).ask("DELETE", "/users/guest").status == 401
    root.ask("DELETE", "/logs/missing")
    _, forbidden, last = records.of(3)
    assert (forbidden["user"], forbidden["outcome"]) == (name, 403)
    assert last["action"] == "DELETE /logs/missing"


def test_looking_changes_nothing_and_leaves_no_line(records: Records, root: Api, server: Server) -> None:
    for path in ("/logs", "/users", "/connections", "/health", "/openapi.json", "/no/such"):
        root.ask("GET", path)
    Api(server.http_port).get("/overview")
    root.ask("DELETE", "/logs/missing")  # so that there is a line to wait for
    assert [record["action"] for record in records.of(1)] == ["DELETE /logs/missing"]


def test_changes_by_the_management_api_are_noted(records: Records, server: Server, name: str) -> None:
    api = Api(server.http_port)
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    api.do("DELETE", f"/queues/%2F/{name}")
    made, deleted = records.of(2)
    assert (made["user"], made["action"], made["outcome"]) == ("guest", f"PUT /api/queues/%2F/{name}", 201)
    assert deleted["changed"] == f"deleted the stream '{name}' in '/'"


def test_changes_by_stream_clients_are_noted(records: Records, server: Server, name: str) -> None:
    with StreamClient(server.stream_port) as client:
        for _ in range(2):
            client.ask(c.CreateRequest(client.next_id(), name, {}))
        client.ask(c.DeleteRequest(client.next_id(), name))
        made, refused, deleted = records.of(3)
        assert made == {
            "user": "guest",
            "peer": client.name,
            "door": "stream",
            "action": f"create the stream '{name}' in '/'",
            "outcome": "ok",
        }
    assert refused["outcome"] == "stream_already_exists"
    assert (deleted["action"], deleted["outcome"]) == (f"delete the stream '{name}' in '/'", "ok")


def test_changes_by_amqp_management_are_noted_and_its_reads_are_not(
    records: Records, server: Server, name: str
) -> None:
    with connected(server) as connection:
        ask = asking_on_links(connection)
        for operation in ("CREATE", "READ", "CREATE", "DELETE"):
            ask(operation, name=name)
        made, refused, deleted = records.of(3)
    assert (made["user"], made["door"], made["outcome"]) == ("guest", "amqp", 201)
    assert made["action"] == f"CREATE headwater.log '{name}' in '/'"
    assert made["peer"].endswith(f"-> {HOST}:{server.amqp_port}")
    assert (refused["outcome"], deleted["outcome"]) == (409, 204)


def test_a_log_that_a_sender_made_by_its_name_is_noted(records: Records, server: Server, name: str) -> None:
    with connected(server) as connection:
        connection.create_sender(name)
        (made,) = records.of(1)
    assert (made["user"], made["action"], made["outcome"]) == (
        "guest",
        f"auto_create '{name}' in '/'",
        "created",
    )


def test_a_plain_line_holds_the_same_and_peers_cannot_end_it(tmp_path: Path) -> None:
    plain = Server(tmp_path / "data")
    plain.start()
    try:
        Api(plain.http_port, below="").ask("DELETE", "/logs/a%0Auser=admin%20outcome=204")
        eventually(lambda: any(" audit " in line for line in plain.lines))
    finally:
        plain.end()
    (line,) = [line for line in plain.lines if " audit " in line]
    assert " audit user=guest peer=127.0.0.1:" in line
    assert ' door=http action="DELETE /logs/a' in line
    assert line.endswith("outcome=403")
