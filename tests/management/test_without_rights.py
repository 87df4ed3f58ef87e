"""A user without rights walks all there is: endpoints, AMQP addresses and operations, commands; and gets nothing.

What there is, is taken from what the server, the documents and the command line say of themselves: whatever comes new
is walked too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from proton import ConnectionException, Delivery, Message
from proton.reactor import DurableSubscription, LinkOption
from proton.utils import BlockingConnection, LinkDetached, SendException
from typer.testing import CliRunner

from headwater.cli.main import app
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected
from tests.management.test_amqp_management import (
    CONNECTION,
    GROUP,
    LOG,
    SELF,
    SUBSCRIPTION,
    Ask,
    asking_on_links,
    code,
    rows,
)
from tests.management.test_logs import made, word
from tests.peers.consuming import Durable, detach, receiver
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient

ADDRESSES = (Path(__file__).parents[2] / "docs" / "amqp.md").read_text("utf-8")
SECRET = "secret"
GROUP_NAME = "group-of-guest"
STRANGER = "stranger"
REFUSED = "unauthorized-access"

PUBLIC = {"get_health", "get_ready", "get_live", "get_document"}
EMPTY = {
    "list_logs": "logs",
    "list_connections": "connections",
    "list_groups": "groups",
    "list_subscriptions": "subscriptions",
}
"""Lists of what a user sees: of somebody without rights nothing."""
UNSEEN = {
    "get_connection": "unknown-connection",
    "close_connection": "unknown-connection",
    "get_subscription": "unknown-subscription",
    "reset_subscription": "unknown-subscription",
    "end_subscription": "unknown-subscription",
}
"""What a user does not see is not there."""
BODIES = {
    "create_log": {"name": SECRET + "-other"},
    "create_group": {"log": SECRET, "name": GROUP_NAME},
    "reset_subscription": {"to": "earliest"},
}
"""Of operations whose answer depends on what is asked for."""

LOCAL_COMMANDS = {"serve", "check", "demo"}
"""They work on a folder, and ask no server."""
OVER_HTTP = {
    "log create": [f"{SECRET}-other"],
    "log info": [SECRET],
    "log change": [SECRET, "--set", "max_bytes=5"],
    "log truncate": [SECRET],
    "log delete": [SECRET],
    "group info": [SECRET, GROUP_NAME],
    "group create": [SECRET, "group-of-stranger"],
    "group reset": [SECRET, GROUP_NAME, "--to", "latest"],
    "group end": [SECRET, GROUP_NAME],
    "user add": ["somebody", "--role", "admin", "--password-file", "{password}"],
    "user list": [],
    "user delete": ["guest"],
    "user password": ["guest", "--password-file", "{password}"],
    "user roles": [STRANGER, "admin"],
    "user permissions": [STRANGER, "--read", ".*"],
}
LISTS = {"log": "logs", "group": "groups", "subscription": "subscriptions"}
UNSEEN_SUBSCRIPTION = {f"subscription {verb}" for verb in ("info", "reset", "end")}
OVER_STREAMS = {
    "publish": [SECRET, "--file", "{password}"],
    "tail": [f"{SECRET}-0", "--no-follow"],
    "bench": ["publish", "--seconds", "0.1", "--stream", f"{SECRET}-0"],
}


@pytest.fixture(scope="module", autouse=True)
def secret(server: Server) -> Iterator[None]:
    """A log of guest's with events, and a user who may come in, and whose rights cover nothing that is there."""
    root = Api(server.http_port, below="")
    made(root, SECRET, partitions=2)
    nothing = {"/": {"configure": "mine-.*", "write": "mine-.*", "read": "mine-.*"}}
    root.do("POST", "/users", {"name": STRANGER, "password": PASSWORD, "permissions": nothing})
    root.do("POST", "/groups", {"log": SECRET, "name": GROUP_NAME, "start": "earliest"})
    group = root.get(f"/groups/{SECRET}/{GROUP_NAME}")["partitions"]
    with connected(server) as guest:
        detach(receiver(guest, SECRET, "of guest", Durable()))
    with StreamClient(server.stream_port) as client:
        client.declare_publisher(1, f"{SECRET}-0")
        client.publish(1, 3)
        yield
    assert [each["position"] for each in root.get(f"/groups/{SECRET}/{GROUP_NAME}")["partitions"]] == [
        each["position"] for each in group
    ], "something was reset"
    assert root.get(f"/subscriptions/{subscription_of_guest(root)}")["lag"] == 3
    log = root.get(f"/logs/{SECRET}")
    assert (log["event_count"], log["settings"]["max_bytes"]) == (3, None), "something was changed"
    user = {"name": STRANGER, "roles": [], "permissions": nothing}
    assert root.get(f"/users/{STRANGER}") == user
    root.do("DELETE", f"/users/{STRANGER}")
    root.do("DELETE", f"/logs/{SECRET}")


def subscription_of_guest(root: Api) -> str:
    (found,) = root.get(f"/subscriptions?log={SECRET}")["subscriptions"]
    return str(found["id"])


@pytest.fixture(scope="module")
def document(server: Server) -> Any:
    return Api(server.http_port, below="").get("/openapi.json")


def operations(server: Server, document: Any) -> Iterator[tuple[str, str, Any]]:
    """Method, path with something in place of its parts, and what is said of it."""
    subscription = subscription_of_guest(Api(server.http_port, below=""))
    parts = {"log": SECRET, "user": "guest", "group": GROUP_NAME, "subscription": subscription}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), re.sub(r"{(\w+)}", lambda part: parts.get(part[1], "x"), path), operation


def test_every_endpoint_refuses_who_has_no_rights(server: Server, document: Any) -> None:
    walked = set()
    for user in (STRANGER, "nobody"):
        api = Api(server.http_port, user, PASSWORD, below="")
        for method, path, operation in operations(server, document):
            id_ = operation["operationId"]
            reply = api.ask(method, path, BODIES.get(id_, {}) if "requestBody" in operation else None)
            walked.add(id_)
            if id_ in PUBLIC:
                assert reply.status == 200, id_
            elif id_ in EMPTY:
                assert (reply.status, reply.body[EMPTY[id_]]) == (200, []), id_
            elif id_ in UNSEEN:
                assert (reply.status, word(reply)) == (404, UNSEEN[id_]), id_
            else:
                assert (reply.status, word(reply)) == (403, "forbidden"), (id_, reply)
    assert walked > PUBLIC | EMPTY.keys() | UNSEEN.keys()


def test_every_endpoint_but_the_public_ones_wants_to_know_who_asks(server: Server, document: Any) -> None:
    for method, path, operation in operations(server, document):
        for api in (
            Api(server.http_port, None, below=""),
            Api(server.http_port, STRANGER, "wrong", below=""),
        ):
            reply = api.ask(method, path, {} if "requestBody" in operation else None)
            if operation["operationId"] in PUBLIC:
                assert operation["security"] == []
                assert reply.status == 200
            else:
                assert operation["security"] != []
                assert (reply.status, word(reply)) == (401, "not-authorized"), path


def test_who_has_no_permission_in_a_vhost_does_not_come_in_at_all(server: Server) -> None:
    with pytest.raises(ConnectionException):
        BlockingConnection(
            f"amqp://nobody:{PASSWORD}@{HOST}:{server.amqp_port}", timeout=10, allowed_mechs="PLAIN"
        )


def addresses() -> list[str]:
    """Those of the table in the manual."""
    table = ADDRESSES.partition("## Addresses")[2].partition("\n\n")[2].partition("\n\n")[0]
    return [row.split("|")[1].strip().strip("`") for row in table.splitlines()[2:]]


def test_every_amqp_address_refuses_who_has_no_rights(server: Server) -> None:
    named = [address for address in addresses() if "orders" in address]
    rest = set(addresses()) - set(named)
    assert named
    assert rest == {"none (null target)", "dynamic", "$management"}, "walk what is new, too"
    durable: LinkOption = DurableSubscription()
    for address in [each.replace("orders", SECRET) for each in named]:
        for options in (None, durable):
            with (
                connected(server, STRANGER, PASSWORD) as stranger,
                pytest.raises(LinkDetached, match=REFUSED),
            ):
                stranger.create_receiver(address, options=options)
        with connected(server, STRANGER, PASSWORD) as stranger:
            refusal = "not-allowed" if address.endswith("$info") else REFUSED
            with pytest.raises(LinkDetached, match=refusal):
                stranger.create_sender(address)


def test_neither_a_relay_nor_a_node_of_its_own_is_a_way_in(server: Server) -> None:
    with connected(server, STRANGER, PASSWORD) as stranger:
        relay = stranger.create_sender(None)
        with pytest.raises(SendException) as caught:
            relay.send(Message(address=SECRET, body="a message"))
        assert caught.value.state == Delivery.REJECTED
        with pytest.raises(LinkDetached, match=REFUSED):
            stranger.create_receiver(None, dynamic=True)


@pytest.fixture
def asks(server: Server) -> Iterator[Ask]:
    with connected(server, STRANGER, PASSWORD) as stranger:
        yield asking_on_links(stranger)


def test_every_operation_of_amqp_management_refuses_who_has_no_rights(
    server: Server, asks: Ask, root: Api
) -> None:
    of_guest = next(
        each["name"] for each in root.get("/connections?limit=1000")["connections"] if each["user"] == "guest"
    )
    named = {
        LOG: {"name": SECRET},
        CONNECTION: {"name": of_guest},
        GROUP: {"name": f"{SECRET}/{GROUP_NAME}"},
        SUBSCRIPTION: {"identity": subscription_of_guest(root)},
    }
    found: dict[str, dict[str, Any]] = asks("GET-OPERATIONS", SELF, name="self").body
    assert set(found) == {*named, SELF}, "walk what is new, too"
    for type_, name in named.items():
        for operation in found[type_]:
            answer = asks(operation, type_, {}, **name)
            assert code(answer) in ((403,) if type_ in (LOG, GROUP) else (403, 404)), (
                type_,
                operation,
                answer,
            )
    for operation in found[SELF]:
        assert operation in {"READ", "QUERY"} or operation.startswith("GET-"), "walk what is new, too"
    seen = rows(asks("QUERY", SELF, {}, name="self", entityType=LOG))
    assert [row["name"] for row in seen if row["name"].startswith(SECRET)] == []
    for type_ in (GROUP, SUBSCRIPTION):
        assert rows(asks("QUERY", SELF, {}, name="self", entityType=type_)) == []
    others = rows(asks("QUERY", SELF, {}, name="self", entityType=CONNECTION))
    assert {row["user"] for row in others} <= {STRANGER}


def leaves(command: Any, *path: str) -> Iterator[str]:
    """The commands that do something, by their words."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path)
    else:
        for name, each in below.items():
            yield from leaves(each, *path, name)


def test_every_command_refuses_who_has_no_rights(server: Server, root: Api, tmp_path: Path) -> None:
    walked = {**OVER_HTTP, **OVER_STREAMS}
    assert set(leaves(typer.main.get_command(app))) == (
        walked.keys() | LOCAL_COMMANDS | UNSEEN_SUBSCRIPTION | {f"{of} list" for of in LISTS}
    )
    password = tmp_path / "password"
    password.write_text(PASSWORD, "ascii")
    http = ["--url", f"http://{HOST}:{server.http_port}", "--login", STRANGER]
    streams = ["--stream-port", str(server.stream_port), "--user", STRANGER]
    for words, arguments in walked.items():
        is_http = words in OVER_HTTP
        who = [*http, "--login-password-file"] if is_http else [*streams, "--password-file"]
        given = [each.format(password=password) for each in arguments]
        ran = CliRunner().invoke(app, [*words.split(), *given, *who, str(password)])
        assert ran.exit_code == 1, (words, ran.output)
        said = "may not" if is_http else "the user may not do this"
        assert said in ran.stderr, (words, ran.stderr)
    for of, what in LISTS.items():
        command = [of, "list", "--json", *http, "--login-password-file", str(password)]
        listed = CliRunner().invoke(app, command)
        assert (listed.exit_code, listed.stdout) == (0, f'{{"{what}": []}}\n')
    id_ = subscription_of_guest(root)
    for verb, *arguments in (("info", id_), ("reset", id_, "--to", "latest"), ("end", id_)):
        given = ["subscription", verb, *arguments, *http, "--login-password-file", str(password)]
        ran = CliRunner().invoke(app, given)
        assert (ran.exit_code, "there is no subscription" in ran.stderr) == (1, True), ran.stderr
