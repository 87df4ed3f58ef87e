"""What members of a group and producers saw, written by all their threads."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

__all__ = ["Delivery", "History", "Message", "Tenure"]

Message = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as one link got it."""

    link: str
    message: Message
    body: bytes
    life: int
    """Of the server."""
    delivery_count: int
    """What its header says of those before."""

    @property
    def place(self) -> tuple[int, int]:
        """In the order in which the server sent the message: threads that read late see it later."""
        return self.life, self.delivery_count


@dataclass(slots=True)
class Tenure:
    """What one link got of one partition."""

    offsets: list[int] = field(default_factory=list)
    given_back: set[int] = field(default_factory=set)
    """What the link itself wanted to come again."""


class History:
    """Written by all threads; read when they have ended, but for `open_count`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.deliveries: dict[Message, list[Delivery]] = defaultdict(list)
        self.settled: list[Delivery] = []
        """Those that the server knows to be settled."""
        self.said: set[Message] = set()
        """Settlements that were sent, whatever became of them."""
        self.tenures: dict[tuple[str, int], Tenure] = defaultdict(Tenure)
        self.confirmed: dict[int, list[bytes]] = defaultdict(list)
        """By partition, in the order of their offsets."""
        self.faults: list[str] = []
        self.ends: dict[str, int] = defaultdict(int)
        """How often links ended, and how."""

    def delivered(self, delivery: Delivery) -> None:
        """A link got a message."""
        partition, offset = delivery.message
        with self._lock:
            self.deliveries[delivery.message].append(delivery)
            self.tenures[delivery.link, partition].offsets.append(offset)

    def says(self, message: Message) -> None:
        """A link is about to settle a message."""
        with self._lock:
            self.said.add(message)

    def gives_back(self, delivery: Delivery) -> None:
        """A link is about to give a message back."""
        partition, offset = delivery.message
        with self._lock:
            self.tenures[delivery.link, partition].given_back.add(offset)

    def are_settled(self, deliveries: list[Delivery]) -> None:
        """The server has answered what was said of these."""
        with self._lock:
            self.settled += deliveries

    def confirms(self, partition: int, bodies: list[bytes]) -> None:
        """A producer was told that these are stored."""
        with self._lock:
            self.confirmed[partition] += bodies

    def fault(self, words: str) -> None:
        """Something that nothing excuses."""
        with self._lock:
            self.faults.append(words)

    def ended(self, how: str) -> None:
        """A link is gone."""
        with self._lock:
            self.ends[how] += 1

    @property
    def open_count(self) -> int:
        """Confirmed messages of which no settlement was sent yet."""
        with self._lock:
            bodies = {body for listed in self.confirmed.values() for body in listed}
            return len(bodies - {self.deliveries[each][0].body for each in self.said})
