"""Event Stream Extensions, section 4.4: links that are bound to no partition follow the partitions of their log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Accepted, Source, Target, TerminusDurability, TerminusExpiryPolicy
from headwater.amqp.performatives import Disposition
from headwater.encoding.amqp_types import Array, Described, Symbol, Ulong
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, Delivered, data, from_offset
from tests.conformance.conftest import ConnectAmqp

CHANGED = Symbol("event-streams-associated-partitions-changed")
PARTITION = Symbol("event-streams-partition")
LATER = {Symbol("f"): Described(Ulong(0x200), {Symbol("event-streams-offset"): Symbol("@latest")})}

pytestmark = pytest.mark.clause("ES-17")


class Growing:
    """A super stream of streams that are bound one by one, and one who publishes to them."""

    def __init__(self, door: ListeningAmqp, publisher: AmqpWire, name: str) -> None:
        self.name = name
        self._door = door
        self._publisher = publisher
        self._handles: dict[str, int] = {}
        self._next_id = 0
        door.call(lambda: door.store.create_log(name, kind="super_stream"))

    def stream(self, key: str) -> str:
        """The name of the stream that is bound under a key."""
        return f"{self.name}-{key}"

    def make(self, key: str) -> None:
        """Make a stream, which is of no log yet."""
        self._door.call(lambda: self._door.store.create_log(self.stream(key)))

    def bind(self, key: str) -> None:
        """Make a stream a partition."""
        self._door.call(lambda: self._door.store.bind_stream(self.name, self.stream(key), key=key))

    def add(self, key: str) -> None:
        """Make a partition of a new stream."""
        self.make(key)
        self.bind(key)

    def delete(self, key: str) -> None:
        """Delete a stream, which leaves the log first."""
        self._door.call(lambda: self._door.store.delete_log(self.stream(key)))
        if key in self._handles:
            self._publisher.assert_detaches(Condition.RESOURCE_DELETED, self._handles[key])

    def publish(self, key: str, *texts: bytes) -> None:
        """Send to one stream, and see it accepted."""
        if key not in self._handles:
            self._publisher.sender(self.stream(key), handle=len(self._handles), name=f"to-{key}")
            self._handles[key] = len(self._handles)
        payloads = [data(text) for text in texts]
        self._publisher.publish(payloads, first_id=self._next_id, handle=self._handles[key])
        self._next_id += len(payloads)


@pytest.fixture
def growing(amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str) -> Growing:
    return Growing(amqp_door, connect_amqp(), log)


def changed(delivered: Delivered) -> list[str] | None:
    """The partitions that a delivery says its link has now."""
    found = delivered.annotations.get(CHANGED)
    if found is None:
        return None
    assert isinstance(found, Array)
    assert all(type(each) is Symbol for each in found.items)
    return [str(each) for each in found.items]


@pytest.mark.parametrize("start", [None, FIRST, from_offset("next")], ids=["none", "first", "next"])
def test_a_new_partition_is_read_from_its_first_event_and_the_next_delivery_says_so(
    growing: Growing, peer: AmqpWire, start: dict[Symbol, Any] | None
) -> None:
    growing.add("a")
    growing.make("b")
    growing.publish("b", b"b 0", b"b 1")
    peer.receiver(growing.name, filter=start)
    growing.publish("a", b"a 0")
    (first,) = peer.messages(1)
    assert (first.partition, first.record, changed(first)) == ("0", data(b"a 0"), None)
    growing.bind("b")
    came = peer.messages(2)
    assert [(each.partition, each.offset, each.record) for each in came] == [
        ("b", number, data(b"b %d" % number)) for number in range(2)
    ]
    assert [changed(each) for each in came] == [["a", "b"], None]
    growing.publish("b", b"b 2")
    growing.publish("a", b"a 1")
    behind = peer.messages(2)
    assert [(each.partition, each.offset, changed(each)) for each in behind] == [
        ("b", 2, None),
        ("a", 1, None),
    ]


def test_the_first_delivery_that_says_so_may_be_of_a_partition_that_was_there(
    growing: Growing, peer: AmqpWire
) -> None:
    growing.add("a")
    growing.add("b")
    peer.receiver(growing.name)
    growing.add("c")
    peer.assert_nothing_came()
    growing.publish("a", b"x", b"y")
    came = peer.messages(2)
    assert [(each.partition, changed(each)) for each in came] == [("a", ["a", "b", "c"]), ("a", None)]


def test_several_changes_are_told_at_once_by_the_last_of_them(growing: Growing, peer: AmqpWire) -> None:
    growing.add("a")
    peer.receiver(growing.name)
    for key in ("b", "c"):
        growing.add(key)
    growing.delete("b")
    growing.publish("c", b"x")
    (came,) = peer.messages(1)
    assert (came.partition, changed(came)) == ("c", ["a", "c"])


def test_a_stream_that_is_deleted_leaves_the_link_and_the_rest_goes_on(
    growing: Growing, peer: AmqpWire
) -> None:
    growing.add("a")
    growing.add("b")
    peer.receiver(growing.name)
    growing.publish("b", b"x")
    assert changed(*peer.messages(1)) is None
    growing.delete("b")
    peer.assert_nothing_came()
    growing.publish("a", b"y")
    (came,) = peer.messages(1)
    assert (came.partition, came.record, changed(came)) == ("0", data(b"y"), ["0"])


def test_a_link_to_a_log_without_partitions_reads_those_that_come(growing: Growing, peer: AmqpWire) -> None:
    peer.receiver(growing.name)
    peer.assert_nothing_came()
    growing.add("a")
    growing.publish("a", b"x")
    (came,) = peer.messages(1)
    assert (came.partition, changed(came)) == ("0", ["0"])


@pytest.mark.parametrize("start", [from_offset(1), LATER], ids=["an offset", "behind @latest"])
def test_a_position_that_is_asked_for_holds_for_new_partitions_which_were_empty_at_the_attach(
    growing: Growing, peer: AmqpWire, start: dict[Symbol, Any]
) -> None:
    growing.add("a")
    growing.publish("a", b"a 0")
    growing.make("b")
    growing.publish("b", b"b 0", b"b 1")
    peer.receiver(growing.name, filter=start)
    peer.assert_nothing_came()
    growing.bind("b")
    expected = [0, 1] if start is LATER else [1]
    came = peer.messages(len(expected))
    assert [(each.partition, each.offset) for each in came] == [("b", offset) for offset in expected]
    peer.assert_nothing_came()


def test_a_selection_is_applied_to_new_partitions(growing: Growing, peer: AmqpWire) -> None:
    sql = Described(Ulong(0x201), "d.event-streams-source-partition = 'b'")
    growing.add("a")
    growing.add("c")
    peer.receiver(growing.name, filter={Symbol("f"): sql})
    growing.add("b")
    for key in ("a", "b", "c"):
        growing.publish(key, b"x")
    (came,) = peer.messages(1)
    assert (came.partition, changed(came)) == ("b", ["a", "c", "b"])
    peer.assert_nothing_came()


def test_links_to_one_partition_stay_with_it_and_are_told_nothing(growing: Growing, peer: AmqpWire) -> None:
    growing.add("a")
    growing.add("b")
    peer.receiver(growing.name, properties={PARTITION: Symbol("a")})
    peer.receiver(growing.stream("a"), handle=1)
    growing.add("c")
    for key in ("c", "b", "a"):
        growing.publish(key, b"x")
    came = peer.messages(2)
    assert sorted((each.partition, changed(each)) for each in came) == [("0", None), ("a", None)]
    peer.assert_nothing_came()


def test_it_is_told_with_every_settle_mode_and_to_each_link_by_itself(
    growing: Growing, peer: AmqpWire
) -> None:
    growing.add("a")
    peer.receiver(growing.name, settled=True)
    peer.receiver(growing.name, handle=1, credit=0)
    growing.add("b")
    growing.publish("a", b"x")
    (told,) = peer.messages(1)
    assert (told.settled, changed(told)) == (True, ["a", "b"])
    peer.credit(1, 1)
    (later,) = peer.messages(1)
    assert (later.settled, changed(later)) == (False, ["a", "b"])
    peer.send(Disposition(Role.RECEIVER, later.id, None, True, Accepted()))
    peer.assert_nothing_came()


def test_a_receiver_that_takes_no_message_of_that_size_gets_it_without(
    growing: Growing, peer: AmqpWire
) -> None:
    growing.add("a")
    peer.receiver(growing.name, max_message_size=150)
    growing.add("b")
    growing.publish("a", b"x")
    (came,) = peer.messages(1)
    assert (came.record, changed(came)) == (data(b"x"), None)
    growing.publish("a", bytes(200))
    peer.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED)


def test_it_may_take_several_frames(growing: Growing, connect_amqp: ConnectAmqp) -> None:
    small = connect_amqp(fields={"max_frame_size": 512})
    growing.add("a")
    small.receiver(growing.name)
    growing.make("b" * 100)
    for key in ("c" * 200, "d" * 100):
        growing.add(key)
    growing.publish("a", b"x" * 300)
    (came,) = small.messages(1)
    assert (came.frames, changed(came)) == (2, ["a", "c" * 200, "d" * 100])
    assert came.record == data(b"x" * 300)


SHARED = Source("", capabilities=(Symbol("shared"),))
DURABLE = Source("", durable=TerminusDurability.UNSETTLED_STATE, expiry_policy=TerminusExpiryPolicy.NEVER)


@pytest.mark.parametrize("asked", [SHARED, DURABLE], ids=["shared", "durable"])
def test_subscriptions_follow_their_log_too(growing: Growing, peer: AmqpWire, asked: Source) -> None:
    growing.add("a")
    growing.make("b")
    growing.publish("b", b"b 0")
    source = msgspec.structs.replace(asked, address=growing.name)
    assert peer.attach(Role.RECEIVER, source, Target()).source is not None
    peer.credit(10)
    growing.publish("a", b"a 0")
    (first,) = peer.messages(1)
    assert (first.partition, changed(first)) == ("0", None)
    growing.bind("b")
    (second,) = peer.messages(1)
    assert (second.partition, second.offset, changed(second)) == ("b", 0, ["a", "b"])
    growing.delete("a")
    growing.publish("b", b"b 1", b"b 2")
    came = peer.messages(2)
    assert [(each.partition, each.offset, changed(each)) for each in came] == [
        ("0", 1, ["0"]),
        ("0", 2, None),
    ]


@pytest.mark.parametrize("role", [Role.SENDER, Role.RECEIVER])
def test_a_super_stream_that_is_deleted_ends_its_links_though_bound_streams_stay(
    growing: Growing, amqp_door: ListeningAmqp, peer: AmqpWire, role: Role
) -> None:
    growing.add("a")
    if role is Role.SENDER:
        peer.sender(growing.name)
    else:
        peer.receiver(growing.name)
    amqp_door.call(lambda: amqp_door.store.delete_log(growing.name))
    peer.assert_detaches(Condition.RESOURCE_DELETED)
    growing.publish("a", b"still there")
    assert amqp_door.counts(growing.stream("a")) == [1]
    answer = peer.attach(Role.RECEIVER, Source(growing.stream("a"), filter=FIRST), Target(), handle=1)
    assert answer.source is not None


def test_a_link_that_is_gone_follows_no_longer(
    growing: Growing, amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp
) -> None:
    growing.add("a")
    connection = connect_amqp()
    connection.receiver(growing.name)
    log = amqp_door.call(lambda: amqp_door.store.log(growing.name))
    assert len(log.on_partitions_changed) == len(log.on_deleted) == 1
    connection.attach(Role.RECEIVER, Source(growing.name), Target(), handle=1, name="another")
    amqp_door.call(lambda: None)
    assert len(log.on_partitions_changed) == len(log.on_deleted) == 2
    connection.send_bytes(b"no frame")
    connection.assert_closes(Condition.CONNECTION_FRAMING_ERROR)
    amqp_door.call(lambda: None)
    assert log.on_partitions_changed == log.on_deleted == set()
