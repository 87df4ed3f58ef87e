"""Where the responses to requests go: a link from `$management`, or a node that the client reads."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.amqp.messaging import Accepted, DeliveryState
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.ranges import IdRange
from headwater.errors import StorageError
from headwater.log.partition import Partition
from headwater.server.amqp.link_owner import LinkHandler, LinkOwner

__all__ = ["NodeReplies", "Replies", "Responses", "WaitingBytes"]


class Replies(Protocol):
    """A way for responses."""

    @property
    def has_room(self) -> bool:
        """Whether one more response is taken now."""

    @property
    def bytes_max(self) -> int:
        """No response is larger; 0 is no limit."""

    def send(self, response: bytes) -> None:
        """Take a response, for which there was room when its request was looked at."""


class WaitingBytes:
    """Responses that wait for credit, of all connections together."""

    __slots__ = ("count", "count_max")

    def __init__(self, count_max: int) -> None:
        self.count = 0
        self.count_max = count_max

    @property
    def has_room(self) -> bool:
        """Whether more may wait."""
        return self.count < self.count_max


class Responses(LinkHandler):
    """A link with `$management` as its source: responses, as far as there is credit for them."""

    def __init__(
        self,
        link: SenderLink,
        owner: LinkOwner,
        waiting_max: int,
        waiting_bytes: WaitingBytes,
        on_gone: Callable[[Responses], None],
    ) -> None:
        self.link: SenderLink = link
        self._owner = owner
        self._waiting: deque[bytes] = deque()
        self._waiting_max = waiting_max
        self._waiting_bytes = waiting_bytes
        self._on_gone = on_gone
        self._is_gone = False

    @property
    def has_room(self) -> bool:
        if not self._waiting and self.link.may_send and self._owner.can_deliver():
            # It need not wait, however much waits elsewhere.
            return True
        return len(self._waiting) < self._waiting_max and self._waiting_bytes.has_room

    @property
    def bytes_max(self) -> int:
        return self.link.remote.max_message_size or 0

    def send(self, response: bytes) -> None:
        if self._is_gone:
            return
        self._waiting.append(response)
        self._waiting_bytes.count += len(response)
        self.pump()

    def flow(self) -> None:
        self.pump()

    def pump(self) -> None:
        self.link.send_rest()
        while self._waiting and self.link.may_send and self._owner.can_deliver():
            response = self._waiting.popleft()
            self._waiting_bytes.count -= len(response)
            self.link.send(response)
        self.link.available = len(self._waiting)
        if not self._waiting:
            self.link.drained()
        self._owner.answered()

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        # Nobody else waits for a response: whatever became of it, that is its end.
        if not is_settled:
            for ids in ranges:
                self.link.settle(ids, state or Accepted())
            self._owner.answered()

    def close(self) -> None:
        self._is_gone = True
        self._waiting_bytes.count -= sum(map(len, self._waiting))
        self._waiting.clear()
        self._on_gone(self)


class NodeReplies:
    """A log that the client reads: mostly the dynamic node of a receiver."""

    def __init__(self, partition: Partition, bytes_max: int, owner: LinkOwner) -> None:
        self._partition = partition
        self._owner = owner
        self.bytes_max = bytes_max

    @property
    def has_room(self) -> bool:
        return self._partition.has_room

    def send(self, response: bytes) -> None:
        """Raises `StorageError`."""
        self._partition.append_some_spans(response, array("q", (0, 0, 0, len(response))), 0, 1)
        self._partition.when_settled(self._settled)

    def _settled(self, error: StorageError | None) -> None:
        if error is not None:
            self._owner.note_failure(self._partition, error)
