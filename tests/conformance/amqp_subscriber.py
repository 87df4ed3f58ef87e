"""What tests of topic subscriptions and durable termini share: subscribing, settling, leaving."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.amqp.definitions import ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.messaging import (
    Accepted,
    DeliveryState,
    Modified,
    Released,
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from headwater.amqp.performatives import Attach, Detach, Disposition, Flow
from headwater.encoding.amqp_message import Header, SectionCode, data_section, decode_section, read_sections
from headwater.encoding.amqp_types import Symbol
from tests.conformance.amqp_wire import CREDIT, AmqpWire, Delivered

__all__ = [
    "FAILED",
    "GLOBAL",
    "NOT_HERE",
    "RELEASED",
    "SHARED",
    "TOPIC",
    "Publisher",
    "assert_drained",
    "bodies",
    "count_of",
    "leave",
    "offsets",
    "refused",
    "settle",
    "source_of",
    "subscribe",
    "unsubscribe",
]

SHARED, GLOBAL, TOPIC = Symbol("shared"), Symbol("global"), Symbol("topic")
RELEASED = Released()
FAILED = Modified(delivery_failed=True)
NOT_HERE = Modified(undeliverable_here=True)


class Publisher:
    """Numbered messages to a log: the n-th has n as its body, and in a log of one partition as its offset."""

    def __init__(self, wire: AmqpWire, log: str) -> None:
        self._wire = wire
        self._count = 0
        wire.sender(log)

    def __call__(self, count: int) -> None:
        """Send so many more in one chunk, and see them accepted."""
        first = self._count
        self._count += count
        self._wire.publish([body(number) for number in range(first, self._count)], first_id=first)

    def records(self, records: Iterable[bytes]) -> None:
        """Send messages made elsewhere."""
        listed = list(records)
        self._wire.publish(listed, first_id=self._count)
        self._count += len(listed)


def body(number: int) -> bytes:
    return data_section(b"%d" % number)


def source_of(log: str, *words: str, **fields: Any) -> Source:
    """The source of a subscriber; the words are `shared`, `durable` and `global`."""
    if "durable" in words:
        fields = {
            "durable": TerminusDurability.UNSETTLED_STATE,
            "expiry_policy": TerminusExpiryPolicy.NEVER,
            **fields,
        }
    capabilities = tuple(Symbol(word) for word in words if word != "durable")
    return Source(log, **{"capabilities": capabilities, **fields})


def subscribe(
    peer: AmqpWire,
    log: str,
    name: str,
    *words: str,
    credit: int = CREDIT,
    handle: int = 0,
    second: bool = False,
    settled: bool = False,
    link: dict[str, Any] | None = None,
    **fields: Any,
) -> Attach:
    """Attach a subscriber and give it credit; what else there is are fields of its source."""
    answer = peer.attach(
        Role.RECEIVER,
        source_of(log, *words, **fields),
        Target(),
        name=name,
        handle=handle,
        snd_settle_mode=SenderSettleMode.SETTLED if settled else SenderSettleMode.UNSETTLED,
        rcv_settle_mode=ReceiverSettleMode.SECOND if second else ReceiverSettleMode.FIRST,
        **(link or {}),
    )
    assert isinstance(answer.source, Source), f"{answer} refuses the link: {peer.next()}"
    if credit:
        peer.credit(credit, handle)
    return answer


def refused(peer: AmqpWire, condition: str, log: str, name: str, *words: str, **fields: Any) -> ErrorValue:
    """Attach a subscriber, and see it refused for this reason."""
    handle = fields.pop("handle", 0)
    source = source_of(log, *words, **fields)
    return peer.refused(condition, Role.RECEIVER, source, Target(), name=name, handle=handle)


def unsubscribe(peer: AmqpWire, name: str, *words: str, handle: int = 0) -> Attach:
    """Attach a link without a source, as JMS clients do to end a subscription."""
    return peer.attach(
        Role.RECEIVER,
        None,
        Target(),
        name=name,
        handle=handle,
        desired_capabilities=tuple(Symbol(word) for word in words),
    )


def settle(
    peer: AmqpWire, messages: Iterable[Delivered], state: DeliveryState | None = None, *, settled: bool = True
) -> None:
    """Say what became of messages; what is not named was accepted."""
    peer.send(
        *(
            Disposition(Role.RECEIVER, each.id, settled=settled, state=Accepted() if state is None else state)
            for each in messages
        )
    )


def leave(peer: AmqpWire, handle: int = 0, *, closed: bool = False) -> None:
    """Detach, and hear that it is done."""
    peer.send(Detach(handle, closed=closed))
    answer = peer.until(Detach)
    assert (answer.closed, answer.error) == (closed, None)


def offsets(messages: Iterable[Delivered]) -> list[int]:
    return [each.offset for each in messages]


def bodies(messages: Iterable[Delivered]) -> list[bytes]:
    return [each.record for each in messages]


def count_of(message: Delivered) -> int:
    """The delivery-count that its header says; a message without a header was never tried."""
    sections = read_sections(message.record, 0, len(message.record))
    headers = [each for each in sections if each.code is SectionCode.HEADER]
    assert len(headers) <= 1
    if not headers:
        return 0
    header = decode_section(message.record, headers[0])
    assert isinstance(header, Header)
    return header.delivery_count


def assert_drained(peer: AmqpWire, handle: int = 0, *, credit: int = CREDIT, delivery_count: int = 0) -> None:
    """A drain brings no message, and is answered."""
    peer.credit(credit, handle, delivery_count=delivery_count, drain=True)
    answer = peer.take(Flow)
    assert (answer.handle, answer.drain, answer.link_credit) == (handle, True, 0)
