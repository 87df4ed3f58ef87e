"""What filters cost for each event: fields read, compared, and compiled away."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bench.figure import Aim, Figure, Options, at_least
from bench.kernel import Bench
from headwater.encoding.amqp_message import Data, Header, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.event_filter import Filter, StoredEvent, compile_filter

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
    buffer, spans = stored()
    return [
        _figure(
            bench, buffer, spans, "two properties, both compared", SELECTOR, "region = 'EU' AND size > 10"
        ),
        _figure(
            bench, buffer, spans, "two properties, the first decides", SELECTOR, "region = 'US' AND size > 10"
        ),
        _figure(bench, buffer, spans, "a property that is not there", SELECTOR, "colour IS NULL"),
        _figure(bench, buffer, spans, "LIKE", SELECTOR, "region LIKE '%_U'"),
        _figure(bench, buffer, spans, "IN", SELECTOR, "region IN ('US', 'EU', 'UK')"),
        _figure(bench, buffer, spans, "arithmetic", SELECTOR, "size * 2 + 1 > 20"),
        _figure(
            bench,
            buffer,
            spans,
            "offset and time",
            SQL,
            "d.event-streams-offset > 'a4c5' AND d.event-streams-timestamp > 1585672841",
        ),
        bench.measure(
            "a filter compiled", 1, "filter", lambda: compile_filter(SELECTOR, "a = 1 AND b LIKE 'x%'")
        ),
    ]


def stored() -> tuple[memoryview, list[tuple[int, int]]]:
    """Messages behind each other, as a reader shows them, and where each one lies."""
    message = encode_message(
        Message(
            header=Header(durable=True),
            message_annotations={Symbol("x-routing-key"): "orders"},
            properties=Properties(message_id="ID:12345", subject="order"),
            application_properties={"kind": "order", "region": "EU", "customer": "c-12345", "size": 12},
            body=Data((bytes(BODY_BYTES),)),
        )
    )
    spans = [(number * len(message), (number + 1) * len(message)) for number in range(EVENTS)]
    return memoryview(bytearray(message * EVENTS)), spans


def _figure(
    bench: Bench, buffer: memoryview, spans: list[tuple[int, int]], name: str, descriptor: Symbol, text: str
) -> Figure:
    found = compile_filter(descriptor, text)
    assert found is not None
    figure = bench.measure(f"filter, {name}", EVENTS, "event", matching(found, buffer, spans))
    aim: Aim = at_least(AIM_M_PER_S)
    return msgspec.structs.replace(figure, aim=aim)


def matching(wanted: Filter, buffer: memoryview, spans: list[tuple[int, int]]) -> Callable[[], int]:
    """A call that asks the filter for all of them, as a link does."""
    event = StoredEvent(buffer, timestamp_ms=1_700_000_000_000, partition="orders-0")
    matches = wanted.matches

    def call() -> int:
        found = 0
        for event.offset, (event.start, event.end) in enumerate(spans):
            found += matches(event)
        return found

    return call
