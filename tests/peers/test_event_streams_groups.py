"""Qpid Proton in consumer groups: assigned partitions, epochs, partitions that move, and a killed server."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from proton import Array, Condition, Delivery, Endpoint, Link, Message, symbol, ulong
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

from tests.peers.proton_clients import STEP_TIMEOUT_S, connected, from_offset, url_of
from tests.peers.servers import Server
from tests.peers.test_event_streams_proton import Bound, make_log

GROUP = symbol("event-streams-consumer-group")
PARTITION = symbol("event-streams-partition")
EPOCH = symbol("event-streams-epoch")
CHANGED = symbol("event-streams-associated-partitions-changed")
FIRST = from_offset("first")

_LINKS = itertools.count(1)
ResultT = TypeVar("ResultT")


class Member(LinkOption):
    """Asks to consume in a group."""

    def __init__(self, group: str = "g", partition: str | None = None, epoch: int | None = None) -> None:
        asked = {GROUP: group, PARTITION: partition and symbol(partition), EPOCH: epoch}
        self._properties = {name: value for name, value in asked.items() if value is not None}

    def apply(self, link: Link) -> None:
        link.properties = self._properties


def join(
    connection: BlockingConnection,
    log: str,
    *options: Any,
    member: Member | None = None,
    credit: int = 10,
    name: str | None = None,
) -> BlockingReceiver:
    """Attach in a group; links have names of their own unless one is given."""
    return connection.create_receiver(
        log,
        credit=credit,
        name=name or f"member-{next(_LINKS)}",
        options=[member or Member(), *options],
    )


def told(receiver: BlockingReceiver) -> dict[str, Any]:
    """What the answer to the attach says."""
    return {str(name): value for name, value in receiver.link.remote_properties.items()}


def publish(connection: BlockingConnection, log: str, partition: int, texts: list[str]) -> None:
    sender = connection.create_sender(log, name=f"sender-{next(_LINKS)}", options=Bound(str(partition)))
    for text in texts:
        sender.send(Message(body=text))
    sender.close()


def ended(receiver: BlockingReceiver) -> Condition | None:
    """Why the server closed the link, if it says so."""
    with contextlib.suppress(LinkDetached):  # not raised of one that was closed gracefully
        receiver.connection.wait(lambda: receiver.link.state & Endpoint.REMOTE_CLOSED)
    assert receiver.link.state & Endpoint.REMOTE_CLOSED
    found: Condition | None = receiver.link.remote_condition
    return found


def heard(connection: BlockingConnection) -> None:
    """The server has dealt with what was said: it has answered what was said behind it."""
    connection.create_sender(None, name=f"sender-{next(_LINKS)}").close()


def in_background(call: Callable[[], ResultT]) -> Callable[[], ResultT]:
    """Call on a thread; gives what waits for the answer."""
    results: list[ResultT] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()

    def wait() -> ResultT:
        thread.join(STEP_TIMEOUT_S)
        return results[0]

    return wait


@pytest.mark.clause("ES-12", "ES-13", "ES-14", "ES-18", "ES-11", "ES-21", "ES-23")
def test_members_of_a_group_get_a_partition_each_and_its_events(server: Server, stream: str) -> None:
    with connected(server) as one, connected(server) as other:
        make_log(one, stream, 2)
        for number in range(2):
            publish(one, stream, number, [f"{number} {each}" for each in range(3)])
        for number, connection in enumerate((one, other)):
            receiver = join(connection, stream, FIRST)
            found = told(receiver)
            assert found == {str(GROUP): "g", str(EPOCH): 0, str(PARTITION): str(number)}
            assert type(found[str(EPOCH)]) is int, "a long"
            for each in range(3):
                message = receiver.receive()
                assert message.body == f"{number} {each}"
                assert message.instructions["event-streams-source-partition"] == symbol(str(number))
                assert message.instructions["event-streams-offset"] == symbol(f"{each:016x}")
                assert "event-streams-timestamp" in message.instructions
                receiver.accept()
        with pytest.raises(LinkDetached) as refused:
            join(one, stream)
        assert refused.value.condition == "amqp:link:detach-forced"


@pytest.mark.clause("ES-12")
def test_proton_is_refused_where_groups_are_configured(server: Server, stream: str) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 2, group_creation="configured")
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            join(connection, stream)


@pytest.mark.clause("ES-14")
def test_an_attach_of_proton_waits_until_a_partition_is_free(server: Server, stream: str) -> None:
    with connected(server) as owner:
        make_log(owner, stream, 1, group_waiting="wait")
        first = join(owner, stream)

        def wait_for_partition() -> dict[str, Any]:
            with connected(server) as other:
                return told(join(other, stream))

        answer = in_background(wait_for_partition)
        publish(owner, stream, 0, ["one"])
        assert first.receive().body == "one"
        first.close()
        assert answer()[str(PARTITION)] == "0"


@pytest.mark.clause("ES-18", "ES-19")
@pytest.mark.parametrize("kind", [int, ulong])
def test_a_greater_epoch_steals_and_a_refusal_names_the_current_one(
    server: Server, stream: str, kind: type[int]
) -> None:
    with connected(server) as owner, connected(server) as thief:
        make_log(owner, stream, 1)
        publish(owner, stream, 0, ["one"])
        first = join(owner, stream, FIRST, member=Member(partition="0", epoch=kind(5)))
        assert told(first)[str(EPOCH)] == 5
        assert first.receive().body == "one"
        with pytest.raises(LinkDetached) as refused:
            join(thief, stream, member=Member(partition="0", epoch=kind(5)))
        condition = refused.value.link.remote_condition
        assert condition.name == "amqp:resource-locked"
        assert "the current epoch is 5" in condition.description
        assert condition.info == {EPOCH: 5}
        second = join(thief, stream, member=Member(partition="0", epoch=kind(6)))
        assert told(second)[str(EPOCH)] == 6
        stolen = ended(first)
        assert stolen is not None
        assert stolen.name == "amqp:link:stolen"
        message = second.receive()
        assert (message.body, message.delivery_count) == ("one", 1)


@pytest.mark.clause("ES-20")
def test_an_epoch_outlives_its_connection_and_ends_as_its_link_is_closed(server: Server, stream: str) -> None:
    with connected(server) as owner:
        make_log(owner, stream, 1)
        join(owner, stream, member=Member(partition="0", epoch=5))
    with connected(server) as heir:
        with pytest.raises(LinkDetached, match="amqp:resource-locked"):
            join(heir, stream, member=Member(partition="0", epoch=4))
        again = join(heir, stream, member=Member(partition="0"))
        assert told(again)[str(EPOCH)] == 5
        again.close()
        assert told(join(heir, stream, member=Member(partition="0")))[str(EPOCH)] == 0


@pytest.mark.clause("ES-19")
def test_the_same_link_of_the_same_container_takes_itself_over(server: Server, stream: str) -> None:
    same = f"proton-{stream}"
    with connected(server, container_id=same) as one, connected(server, container_id=same) as other:
        make_log(one, stream, 1)
        first = join(one, stream, member=Member(partition="0", epoch=5), name="same")
        second = join(other, stream, member=Member(partition="0"), name="same")
        assert told(second)[str(EPOCH)] == 5
        stolen = ended(first)
        assert stolen is not None
        assert stolen.name == "amqp:link:stolen"


@pytest.mark.clause("ES-15")
def test_a_container_with_more_is_asked_for_a_partition_and_the_other_gets_it(
    server: Server, stream: str
) -> None:
    with connected(server) as rich, connected(server) as poor:
        make_log(rich, stream, 2)
        publish(rich, stream, 1, ["one", "two", "three"])
        join(rich, stream)
        second = join(rich, stream, FIRST)
        assert second.receive().body == "one"
        second.accept()
        heard(rich)
        assert second.receive().body == "two"
        with pytest.raises(LinkDetached, match="amqp:link:detach-forced"):
            join(poor, stream)
        assert ended(second) is None, "closed gracefully"
        again = join(poor, stream)
        assert told(again)[str(PARTITION)] == "1"
        assert [again.receive().body for _ in range(2)] == ["two", "three"]


def changed(message: Message) -> list[str] | None:
    """The partitions that a delivery says its link has now."""
    found = message.instructions.get(CHANGED)
    if found is None:
        return None
    assert isinstance(found, Array)
    return [str(each) for each in found.elements]


@pytest.mark.clause("ES-16", "ES-17")
def test_partitions_move_between_links_of_proton_without_a_new_attach(server: Server, stream: str) -> None:
    with connected(server) as one, connected(server) as other:
        make_log(one, stream, 4, group_binding="dynamic")
        first = join(one, stream, FIRST)
        assert str(PARTITION) not in told(first)
        publish(one, stream, 3, ["a"])
        message = first.receive()
        assert (message.body, changed(message)) == ("a", ["0", "1", "2", "3"])
        first.accept()
        heard(one)
        second = join(other, stream)
        publish(other, stream, 3, ["b"])
        publish(other, stream, 0, ["c", "d"])
        message = second.receive()
        assert (message.body, changed(message)) == ("b", ["2", "3"])
        message = first.receive()
        assert (message.body, changed(message)) == ("c", ["0", "1"])
        message = first.receive()
        assert (message.body, changed(message)) == ("d", None)
        first.close()
        bodies = [second.receive() for _ in range(2)]
        assert [each.body for each in bodies] == ["c", "d"]
        assert changed(bodies[0]) == ["0", "1", "2", "3"]


# A killed server


def read_unsettled(receiver: BlockingReceiver, count: int) -> list[Delivery]:
    """So many deliveries, of which nothing is said yet."""
    for _ in range(count):
        receiver.receive()
    return list(receiver.fetcher.unsettled)


@pytest.mark.clause("ES-15", "ES-16", "ES-18", "ES-20")
@pytest.mark.parametrize("binding", ["assign", "dynamic"])
def test_a_killed_server_finds_groups_where_they_stood(own_server: Server, binding: str) -> None:
    """Settled before another's settling was answered: gone. Settled at the last moment: may come. Unsettled: comes."""
    connection = BlockingConnection(url_of(own_server), timeout=STEP_TIMEOUT_S)
    make_log(connection, "orders", 1, group_binding=binding)
    publish(connection, "orders", 0, [f"{number}" for number in range(100)])
    owner = join(connection, "orders", FIRST, credit=100)
    deliveries = read_unsettled(owner, 100)
    for delivery in deliveries[:60]:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    deliveries[60].update(Delivery.ACCEPTED)
    connection.wait(lambda: deliveries[60].settled)
    for delivery in deliveries[61:80]:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    connection.container.do_work(0.01)
    own_server.kill()
    own_server.start()
    with connected(own_server) as again:
        receiver = join(again, "orders", credit=100)
        first = int(receiver.receive().body)
        assert 61 <= first <= 80
        assert [int(receiver.receive().body) for _ in range(first + 1, 100)] == list(range(first + 1, 100))
        publish(again, "orders", 0, ["100"])
        assert receiver.receive().body == "100"


@pytest.mark.clause("ES-18", "ES-20")
def test_epochs_survive_a_killed_server(own_server: Server) -> None:
    connection = BlockingConnection(url_of(own_server), timeout=STEP_TIMEOUT_S)
    make_log(connection, "orders", 2)
    join(connection, "orders", member=Member(partition="0", epoch=5))
    join(connection, "orders", member=Member(partition="1", epoch=7)).close()
    own_server.kill()
    own_server.start()
    with connected(own_server) as again:
        with pytest.raises(LinkDetached, match="amqp:resource-locked"):
            join(again, "orders", member=Member(partition="0", epoch=4))
        assert told(join(again, "orders", member=Member(partition="0")))[str(EPOCH)] == 5
        assert told(join(again, "orders", member=Member(partition="1")))[str(EPOCH)] == 0
