"""Settings and policies of logs at `$management`, given at CREATE and changed by UPDATE, asked by Qpid Proton."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.log.settings import LogPolicies, LogSettings
from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.management.test_amqp_connections import connected
from tests.management.test_amqp_management import Ask, asking, asking_on_links, code, rows, words
from tests.peers.servers import Server
from tests.stream_client import StreamClient

LOG, SELF = "headwater.log", "org.amqp.management"
POLICIES = {
    "group_binding": "dynamic",
    "group_creation": "configured",
    "group_waiting": "wait",
    "group_wait_ms_max": 1,
    "group_reserved_ms": 2,
    "group_move_ms_max": 3,
    "group_members_max": 4,
    "groups_max": 5,
    "partition_binding": "assign",
    "delivery_count_max": 6,
    "dead_letter_log": "dead",
    "partition_attribute": "subject",
    "retention_hold_bytes_max": 7,
    "content": "cloudevents",
    "duplicates_window_count": 8,
    "duplicates_window_ms": 9,
}


@pytest.fixture(scope="module")
def guest(server: Server) -> Iterator[Ask]:
    """An administrator."""
    with connected(server) as connection:
        yield asking(connection)


def test_all_policies_are_shown_and_may_be_given_and_changed(guest: Ask, name: str) -> None:
    assert set(POLICIES) == set(LogPolicies.__struct_fields__)
    plain = {policy: getattr(LogSettings(), policy) for policy in POLICIES}
    assert not any(plain[policy] == value for policy, value in POLICIES.items())
    assert guest("CREATE", name=name).body.items() >= plain.items()
    made = guest("CREATE", name=f"{name}-2", body=POLICIES).body
    assert made.items() >= POLICIES.items()
    updated = guest("UPDATE", name=name, body=POLICIES)
    assert (code(updated), words(updated)) == (200, "OK")
    assert updated.body.items() >= POLICIES.items()
    assert guest("READ", name=name).body == updated.body
    asked = {"attributeNames": ["name", *POLICIES]}
    found = rows(guest("QUERY", SELF, asked, entityType=LOG))
    assert {"name": name, **POLICIES} in found
    assert {"name": f"{name}-2", **POLICIES} in found


def test_an_update_changes_what_it_names_and_leaves_the_rest(guest: Ask, name: str) -> None:
    made = guest("CREATE", name=name, body={"partition_count": 2, "max_bytes": 1000, "groups_max": 9}).body
    changes = {"max_age_ms": "60000", "segment_bytes": 65_536, "max_bytes": None}
    changed = {**changes, "max_age_ms": 60_000}
    assert guest("UPDATE", identity=made["identity"], body=changes).body == {**made, **changed}
    assert guest("UPDATE", name=name, body={}).body == {**made, **changed}
    assert guest("READ", name=name).body == {**made, **changed}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"durability": "memory"}, "'durability' cannot be set here"),
        ({"partition_count": 3}, "'partition_count' cannot be set here"),
        ({"kind": "stream"}, "'kind' cannot be set here"),
        ({"no_such_attribute": 1}, "no_such_attribute"),
        ({"group_binding": "another"}, "group_binding"),
        ({"group_binding": None}, "group_binding"),
        ({"groups_max": -1}, "groups_max"),
        ({"groups_max": "many"}, "groups_max"),
        ({"delivery_count_max": 255}, "delivery_count_max"),
        ({"segment_bytes": 1024}, "segment_bytes"),
        ({"dead_letter_log": ""}, "dead_letter_log"),
        ({"groups_max": 5, "max_bytes": 0}, "max_bytes"),
        ("text", "map"),
    ],
)
def test_an_update_that_cannot_be_changes_nothing_and_the_words_say_why(
    guest: Ask, name: str, body: object, told: str
) -> None:
    made = guest("CREATE", name=name).body
    answer = guest("UPDATE", name=name, body=body)
    assert (code(answer), told in words(answer)) == (400, True)
    assert guest("READ", name=name).body == made


def test_dead_letters_of_a_log_go_to_another_one(guest: Ask, name: str) -> None:
    guest("CREATE", name=name)
    for operation, called in (("UPDATE", name), ("CREATE", f"{name}-2")):
        answer = guest(operation, name=called, body={"dead_letter_log": called})
        assert (code(answer), "is the log itself" in words(answer)) == (400, True)
    assert code(guest("READ", name=f"{name}-2")) == 404


def test_a_log_that_is_not_there_is_not_updated(guest: Ask, name: str) -> None:
    assert code(guest("UPDATE", name=name, body={})) == 404
    assert code(guest("UPDATE", body={})) == 400


def test_changing_a_log_takes_the_permission_to_configure_it(
    server: Server, api: Api, guest: Ask, name: str
) -> None:
    api.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": ".*", "read": ".*"})
    guest("CREATE", name=name)
    with connected(server, "watcher", PASSWORD) as amqp:
        assert code(asking_on_links(amqp)("UPDATE", name=name, body={"groups_max": 1})) == 403
    api.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""})
    assert guest("READ", name=name).body["groups_max"] == LogSettings().groups_max


def test_dead_letters_go_where_the_user_may_write_and_from_where_it_may_read(
    server: Server, api: Api, guest: Ask, name: str
) -> None:
    own, foreign, unread = f"own-{name}", f"foreign-{name}", f"unread-{name}"
    rights = {"configure": f"(own|unread)-{name}.*", "write": f"own-{name}.*", "read": f"own-{name}.*"}
    api.do("PUT", "/permissions/%2F/watcher", rights)
    guest("CREATE", name=foreign)
    with connected(server, "watcher", PASSWORD) as amqp:
        ask = asking_on_links(amqp)
        assert code(ask("CREATE", name=unread)) == 201
        for operation, called, target, status in (
            ("CREATE", own, foreign, 403),
            ("CREATE", own, f"{own}-dead", 201),
            ("UPDATE", own, foreign, 403),
            ("UPDATE", own, f"{own}-dead-2", 200),
            ("UPDATE", unread, f"{own}-dead", 403),
        ):
            assert code(ask(operation, name=called, body={"dead_letter_log": target})) == status
        # What somebody else has set does not hinder other changes.
        guest("UPDATE", name=own, body={"dead_letter_log": foreign})
        assert code(ask("UPDATE", name=own, body={"groups_max": 5})) == 200
    api.do("PUT", "/permissions/%2F/watcher", {"configure": "", "write": "", "read": ""})


def test_stream_clients_find_their_stream_whatever_its_policies_are(
    guest: Ask, client: StreamClient, name: str
) -> None:
    def create(age: str) -> int:
        return client.ask(c.CreateRequest(client.next_id(), name, {"max-age": age})).response_code

    assert create("1h") == ResponseCode.OK
    guest("UPDATE", name=name, body={**POLICIES, "max_age_ms": 60_000})
    assert create("1h") == ResponseCode.STREAM_ALREADY_EXISTS
    assert create("2h") == ResponseCode.PRECONDITION_FAILED
