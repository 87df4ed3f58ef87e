"""/groups: where consumer groups stand while Qpid Proton consumes in them, and what operators change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from proton.utils import BlockingConnection

from headwater.amqp.messaging import Source, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.encoding.amqp_types import Symbol
from headwater.log.settings import LogPolicies
from tests.amqp_client import connect
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected, name_of
from tests.management.test_connections import eventually
from tests.management.test_logs import made, word
from tests.peers.consuming import InGroup, detach, first, last_words, publish, receive, receiver, synced
from tests.peers.servers import HOST, Server

ADA = {"configure": "ada.*", "write": "ada.*", "read": "ada.*"}


@pytest.fixture
def amqp(server: Server) -> Iterator[BlockingConnection]:
    with connected(server) as connection:
        yield connection


@pytest.fixture
def writer(server: Server) -> Iterator[BlockingConnection]:
    """Another connection, for a reset ends links of the first one."""
    with connected(server) as connection:
        yield connection


def group_of(api: Api, log: str, **wanted: object) -> Any:
    """A new group `billing`."""
    return api.do("POST", "/groups", {"log": log, "name": "billing", **wanted}).body


def position(api: Api, log: str, partition: int = 0, group: str = "billing") -> Any:
    return api.get(f"/groups/{log}/{group}")["partitions"][partition]


def test_where_a_group_stands_is_told_while_a_link_consumes(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, partitions=2)
    publish(amqp, f"{name}-1", 0, 20)
    taking = receiver(amqp, name, "r1", InGroup("billing", "1"), first(), credit=100)
    assert receive(taking, 8, accepted=5) == list(range(8))
    shown = root.get(f"/groups/{name}/billing")
    (member,) = shown.pop("members")
    empty, other = shown.pop("partitions")
    container = amqp.container.container_id
    assert (member["link"], member["container"], member["user"]) == ("r1", container, "guest")
    assert (member["partitions"], member["unsettled_count"], member["is_waiting"]) == (["1"], 15, False)
    assert root.ask("GET", f"/connections/{member['connection'].replace(' ', '%20')}").status == 200
    assert other == {
        "partition": "1",
        "position": 5,
        "next_offset": 20,
        "end_offset": 20,
        "lag": 15,
        "unsettled_count": 15,
        "due_count": 0,
        "dead_letter_count": 0,
        "lost_count": 0,
        "epoch": 0,
        "owner": "r1",
    }
    assert (empty["position"], empty["next_offset"], empty["lag"], empty["owner"]) == (None,) * 4
    policy = shown.pop("policy")
    assert set(policy) == {each for each in LogPolicies.__struct_fields__ if each.startswith("group_")}
    assert root.get(f"/groups?log={name}") == {"groups": [shown], "next": None}
    assert (shown["lag"], shown["member_count"], shown["is_configured"]) == (15, 1, False)
    detach(taking)
    publish(amqp, f"{name}-1", 20, 21)
    shown = position(root, name, 1)
    assert (shown["due_count"], shown["unsettled_count"], shown["lag"], shown["owner"]) == (15, 0, 16, None)


def test_a_group_is_made_once_and_begins_where_it_was_told_to(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, settings={"group_creation": "configured"})
    publish(amqp, name, 0, 5)
    reply = root.ask("POST", "/groups", {"log": name, "name": "billing", "start": 2})
    assert (reply.status, reply.headers["Location"]) == (201, f"/groups/{name}/billing")
    assert reply.body == root.get(f"/groups/{name}/billing")
    assert (reply.body["is_configured"], reply.body["lag"]) == (True, 3)
    assert receive(receiver(amqp, name, "r", InGroup("billing")), 3) == [2, 3, 4]
    again = root.ask("POST", "/groups", {"log": name, "name": "billing"})
    assert (again.status, word(again)) == (409, "group-exists")


def test_a_group_that_links_made_is_kept_and_stays_where_it_is(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(amqp, name, 0, 5)
    receive(receiver(amqp, name, "r", InGroup("billing"), first()), 3)
    assert not root.get(f"/groups/{name}/billing")["is_configured"]
    kept = group_of(root, name, start="latest")
    assert (kept["is_configured"], kept["partitions"][0]["position"], kept["member_count"]) == (True, 3, 1)


def test_groups_are_as_many_as_the_log_allows(root: Api, name: str) -> None:
    made(root, name, settings={"groups_max": 1})
    group_of(root, name)
    reply = root.ask("POST", "/groups", {"log": name, "name": "another"})
    assert (reply.status, word(reply)) == (409, "full")
    assert root.ask("POST", "/groups", {"log": name, "name": "x" * 4097}).status == 400


def test_a_reset_moves_a_group_wherever_it_is_told_to_and_its_link_attaches_anew(
    root: Api, amqp: BlockingConnection, writer: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(writer, name, 0, 3)
    time.sleep(0.005)  # no two milliseconds are the same
    between = datetime.now(UTC).isoformat()
    time.sleep(0.005)
    publish(writer, name, 3, 8)
    group_of(root, name, start="latest")
    for to, expected in (
        ("earliest", [0, 1]),
        (5, [5, 6]),
        ("6", [6, 7]),
        (between, [3, 4]),
        ("1999-12-31T23:59:59Z", [0, 1]),
        ("latest", []),
    ):
        taking = receiver(amqp, name, "r", InGroup("billing"), credit=5)
        reply = root.ask("POST", f"/groups/{name}/billing/reset", {"to": to})
        assert (reply.status, reply.body["lag"]) == (200, 8 - expected[0] if expected else 0), to
        assert "amqp:link:detach-forced" in last_words(taking)
        taking = receiver(amqp, name, "r", InGroup("billing"), credit=2)
        assert receive(taking, len(expected)) == expected
        taking.close()
    publish(writer, name, 8, 9)
    assert receive(receiver(amqp, name, "r", InGroup("billing")), 1) == [8]


def test_a_reset_of_one_partition_leaves_the_others_and_their_links_alone(
    root: Api, amqp: BlockingConnection, writer: BlockingConnection, name: str
) -> None:
    made(root, name, partitions=2)
    for partition in range(2):
        publish(writer, f"{name}-{partition}", 0, 6)
    group_of(root, name, start="earliest")
    links = [receiver(amqp, name, f"r{number}", InGroup("billing", str(number))) for number in range(2)]
    for link in links:
        receive(link, 6, accepted=4)
    for wanted in ("1", f"{name}-1"):
        assert root.do("POST", f"/groups/{name}/billing/reset", {"to": 1, "partition": wanted}).status == 200
        assert [position(root, name, number)["position"] for number in range(2)] == [4, 1]
    assert "amqp:link:detach-forced" in last_words(links[1])
    assert [each["link"] for each in root.get(f"/groups/{name}/billing")["members"]] == ["r0"]


def test_partitions_that_move_are_shown_with_their_links_and_can_be_reset(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, partitions=4, settings={"group_binding": "dynamic"})
    for partition in range(4):
        publish(amqp, f"{name}-{partition}", 0, 5)
    group_of(root, name, start="earliest")
    links = [receiver(amqp, name, f"r{number}", InGroup("billing"), credit=100) for number in range(2)]
    synced(amqp)
    shown = root.get(f"/groups/{name}/billing")
    held = {each["link"]: each["partitions"] for each in shown["members"]}
    assert sorted(held["r0"] + held["r1"]) == ["0", "1", "2", "3"]
    assert [len(each) for each in held.values()] == [2, 2]
    assert {each["partition"]: each["owner"] for each in shown["partitions"]} == {
        partition: link for link, partitions in held.items() for partition in partitions
    }
    for link in links:
        receive(link, 10)
    eventually(lambda: root.get(f"/groups/{name}/billing")["lag"] == 0)
    root.do("POST", f"/groups/{name}/billing/reset", {"to": 3, "partition": held["r1"][0]})
    assert "amqp:link:detach-forced" in last_words(links[1])
    assert receive(links[0], 2) == [3, 4]  # it has all of them now
    assert root.get(f"/groups/{name}/billing")["members"][0]["partitions"] == ["0", "1", "2", "3"]


def test_a_link_that_has_to_wait_is_shown_and_gets_the_partition_of_one_that_a_reset_sent_away(
    server: Server, root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, settings={"group_waiting": "wait"})
    publish(amqp, name, 0, 5)
    group_of(root, name, start="latest")
    receiver(amqp, name, "first", InGroup("billing"))
    with connect(HOST, server.amqp_port) as waiting:
        asked: dict[Symbol, object] = {Symbol("event-streams-consumer-group"): "billing"}
        ReceiverLink(waiting.session, "second").attach(Source(name), Target(), properties=asked)
        waiting.flush()
        eventually(lambda: root.get(f"/groups/{name}/billing")["waiting_count"] == 1)
        first_, second = root.get(f"/groups/{name}/billing")["members"]
        assert (first_["link"], first_["is_waiting"], first_["partitions"]) == ("first", False, ["0"])
        assert (second["link"], second["is_waiting"], second["partitions"]) == ("second", True, [])
        root.do("POST", f"/groups/{name}/billing/reset", {"to": "earliest"})
        eventually(lambda: position(root, name)["owner"] == "second")


def test_a_reset_beyond_the_end_or_of_what_is_not_there_changes_nothing(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, partitions=2)
    publish(amqp, f"{name}-0", 0, 5)
    before = group_of(root, name, start="earliest")
    path = f"/groups/{name}/billing/reset"
    for body, status, problem in (
        ({"to": 1}, 422, "invalid"),  # partition 1 is empty
        ({"to": 6, "partition": "0"}, 422, "invalid"),
        ({"to": 1, "partition": "2"}, 404, "unknown-partition"),
        ({"to": "yesterday"}, 422, "invalid"),
        ({"to": "2020-13-01T00:00:00Z"}, 422, "invalid"),
        ({"to": -1}, 400, "bad-request"),
        ({"to": 1 << 63}, 400, "bad-request"),
        ({"to": None}, 400, "bad-request"),
        ({"to": ["earliest"]}, 400, "bad-request"),
        ({"to": "e" * 41}, 400, "bad-request"),
        ({"to": "earliest", "else": 1}, 400, "bad-request"),
        ({}, 400, "bad-request"),
    ):
        reply = root.ask("POST", path, body)
        assert (reply.status, word(reply)) == (status, problem), (body, reply)
    assert root.get(f"/groups/{name}/billing") == before
    assert word(root.ask("POST", f"/groups/{name}/no-such/reset", {"to": 1})) == "unknown-group"
    assert word(root.ask("POST", f"/groups/no-such-{name}/billing/reset", {"to": 1})) == "unknown-log"


def test_the_end_of_a_group_ends_its_links_and_forgets_where_it_was(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(amqp, name, 0, 5)
    group_of(root, name, start="earliest")
    taking = receiver(amqp, name, "r", InGroup("billing"))
    receive(taking, 3)
    assert root.do("DELETE", f"/groups/{name}/billing").status == 204
    assert "amqp:resource-deleted" in last_words(taking)
    for method in ("GET", "DELETE"):
        reply = root.ask(method, f"/groups/{name}/billing")
        assert (reply.status, word(reply)) == (404, "unknown-group")
    assert group_of(root, name)["partitions"][0]["position"] is None


def test_names_with_slashes_and_other_characters_come_back_as_they_were(root: Api, name: str) -> None:
    log, group = f"{name}/ü %", "a/b? ☃"
    made(root, log)
    shown = root.do("POST", "/groups", {"log": log, "name": group})
    assert root.get(shown.headers["Location"]) == shown.body
    assert shown.headers["Location"] == f"/groups/{shown.body['id']}"
    assert (shown.body["log"], shown.body["name"]) == (log, group)


def test_groups_are_listed_in_pages(root: Api, name: str) -> None:
    for log in (f"{name}-a", f"{name}-b"):
        made(root, log)
        for number in range(3):
            root.do("POST", "/groups", {"log": log, "name": f"g{number}"})
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = root.get(f"/groups?limit=2&after={after.replace('/', '%2F')}")
        assert len(page["groups"]) <= 2
        found += [each["id"] for each in page["groups"] if each["log"].startswith(f"{name}-")]
        after = page["next"]
    assert found == [f"{name}-{log}/g{number}" for log in "ab" for number in range(3)]


def test_a_group_and_its_position_survive_a_restart_and_a_reset_does_too(
    server: Server, root: Api, name: str
) -> None:
    made(root, name)
    with connected(server) as amqp:
        publish(amqp, name, 0, 9)
        group_of(root, name, start="earliest")
        receive(receiver(amqp, name, "r", InGroup("billing")), 9, accepted=4)
    root.do("POST", "/groups", {"log": name, "name": "other"})
    root.do("POST", f"/groups/{name}/other/reset", {"to": 7})
    server.stop()
    server.start()
    shown = root.get(f"/groups/{name}/billing")
    assert (shown["is_configured"], shown["lag"], shown["partitions"][0]["position"]) == (True, 5, 4)
    assert position(root, name, group="other")["position"] == 7


def test_groups_are_seen_by_who_may_read_and_changed_by_who_may_configure_too(
    server: Server,
    root: Api,
    api: Api,
    ada_at_root: Api,
    watcher_at_root: Api,
    nobody_at_root: Api,
    name: str,
) -> None:
    own, foreign = f"ada-{name}", name
    for log in (own, foreign):
        made(root, log)
        group_of(root, log)
    reset = {"to": "earliest"}

    def answers(user: Api, log: str) -> list[int]:
        """Of looking, resetting, making and ending."""
        path = f"/groups/{log}/billing"
        return [
            user.ask("GET", path).status,
            user.ask("POST", f"{path}/reset", reset).status,
            user.ask("POST", "/groups", {"log": log, "name": "new"}).status,
            user.ask("DELETE", f"/groups/{log}/new").status,
        ]

    def listed(user: Api) -> set[str]:
        return {each["log"] for each in user.get("/groups?limit=1000")["groups"]} & {own, foreign}

    assert (answers(ada_at_root, own), listed(ada_at_root)) == ([200, 200, 201, 204], {own})
    assert answers(ada_at_root, foreign) == [403] * 4
    with connected(server) as guests:
        taking = receiver(guests, own, "r", InGroup("billing"))
        connections = [
            user.get(f"/groups/{own}/billing")["members"][0]["connection"]
            for user in (ada_at_root, watcher_at_root)
        ]
        assert connections == [None, name_of(api, guests)]
        taking.close()
    assert (answers(watcher_at_root, own), listed(watcher_at_root)) == ([200, 403, 403, 403], {own, foreign})
    assert (answers(nobody_at_root, own), listed(nobody_at_root)) == ([403] * 4, set())
    assert answers(root, own) == [200, 200, 201, 204]
    assert ada_at_root.get(f"/groups?log={foreign}")["groups"] == []
    # A refusal tells nothing of what is there.
    for log in (foreign, f"no-such-{name}"):
        assert word(ada_at_root.ask("GET", f"/groups/{log}/no-such")) == "forbidden"
    try:
        api.do("PUT", "/permissions/%2F/ada", {**ADA, "configure": ""})
        assert answers(ada_at_root, own) == [200, 403, 403, 403]
    finally:
        api.do("PUT", "/permissions/%2F/ada", ADA)
    assert Api(server.http_port, "ada", f"not {PASSWORD}", below="").ask("GET", "/groups").status == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"log": "l"},
        {"log": "l", "name": ""},
        {"log": "", "name": "n"},
        {"log": "l", "name": 1},
        [],
        "text",
    ],
)
def test_what_is_no_group_is_a_bad_request(root: Api, body: object) -> None:
    reply = root.ask("POST", "/groups", body)
    assert (reply.status, word(reply)) == (400, "bad-request")
    assert root.ask("GET", "/groups?limit=0").status == 400
    assert root.ask("GET", "/groups?limit=1001").status == 400
