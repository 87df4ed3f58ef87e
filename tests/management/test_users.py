"""/users: what administrators do with users over HTTP; a password goes in and never comes out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_logs import word
from tests.peers.servers import Server
from tests.stream_client import StreamClient

READS_ALL = {"configure": "", "write": "", "read": ".*"}


def test_a_user_is_made_listed_shown_and_deleted(root: Api, server: Server, name: str) -> None:
    wanted = {"name": name, "password": PASSWORD, "roles": ["monitor"], "permissions": {"/": {"read": ".*"}}}
    reply = root.ask("POST", "/users", wanted)
    assert (reply.status, reply.headers["Location"]) == (201, f"/users/{name}")
    assert reply.body == {"name": name, "roles": ["monitor"], "permissions": {"/": READS_ALL}}
    assert root.get(f"/users/{name}") == reply.body
    assert reply.body in root.get("/users?limit=1000")["users"]
    assert Api(server.http_port, name, PASSWORD, below="").ask("GET", "/logs").status == 200
    assert root.do("DELETE", f"/users/{name}").status == 204
    assert word(root.ask("GET", f"/users/{name}")) == "unknown-user"
    assert Api(server.http_port, name, PASSWORD, below="").ask("GET", "/logs").status == 401


def test_a_user_made_over_http_comes_in_at_another_door(root: Api, server: Server, name: str) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    root.do("POST", "/users", {"name": name, "password": PASSWORD, "permissions": {"/": everything}})
    with StreamClient(server.stream_port, name, PASSWORD) as client:
        (mine,) = [
            each for each in root.get("/connections?limit=1000")["connections"] if each["user"] == name
        ]
        assert mine["name"] == client.name


def test_changes_leave_alone_what_they_do_not_name(root: Api, server: Server, name: str) -> None:
    root.do("POST", "/users", {"name": name, "password": "first", "permissions": {"/": {"read": ".*"}}})
    path = f"/users/{name}"
    assert root.do("PATCH", path, {"roles": ["monitor", "admin"]}).body == {
        "name": name,
        "roles": ["admin", "monitor"],
        "permissions": {"/": READS_ALL},
    }
    assert root.do("PATCH", path, {"password": "second"}).body["roles"] == ["admin", "monitor"]
    assert Api(server.http_port, name, "first", below="").ask("GET", "/logs").status == 401
    assert Api(server.http_port, name, "second", below="").ask("GET", "/users").status == 200
    assert root.do("PATCH", path, {"permissions": {"/": None}}).body["permissions"] == {}
    assert root.do("PATCH", path, {"roles": []}).body["roles"] == []
    assert root.do("PATCH", path, {}).body == root.get(path)


def test_a_change_of_which_a_part_is_refused_changes_nothing(root: Api, server: Server, name: str) -> None:
    root.do("POST", "/users", {"name": name, "password": "first"})
    path = f"/users/{name}"
    for change, status, refusal in (
        ({"password": "second", "permissions": {"nowhere": {"read": ".*"}}}, 404, "unknown-vhost"),
        ({"password": "second", "permissions": {"/": {"read": "(a"}}}, 422, "invalid"),
        ({"password": "\x00", "roles": ["admin"]}, 422, "invalid"),
        ({"password": "", "roles": ["admin"]}, 400, "bad-request"),
        ({"roles": ["king"]}, 400, "bad-request"),
        ({"name": "other"}, 400, "bad-request"),
    ):
        reply = root.ask("PATCH", path, change)
        assert (reply.status, word(reply)) == (status, refusal), change
    assert root.get(path) == {"name": name, "roles": [], "permissions": {}}
    assert Api(server.http_port, name, "first", below="").ask("GET", "/logs").status == 200


@pytest.mark.parametrize(
    ("body", "status", "refusal"),
    [
        ({"name": "guest", "password": "x"}, 409, "user-exists"),
        ({"name": "a:b", "password": "x"}, 422, "invalid"),
        ({"name": " a", "password": "x"}, 422, "invalid"),
        ({"name": "x"}, 400, "bad-request"),
        ({"name": "x", "password": "x", "permissions": {"nowhere": {}}}, 404, "unknown-vhost"),
        ({"name": "x", "password": "x", "permissions": {"/": {"read": r"(a)\1"}}}, 422, "invalid"),
        ({"name": "x", "password": "p" * 1025}, 400, "bad-request"),
        ({"name": "x", "password": 7}, 400, "bad-request"),
    ],
)
def test_a_user_that_cannot_be_is_refused_and_not_made(
    root: Api, body: Any, status: int, refusal: str
) -> None:
    before = root.get("/users?limit=1000")
    reply = root.ask("POST", "/users", body)
    assert (reply.status, word(reply)) == (status, refusal)
    assert root.get("/users?limit=1000") == before


def test_whoever_is_missing_is_said_to_be(root: Api) -> None:
    for method, body in (("GET", None), ("PATCH", {"roles": []}), ("DELETE", None)):
        assert word(root.ask(method, "/users/nobody-of-this-name", body)) == "unknown-user"


def test_users_are_the_business_of_administrators_alone(
    ada_at_root: Api, watcher_at_root: Api, nobody_at_root: Api
) -> None:
    for api in (ada_at_root, watcher_at_root, nobody_at_root):
        for method, path, body in (
            ("GET", "/users", None),
            ("POST", "/users", {"name": "x", "password": "x", "roles": ["admin"]}),
            ("GET", "/users/guest", None),
            ("PATCH", "/users/guest", {"password": "x"}),
            ("DELETE", "/users/guest", None),
        ):
            reply = api.ask(method, path, body)
            assert (reply.status, word(reply)) == (403, "forbidden"), (method, path)


def test_a_password_stands_in_no_answer_and_in_no_line_of_the_log(
    root: Api, server: Server, name: str
) -> None:
    secret = f"secret-of-{name}"
    answers = [
        root.ask("POST", "/users", {"name": name, "password": secret}),
        root.ask("POST", "/users", {"name": name, "password": secret}),
        root.ask("POST", "/users", {"name": name, "password": [secret]}),
        root.ask("PATCH", f"/users/{name}", {"password": secret, "roles": ["monitor"]}),
        root.ask("PATCH", f"/users/{name}", {"password": secret, "roles": ["king"]}),
        root.ask("GET", f"/users/{name}"),
        root.ask("GET", "/users"),
    ]
    assert [answer.status for answer in answers] == [201, 409, 400, 200, 400, 200, 200]
    assert [answer for answer in answers if secret in str(answer)] == []
    assert [line for line in server.lines if secret in line] == []
