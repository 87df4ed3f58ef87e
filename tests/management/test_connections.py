"""/api/connections, consumers and publishers: what live clients look like, and how one is sent away."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.peers.servers import HOST, Server
from tests.stream_client import CREDIT, StreamClient

STREAM = {"arguments": {"x-queue-type": "stream"}}
WAIT_S = 10.0


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def encoded(name: str) -> str:
    return name.replace(" ", "%20").replace(">", "%3E")


def named(items: list[dict[str, object]], name: str) -> list[dict[str, object]]:
    return [item for item in items if item["name"] == name]


def test_a_connection_tells_who_is_at_its_end_and_what_was_agreed_on(
    api: Api, server: Server, client: StreamClient
) -> None:
    (shown,) = named(api.get("/connections"), client.name)
    assert shown["client_properties"] == {"product": "test", "connection_name": "a name"}
    expected = {
        "user": "guest",
        "vhost": "/",
        "user_provided_name": "a name",
        "peer_host": HOST,
        "host": HOST,
        "port": server.stream_port,
        "protocol": "stream",
        "state": "running",
        "ssl": False,
        "auth_mechanism": "PLAIN",
        "frame_max": 1 << 20,
        "timeout": 60,
    }
    assert {key: shown[key] for key in expected} == expected
    assert abs(float(str(shown["connected_at"])) / 1000 - time.time()) < 600
    assert int(str(shown["recv_oct"])) > 100
    assert int(str(shown["send_oct"])) > 100
    assert api.get(f"/connections/{encoded(client.name)}")["name"] == client.name
    assert named(api.get("/vhosts/%2F/connections"), client.name)
    assert api.get(f"/stream/connections/%2F/{encoded(client.name)}")["name"] == client.name


def test_a_client_that_has_not_opened_yet_or_is_gone_is_not_listed(
    api: Api, server: Server, client: StreamClient
) -> None:
    with socket.create_connection((HOST, server.stream_port)) as silent:
        port = silent.getsockname()[1]
        assert port not in [each["peer_port"] for each in api.get("/connections")]
    with StreamClient(server.stream_port) as other:
        assert named(api.get("/connections"), other.name)
        other.say_goodbye()
    eventually(lambda: not named(api.get("/connections"), other.name))
    assert named(api.get("/connections"), client.name)


def test_a_closed_connection_is_told_why_and_has_a_moment_to_answer(api: Api, server: Server) -> None:
    for headers, reason in (({}, "Closed via management plugin"), ({"X-Reason": "go away"}, "go away")):
        with StreamClient(server.stream_port) as victim:
            path = f"/connections/{encoded(victim.name)}"
            assert api.ask("DELETE", path, headers=headers).status == 204
            told = victim.wait_for(c.CloseRequest)
            assert isinstance(told, c.CloseRequest)
            assert (told.closing_code, told.closing_reason) == (ResponseCode.OK, reason)
            victim.wait_until_closed()
        eventually(lambda: victim.name not in [each["name"] for each in api.get("/connections")])


def test_the_javascript_client_which_knows_no_close_just_loses_its_socket(api: Api, server: Server) -> None:
    with StreamClient(server.stream_port, properties={"platform": "javascript"}) as victim:
        assert api.ask("DELETE", f"/connections/{encoded(victim.name)}").status == 204
        victim.wait_until_closed()
        assert victim.events == []


def test_consumers_tell_how_far_they_are(api: Api, client: StreamClient, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    client.declare_publisher(1, name)
    client.publish(1, 100)
    client.subscribe(7, name, identifier="tag")
    client.wait_for(c.Deliver)
    (shown,) = api.get(f"/stream/consumers/%2F/{name}")
    assert shown["connection_details"]["name"] == client.name
    assert shown["queue"] == {"name": name, "vhost": "/"}
    assert shown["properties"] == {"identifier": "tag"}
    figures = {key: shown[key] for key in ("subscription_id", "consumed", "offset", "offset_lag", "active")}
    assert figures == {
        "subscription_id": 7,
        "consumed": 100,
        "offset": 100,
        "offset_lag": 0,
        "active": True,
    }
    assert 0 <= shown["credits"] < CREDIT
    assert shown["activity_status"] == "up"
    assert shown in api.get("/stream/consumers/")
    assert api.get(f"/stream/connections/%2F/{encoded(client.name)}/consumers") == [shown]
    (classic,) = [each for each in api.get("/consumers/%2F/") if each["queue"]["name"] == name]
    assert classic["consumer_tag"] == "stream.subid-7"
    assert classic["channel_details"]["connection_name"] == client.name


def test_of_a_group_one_consumer_is_active_and_the_others_wait(
    api: Api, client: StreamClient, name: str
) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    for number in range(2):
        client.subscribe(number, name, name="group", **{"single-active-consumer": "true"})
    update = client.wait_for(c.ConsumerUpdateRequest)
    assert isinstance(update, c.ConsumerUpdateRequest)
    whole = c.OffsetSpecification(c.OffsetType.FIRST)
    client.tell(c.ConsumerUpdateResponse(update.correlation_id, ResponseCode.OK, whole))

    def states() -> list[tuple[bool, str]]:
        found = api.get(f"/stream/consumers/%2F/{name}")
        return sorted((each["active"], each["activity_status"]) for each in found)

    eventually(lambda: states() == [(False, "waiting"), (True, "single_active")])


def test_publishers_count_what_became_of_their_messages(api: Api, client: StreamClient, name: str) -> None:
    api.do("PUT", f"/queues/%2F/{name}", STREAM)
    client.declare_publisher(3, name, "a reference")
    client.declare_publisher(4, name)
    client.publish(3, 50)
    named_one, unnamed = sorted(
        api.get(f"/stream/publishers/%2F/{name}"), key=lambda each: int(each["publisher_id"])
    )
    counts = {key: named_one[key] for key in ("reference", "published", "confirmed", "errored")}
    assert counts == {"reference": "a reference", "published": 50, "confirmed": 50, "errored": 0}
    assert (unnamed["reference"], unnamed["published"]) == ("", 0)
    assert named_one["connection_details"]["user"] == "guest"
    assert named_one in api.get("/stream/publishers")
    assert len(api.get(f"/stream/connections/%2F/{encoded(client.name)}/publishers")) == 2
    client.ask_well(c.DeletePublisherRequest(client.next_id(), 4))
    assert api.get(f"/stream/publishers/%2F/{name}") == [named_one]
    assert api.ask("GET", "/stream/publishers/%2F/no-such-stream").status == 404


def test_users_see_and_close_their_own_connections_and_monitors_see_all(
    server: Server, client: StreamClient, api: Api, ada: Api, watcher: Api
) -> None:
    with StreamClient(server.stream_port, "ada", PASSWORD) as own:
        assert [each["name"] for each in ada.get("/connections")] == [own.name]
        assert {own.name, client.name} <= {each["name"] for each in watcher.get("/connections")}
        theirs, foreign = (f"/connections/{encoded(each.name)}" for each in (own, client))
        assert ada.ask("GET", foreign).status == ada.ask("DELETE", foreign).status == 401
        assert watcher.get(foreign)["name"] == client.name
        assert watcher.ask("DELETE", foreign).status == 401
        assert ada.get(theirs)["name"] == own.name
        assert ada.ask("DELETE", theirs).status == 204
        assert isinstance(own.wait_for(c.CloseRequest), c.CloseRequest)
    assert named(api.get("/connections"), client.name)


def test_consumers_and_publishers_of_others_are_not_shown(
    server: Server, client: StreamClient, api: Api, ada: Api, watcher: Api, name: str
) -> None:
    stream = f"ada-{name}"
    api.do("PUT", f"/queues/%2F/{stream}", STREAM)
    client.declare_publisher(1, stream)
    client.subscribe(1, stream)
    with StreamClient(server.stream_port, "ada", PASSWORD) as own:
        own.declare_publisher(1, stream)
        own.subscribe(1, stream)
        for kind in ("publishers", "consumers"):
            path = f"/stream/{kind}/%2F/{stream}"
            assert [each["connection_details"]["user"] for each in ada.get(path)] == ["ada"]
            assert len(watcher.get(path)) == 2
        assert [each["channel_details"]["user"] for each in ada.get("/consumers")] == ["ada"]
