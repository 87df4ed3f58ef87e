"""What filters cost for each event: fields read, compared, and compiled away."""

from __future__ import annotations

import struct
from array import array

import msgspec

from bench.figure import Figure, Options, at_least
from bench.kernel import Bench
from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Header, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.event_filter import StoredEvent, compile_filter

__all__ = ["run"]

EVENTS = 1_000
BODY_BYTES = 100
AIM_M_PER_S = 0.5
"""Of events, past two comparisons of application properties."""
SELECTOR = Symbol("apache.org:selector-filter:string")
SQL = Symbol("amqp:event-streams-sql-filter")


def run(options: Options) -> list[Figure]:
    """Filters of several kinds on the same messages."""
    bench = Bench(options)
    data, spans = stored()
    return [
        _figure(bench, data, spans, "two properties, both compared", SELECTOR, "region = 'EU' AND size > 10"),
        _figure(
            bench, data, spans, "two properties, the first decides", SELECTOR, "region = 'US' AND size > 10"
        ),
        _figure(bench, data, spans, "a property that is not there", SELECTOR, "colour IS NULL"),
        _figure(bench, data, spans, "LIKE", SELECTOR, "region LIKE '%_U'"),
        _figure(bench, data, spans, "LIKE, through a text", SELECTOR, "customer LIKE '%_1_3%'"),
        _figure(bench, data, spans, "IN", SELECTOR, "region IN ('US', 'EU', 'UK')"),
        _figure(bench, data, spans, "arithmetic", SELECTOR, "size * 2 + 1 > 20"),
        _figure(
            bench,
            data,
            spans,
            "offset and time",
            SQL,
            "d.event-streams-offset > 'a4c5' AND d.event-streams-timestamp > 1585672841",
        ),
        bench.measure(
            "a filter compiled", 1, "filter", lambda: compile_filter(SELECTOR, "a = 1 AND b LIKE 'x%'")
        ),
    ]


def stored() -> tuple[memoryview, array[int]]:
    """Chunk data as a reader shows it, and where its messages lie."""
    message = encode_message(
        Message(
            header=Header(durable=True),
            message_annotations={Symbol("x-routing-key"): "orders"},
            properties=Properties(message_id="ID:12345", subject="order"),
            application_properties={"kind": "order", "region": "EU", "customer": "c-12345", "size": 12},
            body=Data((bytes(BODY_BYTES),)),
        )
    )
    data = memoryview(bytearray((struct.pack(">I", len(message)) + message) * EVENTS))
    spans = array("q", bytes(8 * SPAN_FIELDS * EVENTS))
    skim_entries(data, 0, len(data), EVENTS, spans)
    return data, spans


def _figure(
    bench: Bench, data: memoryview, spans: array[int], name: str, descriptor: Symbol, text: str
) -> Figure:
    found = compile_filter(descriptor, text)
    assert found is not None
    event = StoredEvent(data, timestamp_ms=1_700_000_000_000, partition="orders-0")
    figure = bench.measure(
        f"filter, {name}", EVENTS, "event", lambda: found.matching(event, spans, 0, EVENTS)
    )
    return msgspec.structs.replace(figure, aim=at_least(AIM_M_PER_S))
