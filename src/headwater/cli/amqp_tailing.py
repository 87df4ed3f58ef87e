"""The work of `headwater tail` over AMQP 1.0: messages of one node to lines on standard output."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.amqp.definitions import SenderSettleMode
from headwater.amqp.messaging import Source
from headwater.cli.connecting import Misused, Server, Stop
from headwater.cli.tailing import Line, Wanted, moment, shown, with_body, write_out
from headwater.client.amqp_receiver import (
    CREDIT_COUNT,
    AmqpReceiver,
    ReceivedBatch,
    from_offset,
    from_timestamp,
)
from headwater.encoding.amqp_message import decode_message
from headwater.encoding.amqp_types import Described, Symbol
from headwater.errors import MalformedValue
from headwater.streams.commands import OffsetSpecification, OffsetType

__all__ = ["show_over_amqp"]

_WORDS = {OffsetType.FIRST: "first", OffsetType.LAST: "last", OffsetType.NEXT: "next"}


async def show_over_amqp(server: Server, wanted: Wanted, stop: Stop) -> None:
    """Write messages to standard output until there were enough, or it is to stop."""
    if wanted.name is not None or wanted.filter_values:
        raise Misused("--name and --filter-value cannot be had over AMQP; leave out, or use a URL of streams")
    async with await server.connect_amqp("headwater tail") as connection:
        source = Source(wanted.stream, filter=_filter(wanted.offset))
        receiver = await AmqpReceiver.open(
            connection,
            source,
            credit_count=CREDIT_COUNT if wanted.follow else 0,
            settle_mode=SenderSettleMode.SETTLED,
        )
        left = wanted.count
        while not stop.is_set and left != 0:
            batch = await (stop.or_done(receiver.receive_batch()) if wanted.follow else _drained(receiver))
            if batch is None:
                return
            if not batch.is_settled:
                receiver.accept(batch)
            messages = batch.messages()[:left]
            left = None if left is None else left - len(messages)
            if not write_out(_lines(wanted, messages)):
                return


def _filter(offset: OffsetSpecification) -> dict[Symbol, Described]:
    match offset.type:
        case OffsetType.OFFSET:
            return from_offset(offset.value)
        case OffsetType.TIMESTAMP:
            return from_timestamp(offset.value)
        case _:
            return from_offset(_WORDS[offset.type])


async def _drained(receiver: AmqpReceiver) -> ReceivedBatch | None:
    """What is there now, or None at the end of it."""
    batch = await receiver.receive_batch(0)
    if batch is None:
        receiver.grant(CREDIT_COUNT)
        await receiver.drain()
        batch = await receiver.receive_batch(0)
    return batch


def _lines(wanted: Wanted, messages: list[bytes]) -> bytes:
    if not wanted.as_json:
        return b"".join([shown(message) for message in messages])
    return msgspec.json.Encoder().encode_lines(
        [with_body(_line(wanted.stream, message), message) for message in messages]
    )


def _line(stream: str, message: bytes) -> Line:
    """What an event stream says of a message besides; other nodes say nothing of the kind."""
    said: dict[Any, Any] = {}
    try:
        said = dict(decode_message(message, 0, len(message)).delivery_annotations or {})
        offset = int(said["event-streams-offset"], 16)
        written = moment(int(said["event-streams-timestamp"]))
    except (MalformedValue, KeyError, TypeError, ValueError):
        return Line(stream)
    partition = said.get("event-streams-source-partition")
    return Line(stream, None if partition is None else str(partition), offset, written)
