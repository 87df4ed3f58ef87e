"""Anonymous terminus for message routing: a target without an address takes each message to where its `to` says."""

from __future__ import annotations

from collections.abc import Callable

from headwater.amqp.definitions import Condition
from headwater.amqp.events import Deliveries
from headwater.amqp.management import MANAGEMENT_NODE
from headwater.amqp.receiver_link import ReceiverLink
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Properties, SectionCode, decode_section, read_sections
from headwater.errors import PeerError
from headwater.log.partition import Partition
from headwater.server.amqp.credit import CreditGiver
from headwater.server.amqp.intake import Intake
from headwater.server.amqp.link_owner import LinkHandler, LinkOwner
from headwater.server.amqp.management.conversation import Conversation
from headwater.server.amqp.nodes import LogNode, Refused
from headwater.server.amqp.routing import Routing, SortedRun

__all__ = ["Relay"]


class Relay(LinkHandler):
    """A link whose messages say themselves where they go."""

    def __init__(
        self,
        link: ReceiverLink,
        owner: LinkOwner,
        find: Callable[[str], LogNode],
        conversation: Conversation,
    ) -> None:
        self.link: ReceiverLink = link
        self.intake = Intake(link, owner)
        self._find = find
        self._conversation = conversation
        self._credit = CreditGiver(link, owner, lambda: True)
        self._sent_count = 0

    def start(self) -> None:
        self._credit.give()

    def flow(self) -> None:
        self._credit.give()

    def deliveries(self, event: Deliveries, index: int) -> int:
        if self.intake.refuses_format(event, index):
            return event.count
        while index < event.count:
            try:
                address = _address_of(event, index)
                if address == MANAGEMENT_NODE:
                    self._conversation.take(event, index)
                    index += 1
                    continue
                partition = self._partition_for(address, event, index)
            except Refused as refused:
                self.intake.refuse(event, index, 1, refused.value)
                index += 1
                continue
            if not partition.has_room:
                return index
            index = self.intake.append(event, index, index + 1, partition)
        self._credit.give()
        return index

    def when_settled(self, call: Callable[[], None]) -> bool:
        def appended() -> None:
            if not self._conversation.when_settled(call):
                call()

        return self.intake.when_settled(appended) or self._conversation.when_settled(call)

    def close(self) -> None:
        self._credit.stop()

    def _partition_for(self, address: str | None, event: Deliveries, index: int) -> Partition:
        if address is None:
            raise Refused(
                Condition.PRECONDITION_FAILED, "the message has no `to`, and neither has its link an address"
            )
        node = self._find(address)
        self._sent_count += 1
        chosen = self._sent_count % len(node.partitions)
        route = Routing(node).route(event, index, 1, chosen)
        if isinstance(route, SortedRun):
            _, error = route.refused[0]
            raise Refused(error.condition, error.description or "")
        return node.partitions[chosen if route is None else route]


def _address_of(event: Deliveries, index: int) -> str | None:
    start, end = event.spans[SPAN_FIELDS * index + 2 : SPAN_FIELDS * index + 4]
    try:
        for section in read_sections(event.buffer, start, end):
            if section.code is SectionCode.PROPERTIES:
                properties = decode_section(event.buffer, section)
                return properties.to if isinstance(properties, Properties) else None
    except PeerError as error:
        raise Refused(Condition.DECODE_ERROR, str(error)) from error
    return None
