"""/logs: a log's life over HTTP, and what is refused on the way."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from headwater.log.settings import LogSettings
from headwater.server.management.log_settings import INTERNAL
from tests.http_api import Api, Reply
from tests.peers.servers import Server
from tests.stream_client import StreamClient

SEGMENT_BYTES = 1 << 20


def word(reply: Reply) -> str:
    """What programs see of a refusal."""
    assert reply.headers["Content-Type"] == "application/problem+json", reply
    assert reply.body["status"] == reply.status
    assert reply.body["detail"]
    assert reply.body["title"]
    return str(reply.body["type"].removeprefix("urn:headwater:problem:"))


def made(api: Api, name: str, **wanted: Any) -> Any:
    """A new log."""
    reply = api.ask("POST", "/logs", {"name": name, **wanted})
    assert reply.status == 201, reply
    return reply.body


def publish(client: StreamClient, stream: str, count: int) -> None:
    client.declare_publisher(1, stream)
    client.publish(1, count)


def test_a_log_is_made_and_shown_with_every_setting_there_is(root: Api, name: str) -> None:
    reply = root.ask("POST", "/logs", {"name": name, "settings": {"max_bytes": 5_000_000}})
    assert (reply.status, reply.headers["Location"]) == (201, f"/logs/{name}")
    assert reply.body == root.get(f"/logs/{name}")
    log = reply.body
    assert (log["name"], log["vhost"], log["kind"], log["partition_count"]) == (name, "/", "stream", 1)
    assert set(log["settings"]) == set(LogSettings.__struct_fields__) - INTERNAL
    assert (log["settings"]["max_bytes"], log["settings"]["durability"]) == (5_000_000, "disk")
    (partition,) = log["partitions"]
    assert (partition["id"], partition["state"], partition["next_offset"]) == ("0", "running", 0)


def test_events_of_other_doors_are_counted(root: Api, client: StreamClient, name: str) -> None:
    made(root, name)
    publish(client, name, 30)
    log = root.get(f"/logs/{name}")
    (partition,) = log["partitions"]
    assert (log["event_count"], partition["first_offset"], partition["next_offset"]) == (30, 0, 30)
    assert log["size_bytes"] == partition["size_bytes"] > 30
    assert partition["last_published"].startswith("20")


def test_a_log_of_several_partitions_is_a_super_stream(root: Api, name: str) -> None:
    log = made(root, name, partitions=3)
    assert (log["kind"], log["partition_count"]) == ("super_stream", 3)
    assert [each["name"] for each in log["partitions"]] == [f"{name}-{number}" for number in range(3)]
    assert made(root, f"{name}-one", kind="super_stream")["partition_count"] == 1


@pytest.mark.parametrize("odd", ["a/b", "ä ö", "100%", "a+b", "?#&=", "..", "a:b -> c"])
def test_names_of_any_characters_are_percent_encoded(root: Api, odd: str) -> None:
    made(root, odd)
    path = f"/logs/{quote(odd, safe='')}"
    assert root.get(path)["name"] == odd
    assert root.do("DELETE", path).status == 204


def test_lists_come_in_pages_that_join_without_a_gap(root: Api, name: str) -> None:
    for number in range(5):
        made(root, f"{name}-page-{number}")
    seen: list[str] = []
    after: str | None = name
    while after is not None:
        page = root.get(f"/logs?limit=2&after={after}")
        assert len(page["logs"]) <= 2
        seen += [log["name"] for log in page["logs"]]
        after = page["next"]
    assert [each for each in seen if each.startswith(f"{name}-page-")] == [
        f"{name}-page-{number}" for number in range(5)
    ]


def test_a_user_lists_what_it_sees_and_a_monitor_all(
    root: Api, ada_at_root: Api, watcher_at_root: Api, nobody_at_root: Api, name: str
) -> None:
    for each in (name, f"ada-{name}"):
        made(root, each)

    def listed(api: Api) -> set[str]:
        found = {log["name"] for log in api.get("/logs?limit=1000")["logs"]}
        return found & {name, f"ada-{name}"}

    assert listed(ada_at_root) == {f"ada-{name}"}
    assert listed(watcher_at_root) == listed(root) == {name, f"ada-{name}"}
    assert listed(nobody_at_root) == set()


def test_settings_change_one_by_one_and_the_rest_stays(root: Api, name: str) -> None:
    before = made(root, name, settings={"max_bytes": 5_000_000, "segment_bytes": SEGMENT_BYTES})["settings"]
    change = {"settings": {"max_age_ms": 60_000, "max_bytes": None}}
    after = root.do("PATCH", f"/logs/{name}", change).body["settings"]
    assert after == {**before, "max_age_ms": 60_000, "max_bytes": None}
    assert root.get(f"/logs/{name}")["settings"] == after
    merged = root.ask(
        "PATCH", f"/logs/{name}", {"settings": {}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert merged.body["settings"] == after


def test_a_log_is_truncated_as_a_whole_and_goes_on_where_it_was(
    root: Api, client: StreamClient, name: str
) -> None:
    made(root, name)
    publish(client, name, 10)
    log = root.do("POST", f"/logs/{name}/truncate").body
    (partition,) = log["partitions"]
    assert (log["event_count"], partition["first_offset"], partition["next_offset"]) == (0, 10, 10)
    client.publish(1, 2)
    assert root.get(f"/logs/{name}")["event_count"] == 2


def test_one_partition_is_truncated_by_its_name_or_its_id(root: Api, client: StreamClient, name: str) -> None:
    made(root, name, partitions=2)
    for number in range(2):
        client.declare_publisher(number, f"{name}-{number}")
        client.publish(number, 5)
    root.do("POST", f"/logs/{name}/truncate", {"partition": "0", "before_offset": 5})
    first, second = root.get(f"/logs/{name}")["partitions"]
    assert (first["event_count"], second["event_count"]) == (0, 5)
    root.do("POST", f"/logs/{name}/truncate", {"partition": f"{name}-1"})
    assert root.get(f"/logs/{name}")["event_count"] == 0


def test_a_deleted_log_is_gone_and_its_name_free(root: Api, client: StreamClient, name: str) -> None:
    made(root, name)
    publish(client, name, 3)
    assert root.do("DELETE", f"/logs/{name}").status == 204
    assert word(root.ask("GET", f"/logs/{name}")) == "unknown-log"
    assert made(root, name)["event_count"] == 0


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"name": ""}, "bad-request"),
        ({"name": "x" * 256}, "bad-request"),
        ({"name": "amq.mine"}, "invalid"),
        ({}, "bad-request"),
        ({"name": "x", "partitions": 0}, "bad-request"),
        ({"name": "x", "partitions": 1001}, "bad-request"),
        ({"name": "x", "kind": "queue"}, "bad-request"),
        ({"name": "x", "kind": "stream", "partitions": 2}, "invalid"),
        ({"name": "x", "settings": {"colour": "red"}}, "bad-request"),
        ({"name": "x", "settings": {"max_bytes": -1}}, "invalid"),
        ({"name": "x", "settings": {"segment_bytes": 1024}}, "invalid"),
        ({"name": "x", "settings": {"entry_bytes_max": 1024}}, "bad-request"),
        ({"name": "x", "settings": {"dead_letter_log": "x"}}, "invalid"),
        ({"name": "x", "colour": "red"}, "bad-request"),
    ],
)
def test_a_log_that_cannot_be_is_refused_and_not_made(root: Api, body: Any, refusal: str) -> None:
    reply = root.ask("POST", "/logs", body)
    assert (reply.status, word(reply)) == (422 if refusal == "invalid" else 400, refusal)
    assert root.ask("GET", "/logs/x").status == 404


def test_what_is_there_already_is_a_conflict(root: Api, name: str) -> None:
    made(root, name, partitions=2)
    for other in (name, f"{name}-0"):
        reply = root.ask("POST", "/logs", {"name": other})
        assert (reply.status, word(reply)) == (409, "log-exists")


def test_changes_that_cannot_be_change_nothing(root: Api, client: StreamClient, name: str) -> None:
    before = made(root, name)
    publish(client, name, 3)
    for method, path, body, status, refusal in (
        ("PATCH", "", {"settings": {"durability": "memory"}}, 422, "invalid"),
        ("PATCH", "", {"settings": {"max_bytes": 0}}, 422, "invalid"),
        ("PATCH", "", {}, 400, "bad-request"),
        ("POST", "/truncate", {"before_offset": 4}, 422, "invalid"),
        ("POST", "/truncate", {"before_offset": -1}, 400, "bad-request"),
        ("POST", "/truncate", {"partition": "7"}, 404, "unknown-partition"),
    ):
        reply = root.ask(method, f"/logs/{name}{path}", body)
        assert (reply.status, word(reply)) == (status, refusal), (method, body)
    after = root.get(f"/logs/{name}")
    assert (after["settings"], after["event_count"]) == (before["settings"], 3)


def test_an_offset_of_no_one_partition_is_refused(root: Api, name: str) -> None:
    made(root, name, partitions=2)
    reply = root.ask("POST", f"/logs/{name}/truncate", {"before_offset": 0})
    assert (reply.status, word(reply)) == (422, "invalid")


def test_who_may_not_configure_changes_nothing_and_learns_nothing(
    root: Api, ada_at_root: Api, watcher_at_root: Api, name: str
) -> None:
    made(root, name)
    for missing in (name, f"{name}-missing"):
        for method, path, body in (
            ("PATCH", f"/logs/{missing}", {"settings": {}}),
            ("DELETE", f"/logs/{missing}", None),
            ("POST", f"/logs/{missing}/truncate", {}),
            ("POST", "/logs", {"name": missing}),
        ):
            for api in (ada_at_root, watcher_at_root):
                reply = api.ask(method, path, body)
                assert (reply.status, word(reply)) == (403, "forbidden"), (method, path)
        assert word(ada_at_root.ask("GET", f"/logs/{missing}")) == "forbidden"
    assert watcher_at_root.get(f"/logs/{name}")["name"] == name
    made(ada_at_root, f"ada-{name}")
    assert ada_at_root.do("DELETE", f"/logs/ada-{name}").status == 204


def test_every_partition_of_a_log_must_be_covered_too(server: Server, root: Api, name: str) -> None:
    narrow = {"/": {"configure": f"{name}", "write": "", "read": ""}}
    root.do("POST", "/users", {"name": f"u-{name}", "password": "pencil", "permissions": narrow})
    api = Api(server.http_port, f"u-{name}", "pencil", below="")
    assert word(api.ask("POST", "/logs", {"name": name, "partitions": 2})) == "forbidden"
    made(api, name)


def test_dead_letters_go_only_where_the_user_could_carry_them_itself(ada_at_root: Api, name: str) -> None:
    log = f"ada-{name}"
    made(ada_at_root, log)
    reply = ada_at_root.ask("PATCH", f"/logs/{log}", {"settings": {"dead_letter_log": name}})
    assert (reply.status, word(reply)) == (403, "forbidden")
    changed = ada_at_root.do("PATCH", f"/logs/{log}", {"settings": {"dead_letter_log": f"{log}-dead"}})
    assert changed.body["settings"]["dead_letter_log"] == f"{log}-dead"


def test_logs_are_those_of_one_vhost(root: Api, api: Api, name: str) -> None:
    api.do("PUT", f"/vhosts/{name}")
    permission = {"configure": ".*", "write": ".*", "read": ".*"}
    api.do("PUT", f"/permissions/{name}/guest", permission)
    try:
        reply = root.ask("POST", f"/logs?vhost={name}", {"name": name})
        assert (reply.status, reply.body["vhost"]) == (201, name)
        assert word(root.ask("GET", f"/logs/{name}")) == "unknown-log"
        assert [log["name"] for log in root.get(f"/logs?vhost={name}")["logs"]] == [name]
        assert root.do("DELETE", f"/logs/{name}?vhost={name}").status == 204
        assert word(root.ask("POST", "/logs?vhost=missing", {"name": name})) == "forbidden"
    finally:
        api.do("DELETE", f"/vhosts/{name}")
