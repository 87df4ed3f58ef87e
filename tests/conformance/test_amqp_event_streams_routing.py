"""Event Stream Extensions, sections 4.2, 4.6.6 and 4.6.7: messages that say which partition they belong to."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, ReceiverSettleMode, Role
from headwater.amqp.messaging import Accepted, DeliveryState, Rejected, Source, Target
from headwater.amqp.performatives import Detach, Disposition, Flow
from headwater.encoding.amqp_message import Data, Header, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol, Ulong
from headwater.encoding.murmur3 import partition_of
from headwater.log.log import PartitionDefinition
from headwater.log.settings import LogSettings, StoreSettings
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire, Delivered, data, transfer
from tests.conformance.conftest import ConnectAmqp
from tests.conformance.listening import HOST
from tests.conformance.wire import opened
from tests.delayed_files import DelayedFiles
from tests.failing_files import FailingFiles

LOG = "orders"
COUNT = 8
GROUP_KEY = Symbol("event-streams-group-key")
TARGET = Symbol("event-streams-target-partition")
PARTITION = Symbol("event-streams-partition")


def message(body: str, *, key: Any = None, target: Any = None, **sections: Any) -> bytes:
    """A message with these hints."""
    if key is not None:
        sections["message_annotations"] = {Symbol("x-opt-mine"): Ulong(7), GROUP_KEY: key}
    if target is not None:
        sections["delivery_annotations"] = {Symbol("x-opt-way"): "west", TARGET: target}
    return encode_message(Message(body=Data((body.encode(),)), **sections))


def read_all(wire: AmqpWire, door: ListeningAmqp, log: str, handle: int = 9) -> list[Delivered]:
    """All that a log holds, each partition in its order."""
    count = sum(door.counts(log))
    wire.receiver(log, handle=handle, credit=count)
    return wire.messages(count)


def body_of(delivered: Delivered) -> str:
    return delivered.record.partition(b"\x00\x53\x75\xa0")[2][1:].decode()


def refusal(state: DeliveryState | None) -> tuple[str, str]:
    """Why a message was rejected."""
    assert isinstance(state, Rejected)
    assert state.error is not None
    return str(state.error.condition), state.error.description or ""


def burst(wire: AmqpWire, payloads: Sequence[bytes], first_id: int = 0, **fields: Any) -> None:
    """Send messages in one write."""
    wire.send(b"".join(transfer(first_id + at, each, **fields) for at, each in enumerate(payloads)))


# Keys


@pytest.mark.clause("ES-8")
@pytest.mark.parametrize("at_once", [True, False], ids=["in one run", "one by one"])
def test_a_key_stays_in_its_partition_in_order_and_on_its_message(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, *, at_once: bool
) -> None:
    amqp_door.super_stream(log, COUNT)
    peer.sender(log)
    keys = [f"schlüssel {number % 13}" for number in range(130)]
    payloads = [message(f"{key} {number:03}", key=key) for number, key in enumerate(keys)]
    for first, part in [(0, payloads)] if at_once else [(at, [each]) for at, each in enumerate(payloads)]:
        peer.publish(part, first_id=first)
    came = read_all(peer, amqp_door, log)
    assert sorted(each.record for each in came) == sorted(payloads)
    for key in set(keys):
        of_key = [each for each in came if body_of(each).startswith(f"{key} ")]
        assert {each.partition for each in of_key} == {str(partition_of(key.encode(), COUNT))}
        assert [body_of(each) for each in of_key] == [
            f"{key} {number:03}" for number in range(130) if keys[number] == key
        ]


@pytest.mark.clause("ES-8")
@pytest.mark.parametrize("header", [None, Header(durable=True)])
@pytest.mark.parametrize("others", [0, 3, 300])
def test_a_key_is_found_behind_whatever_stands_before_it(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, header: Header | None, others: int
) -> None:
    amqp_door.super_stream(log, COUNT)
    peer.sender(log)
    before: dict[Symbol | Ulong, Any] = {
        Symbol(f"x-opt-{number}"): [number, "x", {"y": 2.5}] for number in range(others)
    }
    payload = encode_message(
        Message(
            header=header,
            delivery_annotations={Symbol("x-opt-way"): "west"},
            message_annotations={**before, GROUP_KEY: "here"},
            properties=Properties(subject="s"),
            body=Data((b"x",)),
        )
    )
    peer.publish([payload] * 5)
    expected = partition_of(b"here", COUNT)
    assert amqp_door.counts(log) == [5 if number == expected else 0 for number in range(COUNT)]


@pytest.mark.clause("ES-8", "ES-9")
def test_what_is_no_key_leaves_the_choice_to_the_node(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 4)
    peer.sender(log)
    broken = b"\0\x53\x72\xc1\x05\x02\xa3\xff\0\0" + data(b"broken map")
    payloads = [
        message("number", key=Ulong(3)),
        message("list", key=["here"]),
        encode_message(Message(message_annotations={GROUP_KEY: None}, body=Data((b"null",)))),
        broken,
    ]
    for number, payload in enumerate(payloads):
        peer.publish([payload], first_id=number)
    assert amqp_door.counts(log) == [1, 1, 1, 1]
    peer.receiver(log, handle=1)
    assert sorted(each.record for each in peer.messages(4)) == sorted(payloads)


@pytest.mark.clause("ES-8")
@pytest.mark.parametrize("key", ["", "k", Symbol("symbol"), "x" * 300])
def test_a_key_of_any_form_counts(peer: AmqpWire, amqp_door: ListeningAmqp, log: str, key: str) -> None:
    amqp_door.super_stream(log, COUNT)
    peer.sender(log)
    peer.publish([message("x", key=key)] * 3)
    assert amqp_door.counts(log)[partition_of(key.encode(), COUNT)] == 3


@pytest.mark.clause("ES-8", "ES-9")
def test_messages_with_and_without_a_key_come_in_one_run(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, COUNT)
    peer.sender(log)
    keyed = [message(f"k{number}", key=f"k{number % 5}") for number in range(50)]
    plain = [data(b"p%d" % number) for number in range(50)]
    peer.publish([each for pair in zip(keyed, plain, strict=True) for each in pair])
    came = read_all(peer, amqp_door, log)
    of_plain = [each for each in came if each.record in plain]
    assert len({each.partition for each in of_plain}) == 1, "those without stay together in a run"
    assert [each.record for each in of_plain] == plain
    for number in range(5):
        of_key = [each for each in came if each.record in keyed[number::5]]
        assert [each.record for each in of_key] == keyed[number::5]
        assert {each.partition for each in of_key} == {str(partition_of(b"k%d" % number, COUNT))}


@pytest.mark.clause("ES-8")
def test_a_run_over_several_partitions_is_settled_by_one_disposition_when_all_of_it_is_on_disk(
    tmp_path: Path,
) -> None:
    files = DelayedFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        door.super_stream(LOG, 4)
        wire.sender(LOG)
        wire.publish([message("x", target=str(number)) for number in range(4)])
        files.hold_back()
        burst(wire, [message(f"{number}", key=f"{number}") for number in range(100)], 4)
        assert files.entered.wait(10)
        wire.assert_nothing_came()
        files.go_on.set()
        settled = wire.take(Disposition)
        assert (settled.first, settled.last, settled.settled, settled.state) == (4, 103, True, Accepted())
        assert sum(door.counts(LOG)) == 104


@pytest.mark.clause("ES-8")
@pytest.mark.parametrize("mode", list(ReceiverSettleMode))
def test_of_a_run_over_several_partitions_just_those_of_a_failed_write_are_rejected(
    tmp_path: Path, mode: ReceiverSettleMode
) -> None:
    files = FailingFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        door.super_stream(LOG, 4)
        wire.attach(Role.SENDER, Source(), Target(LOG), rcv_settle_mode=mode)
        wire.take(Flow)
        files.write_error = errno.ENOSPC
        keys = [f"{number % 30}" for number in range(90)]
        burst(wire, [message(f"{number}", key=key) for number, key in enumerate(keys)])
        states: dict[int, DeliveryState | None] = {}
        while len(states) < 90:
            came = wire.take(Disposition)
            assert came.settled is (mode is ReceiverSettleMode.FIRST)
            last = came.first if came.last is None else came.last
            assert not states.keys() & range(came.first, last + 1), "an outcome is told once"
            states.update(dict.fromkeys(range(came.first, last + 1), came.state))
        lost = {partition_of(keys[id_].encode(), 4) for id_, state in states.items() if state != Accepted()}
        assert len(lost) == 1
        for id_, state in states.items():
            if partition_of(keys[id_].encode(), 4) in lost:
                assert refusal(state)[0] == Condition.RESOURCE_LIMIT_EXCEEDED
        wire.send(Disposition(Role.SENDER, 0, 89, settled=True))
        stored = {body_of(each) for each in read_all(wire, door, LOG)}
        assert stored == {str(id_) for id_, state in states.items() if state == Accepted()}


@pytest.mark.clause("ES-8")
def test_of_a_run_over_several_partitions_just_a_message_that_is_too_large_is_rejected(
    tmp_path: Path,
) -> None:
    with ListeningAmqp(tmp_path / "data") as door, door.connect() as wire:
        parts = [PartitionDefinition(f"{LOG}-{number}", str(number)) for number in range(4)]
        settings = LogSettings(entry_bytes_max=500)
        door.call(
            lambda: door.store.create_log(LOG, kind="super_stream", partitions=parts, settings=settings)
        )
        wire.sender(LOG)
        sizes = {7: 600, 20: 600}
        burst(wire, [message("x" * sizes.get(number, 10), key=f"{number % 9}") for number in range(30)])
        outcomes = wire.outcomes(range(30))
        assert {id_ for id_, state in outcomes.items() if state != Accepted()} == set(sizes)
        assert refusal(outcomes[7])[0] == Condition.LINK_MESSAGE_SIZE_EXCEEDED
        assert sum(door.counts(LOG)) == 28


@pytest.mark.clause("ES-8")
def test_a_log_that_is_deleted_rejects_what_was_on_its_way_to_several_partitions(tmp_path: Path) -> None:
    files = DelayedFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        door.super_stream(LOG, 4)
        wire.sender(LOG)
        wire.publish([message("x", target=str(number)) for number in range(4)])
        files.hold_back()
        burst(wire, [message("x", key=f"{number}") for number in range(40)], 4)
        assert files.entered.wait(10)
        wire.assert_nothing_came()
        door.call(lambda: door.store.delete_log(LOG))
        files.go_on.set()
        wire.assert_detaches(Condition.RESOURCE_DELETED)


@pytest.mark.clause("ES-8")
@pytest.mark.parametrize("keys", [50, 1])
def test_keyed_messages_wait_for_room_and_none_is_lost_or_stored_twice(tmp_path: Path, keys: int) -> None:
    settings = StoreSettings(partition_uncommitted_bytes_max=1 << 17)
    files = DelayedFiles()
    count, size = 3_000, 1_000
    with (
        ListeningAmqp(tmp_path / "data", settings=settings, files=files) as door,
        door.connect() as wire,
        door.connect() as reader,
    ):
        door.super_stream(LOG, 4)
        wire.sender(LOG)
        wire.publish([message("x", target=str(number)) for number in range(4)])
        files.hold_back()
        payloads = [message(f"{number:0{size}}", key=f"{number % keys}") for number in range(count)]
        burst(wire, payloads[:500], 4)
        assert files.entered.wait(10)
        for first in range(500, count, 500):
            burst(wire, payloads[first : first + 500], 4 + first)
        waiting = door.call(lambda: max(each.uncommitted_bytes for each in door.store.log(LOG).partitions))
        assert waiting < (1 << 17) + (1 << 20), "beyond the bound there is one buffer at most"
        files.go_on.set()
        assert set(wire.outcomes(range(4, 4 + count)).values()) == {Accepted()}
        came = read_all(reader, door, LOG)
        assert len(came) == 4 + count
        for key in range(keys):
            wanted = set(payloads[key::keys])
            assert [each.record for each in came if each.record in wanted] == payloads[key::keys]


@pytest.mark.clause("ES-8")
def test_a_link_that_is_detached_hears_first_of_what_went_to_several_partitions(tmp_path: Path) -> None:
    files = DelayedFiles()
    with ListeningAmqp(tmp_path / "data", files=files) as door, door.connect() as wire:
        door.super_stream(LOG, 2)
        wire.sender(LOG)
        wire.publish([message("x", target=str(number)) for number in range(2)])
        files.hold_back()
        burst(wire, [message("x", target=str(number % 2)) for number in range(10)], 2)
        wire.send(Detach(0, closed=True))
        assert files.entered.wait(10)
        wire.assert_silent()
        files.go_on.set()
        settled = wire.take(Disposition)
        assert (settled.first, settled.last) == (2, 11)
        wire.take(Detach)


# Target partitions


@pytest.mark.clause("ES-7")
@pytest.mark.parametrize("kind", [Symbol, str])
def test_a_message_goes_to_the_partition_that_it_names_less_what_named_it(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, kind: type[str]
) -> None:
    amqp_door.super_stream(log, 3)
    with opened(HOST, amqp_door.port) as stream:
        peer.sender(log)
        numbers = [2, 0, 2, 1, 1, 2, 0]
        peer.publish([message(f"{at}", target=kind(number)) for at, number in enumerate(numbers)])
        assert amqp_door.counts(log) == [2, 2, 3]
        stream.subscribe(1, f"{log}-2")
        assert [body for _, body in stream.messages(3)] == [message(f"{at}") for at in (0, 2, 5)]


@pytest.mark.clause("ES-7", "ES-8")
def test_a_named_partition_goes_before_a_key(peer: AmqpWire, amqp_door: ListeningAmqp, log: str) -> None:
    amqp_door.super_stream(log, COUNT)
    peer.sender(log)
    elsewhere = (partition_of(b"here", COUNT) + 1) % COUNT
    peer.publish([message("x", key="here", target=Symbol(elsewhere)), message("y", key="here")])
    counts = amqp_door.counts(log)
    assert (counts[elsewhere], counts[partition_of(b"here", COUNT)]) == (1, 1)


@pytest.mark.clause("ES-7")
def test_just_the_messages_for_a_partition_that_is_not_there_are_rejected(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    peer.sender(log)
    names = ["0", "2", "1", "", "0", "2", "x" * 1000]
    burst(peer, [message(f"{at}", target=Symbol(name)) for at, name in enumerate(names)])
    outcomes = peer.outcomes(range(7))
    assert [id_ for id_, state in outcomes.items() if state == Accepted()] == [0, 2, 4]
    for id_, name in ((1, "2"), (3, ""), (5, "2"), (6, "x" * 98)):
        condition, words = refusal(outcomes[id_])
        assert condition == Condition.NOT_FOUND
        assert words.startswith(f"'{log}' has no partition '{name}")
        assert words.endswith("it has 0, 1")
    assert amqp_door.counts(log) == [2, 1]


@pytest.mark.clause("ES-7")
@pytest.mark.parametrize("target", [Ulong(1), ["1"], b"1"])
def test_what_names_no_partition_is_rejected(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, target: Any
) -> None:
    amqp_door.super_stream(log, 2)
    peer.sender(log)
    burst(peer, [message("x", target=target)])
    condition, words = refusal(peer.outcomes([0])[0])
    assert condition == Condition.INVALID_FIELD
    assert words == "event-streams-target-partition is a symbol in a map of delivery annotations"
    null = encode_message(Message(delivery_annotations={TARGET: None}, body=Data((b"x",))))
    peer.publish([null], first_id=1)


@pytest.mark.clause("ES-7")
@pytest.mark.parametrize("is_asked_for", [True, False], ids=["by property", "by address"])
def test_on_a_bound_link_a_message_may_only_name_the_partition_of_the_link(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str, *, is_asked_for: bool
) -> None:
    amqp_door.super_stream(log, 3)
    properties = {PARTITION: Symbol("1")} if is_asked_for else None
    address = log if is_asked_for else f"{log}-1"
    peer.attach(Role.SENDER, Source(), Target(address), properties=properties)
    peer.take(Flow)
    names = [Symbol("1"), None, Symbol("2"), Symbol("9"), None]
    burst(peer, [message(f"{at}", target=name, key="any") for at, name in enumerate(names)])
    outcomes = peer.outcomes(range(5))
    assert [id_ for id_, state in outcomes.items() if state == Accepted()] == [0, 1, 4]
    assert refusal(outcomes[2]) == (
        Condition.NOT_ALLOWED,
        "the message is for partition '2', its link is bound to '1'",
    )
    assert refusal(outcomes[3])[0] == Condition.NOT_ALLOWED
    assert amqp_door.counts(log) == [0, 3, 0]


@pytest.mark.clause("ES-7")
def test_the_only_partition_of_a_log_can_be_named_and_no_other(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    peer.sender(log)
    burst(peer, [message("x", target=Symbol("0")), message("y", target=Symbol("1"))])
    outcomes = peer.outcomes(range(2))
    assert outcomes[0] == Accepted()
    assert refusal(outcomes[1]) == (Condition.NOT_FOUND, f"'{log}' has no partition '1'; it has 0")


@pytest.mark.clause("ES-7")
def test_a_settled_message_that_must_be_rejected_is_dropped_and_its_link_detached(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, 2)
    peer, again = connect_amqp(), connect_amqp()
    peer.sender(log)
    burst(peer, [message(f"{at}", target=name) for at, name in enumerate("010210")], settled=True)
    error = peer.assert_detaches(Condition.NOT_FOUND)
    assert error.description == f"'{log}' has no partition '2'; it has 0, 1"
    again.receiver(log)
    assert sorted(body_of(each) for each in again.messages(5)) == list("01245")


@pytest.mark.clause("ES-7", "ES-8")
def test_the_hints_count_behind_the_anonymous_relay_too(
    peer: AmqpWire, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.super_stream(log, COUNT)
    peer.sender(None)
    to = {"properties": Properties(to=log)}
    payloads = [
        message("x", target="5", **to),
        message("x", key="there", **to),
        message("x", target="8", **to),
    ]
    burst(peer, payloads)
    outcomes = peer.outcomes(range(3))
    assert (outcomes[0], outcomes[1]) == (Accepted(), Accepted())
    assert refusal(outcomes[2])[0] == Condition.NOT_FOUND
    counts = amqp_door.counts(log)
    assert sum(counts) == 2
    assert counts[5] == 1
    assert counts[partition_of(b"there", COUNT)] == 1


# No hints


@pytest.mark.clause("ES-9")
def test_messages_without_hints_are_spread_evenly(peer: AmqpWire, amqp_door: ListeningAmqp, log: str) -> None:
    amqp_door.super_stream(log, 3)
    peer.sender(log)
    for number in range(9):
        peer.publish([message("x", message_annotations={Symbol("x-opt-mine"): 1})], first_id=number)
    assert amqp_door.counts(log) == [3, 3, 3]
