"""Event Stream Extensions, section 6: the partitions of a log and where they begin and end, told to who asks.

A message for each credit: at once where none went before, then so often as the limit says. It is a map:

    partitions     list of maps:   partition          symbol
                                   earliest-offset    symbol, null of a partition that is empty
                                   latest-offset      the same
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from typing import Any

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.messaging import Accepted, DeliveryState
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.amqp_message import AmqpValue, Message, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.delivery_annotations import offset_digits
from headwater.encoding.ranges import IdRange
from headwater.log.partition import Partition
from headwater.server.amqp.link_owner import LinkHandler, LinkOwner
from headwater.server.amqp.nodes import LogNode, Refused

__all__ = ["RuntimeInformation"]


class RuntimeInformation(LinkHandler):
    """A link with what tells of a log as its source."""

    def __init__(
        self, link: SenderLink, owner: LinkOwner, node: LogNode, find: Callable[[], LogNode]
    ) -> None:
        self.link: SenderLink = link
        self.name = node.name
        self._owner = owner
        self._find = find
        """Gives the log as it is now; raises `Refused`, also when its user may not read it any more."""
        self._partitions = node.partitions
        self._timer: TimerHandle | None = None
        for each in self._partitions:
            each.on_deleted.add(self._deleted)

    def start(self) -> None:
        self._tell()

    def flow(self) -> None:
        self._tell()

    def pump(self) -> None:
        self._tell()

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        if not is_settled:
            for ids in ranges:
                self.link.settle(ids, state or Accepted())
            self._owner.answered()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for each in self._partitions:
            each.on_deleted.discard(self._deleted)

    def _tell(self) -> None:
        """Send a message if one is due and can go; who drains does not wait for the next one."""
        self.link.send_rest()
        if self._timer is None and self.link.may_send and self._owner.can_deliver():
            try:
                message = _message(self._find())
            except Refused as refused:
                self._owner.break_link(self.link, refused.value)
                return
            size_max = self.link.message_size_bytes_max
            if 0 < size_max < len(message):
                words = (
                    f"what tells of {self.name!r} has {len(message)} bytes, and the receiver takes {size_max}"
                )
                self._owner.break_link(self.link, ErrorValue(Condition.LINK_MESSAGE_SIZE_EXCEEDED, words))
                return
            self.link.send(message)
            self._timer = self._owner.call_later(self._owner.information_interval_s, self._again)
            self._owner.answered()
        if self.link.is_draining:
            self.link.drained()
            self._owner.answered()

    def _again(self) -> None:
        self._timer = None
        self._tell()

    def _deleted(self) -> None:
        self._owner.break_link(
            self.link, ErrorValue(Condition.RESOURCE_DELETED, f"{self.name!r} was deleted")
        )


def _message(node: LogNode) -> bytes:
    partitions = [_described(*each) for each in zip(node.ids, node.partitions, strict=True)]
    return encode_message(Message(body=AmqpValue({"partitions": partitions})))


def _described(partition_id: str, partition: Partition) -> dict[str, Any]:
    first, end = partition.first_offset, partition.committed_offset
    return {
        "partition": Symbol(partition_id),
        "earliest-offset": _offset(first) if first < end else None,
        "latest-offset": _offset(end - 1) if first < end else None,
    }


def _offset(offset: int) -> Symbol:
    return Symbol(offset_digits(offset), "ascii")
