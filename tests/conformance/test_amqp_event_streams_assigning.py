"""Event Stream Extensions, section 4: a log may want links bound that ask for no partition; the node chooses evenly."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import (
    Accepted,
    Rejected,
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from headwater.amqp.performatives import Begin, Close, Detach, End, Flow
from headwater.encoding.amqp_message import AmqpValue, Message, encode_message
from headwater.encoding.amqp_types import Symbol
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import WINDOW, AmqpWire, data, transfer
from tests.conformance.conftest import ConnectAmqp

PARTITION = Symbol("event-streams-partition")
TARGET = Symbol("event-streams-target-partition")
BOTH = pytest.mark.parametrize("role", [Role.SENDER, Role.RECEIVER])

pytestmark = pytest.mark.clause("ES-6")


class Links:
    """Links of one connection, each with a handle of its own."""

    def __init__(self, wire: AmqpWire, address: str, first_handle: int = 0) -> None:
        self._wire = wire
        self._address = address
        self._handles = itertools.count(first_handle)

    def attach(self, role: Role, name: str, partition: str | None = None) -> tuple[int, str | None]:
        """Attach a link; gives its handle, and the partition that the answer says it is bound to."""
        source, target = Source(self._address), Target(self._address)
        if role is Role.SENDER:
            source = Source()
        else:
            target = Target()
        handle = next(self._handles)
        asked = None if partition is None else {PARTITION: Symbol(partition)}
        answer = self._wire.attach(role, source, target, handle=handle, name=name, properties=asked)
        if role is Role.SENDER:
            self._wire.take(Flow)
        assert set(answer.properties or {}) <= {PARTITION}
        return handle, (answer.properties or {}).get(PARTITION)

    def bound(self, role: Role, count: int) -> list[str | None]:
        """Where so many new links are bound to."""
        return [self.attach(role, f"{role}-{number}")[1] for number in range(count)]

    def close(self, handle: int) -> None:
        """Close a link."""
        self._wire.send(Detach(handle, closed=True))
        self._wire.take(Detach)


@pytest.fixture
def spread(amqp_door: ListeningAmqp, log: str) -> str:
    """A log of three partitions that has links bound."""
    amqp_door.super_stream(log, 3)
    want(amqp_door, log, "assign")
    return log


def want(door: ListeningAmqp, log: str, binding: str) -> None:
    """Change the policy of a log."""

    def change() -> None:
        settings = door.store.log(log).definition.settings
        door.store.change_settings(log, msgspec.structs.replace(settings, partition_binding=binding))

    door.call(change)


@BOTH
def test_links_that_ask_for_nothing_are_bound_evenly_and_are_told_where(
    peer: AmqpWire, spread: str, role: Role
) -> None:
    bound = Links(peer, spread).bound(role, 7)
    assert bound[:3] == ["0", "1", "2"]
    assert Counter(bound) == {"0": 3, "1": 2, "2": 2}


def test_senders_and_receivers_are_spread_by_themselves(peer: AmqpWire, spread: str) -> None:
    links = Links(peer, spread)
    for role in (Role.SENDER, Role.RECEIVER):
        assert links.bound(role, 3) == ["0", "1", "2"]


def test_links_of_all_connections_count_those_that_chose_by_themselves_too(
    connect_amqp: ConnectAmqp, spread: str
) -> None:
    connections = [Links(connect_amqp(), spread) for _ in range(3)]
    assert connections[0].attach(Role.RECEIVER, "own", "1")[1] == "1"
    bound = [links.attach(Role.RECEIVER, f"link {number}")[1] for number, links in enumerate(connections)]
    assert bound == ["0", "2", "0"]


@pytest.mark.parametrize("how", ["close", "detach", "session", "connection"])
def test_a_link_that_goes_makes_room_where_it_was(connect_amqp: ConnectAmqp, spread: str, how: str) -> None:
    going, staying = connect_amqp(), connect_amqp()
    links, others = Links(going, spread), Links(staying, spread)
    assert others.attach(Role.RECEIVER, "a")[1] == "0"
    assert links.attach(Role.RECEIVER, "b") == (0, "1")
    assert others.attach(Role.RECEIVER, "c")[1] == "2"
    assert others.attach(Role.RECEIVER, "d")[1] == "0"
    match how:
        case "session":
            going.send(End())
            going.take(End)
        case "connection":
            going.send(Close())
            going.take(Close)
        case _:
            going.send(Detach(0, closed=how == "close"))
            going.take(Detach)
    assert [others.attach(Role.RECEIVER, name)[1] for name in "ef"] == ["1", "1"]


def test_links_that_take_themselves_over_stay_where_they_were(connect_amqp: ConnectAmqp, spread: str) -> None:
    fields = {"container_id": "the same"}
    first = Links(connect_amqp(fields=fields), spread)
    names = ["a", "b", "c"]
    assert [first.attach(Role.RECEIVER, name)[1] for name in names] == ["0", "1", "2"]
    second = Links(connect_amqp(fields=fields), spread)
    assert [second.attach(Role.RECEIVER, name)[1] for name in reversed(names)] == ["2", "1", "0"]


def test_a_bound_receiver_gets_its_partition_alone_and_a_bound_sender_fills_it(
    peer: AmqpWire, connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, spread: str
) -> None:
    senders = Links(peer, spread)
    assert senders.bound(Role.SENDER, 2) == ["0", "1"]
    peer.publish([data(b"%d" % number) for number in range(4)], handle=1)
    assert amqp_door.counts(spread) == [0, 4, 0]
    reading = connect_amqp()
    for handle, count in ((0, 0), (1, 4), (2, 0)):
        reading.receiver(spread, handle=handle)
        came = reading.messages(count)
        assert [(each.partition, each.offset) for each in came] == [("1", number) for number in range(count)]
    reading.assert_nothing_came()


def test_a_message_for_another_partition_than_the_chosen_one_is_rejected(
    peer: AmqpWire, amqp_door: ListeningAmqp, spread: str
) -> None:
    assert Links(peer, spread).attach(Role.SENDER, "a") == (0, "0")
    outcomes: list[object] = []
    for number, partition in enumerate(("0", "2")):
        message = Message(delivery_annotations={TARGET: Symbol(partition)}, body=AmqpValue("x"))
        peer.send(transfer(number, encode_message(message)))
        outcomes += peer.outcomes([number]).values()
    assert list(map(type, outcomes)) == [Accepted, Rejected]
    assert amqp_door.counts(spread) == [1, 0, 0]


@BOTH
def test_who_asks_for_a_partition_or_names_one_gets_that(peer: AmqpWire, spread: str, role: Role) -> None:
    links = Links(peer, spread)
    assert [links.attach(role, f"link {number}", "2")[1] for number in range(3)] == ["2"] * 3
    assert Links(peer, f"{spread}-1", 3).attach(role, "by address") == (3, "1")


@BOTH
def test_the_only_partition_of_a_log_is_told_too(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, role: Role
) -> None:
    amqp_door.call(lambda: amqp_door.store.create_log(log))
    want(amqp_door, log, "assign")
    assert Links(peer, log).bound(role, 2) == ["0", "0"]


@BOTH
def test_the_policy_holds_from_the_next_attach_on(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, role: Role
) -> None:
    amqp_door.super_stream(log, 2)
    links = Links(peer, log)
    found = []
    for number, binding in enumerate(("agnostic", "assign", "agnostic")):
        want(amqp_door, log, binding)
        found.append(links.attach(role, f"link {number}")[1])
    assert found == [None, "0", None]


def test_a_log_that_has_no_partitions_yet_binds_nobody(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 0)
    want(amqp_door, log, "assign")
    assert Links(peer, log).attach(Role.RECEIVER, "a")[1] is None


@pytest.mark.parametrize(
    "asked",
    [
        Source("", capabilities=(Symbol("shared"),)),
        Source("", durable=TerminusDurability.UNSETTLED_STATE, expiry_policy=TerminusExpiryPolicy.NEVER),
    ],
    ids=["shared", "durable"],
)
def test_subscriptions_are_to_the_whole_log(peer: AmqpWire, spread: str, asked: Source) -> None:
    source = msgspec.structs.replace(asked, address=spread)
    assert PARTITION not in (peer.attach(Role.RECEIVER, source, Target()).properties or {})


def test_a_refused_link_takes_no_place(peer: AmqpWire, spread: str) -> None:
    peer.refused(
        Condition.NOT_FOUND, Role.RECEIVER, Source(spread), Target(), properties={PARTITION: Symbol("7")}
    )
    peer.refused(
        Condition.INVALID_FIELD,
        Role.RECEIVER,
        Source(spread, filter={Symbol("rabbitmq:stream-offset-spec"): "soon"}),
        Target(),
    )
    assert Links(peer, spread).bound(Role.RECEIVER, 3) == ["0", "1", "2"]


def test_nothing_is_kept_of_links_that_are_gone(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, spread: str
) -> None:
    def known() -> int:
        return amqp_door.call(lambda: len(amqp_door.amqp.bound_links._partitions))

    before = known()
    wire = connect_amqp()
    links = Links(wire, spread)
    links.bound(Role.RECEIVER, 3)
    links.bound(Role.SENDER, 2)
    assert known() == before + 5
    links.close(1)
    wire.send(Begin(None, 0, WINDOW, WINDOW), channel=1)
    wire.take(Begin, 1)
    wire.send(End())
    wire.until(End)
    assert known() == before
