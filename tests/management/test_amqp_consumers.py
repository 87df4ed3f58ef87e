"""Groups and subscriptions at `$management` of the AMQP door, asked by Qpid Proton."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proton.utils import BlockingConnection

from headwater.server.management.consumer_shapes import GroupShown, SubscriptionShown
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected
from tests.management.test_amqp_management import (
    GROUP,
    LOG,
    SELF,
    SUBSCRIPTION,
    Ask,
    asking,
    asking_on_links,
    code,
    rows,
    words,
)
from tests.management.test_groups import ADA
from tests.management.test_logs import made
from tests.peers.consuming import (
    Durable,
    InGroup,
    Shared,
    detach,
    first,
    last_words,
    publish,
    receive,
    receiver,
)
from tests.peers.servers import Server


@pytest.fixture(scope="module")
def guest(server: Server) -> Iterator[Ask]:
    """An administrator."""
    with connected(server) as connection:
        yield asking(connection)


@pytest.fixture
def amqp(server: Server) -> Iterator[BlockingConnection]:
    with connected(server) as connection:
        yield connection


def identity_of(ask: Ask, log: str) -> str:
    """Of the one subscription to a log."""
    (found,) = [row for row in rows(ask("QUERY", SELF, entityType=SUBSCRIPTION)) if row["log"] == log]
    return str(found["identity"])


def test_a_group_is_made_read_reset_and_ended(
    guest: Ask, root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, partitions=2)
    publish(amqp, f"{name}-0", 0, 8)
    group = f"{name}/billing"
    created = guest("CREATE", GROUP, {"start": "earliest"}, name=group)
    assert (code(created), created.body["lag"]) == (201, 8)
    taking = receiver(amqp, name, "r", InGroup("billing", "0"))
    receive(taking, 8, accepted=6)
    read = guest("READ", GROUP, identity=group).body
    shown: dict[str, Any] = root.get(f"/groups/{group}")
    assert {**shown, "name": group, "identity": group, "type": GROUP, "group": "billing"} == {
        **read,
        "id": group,
    }
    assert (read["partitions"][0]["position"], read["members"][0]["unsettled_count"]) == (6, 2)
    reset = guest("RESET", GROUP, {"to": 3, "partition": "0"}, name=group)
    assert (code(reset), reset.body["lag"], reset.body["members"]) == (200, 5, [])
    assert "amqp:link:detach-forced" in last_words(taking)
    taking = receiver(amqp, name, "r", InGroup("billing", "0"))
    assert receive(taking, 2) == [3, 4]
    deleted = guest("DELETE", GROUP, name=group)
    assert (code(deleted), deleted.body) == (204, {})
    assert "amqp:resource-deleted" in last_words(taking)
    assert [code(guest(each, GROUP, name=group)) for each in ("READ", "DELETE")] == [404, 404]


def test_a_subscription_is_read_reset_and_ended_by_its_identity(
    guest: Ask, root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(amqp, name, 0, 8)
    taking = receiver(amqp, name, "audit", Durable(), first())
    receive(taking, 8)
    identity = identity_of(guest, name)
    read = guest("READ", SUBSCRIPTION, identity=identity).body
    assert {**root.get(f"/subscriptions/{identity}"), "identity": identity, "type": SUBSCRIPTION} == {
        **read,
        "id": identity,
    }
    reset = guest("RESET", SUBSCRIPTION, {"to": "earliest"}, identity=identity)
    assert (code(reset), reset.body["lag"]) == (200, 8)
    assert "amqp:link:detach-forced" in last_words(taking)
    assert receive(receiver(amqp, name, "audit", Durable(), first()), 2) == [0, 1]
    assert code(guest("DELETE", SUBSCRIPTION, identity=identity)) == 204
    assert code(guest("READ", SUBSCRIPTION, identity=identity)) == 404


def test_what_is_not_durable_is_not_reset(guest: Ask, root: Api, amqp: BlockingConnection, name: str) -> None:
    made(root, name)
    receiver(amqp, name, "s", Shared())
    answer = guest("RESET", SUBSCRIPTION, {"to": "earliest"}, identity=identity_of(guest, name))
    assert (code(answer), "is not durable" in words(answer)) == (409, True)


def test_queries_give_what_is_asked_for_of_both_in_parts(
    guest: Ask, root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(amqp, name, 0, 3)
    for number in range(4):
        guest("CREATE", GROUP, {"start": number}, name=f"{name}/g{number}")
    wanted = {"attributeNames": ["name", "lag"]}
    found = [row for row in rows(guest("QUERY", SELF, wanted, entityType=GROUP)) if name in row["name"]]
    assert found == [{"name": f"{name}/g{number}", "lag": 3 - number} for number in range(4)]
    every = rows(guest("QUERY", SELF, wanted, entityType=GROUP))
    for at, row in enumerate(every):
        assert rows(guest("QUERY", SELF, wanted, entityType=GROUP, offset=at, count=1)) == [row]
    attributes = guest("GET-ATTRIBUTES", SELF).body
    fields = set(GroupShown.__struct_fields__) - {"id"} | {"identity", "type", "group"}
    assert set(attributes[GROUP]) == fields
    assert set(attributes[SUBSCRIPTION]) == set(SubscriptionShown.__struct_fields__) - {"id"} | {
        "identity",
        "type",
    }


@pytest.mark.parametrize(
    ("operation", "body", "status", "told"),
    [
        ("RESET", {}, 400, "say earliest, latest, an offset"),
        ("RESET", {"to": "soon"}, 400, "say earliest, latest, an offset"),
        ("RESET", {"to": -1}, 400, "say earliest, latest, an offset"),
        ("RESET", {"to": True}, 400, "say earliest, latest, an offset"),
        ("RESET", {"to": 7}, 400, "there is no 7 yet"),
        ("RESET", {"to": 1, "partition": 0}, 400, "expected the id of one"),
        ("RESET", {"to": 1, "partition": "9"}, 400, "has no partition '9'"),
        ("RESET", {"to": 1, "else": 1}, 400, "to, partition"),
        ("RESET", "text", 400, "map"),
        ("CREATE", {}, 409, "reset it, or end it first"),
        ("CREATE", {"start": "soon"}, 400, "say earliest, latest, an offset"),
        ("CREATE", {"begin": 1}, 400, "start"),
    ],
)
def test_what_cannot_be_changes_nothing_and_the_words_say_why(
    guest: Ask, root: Api, name: str, operation: str, body: object, status: int, told: str
) -> None:
    made(root, name)
    group = f"{name}/billing"
    before = guest("CREATE", GROUP, {"start": "earliest"}, name=group).body
    answer = guest(operation, GROUP, body, name=group)
    assert (code(answer), told in words(answer)) == (status, True), answer
    assert guest("READ", GROUP, name=group).body == before


@pytest.mark.parametrize("group", ["no-slash", "/", "log/", "/group", "a/b/c", ""])
def test_what_names_no_group_is_a_bad_request(guest: Ask, group: str) -> None:
    for operation in ("CREATE", "READ", "RESET", "DELETE"):
        assert code(guest(operation, GROUP, {}, name=group)) == 400


def test_a_subscription_is_asked_for_by_its_identity_alone(guest: Ask) -> None:
    for operation in ("READ", "RESET", "DELETE"):
        assert code(guest(operation, SUBSCRIPTION, {"to": 1}, name="audit")) == 400
        assert code(guest(operation, SUBSCRIPTION, {"to": 1}, identity="no-such")) == 404


def test_the_consumers_of_a_log_go_with_it(
    guest: Ask, root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    guest("CREATE", GROUP, name=f"{name}/billing")
    detach(receiver(amqp, name, "audit", Durable()))
    identity = identity_of(guest, name)
    assert code(guest("DELETE", LOG, name=name)) == 204
    assert code(guest("READ", GROUP, name=f"{name}/billing")) == 404
    assert code(guest("READ", SUBSCRIPTION, identity=identity)) == 404


def test_reading_takes_read_and_changing_takes_configure_too(
    server: Server, guest: Ask, root: Api, api: Api, name: str
) -> None:
    own, foreign = f"ada-{name}", name
    for log in (own, foreign):
        made(root, log)
        guest("CREATE", GROUP, name=f"{log}/billing")
    api.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""})
    operations = [("READ", None), ("RESET", {"to": "latest"}), ("CREATE", None), ("DELETE", None)]
    with connected(server, "ada", PASSWORD) as amqp, connected(server, "watcher", PASSWORD) as seeing:
        ada, watcher = asking_on_links(amqp), asking_on_links(seeing)
        try:
            api.do("PUT", "/permissions/%2F/ada", {**ADA, "configure": ""})
            answers = [code(ada(each, GROUP, body, name=f"{own}/billing")) for each, body in operations]
            assert answers == [200, 403, 403, 403]
        finally:
            api.do("PUT", "/permissions/%2F/ada", ADA)
        answers = [code(ada(each, GROUP, body, name=f"{own}/billing")) for each, body in operations]
        assert answers == [200, 200, 409, 204]
        answers = [code(ada(each, GROUP, body, name=f"{foreign}/billing")) for each, body in operations]
        assert answers == [403] * 4
        answers = [code(watcher(each, GROUP, body, name=f"{foreign}/billing")) for each, body in operations]
        assert answers == [200, 403, 403, 403]
        seen = {row["log"] for row in rows(ada("QUERY", SELF, entityType=GROUP))}
        assert foreign not in seen
