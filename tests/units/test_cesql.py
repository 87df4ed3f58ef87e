"""CloudEvents SQL 1.0: what expressions come to, and which errors occur, section by section."""

from __future__ import annotations

import pytest

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql import Value
from headwater.cloudevents.cesql_compile import compile_cesql
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.cesql_functions import FUNCTIONS, ErrorKind
from headwater.cloudevents.cesql_parser import parse_cesql
from headwater.cloudevents.cesql_values import STRING_CHARACTERS_MAX
from tests import cesql_cases
from tests.cesql_cases import EVALUATION, EVENT


def comes_to(text: str, value: Value) -> None:
    node = parse_cesql(text)
    outcome = evaluate(node, EVENT)
    assert outcome.errors == ()
    assert (outcome.value, type(outcome.value)) == (value, type(value))
    compiled = compile_cesql(node)(EVENT)
    assert (compiled, type(compiled)) == (value, type(value))


def fails(text: str, value: Value, kinds: list[ErrorKind]) -> None:
    node = parse_cesql(text)
    outcome = evaluate(node, EVENT)
    assert [error.kind for error in outcome.errors] == kinds
    assert (outcome.value, type(outcome.value)) == (value, type(value))
    assert not outcome.passes
    assert compile_cesql(node)(EVENT) is None


@pytest.mark.clause("CESQL 2.2")
@pytest.mark.parametrize(("text", "value"), cesql_cases.LITERALS)
def test_a_literal_is_its_value(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.2")
@pytest.mark.parametrize(("text", "value"), cesql_cases.ATTRIBUTES)
def test_an_attribute_has_its_type_or_is_a_string(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.1")
@pytest.mark.parametrize(("text", "value"), cesql_cases.SIGNS)
def test_signs_cast_and_deny(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.2")
@pytest.mark.parametrize(("text", "value"), cesql_cases.COMPARISONS)
def test_values_are_compared_in_the_type_of_the_right_one(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.2")
@pytest.mark.parametrize(("text", "value"), cesql_cases.LOGIC)
def test_logic_ends_where_it_is_decided(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.2")
@pytest.mark.parametrize(("text", "value"), cesql_cases.ARITHMETIC)
def test_arithmetic_is_whole_and_rounds_towards_zero(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.3")
@pytest.mark.parametrize(("text", "value"), cesql_cases.PATTERNS)
def test_a_pattern_matches_the_whole_string(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.4")
@pytest.mark.parametrize(("text", "value"), cesql_cases.EXISTENCE)
def test_an_attribute_exists_or_does_not(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.4.5")
@pytest.mark.parametrize(("text", "value"), cesql_cases.MEMBERSHIP)
def test_a_value_is_one_of_several_in_its_own_type(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.5.1")
@pytest.mark.parametrize(("text", "value"), cesql_cases.STRING_FUNCTIONS)
def test_functions_of_strings_count_characters(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.5.2")
@pytest.mark.parametrize(("text", "value"), cesql_cases.INTEGER_FUNCTIONS)
def test_the_absolute_value_has_no_sign(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.7")
@pytest.mark.parametrize(("text", "value"), cesql_cases.CASTS)
def test_casts_have_names(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.6")
@pytest.mark.parametrize(("text", "value"), cesql_cases.PRECEDENCE)
def test_operators_bind_by_their_table_and_from_left_to_right(text: str, value: Value) -> None:
    comes_to(text, value)


@pytest.mark.clause("CESQL 3.2", "CESQL 3.3")
@pytest.mark.parametrize(("text", "value", "kinds"), cesql_cases.MISSING_ATTRIBUTES)
def test_a_missing_attribute_leaves_the_zero_of_what_it_is_part_of(
    text: str, value: Value, kinds: list[ErrorKind]
) -> None:
    fails(text, value, kinds)


@pytest.mark.clause("CESQL 3.7", "CESQL 3.3")
@pytest.mark.parametrize(("text", "value", "kinds"), cesql_cases.IMPOSSIBLE_CASTS)
def test_what_cannot_be_cast_is_an_error(text: str, value: Value, kinds: list[ErrorKind]) -> None:
    fails(text, value, kinds)


@pytest.mark.clause("CESQL 3.4.2", "CESQL 3.3")
@pytest.mark.parametrize(("text", "value", "kinds"), cesql_cases.IMPOSSIBLE_ARITHMETIC)
def test_what_32_bits_cannot_hold_is_an_error(text: str, value: Value, kinds: list[ErrorKind]) -> None:
    fails(text, value, kinds)


@pytest.mark.clause("CESQL 3.5.3", "CESQL 3.3")
@pytest.mark.parametrize(("text", "value", "kinds"), cesql_cases.FAILING_FUNCTIONS)
def test_functions_fail_with_a_value(text: str, value: Value, kinds: list[ErrorKind]) -> None:
    fails(text, value, kinds)


def test_the_cases_call_every_function() -> None:
    cases = (*cesql_cases.STRING_FUNCTIONS, *cesql_cases.INTEGER_FUNCTIONS, *cesql_cases.CASTS)
    for name in FUNCTIONS:
        assert any(f"{name}(" in text.upper() for text, _ in cases)


@pytest.mark.clause("CESQL 3.3")
def test_an_error_tells_where_and_why() -> None:
    outcome = evaluate(parse_cesql("id = 'o-17' AND none > 5 / (priority - 7)"), EVENT)
    assert [(error.position, error.reason) for error in outcome.errors] == [
        (16, "the event has no attribute none")
    ]
    outcome = evaluate(parse_cesql("priority / (level - 7) = INT(id)"), EVENT)
    assert [(error.position, error.reason) for error in outcome.errors] == [
        (9, "7 / 0 has no result within 32 bits"),
        (29, "'o-17' is not an integer"),
    ]
    outcome = evaluate(parse_cesql("NO_SUCH(1)"), EVENT)
    assert "LENGTH, CONCAT" in outcome.errors[0].reason


@pytest.mark.clause("CESQL 1.2")
def test_an_event_passes_if_it_is_true_without_errors() -> None:
    assert evaluate(parse_cesql("priority = 7"), EVENT).passes
    assert not evaluate(parse_cesql("priority"), EVENT).passes
    assert not evaluate(parse_cesql("answer"), EVENT).passes
    assert not evaluate(parse_cesql("none = 1 OR TRUE"), EVENT).passes


@pytest.mark.parametrize("call", ["CONCAT(subject, subject)", "CONCAT_WS(subject, '', '', '')"])
def test_what_concatenations_make_is_bounded(call: str) -> None:
    length = parse_cesql(f"LENGTH({call})")
    half = {"subject": "x" * (STRING_CHARACTERS_MAX // 2)}
    assert compile_cesql(length)(half) == STRING_CHARACTERS_MAX
    above = {"subject": "x" * (STRING_CHARACTERS_MAX // 2 + 1)}
    assert compile_cesql(length)(above) is None
    outcome = evaluate(length, above)
    assert [error.kind for error in outcome.errors] == [EVALUATION]
    assert outcome.value == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [("subject", False), ("subject = subject", False), ("LENGTH(subject)", 0), ("-subject", 0)],
)
@pytest.mark.parametrize("kind", [str, bytes])
def test_an_attribute_is_bounded(text: str, value: Value, kind: type[str | bytes]) -> None:
    """In base64 three bytes are four characters."""
    fitting: AttributeValue = "0" * STRING_CHARACTERS_MAX
    excessive: AttributeValue = "0" * (STRING_CHARACTERS_MAX + 1)
    if kind is bytes:
        fitting, excessive = bytes(STRING_CHARACTERS_MAX // 4 * 3), bytes(STRING_CHARACTERS_MAX // 4 * 3 + 1)
    node = parse_cesql(text)
    outcome = evaluate(node, {"subject": excessive})
    assert outcome.value == value
    assert [(error.kind, error.reason) for error in outcome.errors] == [
        (ErrorKind.GENERIC, "subject has more than 65,536 characters")
    ]
    assert compile_cesql(node)({"subject": excessive}) is None
    outcome = evaluate(node, {"subject": fitting})
    assert ErrorKind.GENERIC not in {error.kind for error in outcome.errors}
    assert compile_cesql(node)({"subject": fitting}) == (None if outcome.errors else outcome.value)


@pytest.mark.clause("CESQL 3.6")
def test_only_what_decides_is_asked_for() -> None:
    asked: list[str] = []

    class Listening:
        def get(self, name: str, /) -> AttributeValue | None:
            asked.append(name)
            return EVENT.get(name)

    assert compile_cesql(parse_cesql("priority = 8 AND id = 'o-17' AND EXISTS type"))(Listening()) is False
    assert asked == ["priority"]
    asked.clear()
    assert compile_cesql(parse_cesql("priority = 7 OR id = 'x' OR type = 'x'"))(Listening()) is True
    assert asked == ["priority"]
    asked.clear()
    assert compile_cesql(parse_cesql("1 + 1 = 2 AND LENGTH('abc') = 3"))(Listening()) is True
    assert asked == []
