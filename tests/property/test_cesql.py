"""CloudEvents SQL of any kind: read, printed, and evaluated in both ways."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    In,
    Like,
    Literal,
    Logical,
    Negation,
    Node,
    Not,
)
from headwater.cloudevents.cesql_compile import compile_cesql
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.cesql_functions import returned_type
from headwater.cloudevents.cesql_parser import parse_cesql
from headwater.cloudevents.cesql_values import INTEGER_MAX, INTEGER_MIN, calculate, to_integer
from headwater.errors import InvalidExpression
from tests.cesql_material import events, nodes, text_of

WORDS = st.sampled_from(
    [
        *(
            "and",
            "OR",
            "Xor",
            "not",
            "LIKE",
            "in",
            "EXISTS",
            "TRUE",
            "false",
            "(",
            ")",
            ",",
            "+",
            "-",
            "*",
            "/",
        ),
        *(
            "%",
            "=",
            "<>",
            "!=",
            "<",
            ">",
            "<=",
            ">=",
            "'a%'",
            r"'it\'s'",
            "''",
            '"x"',
            "'open",
            "1",
            "é",
            ";",
        ),
        *("2147483647", "2147483648", "a", "type", "subject", "1a", "my_name", "LEFT(", "ABS(", "NO_SUCH("),
    ]
)
INTEGERS = st.one_of(st.integers(INTEGER_MIN, INTEGER_MAX), st.integers(-9, 9))


@given(text=st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=14).map(" ".join)))
def test_any_text_is_an_expression_or_says_where_it_is_none(text: str) -> None:
    try:
        node = parse_cesql(text)
    except InvalidExpression as error:
        fault = error
    else:
        assert isinstance(evaluate(node, {}).value, str | int)
        return
    assert 0 <= fault.position <= len(text)
    assert fault.reason in str(fault)


@given(node=nodes)
def test_what_is_printed_is_read_as_the_same(node: Node) -> None:
    again = parse_cesql(text_of(node))
    assert again == node
    assert text_of(again) == text_of(node), "1 and TRUE are equal to Python"


@pytest.mark.clause("CESQL 1.2")
@given(node=nodes, event=events)
def test_a_filter_is_true_where_complete_evaluation_is_without_errors(
    node: Node, event: dict[str, AttributeValue]
) -> None:
    outcome = evaluate(node, event)
    value = compile_cesql(node)(event)
    if outcome.errors:
        assert value is None
    else:
        assert (value, type(value)) == (outcome.value, type(outcome.value))
    assert (value is True) is outcome.passes


@given(node=nodes, event=events)
def test_a_value_is_of_the_type_that_its_operation_returns(
    node: Node, event: dict[str, AttributeValue]
) -> None:
    value = evaluate(node, event).value
    returned = returned_type(node)
    if returned is not None:
        assert type(value) is type(returned.zero)
    if isinstance(value, int):
        assert INTEGER_MIN <= value <= INTEGER_MAX


@given(left=INTEGERS, right=INTEGERS, symbol=st.sampled_from("+-*/%"))
def test_arithmetic_is_that_of_decimal_numbers_cut_at_the_point(left: int, right: int, symbol: str) -> None:
    result = calculate(symbol, left, right)
    if symbol in "/%" and right == 0:
        assert result is None
        return
    first, second = Decimal(left), Decimal(right)
    quotient = (first / second).to_integral_value(ROUND_DOWN) if right else Decimal(0)
    exact = {
        "+": first + second,
        "-": first - second,
        "*": first * second,
        "/": quotient,
        "%": first - quotient * second,
    }[symbol]
    assert result == (int(exact) if INTEGER_MIN <= exact <= INTEGER_MAX else None)


@given(number=st.integers(-(1 << 40), 1 << 40), zeros=st.integers(0, 5000), plus=st.sampled_from(["", "+"]))
def test_text_becomes_the_integer_that_32_bits_hold(number: int, zeros: int, plus: str) -> None:
    text = f"{'-' if number < 0 else plus}{'0' * zeros}{abs(number)}"
    assert to_integer(text) == (number if INTEGER_MIN <= number <= INTEGER_MAX else None)


@pytest.mark.parametrize(
    "kind",
    [Literal, Attribute, Exists, Negation, Not, Arithmetic, Comparison, Logical, Like, In, Call],
)
def test_strategies_reach_each_kind_of_node(kind: type[Node]) -> None:
    few = settings(max_examples=2_000, derandomize=True, database=None, phases=[Phase.generate])
    assert isinstance(find(nodes, lambda node: isinstance(node, kind), settings=few), kind)


@pytest.mark.parametrize("passes", [True, False])
def test_strategies_reach_filters_that_pass_and_that_do_not(passes: bool) -> None:
    few = settings(max_examples=2_000, derandomize=True, database=None, phases=[Phase.generate])
    both = st.tuples(nodes.filter(lambda node: not isinstance(node, Literal | Exists)), events)
    node, event = find(both, lambda pair: evaluate(*pair).passes is passes, settings=few)
    assert evaluate(node, event).passes is passes
