"""What predicates over CloudEvents cost for each event, attributes being at hand."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bench.figure import Figure, Options, at_least
from bench.kernel import Bench
from headwater.cloudevents.attributes import Attributes, AttributeValue
from headwater.cloudevents.filter_shapes import read_filter
from headwater.cloudevents.filters import Test, compile_predicate, sql

__all__ = ["run"]

EVENTS = 1_000
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
