"""Filters of subscriptions and CloudEvents SQL, which peers write, over attributes, which other peers write."""

from __future__ import annotations

import msgspec

from fuzz.targets import check, target
from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql_compile import compile_cesql
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.cesql_parser import parse_cesql
from headwater.cloudevents.filter_shapes import read_filter
from headwater.cloudevents.filters import compile_predicate, sql
from headwater.cloudevents.stored_filter import screen_of
from headwater.encoding.amqp_message import Data, Message, Properties, encode_message
from headwater.encoding.amqp_types import Symbol
from headwater.errors import InvalidExpression, InvalidFilter

EVENT: dict[str, AttributeValue] = {
    "id": "1",
    "type": "com.a",
    "n": 7,
    "b": True,
    "x": b"\x00",
    "big": 1 << 40,
}


@target(
    "CloudEvents SQL",
    InvalidExpression,
    seeds=[
        b"id = '1' AND type LIKE 'com.\\_%' OR NOT b XOR EXISTS none",
        b"n IN (1, '7', TRUE, id) AND n NOT IN (-7) AND ABS(-n) % 2 / 1 * 3 >= INT(id) + 1 - -1",
        b'CONCAT_WS(",", LEFT(type, 2), RIGHT(type, 1), SUBSTRING(type, -2, 1)) != UPPER(TRIM(" x "))',
        b"-2147483648 <> ABS(-2147483648) = BOOL('TRUE') <= STRING(x) = LENGTH(big)",
    ],
)
def fuzz_cesql(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        node = parse_cesql(text)
    except InvalidExpression as error:
        check(0 <= error.position <= len(text), "the fault lies outside of the text")
        raise
    outcome = evaluate(node, EVENT)
    value = compile_cesql(node)(EVENT)
    check(value == (None if outcome.errors else outcome.value), "a filter and complete evaluation differ")
    check(
        all(0 <= error.position <= len(text) for error in outcome.errors), "an error lies outside of the text"
    )


@target(
    "filters of subscriptions",
    InvalidFilter,
    seeds=[
        b'{"filter":{"dialect":"basic","conditions":[{"type":"prefix","property":"type","value":"com."}]}}',
        b'{"filters":[{"dialect":"simple","type":"exact","property":"id","value":"1"}]}',
        b'{"filters":[{"any":[{"prefix":{"type":"com."}},{"not":{"suffix":{"id":"1","n":"7"}}}]}]}',
        b'{"filters":[{"sql":"id = \'1\'"},{"all":[{"exact":{"b":"true"}}]}]}',
    ],
)
def fuzz_filters(data: bytes) -> None:
    try:
        subscription = msgspec.json.decode(data, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    found = read_filter(subscription)
    check(
        isinstance(compile_predicate(found.predicate)(EVENT), bool), "a predicate is not true and not false"
    )
    check(read_filter(found.echo()) == found, "what is given back does not say the same")


BINARY = {
    f"cloudEvents:{name}": value for name, value in {**EVENT, "source": "/", "specversion": "1.0"}.items()
}
STRUCTURED = b'{"specversion":"1.0","id":"1","source":"/","type":"com.a","n":7}'
SCREEN = screen_of(sql("n > 3 AND type LIKE 'com.%' OR NOT EXISTS b"))


@target(
    "stored events under a filter",
    InvalidFilter,
    seeds=[
        encode_message(Message(application_properties=BINARY, body=Data((b"x",)))),
        encode_message(
            Message(
                properties=Properties(content_type=Symbol("application/cloudevents+json")),
                body=Data((STRUCTURED,)),
            )
        ),
    ],
)
def fuzz_stored(data: bytes) -> None:
    check(SCREEN(data, (0, 0, 0, len(data)), [0]) in ([], [0]), "an event passes that is not there")
