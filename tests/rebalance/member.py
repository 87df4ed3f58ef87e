"""A container with links in a group, on a thread: it settles what comes, goes in some way, and comes again."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

from headwater.amqp.definitions import ReceiverSettleMode, Role
from headwater.amqp.messaging import Accepted, Modified, Source, Target
from headwater.amqp.performatives import Attach, Close, Detach, Disposition, Flow, Transfer
from headwater.encoding.amqp_message import SectionCode, decode_section, read_sections
from tests.conformance.amqp_wire import WINDOW, AmqpWire, Delivered, delivered_of, opened_amqp
from tests.conformance.group_links import CHANGED, PARTITION, in_group
from tests.peers.servers import HOST
from tests.rebalance.history import Delivery, History
from tests.rebalance.lives import Lives

__all__ = ["GROUP", "LOG", "Member", "Plan"]

LOG, GROUP = "orders", "billing"
LIVES_S = (0.3, 1.5)
ABSENT_S = (0.0, 0.3)
PAUSE_S = (0.05, 0.3)
LOOK_S = 0.01
CREDIT = 40
HOLD_MAX = 12
HANDLE_MAX = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """How members behave."""

    link_count: int
    """Links that each attaches."""
    settles_second: bool
    """Whether the server always has the last word, which comes when a crash would find it."""


@dataclass(slots=True)
class _Link:
    name: str
    handle: int
    partition: str | None = None
    """The one that it is bound to."""
    announced: list[str] = field(default_factory=list)
    is_attached: bool = False
    delivery_count: int = 0
    granted: int = 0


class Member(threading.Thread):
    """Lives again and again until it is told to stay, and then until it is told to end."""

    def __init__(self, number: int, seed: int, plan: Plan, server: Lives, history: History) -> None:
        super().__init__(name=f"member-{number}", daemon=True)
        self.stays = threading.Event()
        self.ends = threading.Event()
        self._rng = random.Random(f"{seed} member {number}")
        self._plan = plan
        self._server = server
        self._history = history
        self._links_made = 0
        self._life: _Life | None = None

    def run(self) -> None:
        try:
            while not self.ends.is_set():
                self._live()
                self.ends.wait(self._rng.uniform(*ABSENT_S))
        except BaseException as error:
            self._history.fault(f"{self.name}: {error!r}")
            raise

    def _live(self) -> None:
        life_of_server = self._server.number
        try:
            wire = opened_amqp(HOST, self._server.port, fields={"container_id": self.name})
        except (OSError, AssertionError) as error:
            self._lost(error)
            return
        with wire:
            if self._server.number != life_of_server:
                return  # nobody knows which one it reached
            life = _Life(wire, life_of_server, self, self._rng, self._plan, self._history)
            try:
                life.carry_on()
            except (OSError, AssertionError) as error:
                self._lost(error)
                life.note_ends("lost")

    def next_link_name(self) -> str:
        """Of a link that there never was."""
        self._links_made += 1
        return f"{self.name}-{self._links_made}"

    def _lost(self, error: Exception) -> None:
        """A server that was killed excuses a connection that ends, and nothing else."""
        if not (isinstance(error, OSError) or "the connection ended" in str(error)):
            raise error


class _Life:
    """One connection of a member."""

    def __init__(
        self,
        wire: AmqpWire,
        life_of_server: int,
        member: Member,
        rng: random.Random,
        plan: Plan,
        history: History,
    ) -> None:
        self._wire = wire
        self._life_of_server = life_of_server
        self._member = member
        self._rng = rng
        self._history = history
        self._wants = plan.link_count
        self._is_second = plan.settles_second or rng.random() < 0.5
        self._links: dict[int, _Link] = {}
        """By our handle, which is the server's too: both take the lowest that is free."""
        self._theirs: dict[int, _Link] = {}
        self._handles = 0
        self._held: dict[int, tuple[_Link, Delivery]] = {}
        """By delivery id, what nothing was said of."""
        self._unanswered: dict[int, tuple[_Link, Delivery]] = {}
        """By delivery id, what the server is to settle after us."""
        self._echoes: list[list[tuple[_Link, Delivery]]] = []
        """What was settled before each echo that is due."""

    def carry_on(self) -> None:
        """Until the life is over, which the member may forbid."""
        over = threading.Event()
        timer = threading.Timer(self._rng.uniform(*LIVES_S), over.set)
        timer.start()
        try:
            while not self._member.ends.is_set() and not (over.is_set() and not self._member.stays.is_set()):
                self._step()
        finally:
            timer.cancel()
        self._end()

    def note_ends(self, how: str) -> None:
        """All links are gone."""
        for _ in self._links:
            self._history.ended(how)
        self._links.clear()

    def _step(self) -> None:
        while len(self._links) < self._wants and self._handles < HANDLE_MAX:
            self._attach()
        if self._wire.has_something(LOOK_S):
            came = self._wire.next()
            if isinstance(came.performative, Transfer):
                self._receive(came.performative, came.payload)
            else:
                self._take(came.performative)
        if len(self._held) >= HOLD_MAX or (self._held and not self._wire.has_something(0)):
            self._settle()
        if self._rng.random() < 0.002 and not self._member.stays.is_set():
            self._member.ends.wait(self._rng.uniform(*PAUSE_S))

    # Links

    def _attach(self) -> None:
        link = _Link(self._member.next_link_name(), self._handles)
        self._handles += 1
        self._links[link.handle] = link
        mode = ReceiverSettleMode.SECOND if self._is_second else ReceiverSettleMode.FIRST
        self._wire.send(
            Attach(
                link.name,
                link.handle,
                Role.RECEIVER,
                rcv_settle_mode=mode,
                source=Source(LOG),
                target=Target(),
                properties=in_group(GROUP),
            )
        )

    def _attached(self, answer: Attach) -> None:
        link = next(each for each in self._links.values() if each.name == answer.name)
        self._theirs[answer.handle] = link
        if answer.source is None:
            return  # a detach follows
        link.is_attached = True
        link.partition = (answer.properties or {}).get(PARTITION)
        self._grant(link)

    def _detached(self, detach: Detach) -> None:
        link = self._theirs.pop(detach.handle)
        link.is_attached = False
        self._wire.send(Detach(link.handle, closed=True))
        self._links.pop(link.handle, None)
        self._history.ended("closed gracefully" if detach.error is None else str(detach.error.condition))
        for id_ in [id_ for id_, (held_by, _) in self._held.items() if held_by is link]:
            del self._held[id_]

    def _grant(self, link: _Link) -> None:
        link.granted = CREDIT
        self._wire.credit(CREDIT, link.handle, delivery_count=link.delivery_count)

    # What comes

    def _take(self, came: object) -> None:
        match came:
            case Attach():
                self._attached(came)
            case Detach():
                self._detached(came)
            case Disposition():
                self._answered(came)
            case Flow(handle=None) if self._echoes:
                self._are_settled(self._echoes.pop(0))
            case Close():
                raise ConnectionError("the server closed the connection")
            case _:
                pass

    def _receive(self, transfer: Transfer, payload: bytes) -> None:
        assert transfer.handle is not None
        assert transfer.delivery_id is not None
        link = self._theirs[transfer.handle]
        came = delivered_of(transfer.delivery_id, bool(transfer.settled), payload, 1)
        changed = came.annotations.get(CHANGED)
        if changed is not None:
            link.announced = list(changed.items)
        has = link.announced if link.partition is None else [link.partition]
        if came.partition not in has:
            self._history.fault(f"{link.name} has {has}, and gets a message of {came.partition}")
        body, count = _body_and_count(came)
        message = (int(came.partition), came.offset)
        delivery = Delivery(link.name, message, body, self._life_of_server, count)
        self._history.delivered(delivery)
        self._held[came.id] = (link, delivery)
        link.delivery_count += 1
        link.granted -= 1
        if link.granted < CREDIT // 2:
            self._grant(link)

    def _answered(self, said: Disposition) -> None:
        last = said.first if said.last is None else said.last
        ids = [id_ for id_ in self._unanswered if said.first <= id_ <= last]
        answered = [self._unanswered.pop(id_) for id_ in ids]
        if isinstance(said.state, Accepted):  # not of what was taken away before
            self._are_settled(answered)

    def _are_settled(self, settled: list[tuple[_Link, Delivery]]) -> None:
        """The server has dealt with these; what became of those whose link ended meanwhile nobody knows."""
        self._history.are_settled([delivery for link, delivery in settled if link.is_attached])

    def _settle(self) -> None:
        """Say what became of what came: of nearly all of it that it is done with."""
        held, self._held = self._held, {}
        done: dict[int, tuple[_Link, Delivery]] = {}
        for id_, (link, delivery) in held.items():
            if self._rng.random() < 0.01:
                self._history.gives_back(delivery)
                self._wire.send(Disposition(Role.RECEIVER, id_, None, True, Modified(delivery_failed=True)))
            else:
                self._history.says(delivery.message)
                done[id_] = link, delivery
        for first, last in _runs(list(done)):
            self._wire.send(
                Disposition(Role.RECEIVER, first, last, settled=not self._is_second, state=Accepted())
            )
        if self._is_second:
            self._unanswered.update(done)
        else:
            self._echoes.append(list(done.values()))
            self._wire.send(Flow(0, WINDOW, 0, 1, echo=True))

    # The end

    def _end(self) -> None:
        how = self._rng.choice(["aborted", "links closed", "connection closed", "socket closed"])
        if how == "links closed":
            for link in self._links.values():
                self._wire.send(Detach(link.handle, closed=True))
        elif how == "connection closed":
            self._wire.send(Close())
        elif how == "aborted":
            self._wire.vanish()
        self.note_ends(how)


def _body_and_count(came: Delivered) -> tuple[bytes, int]:
    """The data of a message, and what its header says of deliveries before."""
    body, count = b"", 0
    for section in read_sections(came.record, 0, len(came.record)):
        if section.code is SectionCode.HEADER:
            count = decode_section(came.record, section).delivery_count
        elif section.code is SectionCode.DATA:
            body = bytes(decode_section(came.record, section))
    return body, count


def _runs(ids: list[int]) -> list[tuple[int, int]]:
    """First and last of each run."""
    found: list[tuple[int, int]] = []
    for id_ in ids:
        if found and found[-1][1] == id_ - 1:
            found[-1] = (found[-1][0], id_)
        else:
            found.append((id_, id_))
    return found
