"""/subscriptions: topic subscriptions and durable sources while Qpid Proton consumes, and what operators change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from proton.reactor import Selector
from proton.utils import BlockingConnection, LinkDetached

from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected, name_of
from tests.management.test_connections import eventually
from tests.management.test_groups import ADA
from tests.management.test_logs import made, word
from tests.peers.consuming import (
    Durable,
    Shared,
    detach,
    first,
    last_words,
    publish,
    receive,
    receiver,
    synced,
)
from tests.peers.servers import Server


@pytest.fixture
def amqp(server: Server) -> Iterator[BlockingConnection]:
    with connected(server) as connection:
        yield connection


def only(api: Api, log: str) -> Any:
    """The one subscription to a log, with all that is shown of it."""
    (found,) = api.get(f"/subscriptions?log={log}")["subscriptions"]
    return api.get(f"/subscriptions/{quote(found['id'], safe='')}")


@pytest.mark.clause("SUB-17")
def test_a_receiver_with_an_account_is_a_native_subscription_and_can_be_ended(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(amqp, name, 0, 10)
    taking = receiver(amqp, name, "audit", Durable(), first(), credit=100)
    receive(taking, 10, accepted=4)
    shown = only(root, name)
    assert (shown["protocol"], shown["sink"], shown["config"]) == ("AMQP", name, {"native": True})
    (consumer,), (partition,) = shown.pop("consumers"), shown.pop("partitions")
    container = amqp.container.container_id
    assert (consumer["link"], consumer["container"], consumer["user"]) == ("audit", container, "guest")
    assert consumer["unsettled_count"] == 6
    assert partition == {
        "partition": "0",
        "position": 4,
        "next_offset": 10,
        "end_offset": 10,
        "lag": 6,
        "unsettled_count": 6,
        "due_count": 0,
        "dead_letter_count": 0,
        "lost_count": 0,
    }
    assert root.get(f"/subscriptions?log={name}")["subscriptions"] == [shown]
    expected = {
        "log": name,
        "vhost": "/",
        "name": "audit",
        "container": container,
        "user": "guest",
        "kind": "subscription",
        "is_shared": False,
        "is_durable": True,
        "is_global": False,
        "partition": None,
        "expiry": "never",
        "timeout_ms": 0,
        "link_filters": {"rabbitmq:stream-offset-spec": "first"},
        "consumer_count": 1,
        "lag": 6,
    }
    assert shown.items() >= expected.items()
    assert root.do("DELETE", f"/subscriptions/{shown['id']}").status == 204
    assert "amqp:resource-deleted" in last_words(taking)
    for method in ("GET", "DELETE"):
        reply = root.ask(method, f"/subscriptions/{shown['id']}")
        assert (reply.status, word(reply)) == (404, "unknown-subscription")


@pytest.mark.clause("SUB-17")
def test_a_receiver_of_which_no_account_is_kept_is_one_too_as_long_as_it_is_attached(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name, partitions=2)
    publish(amqp, f"{name}-0", 0, 6)
    taking = receiver(amqp, name, "plain", first(), credit=100)
    receive(taking, 6, accepted=0)
    bound = receiver(amqp, f"{name}-0", "bound/ü", credit=1)
    synced(amqp)
    shown, other = root.get(f"/subscriptions?log={name}")["subscriptions"][::-1]
    assert (shown["kind"], shown["sink"], shown["protocol"]) == ("receiver", name, "AMQP")
    assert (shown["name"], shown["is_durable"], shown["partition"]) == ("plain", False, None)
    assert shown["link_filters"] == {"rabbitmq:stream-offset-spec": "first"}
    assert (other["name"], other["partition"], other["lag"]) == ("bound/ü", "0", 0)
    path = f"/subscriptions/{quote(shown['id'], safe='')}"
    whole = root.get(path)
    assert [(each["position"], each["lag"]) for each in whole["partitions"]] == [(6, 0), (0, 0)]
    (link,) = whole["consumers"]
    assert f"{link['connection']}#plain" == shown["id"]
    reply = root.ask("POST", f"{path}/reset", {"to": "earliest"})
    assert (reply.status, word(reply)) == (409, "not-durable")
    assert root.do("DELETE", path).status == 204
    assert "amqp:resource-deleted" in last_words(taking)
    assert word(root.ask("GET", path)) == "unknown-subscription"
    bound.close()
    assert root.get(f"/subscriptions?log={name}")["subscriptions"] == []


def test_receivers_are_seen_like_their_connections(
    server: Server, root: Api, ada_at_root: Api, watcher_at_root: Api, amqp: BlockingConnection, name: str
) -> None:
    log = f"ada-{name}"
    made(root, log)
    detach(receiver(amqp, log, "kept", Durable()))
    receiver(amqp, log, "of guest")
    shared = receiver(amqp, log, "shared", Shared())
    with connected(server, "ada", PASSWORD) as adas:
        receiver(adas, log, "of ada")
        synced(adas)
        every = root.get(f"/subscriptions?log={log}")["subscriptions"]
        ids = {each["name"]: quote(each["id"], safe="") for each in every}
        assert set(ids) == {"kept", "of guest", "shared", "of ada"}
        seen = ada_at_root.get(f"/subscriptions?log={log}")["subscriptions"]
        assert {each["name"] for each in seen} == {"kept", "shared", "of ada"}
        for method in ("GET", "DELETE"):
            assert ada_at_root.ask(method, f"/subscriptions/{ids['of guest']}").status == 404
        assert watcher_at_root.ask("GET", f"/subscriptions/{ids['of guest']}").status == 200
        assert watcher_at_root.ask("DELETE", f"/subscriptions/{ids['of guest']}").status == 403
        told = {
            user: user.get(f"/subscriptions/{ids['shared']}")["consumers"][0]["connection"]
            for user in (ada_at_root, watcher_at_root)
        }
        assert told == {ada_at_root: None, watcher_at_root: name_of(Api(server.http_port), amqp)}
        (own,) = ada_at_root.get(f"/subscriptions/{ids['of ada']}")["consumers"]
        assert own["connection"] == name_of(Api(server.http_port), adas)
        assert ada_at_root.ask("DELETE", f"/subscriptions/{ids['of ada']}").status == 204
    shared.close()


def test_one_that_is_left_goes_on_where_a_reset_said_also_over_a_restart(
    server: Server, root: Api, name: str
) -> None:
    made(root, name, partitions=2)
    with connected(server) as amqp:
        container = amqp.container.container_id
        for partition in range(2):
            publish(amqp, f"{name}-{partition}", 0, 9)
        taking = receiver(amqp, f"{name}-1", "bound", Durable(), first())
        receive(taking, 9)
        detach(taking)
        shown = only(root, name)
        assert (shown["kind"], shown["partition"], shown["consumer_count"], shown["lag"]) == (
            "terminus",
            "1",
            0,
            0,
        )
        reply = root.do("POST", f"/subscriptions/{shown['id']}/reset", {"to": 5})
        assert reply.body["lag"] == 4
    server.stop()
    server.start()
    assert only(root, name)["partitions"] == reply.body["partitions"]
    with connected(server) as amqp:
        amqp.container.container_id = container
    assert root.do("DELETE", f"/subscriptions/{shown['id']}").status == 204
    server.stop()
    server.start()
    assert root.get(f"/subscriptions?log={name}")["subscriptions"] == []


def test_the_links_of_a_shared_one_attach_anew_after_a_reset_and_go_on_from_there(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    publish(amqp, name, 0, 8)
    options = (Durable(), Shared())
    links = [receiver(amqp, name, f"s|{number}", *options, first(), credit=4) for number in range(2)]
    synced(amqp)
    eventually(lambda: sum(each["unsettled_count"] for each in only(root, name)["consumers"]) == 8)
    shown = only(root, name)
    assert (shown["is_shared"], shown["consumer_count"], shown["lag"]) == (True, 2, 8)
    root.do("POST", f"/subscriptions/{shown['id']}/reset", {"to": 6})
    for _ in links:
        with pytest.raises(LinkDetached, match="amqp:link:detach-forced"):
            amqp.wait(lambda: False, timeout=10)
    assert only(root, name)["consumers"] == []
    assert receive(receiver(amqp, name, "s|1", *options, first()), 2) == [6, 7]
    assert only(root, name)["id"] == shown["id"]


def test_a_global_one_is_nobodys_and_filters_are_told_as_text(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    detach(receiver(amqp, name, "s|1", Durable(), Shared(is_global=True), Selector("color = 'red'")))
    shown = only(root, name)
    assert (shown["is_global"], shown["container"], shown["user"], shown["name"]) == (True, None, None, "s")
    assert shown["link_filters"] == {"selector": "color = 'red'"}
    assert root.do("DELETE", f"/subscriptions/{shown['id']}").status == 204


def test_events_that_retention_removed_are_counted_as_lost(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    taking = receiver(amqp, name, "s", Durable(), first())
    publish(amqp, name, 0, 10)
    receive(taking, 10, accepted=3)
    detach(taking)
    root.do("POST", "/groups", {"log": name, "name": "billing", "start": "earliest"})
    root.do("POST", f"/logs/{name}/truncate")
    (partition,) = only(root, name)["partitions"]
    assert (partition["position"], partition["lost_count"], partition["lag"]) == (10, 7, 0)
    (partition,) = root.get(f"/groups/{name}/billing")["partitions"]
    assert (partition["position"], partition["lost_count"], partition["lag"]) == (10, 10, 0)
    assert root.do("POST", f"/groups/{name}/billing/reset", {"to": 2}).body["partitions"][0]["position"] == 10


def test_what_is_in_another_vhost_is_seen_there_alone(server: Server, root: Api, api: Api, name: str) -> None:
    api.do("PUT", f"/vhosts/{name}")
    api.do("PUT", f"/permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    there = f"?vhost={name}"
    root.do("POST", f"/logs{there}", {"name": name})
    root.do("POST", f"/groups{there}", {"log": name, "name": "billing"})
    with connected(server, host=f"vhost:{name}") as amqp:
        detach(receiver(amqp, name, "s", Durable()))
    (found,) = root.get(f"/subscriptions{there}")["subscriptions"]
    assert (found["vhost"], found["log"]) == (name, name)
    assert [each["vhost"] for each in root.get(f"/groups{there}")["groups"]] == [name]
    assert root.get(f"/groups/{name}/billing{there}")["vhost"] == name
    assert word(root.ask("GET", f"/subscriptions/{found['id']}")) == "unknown-subscription"
    assert word(root.ask("DELETE", f"/subscriptions/{found['id']}")) == "unknown-subscription"
    assert word(root.ask("GET", f"/groups/{name}/billing")) == "unknown-log"
    assert root.ask("DELETE", f"/subscriptions/{found['id']}{there}").status == 204
    api.do("DELETE", f"/vhosts/{name}")


def test_one_that_is_not_durable_is_not_reset_and_ends_with_its_last_link(
    root: Api, amqp: BlockingConnection, name: str
) -> None:
    made(root, name)
    taking = receiver(amqp, name, "s", Shared())
    shown = only(root, name)
    assert (shown["is_durable"], shown["is_shared"]) == (False, True)
    reply = root.ask("POST", f"/subscriptions/{shown['id']}/reset", {"to": "earliest"})
    assert (reply.status, word(reply)) == (409, "not-durable")
    assert only(root, name) == shown
    taking.close()
    assert root.get(f"/subscriptions?log={name}")["subscriptions"] == []


@pytest.mark.parametrize("id_", ["0" * 32, "no-hex", "%00", "a" * 3000, "%F0%9F%98%80"])
def test_what_is_no_id_is_not_found(root: Api, id_: str) -> None:
    for method, path, body in (
        ("GET", id_, None),
        ("DELETE", id_, None),
        ("POST", f"{id_}/reset", {"to": "earliest"}),
    ):
        reply = root.ask(method, f"/subscriptions/{path}", body)
        assert (reply.status, word(reply)) == (404, "unknown-subscription")


def test_a_reset_that_cannot_be_changes_nothing(root: Api, amqp: BlockingConnection, name: str) -> None:
    made(root, name)
    publish(amqp, name, 0, 5)
    taking = receiver(amqp, name, "s", Durable(), first())
    receive(taking, 3)
    detach(taking)
    before = only(root, name)
    for body, status, problem in (
        ({"to": 6}, 422, "invalid"),
        ({"to": 1, "partition": "1"}, 404, "unknown-partition"),
        ({"to": "soon"}, 422, "invalid"),
        ({"to": 1.5}, 400, "bad-request"),
        ({}, 400, "bad-request"),
    ):
        reply = root.ask("POST", f"/subscriptions/{before['id']}/reset", body)
        assert (reply.status, word(reply)) == (status, problem), body
    assert only(root, name) == before


def test_subscriptions_are_seen_by_who_may_read_and_changed_by_their_user_and_who_may_configure(
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
    reset = {"to": "latest"}

    def answers(user: Api, id_: str) -> list[int]:
        """Of looking, and of resetting."""
        path = f"/subscriptions/{id_}"
        return [user.ask("GET", path).status, user.ask("POST", f"{path}/reset", reset).status]

    def listed(user: Api) -> list[str]:
        every = user.get("/subscriptions?limit=1000")["subscriptions"]
        return sorted(each["log"] for each in every if each["log"] in (own, foreign))

    with connected(server) as amqp, connected(server, "ada", PASSWORD) as adas:
        for log in (own, foreign):
            detach(receiver(amqp, log, "of guest", Durable()))
        theirs, hidden = only(root, own)["id"], only(root, foreign)["id"]
        detach(receiver(adas, own, "of ada", Durable()))
        every = root.get(f"/subscriptions?log={own}")["subscriptions"]
        (mine,) = [each["id"] for each in every if each["user"] == "ada"]
        assert listed(ada_at_root) == [own, own]
        assert listed(watcher_at_root) == sorted([own, own, foreign])
        assert listed(nobody_at_root) == []
        assert answers(ada_at_root, hidden) == [404, 404]
        assert answers(ada_at_root, theirs) == [200, 200]
        assert answers(watcher_at_root, theirs) == [200, 403]
        assert answers(nobody_at_root, theirs) == [404, 404]
        assert watcher_at_root.ask("DELETE", f"/subscriptions/{theirs}").status == 403
        try:
            api.do("PUT", "/permissions/%2F/ada", {**ADA, "configure": ""})
            assert answers(ada_at_root, theirs) == [200, 403]
            assert answers(ada_at_root, mine) == [200, 200]
            assert ada_at_root.ask("DELETE", f"/subscriptions/{theirs}").status == 403
            assert ada_at_root.ask("DELETE", f"/subscriptions/{mine}").status == 204
        finally:
            api.do("PUT", "/permissions/%2F/ada", ADA)
        assert root.ask("DELETE", f"/subscriptions/{theirs}").status == 204
    assert Api(server.http_port, None, below="").ask("GET", "/subscriptions").status == 401
