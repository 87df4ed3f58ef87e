"""The node `$management` of the AMQP door, asked by Qpid Proton: logs, connections, and what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, LinkDetached, SyncRequestResponse

from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected, name_of
from tests.peers.servers import Server
from tests.stream_client import StreamClient

NODE = "$management"
LOG, CONNECTION, SELF = "headwater.log", "headwater.connection", "org.amqp.management"
GROUP, SUBSCRIPTION = "headwater.group", "headwater.subscription"


class Answer(NamedTuple):
    """What a test looks at of a response."""

    properties: dict[str, Any]
    body: Any


Ask: TypeAlias = Callable[..., Answer]


def request(operation: str, type: str, body: Any, properties: dict[str, Any]) -> Message:
    return Message(properties={"operation": operation, "type": type, **properties}, body=body)


def answer_of(message: Any) -> Answer:
    assert message is not None
    return Answer(message.properties, message.body)


def asking(connection: BlockingConnection) -> Ask:
    """Asks over a sender to the node and a dynamic receiver, as Proton's request-response does."""
    client = SyncRequestResponse(connection, NODE)

    def ask(operation: str, type: str = LOG, body: object = None, **properties: object) -> Answer:
        return answer_of(client.call(request(operation, type, body, properties)))

    return ask


def asking_on_links(connection: BlockingConnection) -> Ask:
    """Asks over a sender to the node and a receiver from it, for users who may not make dynamic nodes."""
    sender, receiver = connection.create_sender(NODE), connection.create_receiver(NODE)

    def ask(operation: str, type: str = LOG, body: object = None, **properties: object) -> Answer:
        sender.send(request(operation, type, body, properties))
        answer = receiver.receive(timeout=10)
        receiver.accept()
        return answer_of(answer)

    return ask


@pytest.fixture(scope="module")
def guest(server: Server) -> Iterator[Ask]:
    """An administrator."""
    with connected(server) as connection:
        yield asking(connection)


@pytest.fixture(scope="module")
def ada_asks(server: Server) -> Iterator[Ask]:
    """One who may do everything with logs named `ada…`."""
    with connected(server, "ada", PASSWORD) as connection:
        yield asking_on_links(connection)


def code(response: Answer) -> int:
    return int(response.properties["statusCode"])


def words(response: Answer) -> str:
    return str(response.properties["statusDescription"])


# Logs


@pytest.mark.clause("AMQP management 2")
def test_a_log_is_made_read_and_deleted(guest: Ask, api: Api, name: str) -> None:
    wanted = {"partition_count": 3, "max_age_ms": 60_000, "max_bytes": 10_000_000, "durability": "memory"}
    made = guest("CREATE", name=name, body=wanted)
    assert (code(made), words(made)) == (201, "Created")
    expected = {"name": name, "type": LOG, "vhost": "/", "kind": "super_stream", "message_count": 0}
    assert {key: made.body[key] for key in (*wanted, *expected)} == {**wanted, **expected}
    assert [each["name"] for each in made.body["partitions"]] == [f"{name}-{number}" for number in range(3)]
    assert [each["id"] for each in made.body["partitions"]] == ["0", "1", "2"]
    assert api.get(f"/queues/%2F/{name}-2")["super_stream"] == name
    for named in ({"name": name}, {"identity": made.body["identity"]}):
        read = guest("READ", **named)
        assert (code(read), read.body) == (200, made.body)
    deleted = guest("DELETE", name=name)
    assert (code(deleted), deleted.body) == (204, {})
    assert code(guest("READ", name=name)) == 404
    assert api.ask("GET", f"/queues/%2F/{name}-2").status == 404


def test_a_log_of_one_partition_is_a_stream_unless_asked_otherwise(guest: Ask, name: str) -> None:
    assert guest("CREATE", name=name).body["kind"] == "stream"
    made = guest("CREATE", name=f"{name}-super", body={"kind": "super_stream", "partition_count": 1})
    assert (made.body["kind"], made.body["partitions"][0]["name"]) == ("super_stream", f"{name}-super-0")


def test_numbers_of_a_new_log_may_come_as_text(guest: Ask, name: str) -> None:
    made = guest("CREATE", name=name, body={"max_bytes": "5000", "partition_count": "2", "max_age_ms": None})
    assert (made.body["max_bytes"], made.body["partition_count"], made.body["max_age_ms"]) == (5000, 2, None)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"no_such_attribute": 1}, "no_such_attribute"),
        ({"partition_count": 0}, "partition_count"),
        ({"partition_count": 1001}, "partition_count"),
        ({"partition_count": 2, "kind": "stream"}, "one partition"),
        ({"durability": "none"}, "durability"),
        ({"max_bytes": -1}, "max_bytes"),
        ({"max_bytes": "many"}, "max_bytes"),
        ({"segment_bytes": 1024}, "segment_bytes"),
        (["partition_count"], "map"),
        ("text", "map"),
    ],
)
def test_a_log_that_cannot_be_is_a_bad_request_and_the_words_say_why(
    guest: Ask, name: str, body: object, told: str
) -> None:
    answer = guest("CREATE", name=name, body=body)
    assert code(answer) == 400
    assert told in words(answer)
    assert code(guest("READ", name=name)) == 404


@pytest.mark.parametrize("bad", [None, "", " ", "$log", "amq.log"])
def test_a_log_has_a_name_that_clients_may_give(guest: Ask, bad: str | None) -> None:
    answer = guest("CREATE") if bad is None else guest("CREATE", name=bad)
    assert code(answer) == 400


def test_a_log_that_is_there_already_is_a_conflict(guest: Ask, name: str) -> None:
    assert code(guest("CREATE", name=name)) == 201
    again = guest("CREATE", name=name)
    assert (code(again), name in words(again)) == (409, True)


def test_deleting_a_log_is_told_to_the_clients_of_every_door(
    server: Server, guest: Ask, client: StreamClient, name: str
) -> None:
    guest("CREATE", name=name)
    client.subscribe(1, name)
    with connected(server) as amqp:
        receiver = amqp.create_receiver(name)
        assert code(guest("DELETE", name=name)) == 204
        update = client.wait_for(c.MetadataUpdate)
        assert isinstance(update, c.MetadataUpdate)
        assert (update.stream, update.code) == (name, ResponseCode.STREAM_NOT_AVAILABLE)
        with pytest.raises(LinkDetached, match="amqp:resource-deleted"):
            receiver.receive(timeout=10)


def test_a_partition_of_a_super_stream_is_not_deleted_alone(guest: Ask, name: str) -> None:
    guest("CREATE", name=name, body={"partition_count": 2})
    assert code(guest("DELETE", name=f"{name}-0")) == 404
    assert guest("READ", name=name).body["partition_count"] == 2


def test_messages_are_counted_when_they_are_on_disk(server: Server, guest: Ask, name: str) -> None:
    guest("CREATE", name=name)
    with connected(server) as amqp:
        sender = amqp.create_sender(name)
        for number in range(3):
            sender.send(Message(body=f"message {number}"))
    read = guest("READ", name=name).body
    assert (read["message_count"], read["partitions"][0]["next_offset"]) == (3, 3)
    assert read["size_bytes"] > 0


# Queries


def rows(answer: Answer) -> list[dict[str, Any]]:
    assert code(answer) == 200, words(answer)
    body = answer.body
    assert answer.properties["count"] == len(body["results"])
    return [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]


@pytest.mark.clause("AMQP management 3")
def test_a_query_gives_the_attributes_that_are_asked_for_in_their_order(guest: Ask, name: str) -> None:
    for number in range(3):
        guest("CREATE", name=f"{name}-{number}")
    asked = {"attributeNames": ["vhost", "name", "no_such"]}
    answer = guest("QUERY", SELF, asked, name="self", entityType=LOG)
    assert answer.body["attributeNames"] == asked["attributeNames"]
    mine = [row for row in rows(answer) if row["name"].startswith(name)]
    assert mine == [{"vhost": "/", "name": f"{name}-{number}", "no_such": None} for number in range(3)]


def test_a_query_without_names_gives_all_attributes(guest: Ask, name: str) -> None:
    guest("CREATE", name=name)
    (mine,) = [row for row in rows(guest("QUERY", SELF, {}, entityType=LOG)) if row["name"] == name]
    assert mine == guest("READ", name=name).body


def test_a_query_of_all_types_tells_them_apart_by_type(
    server: Server, guest: Ask, root: Api, name: str
) -> None:
    root.do("POST", "/logs", {"name": name})
    guest("CREATE", GROUP, name=f"{name}/billing")
    with connected(server) as amqp:
        amqp.create_receiver(name)
        found = rows(guest("QUERY", SELF, {"attributeNames": ["type", "name", "user"]}))
    assert {row["type"] for row in found} == {LOG, CONNECTION, GROUP, SUBSCRIPTION, SELF}
    have_users = {CONNECTION, SUBSCRIPTION}  # of subscriptions those that are not global
    assert all(row["user"] is None for row in found if row["type"] not in have_users)
    assert all(row["user"] is not None for row in found if row["type"] == CONNECTION)


@pytest.mark.clause("AMQP management 3")
def test_a_query_may_come_in_parts(guest: Ask, name: str) -> None:
    for number in range(5):
        guest("CREATE", name=f"{name}-{number}")
    names = {"attributeNames": ["name"]}
    whole = rows(guest("QUERY", SELF, names, entityType=LOG))
    parts = []
    for offset in range(0, len(whole) + 2, 2):
        part = rows(guest("QUERY", SELF, names, entityType=LOG, offset=offset, count=2))
        assert len(part) <= 2
        parts += part
    assert parts == whole
    assert rows(guest("QUERY", SELF, names, entityType=LOG, offset=str(len(whole)))) == []
    assert rows(guest("QUERY", SELF, names, entityType=LOG, count=0)) == []


def test_a_query_of_a_type_that_is_unknown_finds_nothing(guest: Ask) -> None:
    assert rows(guest("QUERY", SELF, {}, entityType="no.such.type")) == []


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        ({"attributeNames": "name"}, {}),
        ({"attributeNames": [1]}, {}),
        ({"attributeNames": ["name", "name"]}, {}),
        ({}, {"offset": -1}),
        ({}, {"count": "many"}),
        ({}, {"entityType": 5}),
    ],
)
def test_a_query_that_cannot_be_is_a_bad_request(
    guest: Ask, body: object, properties: dict[str, Any]
) -> None:
    assert code(guest("QUERY", SELF, body, **properties)) == 400


# Connections


@pytest.mark.clause("AMQP management 2")
def test_connections_of_all_doors_are_listed_and_read(
    server: Server, guest: Ask, client: StreamClient
) -> None:
    found = {row["name"]: row for row in rows(guest("QUERY", SELF, {}, entityType=CONNECTION))}
    assert found[client.name]["protocol"] == "stream"
    own = next(row for row in found.values() if row["protocol"] == "AMQP 1-0" and row["user"] == "guest")
    assert (own["state"], own["mechanism"], own["port"]) == ("running", "PLAIN", server.amqp_port)
    read = guest("READ", CONNECTION, name=client.name)
    assert read.body["properties"] == {"product": "test", "connection_name": "a name"}
    assert guest("READ", CONNECTION, identity=client.name).body["name"] == client.name


@pytest.mark.clause("AMQP management 2")
def test_a_connection_is_closed_by_deleting_it(server: Server, guest: Ask, api: Api) -> None:
    with StreamClient(server.stream_port) as victim:
        assert code(guest("DELETE", CONNECTION, name=victim.name)) == 204
        told = victim.wait_for(c.CloseRequest)
        assert isinstance(told, c.CloseRequest)
        assert told.closing_reason == "Closed via AMQP management"
    with connected(server) as amqp:
        assert code(guest("DELETE", CONNECTION, name=name_of(api, amqp))) == 204
        with pytest.raises(ConnectionException, match="amqp:connection:forced"):
            amqp.wait(lambda: False)
    assert code(guest("DELETE", CONNECTION, name="no such connection")) == 404


# What there is


@pytest.mark.clause("AMQP management 3")
def test_the_node_says_what_types_attributes_and_operations_it_has(guest: Ask) -> None:
    all_types: dict[str, list[object]] = {type_: [] for type_ in (SELF, LOG, CONNECTION, GROUP, SUBSCRIPTION)}
    assert guest("GET-TYPES", SELF).body == all_types
    assert guest("GET-ANNOTATIONS", SELF).body == all_types
    assert guest("GET-MGMT-NODES", SELF).body == []
    attributes = guest("GET-ATTRIBUTES", SELF, entityType=CONNECTION).body
    assert list(attributes) == [CONNECTION]
    assert {"name", "identity", "type", "user"} < set(attributes[CONNECTION])
    operations = guest("GET-OPERATIONS", SELF, name="self").body
    assert operations[LOG] == {
        "CREATE": ["name"],
        "READ": ["name", "identity"],
        "UPDATE": ["name", "identity"],
        "DELETE": ["name", "identity"],
    }
    assert operations[SELF]["QUERY"] == ["entityType", "offset", "count"]
    assert guest("GET-TYPES", SELF, entityType="no.such.type").body == {}
    assert guest("READ", SELF, name="self").body == {"name": "self", "identity": "self", "type": SELF}


def test_unknown_operations_are_not_implemented_and_unknown_types_not_found(guest: Ask) -> None:
    for type_ in (LOG, CONNECTION, SELF):
        answer = guest("NO-SUCH", type_, name="self")
        assert code(answer) == 501
        assert "READ" in words(answer)
    assert code(guest("READ", "no.such.type", name="x")) == 404


def test_a_name_or_an_identity_is_needed_and_not_both(guest: Ask) -> None:
    for type_ in (LOG, CONNECTION):
        assert code(guest("READ", type_)) == 400
        assert code(guest("READ", type_, name="x", identity="1")) == 400


# Rights


@pytest.mark.clause("AMQP management 2")
def test_users_make_see_and_delete_what_their_permissions_cover(guest: Ask, ada_asks: Ask, name: str) -> None:
    guest("CREATE", name=name)
    for answer in (
        ada_asks("CREATE", name=f"{name}-2"),
        ada_asks("READ", name=name),
        ada_asks("READ", name="not-there-either"),
        ada_asks("DELETE", name=name),
    ):
        assert code(answer) == 403
    assert code(ada_asks("CREATE", name=f"ada-{name}", body={"partition_count": 2})) == 201
    listed = {
        row["name"] for row in rows(ada_asks("QUERY", SELF, {"attributeNames": ["name"]}, entityType=LOG))
    }
    assert f"ada-{name}" in listed
    assert all(each.startswith("ada") for each in listed)
    assert code(ada_asks("DELETE", name=f"ada-{name}")) == 204
    assert code(guest("READ", name=name)) == 200


def test_who_may_only_read_a_log_may_not_delete_it(server: Server, api: Api, guest: Ask, name: str) -> None:
    api.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": name})
    guest("CREATE", name=name)
    with connected(server, "watcher", PASSWORD) as amqp:
        ask = asking_on_links(amqp)
        assert [code(ask(operation, name=name)) for operation in ("READ", "DELETE")] == [200, 403]
    assert code(guest("READ", name=name)) == 200


def test_a_monitor_sees_all_connections_and_others_their_own(
    server: Server, client: StreamClient, ada_asks: Ask, api: Api
) -> None:
    users = {row["user"] for row in rows(ada_asks("QUERY", SELF, {}, entityType=CONNECTION))}
    assert users == {"ada"}
    assert code(ada_asks("READ", CONNECTION, name=client.name)) == 403
    assert code(ada_asks("DELETE", CONNECTION, name=client.name)) == 403
    api.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""})
    with connected(server, "watcher", PASSWORD) as amqp:
        ask = asking_on_links(amqp)
        answers = [ask(operation, CONNECTION, name=client.name) for operation in ("READ", "DELETE")]
        assert [code(answer) for answer in answers] == [200, 403]


def test_logs_of_another_vhost_are_not_seen(server: Server, api: Api, guest: Ask, name: str) -> None:
    api.do("PUT", f"/vhosts/{name}")
    api.do("PUT", f"/permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    identity = guest("CREATE", name=name).body["identity"]
    with connected(server, host=f"vhost:{name}") as connection:
        inside = asking(connection)
        assert code(inside("READ", name=name)) == 404
        assert code(inside("READ", identity=identity)) == 404
        assert inside("CREATE", name=name).body["vhost"] == name
        found = rows(inside("QUERY", SELF, {"attributeNames": ["name"]}, entityType=LOG))
        assert name in [row["name"] for row in found]
    assert guest("READ", name=name).body["vhost"] == "/"
