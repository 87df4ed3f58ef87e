"""What predicates over CloudEvents cost for each event: attributes being at hand, and out of stored messages."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from functools import partial

import msgspec

from bench.figure import Figure, Options, at_least
from bench.kernel import Bench
from headwater.cloudevents import amqp_binding
from headwater.cloudevents.attributes import Attributes, AttributeValue
from headwater.cloudevents.event import CloudEvent
from headwater.cloudevents.filter_shapes import read_filter
from headwater.cloudevents.filters import Sql, Test, compile_predicate, sql
from headwater.cloudevents.stored_filter import filter_of
from headwater.encoding._amqp_kernel import skim_entries
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.event_filter import StoredEvent

__all__ = ["run"]

EVENTS = 1_000
DATA_BYTES = 100
BASIC_AIM_M_PER_S = 2.0
SQL_AIM_M_PER_S = 0.3
BASIC = {
    "exact": {"exact": {"type": "example.order.placed"}},
    "prefix": {"prefix": {"type": "example.order."}},
    "suffix": {"suffix": {"subject": "/7"}},
    "all of three": {"all": [{"exact": {"region": "eu"}}, {"prefix": {"type": "example."}}, {"suffix": {"id": "7"}}]},
    "any of three": {"any": [{"exact": {"region": "us"}}, {"prefix": {"type": "other."}}, {"suffix": {"id": "7"}}]},
    "not": {"not": {"exact": {"region": "us"}}},
}  # fmt: skip
SQL = {
    "one comparison": "type = 'example.order.placed'",
    "two comparisons": "region = 'eu' AND priority > 5",
    "LIKE": "type LIKE 'example.%.placed'",
    "IN": "region IN ('us', 'uk', 'eu')",
    "arithmetic and casts": "INT(sequence) % 10 = 7 OR priority * 2 + 1 > 15",
    "functions": "UPPER(LEFT(subject, 6)) = 'ORDERS' AND LENGTH(id) > 3",
    "all of it": (
        "(type LIKE 'example.%' AND subject LIKE '%/7') XOR region IN ('us', 'uk') OR EXISTS traceparent "
        "AND NOT urgent OR ABS(priority - 7) < 3"
    ),
    "an attribute that is not there": "missing = 'x'",
}


def run(options: Options) -> list[Figure]:
    """Basic predicates and SQL over the same events."""
    bench = Bench(options)
    figures = []
    for name, said in BASIC.items():
        test = compile_predicate(read_filter({"filters": [said]}).predicate)
        figures.append(_figure(bench, f"basic filter, {name}", test, BASIC_AIM_M_PER_S))
    for name, text in SQL.items():
        figures.append(_figure(bench, f"SQL, {name}", compile_predicate(sql(text)), SQL_AIM_M_PER_S))
    figures += _stored_figures(bench)
    text = SQL["all of it"]
    return [*figures, bench.measure("SQL compiled", 1, "filter", lambda: compile_predicate(sql(text)))]


def parsed() -> list[dict[str, AttributeValue]]:
    """Events as attributes by name."""
    return [
        {
            "specversion": "1.0",
            "id": f"order-{number}",
            "source": "https://shop.example/orders",
            "type": ("example.order.placed", "example.order.paid", "example.stock.low")[number % 3],
            "subject": f"orders/{number}/{number % 10}",
            "time": "2026-04-01T12:00:00Z",
            "region": ("eu", "us", "asia", "uk")[number % 4],
            "sequence": f"{number:010}",
            "priority": number % 10,
            "urgent": number % 7 == 0,
        }
        for number in range(EVENTS)
    ]


def stored() -> tuple[memoryview, array[int]]:
    """The same events as chunk data, and where they lie."""
    entries = [amqp_binding.encode(CloudEvent(attributes, bytes(DATA_BYTES))) for attributes in parsed()]
    data = memoryview(bytearray(b"".join(struct.pack(">I", len(entry)) + entry for entry in entries)))
    spans = array("q", bytes(8 * SPAN_FIELDS * EVENTS))
    skim_entries(data, 0, len(data), EVENTS, spans)
    return data, spans


def _stored_figures(bench: Bench) -> list[Figure]:
    data, spans = stored()
    event = StoredEvent(data)
    predicates = {
        f"basic filter, stored, {name}": read_filter({"filters": [BASIC[name]]}).predicate
        for name in ("exact", "prefix", "suffix")
    } | {f"SQL, stored, {name}": sql(SQL[name]) for name in ("one comparison", "LIKE", "all of it")}
    figures = []
    for name, predicate in predicates.items():
        call = partial(filter_of(predicate).matching, event, spans, 0, EVENTS)
        aim = at_least(SQL_AIM_M_PER_S if isinstance(predicate, Sql) else BASIC_AIM_M_PER_S)
        figures.append(msgspec.structs.replace(bench.measure(name, EVENTS, "event", call), aim=aim))
    return figures


def _figure(bench: Bench, name: str, test: Test, aim: float) -> Figure:
    events = parsed()
    figure = bench.measure(name, EVENTS, "event", lambda: _count(test, events))
    return msgspec.structs.replace(figure, aim=at_least(aim))


def _count(test: Test, events: Sequence[Attributes]) -> int:
    passing = 0
    for event in events:
        if test(event):
            passing += 1
    return passing
