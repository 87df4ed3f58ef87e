"""Qpid Proton: durable and shared subscribers, durable termini, and what of Event Stream Extensions they see."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from proton import Delivery, Described, Link, Message, Terminus, symbol, ulong
from proton.reactor import Copy, DurableSubscription, Filter, LinkOption, Move, ReceiverOption, Selector
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

from tests.peers.proton_clients import connected, numbered, send_all
from tests.peers.servers import Server

SQL_FILTER = "amqp:event-streams-sql-filter"
ANNOTATIONS_FILTER = "amqp:event-streams-delivery-annotations-filter"
PARTITION = symbol("event-streams-partition")
OFFSET = "event-streams-offset"
_NUMBERS = itertools.count(1)


class Capabilities(ReceiverOption):
    """Asks for `shared` and `global`."""

    def __init__(self, *names: str) -> None:
        self._names = [symbol(name) for name in names]

    def apply(self, receiver: Link) -> None:
        receiver.source.capabilities.put_object(self._names)


class Bound(LinkOption):
    """Asks for a partition."""

    def apply(self, link: Link) -> None:
        link.properties = {PARTITION: symbol("0")}


class Expiring(ReceiverOption):
    """A durable source with this policy."""

    def __init__(self, policy: str, timeout_s: int) -> None:
        self._policy, self._timeout_s = policy, timeout_s

    def apply(self, receiver: Link) -> None:
        receiver.source.durability = Terminus.DELIVERIES
        receiver.source.expiry_policy = self._policy
        receiver.source.timeout = self._timeout_s


SHARED = (Capabilities("shared"), DurableSubscription())


def container() -> str:
    """A container id that no other test has."""
    return f"proton-{next(_NUMBERS)}"


def opened(server: Server, name: str) -> Any:
    return connected(server, container_id=name)


def subscriber(
    connection: BlockingConnection, log: str, name: str, *options: Any, credit: int = 100
) -> BlockingReceiver:
    return connection.create_receiver(log, name=name, credit=credit, options=list(options))


def take(receiver: BlockingReceiver, count: int, state: int | None = Delivery.ACCEPTED) -> list[Any]:
    """The bodies of the next messages, with this outcome, or none yet."""
    found = []
    for _ in range(count):
        found.append(receiver.receive().body)
        if state is not None:
            receiver.settle(state)
    return found


def heard(connection: BlockingConnection, log: str) -> None:
    """The server has heard what was settled: Proton tells it with whatever comes next."""
    connection.create_receiver(f"{log}/$info", name=f"heard-{next(_NUMBERS)}", credit=1).receive()


def filtered(descriptor: str, value: object) -> Filter:
    return Filter({symbol("wanted"): Described(symbol(descriptor), value)})


@pytest.fixture
def name() -> str:
    return container()


# Topic subscriptions


@pytest.mark.clause("TS-6", "TS-9")
def test_a_durable_subscription_is_kept_as_its_connection_ends_and_ended_by_closing_its_link(
    server: Server, stream: str, name: str
) -> None:
    with connected(server) as sending:
        with opened(server, name) as connection:
            receiver = subscriber(connection, stream, "sub", DurableSubscription())
            send_all(sending, stream, numbered(0, 3))
            assert take(receiver, 3) == numbered(0, 3)
        send_all(sending, stream, numbered(3, 5))
        with opened(server, name) as connection:
            receiver = subscriber(connection, stream, "sub", DurableSubscription())
            assert take(receiver, 2) == numbered(3, 5)
            receiver.close()
        send_all(sending, stream, ["lost"])
        with opened(server, name) as connection:
            receiver = subscriber(connection, stream, "sub", DurableSubscription())
            send_all(sending, stream, ["now"])
            assert take(receiver, 1) == ["now"]


@pytest.mark.clause("TS-1", "TS-6", "TS-10")
def test_refusals_are_errors_with_a_condition_and_a_reason(server: Server, stream: str, name: str) -> None:
    with opened(server, name) as one, opened(server, name) as two:
        subscriber(one, stream, "sub|1", DurableSubscription())
        for options, words in (
            ((DurableSubscription(),), "amqp:resource-locked.*another consumer is attached"),
            (SHARED, "amqp:precondition-failed.*with other properties"),
            ((Capabilities("shared"),), "amqp:precondition-failed.*with other properties"),
            ((DurableSubscription(), Selector("n > 3")), "amqp:precondition-failed.*with another filter"),
        ):
            with pytest.raises(LinkDetached, match=words):
                subscriber(two, stream, "sub|2", *options)


@pytest.mark.clause("TS-6")
def test_a_client_that_comes_again_takes_its_subscription_over(
    server: Server, stream: str, name: str
) -> None:
    with connected(server) as sending, opened(server, name) as old, opened(server, name) as new:
        lost = subscriber(old, stream, "sub", DurableSubscription())
        send_all(sending, stream, numbered(0, 2))
        assert take(lost, 2) == numbered(0, 2)
        heard(old, stream)
        receiver = subscriber(new, stream, "sub", DurableSubscription())
        with pytest.raises(LinkDetached, match="amqp:link:stolen"):
            lost.receive()
        send_all(sending, stream, ["for the new one"])
        assert take(receiver, 1) == ["for the new one"]


@pytest.mark.clause("TS-3", "TS-11")
def test_outcomes_of_messages_decide_who_gets_them_next(server: Server, stream: str, name: str) -> None:
    with connected(server) as sending, opened(server, name) as connection:
        receiver = subscriber(connection, stream, "sub|1", *SHARED, credit=1)
        send_all(sending, stream, numbered(0, 1))
        message = receiver.receive()
        assert (message.body, message.delivery_count, message.first_acquirer) == ("message 0", 0, False)
        receiver.release(delivered=False)
        message = receiver.receive()
        assert (message.body, message.delivery_count) == ("message 0", 0)
        receiver.fetcher.unsettled[0].local.failed = True
        receiver.release(delivered=True)
        message = receiver.receive()
        assert (message.body, message.delivery_count) == ("message 0", 1)
        receiver.reject()
        send_all(sending, stream, numbered(1, 2))
        assert take(receiver, 1, None) == ["message 1"]
    with opened(server, name) as connection:
        message = subscriber(connection, stream, "sub|2", *SHARED, credit=1).receive()
        assert (message.body, message.delivery_count) == ("message 1", 1)


@pytest.mark.clause("TS-2", "TS-3", "TS-8")
def test_containers_share_a_global_subscription_whose_messages_survive_the_server(
    own_server: Server, stream: str
) -> None:
    options = (Capabilities("global", "shared"), DurableSubscription())
    with connected(own_server) as sending:
        receivers = []
        with opened(own_server, "one") as one, opened(own_server, "two") as two:
            for number, connection in enumerate((one, two)):
                receivers.append(subscriber(connection, stream, f"sub|{number}", *options, credit=2))
            for text in numbered(0, 4):
                send_all(sending, stream, [text])
            assert sorted(take(receivers[0], 2) + take(receivers[1], 2)) == numbered(0, 4)
        send_all(sending, stream, numbered(4, 6))
    own_server.stop()
    own_server.start()
    with opened(own_server, "three") as connection:
        receiver = subscriber(connection, stream, "sub", *options)
        assert take(receiver, 2) == numbered(4, 6)


@pytest.mark.clause("TS-12", "TS-13")
@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ((Copy(),), Terminus.DIST_MODE_COPY),
        ((Move(),), Terminus.DIST_MODE_COPY),
        ((Copy(), *SHARED), Terminus.DIST_MODE_MOVE),
        ((Move(), *SHARED), Terminus.DIST_MODE_MOVE),
    ],
)
def test_proton_sees_the_source_that_it_was_granted(
    server: Server, stream: str, name: str, options: tuple[Any, ...], mode: int
) -> None:
    with connected(server) as sending, opened(server, name) as connection:
        send_all(sending, stream, numbered(0, 1))
        source = subscriber(connection, stream, "sub", *options).link.remote_source
        is_durable = len(options) > 1
        assert source.address == stream
        assert source.distribution_mode == mode
        assert source.durability == (Terminus.DELIVERIES if is_durable else Terminus.NONDURABLE)
        assert source.expiry_policy == (Terminus.EXPIRE_NEVER if is_durable else Terminus.EXPIRE_WITH_LINK)
        granted = source.capabilities
        assert (symbol("shared") in list(granted.get_object() if granted.next() else [])) == is_durable


@pytest.mark.clause("TS-1", "ES-28")
def test_a_durable_subscription_has_a_selector(server: Server, stream: str, name: str) -> None:
    options = (DurableSubscription(), Selector("n > 3"))

    def send(connection: BlockingConnection, numbers: range) -> None:
        sender = connection.create_sender(stream, name=f"s-{numbers.start}")
        for number in numbers:
            sender.send(Message(properties={"n": number}, body=f"message {number}"))

    with connected(server) as sending:
        for first in (0, 6):
            if first:
                send(sending, range(first, first + 6))
            with opened(server, name) as connection:
                receiver = subscriber(connection, stream, "sub", *options)
                if not first:
                    send(sending, range(6))
                assert take(receiver, 2 if not first else 6) == numbered(max(first, 4), first + 6)


# Event Stream Extensions


@pytest.mark.clause("ES-4", "ES-22")
def test_a_durable_terminus_goes_on_from_its_position_whatever_the_filter_says(
    own_server: Server, stream: str
) -> None:
    earliest = filtered(SQL_FILTER, f"delivery_annotations.{OFFSET} > '@earliest'")
    latest = filtered(SQL_FILTER, f"delivery_annotations.{OFFSET} > '@latest'")

    def attach(connection: BlockingConnection, wanted: Filter) -> BlockingReceiver:
        return subscriber(connection, stream, "terminus", DurableSubscription(), Bound(), wanted)

    with connected(own_server) as sending:
        send_all(sending, stream, numbered(0, 4))
        with opened(own_server, "same") as connection:
            receiver = attach(connection, earliest)
            assert receiver.link.remote_source.durability == Terminus.DELIVERIES
            assert take(receiver, 4) == numbered(0, 4)
        send_all(sending, stream, numbered(4, 6))
    own_server.stop()
    own_server.start()
    for wanted, expected in ((latest, numbered(4, 6)), (earliest, [])):
        with connected(own_server) as sending, opened(own_server, "same") as connection:
            receiver = attach(connection, wanted)
            assert take(receiver, len(expected)) == expected
            send_all(sending, stream, ["and then"])
            assert take(receiver, 1) == ["and then"]


@pytest.mark.clause("ES-4")
def test_expiry_policy_and_time_out_of_proton_are_kept(server: Server, stream: str, name: str) -> None:
    with connected(server) as sending:
        for policy, timeout_s, is_kept in (
            (Terminus.EXPIRE_WITH_LINK, 0, False),
            (Terminus.EXPIRE_WITH_LINK, 1000, True),
            (Terminus.EXPIRE_WITH_CONNECTION, 0, False),
            (Terminus.EXPIRE_NEVER, 0, True),
        ):
            options = (Expiring(policy, timeout_s), Bound())
            with opened(server, name) as connection:
                source = subscriber(connection, stream, f"{policy}-{timeout_s}", *options).link.remote_source
                assert (source.expiry_policy, source.timeout) == (policy, timeout_s)
            send_all(sending, stream, [f"while {policy} was away"])
            with opened(server, name) as connection:
                receiver = subscriber(connection, stream, f"{policy}-{timeout_s}", *options)
                send_all(sending, stream, ["back"])
                expected = [f"while {policy} was away", "back"] if is_kept else ["back"]
                assert take(receiver, len(expected)) == expected


@pytest.mark.clause("ES-2", "ES-3")
def test_a_plain_receiver_of_proton_begins_with_what_comes(server: Server, stream: str) -> None:
    with connected(server) as sending, connected(server) as connection:
        send_all(sending, stream, numbered(0, 3))
        receiver = subscriber(connection, stream, "plain")
        send_all(sending, stream, numbered(3, 5))
        assert take(receiver, 2) == numbered(3, 5)


@pytest.mark.clause("ES-21", "ES-23", "ES-24", "ES-25", "ES-26", "ES-27")
def test_filters_of_proton_go_through_what_is_retained_and_are_echoed(server: Server, stream: str) -> None:
    with connected(server) as connection:
        started_ms = int(time.time() * 1000) - 1
        send_all(connection, stream, numbered(0, 20))
        for descriptor, value, wanted in (
            (symbol(ANNOTATIONS_FILTER), {symbol(OFFSET): symbol(f"{16:016x}")}, numbered(17, 20)),
            (symbol(ANNOTATIONS_FILTER), {symbol("event-streams-timestamp"): started_ms}, numbered(0, 20)),
            (symbol(SQL_FILTER), f"d.{OFFSET} > '{16:016x}' AND d.{OFFSET} < '@latest'", numbered(17, 20)),
            (symbol(SQL_FILTER), f"d.{OFFSET} > '@earliest'", numbered(0, 20)),
            (ulong(0x200), {symbol(OFFSET): symbol(f"{16:016x}")}, numbered(17, 20)),
            (ulong(0x201), f"d.{OFFSET} > '{16:016x}'", numbered(17, 20)),
        ):
            option = Filter({symbol("wanted"): Described(descriptor, value)})
            receiver = subscriber(connection, stream, f"filtered-{next(_NUMBERS)}", option)
            echoed = receiver.link.remote_source.filter
            assert echoed.next()
            assert list(echoed.get_dict()) == [symbol("wanted")]
            messages = [receiver.receive() for _ in wanted]
            assert [each.body for each in messages] == wanted
            offsets = [str(each.instructions[symbol(OFFSET)]) for each in messages]
            assert offsets == sorted(offsets)
            assert all(each.instructions[symbol("event-streams-timestamp")] > started_ms for each in messages)
            receiver.close()


@pytest.mark.clause("ES-29")
def test_runtime_information_comes_to_proton_more_than_once(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 2))
        receiver = connection.create_receiver(f"{stream}/$info", name=f"{stream}-info", credit=2)
        first = receiver.receive().body["partitions"]
        send_all(connection, stream, numbered(2, 3))
        second = receiver.receive().body["partitions"]
        latest = [each[0]["latest-offset"] for each in (first, second)]
        assert latest == [symbol(f"{1:016x}"), symbol(f"{2:016x}")]
