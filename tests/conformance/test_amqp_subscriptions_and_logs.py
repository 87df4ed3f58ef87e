"""What becomes of subscriptions as their log is deleted or truncated, or lies on disk alone (TS-8)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Target
from headwater.amqp.performatives import Flow, Transfer
from headwater.encoding.amqp_message import Message, encode_message
from headwater.encoding.amqp_types import Described, Symbol, Timestamp
from headwater.log.files import Files, storage_error
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings, StoreSettings
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_subscriber import (
    RELEASED,
    Publisher,
    leave,
    offsets,
    settle,
    source_of,
    subscribe,
)
from tests.conformance.amqp_wire import FIRST, AmqpWire, data, from_offset
from tests.conformance.conftest import ConnectAmqp

DURABLE = ("shared", "durable")
FIELDS = {"container_id": "same"}
SELECTOR = Symbol("apache.org:selector-filter:string")


def truncate(door: ListeningAmqp, log: str, offset: int) -> None:
    """Remove all before an offset, and wait until that is done."""

    async def truncating() -> None:
        done = asyncio.get_running_loop().create_future()
        door.partition(log).truncate(offset, done.set_result)
        assert await done is None

    door.run(truncating())


@pytest.mark.clause("TS-8")
@pytest.mark.parametrize("words", [("durable",), ("shared",), DURABLE])
def test_a_log_that_is_deleted_takes_its_subscriptions_along(
    peer: AmqpWire, amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str, words: tuple[str, ...]
) -> None:
    publish = Publisher(connect_amqp(), log)
    subscribe(peer, log, "sub", *words)
    publish(3)
    peer.messages(3)
    amqp_door.call(lambda: amqp_door.store.delete_log(log))
    error = peer.assert_detaches(Condition.RESOURCE_DELETED)
    assert log in str(error.description)
    again = Publisher(connect_amqp(), log)
    again(2)
    subscribe(peer, log, "sub", *words)
    peer.assert_nothing_came()
    again(1)
    assert offsets(peer.messages(1)) == [2]


@pytest.mark.clause("TS-8")
@pytest.mark.parametrize("is_attached", [True, False])
def test_what_a_truncation_took_is_lost_to_a_subscription_which_goes_on_behind_it_and_that_is_told(
    peer: AmqpWire,
    amqp_door: ListeningAmqp,
    connect_amqp: ConnectAmqp,
    log: str,
    caplog: pytest.LogCaptureFixture,
    is_attached: bool,
) -> None:
    publish = Publisher(connect_amqp(), log)
    subscribe(peer, log, "sub", *DURABLE, credit=5)
    publish(20)
    came = peer.messages(5)
    settle(peer, came[:2])
    peer.assert_nothing_came()
    if not is_attached:
        leave(peer)
    with caplog.at_level(logging.WARNING, "headwater.consumers"):
        truncate(amqp_door, log, 20)
    lost = 15 if is_attached else 18
    assert f"{log}: {lost} messages were removed before subscription 'sub' settled them" in caplog.text
    publish(3)
    if is_attached:
        peer.credit(100, delivery_count=5)
        assert offsets(peer.messages(3)) == [20, 21, 22]
        settle(peer, came[2:], None)
    else:
        subscribe(peer, log, "sub", *DURABLE)
        assert offsets(peer.messages(3)) == [20, 21, 22]
    peer.assert_nothing_came()


@pytest.mark.clause("TS-8", "TS-11")
def test_what_is_given_back_and_was_removed_meanwhile_does_not_come_again(
    peer: AmqpWire, amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str
) -> None:
    publish = Publisher(connect_amqp(), log)
    subscribe(peer, log, "sub", *DURABLE, credit=5)
    publish(5)
    came = peer.messages(5)
    truncate(amqp_door, log, 5)
    leave(peer)
    assert came
    subscribe(peer, log, "sub", *DURABLE)
    peer.assert_nothing_came()
    publish(1)
    assert offsets(peer.messages(1)) == [5]


@pytest.mark.clause("TS-8", "TS-11")
def test_messages_that_only_the_disk_has_are_dealt_to_all_once(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp, log: str
) -> None:
    settings = LogSettings(segment_bytes=64 * 1024)
    amqp_door.call(lambda: amqp_door.store.create_log(log, settings=settings))
    publish = Publisher(connect_amqp(), log)
    peers = [connect_amqp(fields=FIELDS) for _ in range(2)]
    for number, peer in enumerate(peers):
        subscribe(peer, log, f"sub|{number}", *DURABLE, credit=0)
    for number in range(40):
        publish.records(data(b"%04d" % each + bytes(1_000)) for each in range(10 * number, 10 * number + 10))
    for peer in peers:
        peer.credit(200)
    came = [each for peer in peers for each in peer.messages(200)]
    assert sorted(offsets(came)) == list(range(400))
    for each in came:
        assert each.record == data(b"%04d" % each.offset + bytes(1_000))


@pytest.mark.clause("TS-1", "ES-4")
@pytest.mark.parametrize("group", [None, "g"])
def test_where_to_begin_that_cannot_be_read_refuses_the_link_and_nobody_else(
    peer: AmqpWire,
    amqp_door: ListeningAmqp,
    connect_amqp: ConnectAmqp,
    log: str,
    monkeypatch: pytest.MonkeyPatch,
    group: str | None,
) -> None:
    Publisher(connect_amqp(), log)(3)

    def broken(partition: Partition, _timestamp_ms: int) -> int:
        raise storage_error(errno.EIO, partition.folder, reading=True)

    monkeypatch.setattr("headwater.server.amqp.offsets.find_timestamp", broken)
    source = source_of(log, "durable", filter=from_offset(Timestamp(5)))
    properties = {Symbol("event-streams-consumer-group"): group} if group else None
    peer.refused(Condition.INTERNAL_ERROR, Role.RECEIVER, source, Target(), name="sub", properties=properties)
    monkeypatch.undo()
    subscribe(peer, log, "sub", "durable", filter=from_offset("first"))
    assert offsets(peer.messages(3)) == [0, 1, 2]


class ColdFiles(Files):
    """A disk every other look at which finds nothing in memory, so that it has to be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = itertools.count()

    def read_into(self, fd: int, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        if not wait and next(self.looks) % 2 == 0:
            raise BlockingIOError
        return super().read_into(fd, buffer, position)


@pytest.mark.clause("TS-3", "TS-6", "TS-11")
@pytest.mark.parametrize("words", [DURABLE, ("durable",)])
@pytest.mark.parametrize("filters", [FIRST, {**FIRST, SELECTOR: Described(SELECTOR, "n >= 0")}])
def test_while_the_disk_is_asked_others_wait_and_drains_are_answered_when_all_has_come(
    tmp_path: Path, log: str, words: tuple[str, ...], filters: dict[Symbol, Any]
) -> None:
    settings, files = StoreSettings(tail_bytes_max=1), ColdFiles()
    count, sharing = 600, 3 if "shared" in words else 1
    with ListeningAmqp(tmp_path, files=files, settings=settings) as door:
        door.super_stream(log, 2, segment_bytes=1024)
        with contextlib.ExitStack() as stack:
            writer = stack.enter_context(door.connect())
            for number in range(2):
                writer.sender(f"{log}-{number}", handle=number)
            for first in range(0, count, 20):
                numbers = range(first, first + 20)
                records = [encode_message(Message(application_properties={"n": each})) for each in numbers]
                writer.publish(records, first_id=first, handle=first // 20 % 2)
            peers = [stack.enter_context(door.connect(fields=FIELDS)) for _ in range(sharing)]
            for number, peer in enumerate(peers):
                subscribe(
                    peer, log, f"sub|{number}" if sharing > 1 else "sub", *words, filter=filters, credit=0
                )
            seen: list[tuple[str, int]] = []
            for peer in peers:
                peer.credit(50)
                came = peer.messages(50)
                settle(peer, came[:10], RELEASED)
                settle(peer, came[10:])
                seen += [(each.partition, each.offset) for each in came[10:]]
            for peer in peers:
                peer.credit(count, delivery_count=50, drain=True)
            for peer in peers:
                while not isinstance(part := peer.next(), Flow) and isinstance(part.performative, Transfer):
                    digits = part.payload[part.payload.index(b"\xa3\x10") + 2 :][:16]
                    partition = part.payload[part.payload.index(b"partition\xa3\x01") + 11 :][:1]
                    seen.append((partition.decode(), int(digits, 16)))
                assert isinstance(part.performative, Flow)
                assert part.performative.link_credit == 0
            assert sorted(seen) == [
                (str(number), offset) for number in range(2) for offset in range(count // 2)
            ]
    assert next(files.looks) > 20, "the disk was asked"
