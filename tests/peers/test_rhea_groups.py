"""rhea in consumer groups: partitions that the server assigns, epochs, partitions that move, and a killed server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.programs import Program, texts
from tests.peers.proton_clients import connected
from tests.peers.servers import Server
from tests.peers.test_event_streams_proton import make_log
from tests.peers.test_rhea import connect, program, receive, refused, send, sender

pytestmark = pytest.mark.peers

GROUP, PARTITION, EPOCH = (
    "event-streams-consumer-group",
    "event-streams-partition",
    "event-streams-epoch",
)
CHANGED = "event-streams-associated-partitions-changed"


@pytest.fixture
def peer(server: Server) -> Iterator[Program]:
    """The program with two connections, of containers that have names of their own."""
    with program() as running:
        for name in ("one", "other"):
            connect(running, server, **{"as": name, "container_id": f"rhea-{name}"})
        yield running


def log_of(server: Server, name: str, count: int, **policies: Any) -> None:
    with connected(server) as connection:
        make_log(connection, name, count, **policies)


def join(peer: Program, log: str, as_: str, of: str = "one", *, goes_on: bool = False, **options: Any) -> Any:
    """Attach in a group, to begin with the first message or to go on; gives what the answer says."""
    asked = {GROUP: "g", **options.pop("properties", {})}
    where = {} if goes_on else {"offset": "first"}
    fields = {"as": as_, "of": of, "address": log, "properties": asked, "credit_window": 10}
    peer("receiver", **{**fields, **where, **options})
    return peer("told", of=as_)


def publish(peer: Program, log: str, partition: str, bodies: list[str]) -> None:
    name = f"s-{log}-{partition}"
    sender(peer, log, name, of="one", properties={PARTITION: partition})
    send(peer, bodies, name)
    peer("leave", of=name)


def annotated(peer: Program, of: str) -> tuple[str, str, list[str] | None]:
    """The body and partition of the next message, and which partitions it says that its link has now."""
    (message,) = peer("receive", of=of, count=1)
    found = message["delivery_annotations"]
    return message["body"], found["event-streams-source-partition"], found.get(CHANGED)


@pytest.mark.clause("ES-12", "ES-13", "ES-14", "ES-18", "ES-11")
def test_members_get_a_partition_each_and_a_third_is_refused(
    peer: Program, server: Server, stream: str
) -> None:
    log_of(server, stream, 2)
    for number, of in (("0", "one"), ("1", "other")):
        publish(peer, stream, number, texts(0, 3))
        assert join(peer, stream, of, of) == {GROUP: "g", EPOCH: 0, PARTITION: number}
        assert annotated(peer, of) == ("message 0", number, None)
        assert receive(peer, 2, of) == texts(1, 3)
    condition, words = refused(
        peer, "receiver", **{"as": "third", "of": "one", "address": stream, "properties": {GROUP: "g"}}
    )
    assert condition == "amqp:link:detach-forced"
    assert "all partitions have owners" in words


@pytest.mark.clause("ES-18", "ES-19", "ES-20")
def test_a_greater_epoch_steals_and_a_smaller_one_is_told_the_current(
    peer: Program, server: Server, stream: str
) -> None:
    log_of(server, stream, 2)
    publish(peer, stream, "0", texts(0, 2))
    asked = {PARTITION: "0", EPOCH: 5}
    assert join(peer, stream, "a", properties=asked)[EPOCH] == 5
    assert receive(peer, 2, "a", outcome="none") == texts(0, 2)
    fields = {"of": "other", "address": stream, "properties": {GROUP: "g", **asked}}
    condition, words = refused(peer, "receiver", **{"as": "b", **fields})
    assert condition == "amqp:resource-locked"
    assert "the current epoch is 5" in words
    found = join(peer, stream, "c", "other", goes_on=True, properties={PARTITION: "0", EPOCH: 6})
    assert found == {GROUP: "g", EPOCH: 6, PARTITION: "0"}
    assert peer("ended", of="a")["condition"] == "amqp:link:stolen"
    assert receive(peer, 2, "c") == texts(0, 2)
    peer("leave", of="c")
    assert join(peer, stream, "d", properties={PARTITION: "0"})[EPOCH] == 0


@pytest.mark.clause("ES-15")
def test_a_link_is_closed_gracefully_for_a_container_that_has_none(
    peer: Program, server: Server, stream: str
) -> None:
    log_of(server, stream, 2)
    join(peer, stream, "a")
    join(peer, stream, "b")
    fields = {"of": "other", "address": stream, "properties": {GROUP: "g"}}
    assert refused(peer, "receiver", **{"as": "c", **fields})[0] == "amqp:link:detach-forced"
    assert peer("ended", of="b") == {}
    assert join(peer, stream, "d", "other")[PARTITION] == "1"


@pytest.mark.clause("ES-16", "ES-17")
def test_partitions_move_without_a_new_attach_and_rhea_is_told_which_it_has(
    peer: Program, server: Server, stream: str
) -> None:
    log_of(server, stream, 4, group_binding="dynamic")
    assert join(peer, stream, "a") == {GROUP: "g", EPOCH: 0}
    publish(peer, stream, "3", ["first"])
    assert annotated(peer, "a") == ("first", "3", ["0", "1", "2", "3"])
    join(peer, stream, "b", "other")
    publish(peer, stream, "3", ["second"])
    assert annotated(peer, "b") == ("second", "3", ["2", "3"])
    publish(peer, stream, "0", ["third", "fourth"])
    assert annotated(peer, "a") == ("third", "0", ["0", "1"])
    assert annotated(peer, "a") == ("fourth", "0", None)
    peer("leave", of="a")
    publish(peer, stream, "1", ["fifth"])
    assert annotated(peer, "b") == ("fifth", "1", ["0", "1", "2", "3"])


@pytest.mark.clause("ES-15", "ES-16", "ES-20")
@pytest.mark.parametrize("binding", ["assign", "dynamic"])
def test_a_killed_server_finds_the_group_where_settling_second_was_answered(
    own_server: Server, binding: str
) -> None:
    """rhea settles when the server has: what it settled so never comes again, all else does."""
    log_of(own_server, "orders", 2, group_binding=binding)
    with program() as peer:
        connect(peer, own_server, **{"as": "one"})
        publish(peer, "orders", "0", texts(0, 20))
        join(peer, "orders", "a", rcv_settle_mode=1, autosettle=False, credit_window=20)
        assert receive(peer, 12, "a", outcome="none") == texts(0, 12)
        assert peer("settle_second", of="a", count=7) == 7
        own_server.kill()
        own_server.start()
        connect(peer, own_server, **{"as": "again"})
        join(peer, "orders", "b", "again", goes_on=True, credit_window=20)
        assert receive(peer, 13, "b") == texts(7, 20)
