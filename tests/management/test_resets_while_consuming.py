"""Positions are reset while the members of a group consume: all comes again from there, in order, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from proton import ConnectionException, Timeout
from proton.utils import BlockingConnection, LinkDetached

from tests.http_api import Api
from tests.management.test_amqp_connections import connected
from tests.management.test_connections import eventually
from tests.management.test_logs import made
from tests.peers.consuming import InGroup, publish, receiver
from tests.peers.servers import Server

MEMBERS, PARTITIONS, EVENTS = 3, 4, 60
RESETS = ((20, "0"), (0, None), (EVENTS // 2, "3"), ("earliest", None), ("latest", "1"), (5, None))


class Taken(NamedTuple):
    """A message that was accepted, and by which attachment of which member."""

    attachment: tuple[int, int]
    partition: str
    offset: int


class Members:
    """Threads that consume in a group, and attach anew whenever they are sent away."""

    def __init__(self, server: Server, log: str) -> None:
        self.taken: list[Taken] = []
        self._server = server
        self._log = log
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._consume, args=(number,)) for number in range(MEMBERS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _consume(self, number: int) -> None:
        attachment = 0
        with connected(self._server) as connection:
            while not self._is_over.is_set():
                attachment += 1
                try:
                    self._take(connection, number, attachment)
                except (LinkDetached, ConnectionException):
                    continue

    def _take(self, connection: BlockingConnection, number: int, attachment: int) -> None:
        link = receiver(connection, self._log, f"member-{number}", InGroup("billing"), credit=5)
        while not self._is_over.is_set():
            try:
                message = link.receive(timeout=0.2)
            except Timeout:
                continue
            told = message.instructions
            place = str(told["event-streams-source-partition"]), int(told["event-streams-offset"], 16)
            link.accept()
            self.taken.append(Taken((number, attachment), *place))
        link.close()


@pytest.fixture(params=["assign", "dynamic"])
def log(request: pytest.FixtureRequest, server: Server, root: Api, name: str) -> str:
    settings = {"group_binding": request.param, "group_waiting": "wait", "group_wait_ms_max": 600_000}
    # As many partitions as members where a member has one.
    partitions = PARTITIONS if request.param == "dynamic" else MEMBERS
    made(root, name, partitions=partitions, settings=settings)
    with connected(server) as writer:
        for partition in range(partitions):
            publish(writer, f"{name}-{partition}", 0, EVENTS)
    root.do("POST", "/groups", {"log": name, "name": "billing", "start": "earliest"})
    return name


@pytest.fixture
def members(server: Server, log: str) -> Iterator[Members]:
    started = Members(server, log)
    yield started
    started.end()


def test_resets_while_members_consume_lose_nothing(root: Api, members: Members, log: str) -> None:
    partitions = [each["partition"] for each in root.get(f"/groups/{log}/billing")["partitions"]]
    for to, partition in RESETS:
        seen = len(members.taken)
        eventually(lambda seen=seen: len(members.taken) > seen or lag(root, log) == 0)  # type: ignore[misc]
        if partition in (None, *partitions):
            root.do("POST", f"/groups/{log}/billing/reset", {"to": to, "partition": partition})
    eventually(lambda: lag(root, log) == 0)
    before = len(members.taken)
    root.do("POST", f"/groups/{log}/billing/reset", {"to": "earliest"})
    eventually(lambda: lag(root, log) == 0)
    members.end()
    last = members.taken[before:]
    for partition in partitions:
        offsets = [each.offset for each in last if each.partition == partition]
        assert set(offsets) == set(range(EVENTS)), partition
    if root.get(f"/groups/{log}/billing")["policy"]["group_binding"] == "dynamic":
        return  # where a partition that was reset may come back to a link that had it before
    for attachment in {each.attachment for each in members.taken}:
        of_one = [each.offset for each in members.taken if each.attachment == attachment]
        assert of_one == sorted(set(of_one)), "in order, and nothing twice on one link"


def lag(root: Api, log: str) -> int:
    return int(root.get(f"/groups/{log}/billing")["lag"])
