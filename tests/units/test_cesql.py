"""CloudEvents SQL 1.0, by table: what expressions come to, and which errors occur."""

from __future__ import annotations

import pytest

from headwater.cloudevents.attributes import AttributeValue
from headwater.cloudevents.cesql import Value
from headwater.cloudevents.cesql_compile import compile_cesql
from headwater.cloudevents.cesql_evaluate import evaluate
from headwater.cloudevents.cesql_functions import FUNCTIONS, STRING_CHARACTERS_MAX, ErrorKind
from headwater.cloudevents.cesql_parser import parse_cesql

EVENT: dict[str, AttributeValue] = {
    "specversion": "1.0",
    "id": "o-17",
    "source": "https://shop.example/orders",
    "type": "example.order.placed",
    "subject": "orders/17",
    "time": "2020-04-01T12:00:00.5+02:00",
    "priority": 7,
    "level": "7",
    "urgent": True,
    "answer": "TRUE",
    "digest": b"\x00\xff",
    "large": 1 << 31,
    "empty": "",
    "123abc": "digits first",
}
MATH, CAST = ErrorKind.MATH, ErrorKind.CAST
ATTRIBUTE, FUNCTION = ErrorKind.MISSING_ATTRIBUTE, ErrorKind.MISSING_FUNCTION
EVALUATION = ErrorKind.FUNCTION_EVALUATION

RIGHT = [
    # Section 2.2: literals.
    ("TRUE", True),
    ("faLse", False),
    ("0", 0),
    ("007", 7),
    ("+12", 12),
    ("-12", -12),
    ("2147483647", 2147483647),
    ("-2147483648", -2147483648),
    ("'text'", "text"),
    ('"Text"', "Text"),
    ("''", ""),
    (r"'it\'s \"so\"'", r"it's \"so\""),
    (r'"say \"so\", it\'s"', r'say "so", it\'s'),
    (r"'back\slash \\'", r"back\slash \\"),
    ("'two\nlines'", "two\nlines"),
    ("'größe'", "größe"),
    # Section 3.2: attributes, as strings where CESQL has no such type.
    ("id", "o-17"),
    ("ID", "o-17"),
    ("source", "https://shop.example/orders"),
    ("time", "2020-04-01T12:00:00.5+02:00"),
    ("priority", 7),
    ("urgent", True),
    ("digest", "AP8="),
    ("large", "2147483648"),
    ("123abc", "digits first"),
    ("((subject))", "orders/17"),
    # Section 3.4.1: unary operators.
    ("NOT TRUE", False),
    ("NOT FALSE", True),
    ("not 'fAlse'", True),
    ("NOT 10", False),
    ("NOT 0", True),
    ("NOT NOT urgent", True),
    ("-priority", -7),
    ("- 5", -5),
    ("--5", 5),
    ("-'5'", -5),
    ("--'5'", 5),
    ("-TRUE", -1),
    ("-level", -7),
    # Section 3.4.2: comparisons, in the type of the right one.
    ("1 = 1", True),
    ("1 = 2", False),
    ("'a' = 'a'", True),
    ("'a' = 'A'", False),
    ("TRUE = TRUE", True),
    ("TRUE = FALSE", False),
    ("1 != 2", True),
    ("1 <> 1", False),
    ("'a' <> 'b'", True),
    ("TRUE != TRUE", False),
    ("priority = '7'", True),
    ("level = 7", True),
    ("'07' = level", False),
    ("'07' = priority", True),
    ("'TRUE' = TRUE", True),
    ("TRUE = 'TRUE'", False),
    ("TRUE = 'true' AND FALSE = 'false'", True),
    ("TRUE = 'TRUE' OR FALSE = 'FALSE'", False),
    ("1 = TRUE", True),
    ("0 = TRUE", False),
    ("TRUE = 1", True),
    ("priority = level", True),
    ("answer = urgent", True),
    ("urgent = answer", False),
    ("priority <> LENGTH('1234567')", False),
    ("level = UPPER('7')", True),
    ("urgent <> (1 > 2)", True),
    ("digest = 'AP8='", True),
    ("large = '2147483648'", True),
    ("1 < 2", True),
    ("2 < 1", False),
    ("2 <= 2", True),
    ("3 <= 2", False),
    ("2 > 1", True),
    ("1 > 1", False),
    ("2 >= 2", True),
    ("1 >= 2", False),
    ("level < priority", False),
    ("level <= priority", True),
    ("'10' > '9'", True),
    ("FALSE < TRUE", True),
    # Logic.
    ("TRUE AND TRUE", True),
    ("TRUE AND FALSE", False),
    ("FALSE OR TRUE", True),
    ("FALSE OR FALSE", False),
    ("TRUE XOR FALSE", True),
    ("TRUE XOR TRUE", False),
    ("FALSE XOR FALSE", False),
    ("TRUE XOR TRUE XOR TRUE", True),
    ("1 AND 'true'", True),
    ("0 OR 'FALSE'", False),
    ("urgent AND answer", True),
    ("FALSE AND 1 / 0 = 1", False),
    ("TRUE OR 1 / 0 = 1", True),
    ("FALSE AND none", False),
    ("TRUE OR none OR nobody", True),
    ("FALSE AND NO_SUCH()", False),
    # Arithmetic.
    ("4 + 1", 5),
    ("4 - 1", 3),
    ("4 -1", 3),
    ("4-1", 3),
    ("4 - -1", 5),
    ("4 + +1", 5),
    ("4 * 3", 12),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 / -2", -3),
    ("-7 / -2", 3),
    ("7 % 2", 1),
    ("-7 % 2", -1),
    ("7 % -2", 1),
    ("-7 % -2", -1),
    ("'5' + 3", 8),
    ("5 + '3'", 8),
    ("'5' * '3'", 15),
    ("5 + TRUE", 6),
    ("level + priority", 14),
    ("level * level", 49),
    # Section 3.4.3: LIKE.
    ("'abc' LIKE 'abc'", True),
    ("'abc' LIKE 'ABC'", False),
    ("'abc' NOT LIKE 'abc'", False),
    ("'abc' LIKE 'a%c'", True),
    ("'ac' LIKE 'a%c'", True),
    ("'ac' LIKE 'a_c'", False),
    ("'abc' LIKE 'a_c'", True),
    ("'abc' LIKE '%'", True),
    ("'' LIKE '%'", True),
    ("'' LIKE '_'", False),
    ("'a%c' LIKE 'a\\%c'", True),
    ("'abc' LIKE 'a\\%c'", False),
    ("'a_c' LIKE 'a\\_c'", True),
    ("'abc' LIKE 'a\\_c'", False),
    (r"'a\bc' LIKE 'a\bc'", True),
    (r"'a\b' LIKE 'a\\_'", False),
    (r"'a\_' LIKE 'a\\_'", True),
    (r"'it\'s' LIKE '%\'_'", True),
    ("'a*c' LIKE 'a*c'", True),
    ("'abc' LIKE 'a*c'", False),
    ("'line\nbreak' LIKE 'line_%'", True),
    ("type LIKE 'example.%'", True),
    ("type like '%.placed'", True),
    ("subject LIKE 'orders/__'", True),
    ("234 LIKE '23_'", True),
    ("2344 LIKE '23_'", False),
    ("TRUE LIKE '%ue'", True),
    ("FALSE LIKE 'fal%'", True),
    ("digest LIKE '%='", True),
    # Section 3.4.4: EXISTS.
    ("EXISTS id", True),
    ("exists Subject", True),
    ("EXISTS empty", True),
    ("EXISTS none", False),
    ("NOT EXISTS none", True),
    # Section 3.4.5: IN, in the type of the left one.
    ("1 IN (1, 2)", True),
    ("3 IN (1, 2)", False),
    ("3 NOT IN (1, 2)", True),
    ("1 NOT IN (1, 2)", False),
    ("'a' IN ('b', 'a')", True),
    ("'a' IN ('A')", False),
    ("priority IN ('6', '7')", True),
    ("level IN (6, 7)", True),
    ("'07' IN (7)", False),
    ("urgent IN ('true')", True),
    ("TRUE IN (5)", True),
    ("priority IN (level, 8)", True),
    ("priority IN (1 + 2, LENGTH(id) + 3)", True),
    ("subject IN (id, type)", False),
    ("1 IN (1, none)", True),
    ("1 IN (1, 'x')", True),
    ("priority IN (7, 'x')", True),
    # Section 3.5.1: functions of strings.
    ("LENGTH('abc')", 3),
    ("LENGTH('')", 0),
    ("LENGTH('größe')", 5),
    ("LENGTH('\U0001f389')", 1),
    ("LENGTH(TRUE)", 4),
    ("LENGTH(-10)", 3),
    ("CONCAT()", ""),
    ("CONCAT('a')", "a"),
    ("CONCAT('a', 1, TRUE)", "a1true"),
    ("CONCAT_WS(',')", ""),
    ("CONCAT_WS(',', 'a')", "a"),
    ("CONCAT_WS(', ', 'a', 'b', 3)", "a, b, 3"),
    ("CONCAT_WS(0, 1, 2)", "102"),
    ("LOWER('AbC')", "abc"),
    ("UPPER('aBc')", "ABC"),
    ("UPPER('ß')", "SS"),
    ("TRIM('  a b\t\n ')", "a b"),
    ("TRIM('\u3000\u2009a\u00a0\u0085')", "a"),
    ("TRIM('\x1f \x1ca\x00')", "\x1f \x1ca\x00"),
    ("LEFT('abc', 2)", "ab"),
    ("LEFT('abc', 10)", "abc"),
    ("LEFT('abc', 0)", ""),
    ("LEFT(1234, '2')", "12"),
    ("RIGHT('abc', 2)", "bc"),
    ("RIGHT('abc', 10)", "abc"),
    ("RIGHT('abc', 0)", ""),
    ("RIGHT('', 0)", ""),
    ("SUBSTRING('abcdef', 1)", "abcdef"),
    ("SUBSTRING('abcdef', 4)", "def"),
    ("SUBSTRING('abcdef', 6)", "f"),
    ("SUBSTRING('abcdef', -2)", "ef"),
    ("SUBSTRING('abcdef', -6)", "abcdef"),
    ("SUBSTRING('abcdef', 0)", ""),
    ("SUBSTRING('', 0)", ""),
    ("SUBSTRING('abcdef', 2, 3)", "bcd"),
    ("SUBSTRING('abcdef', 2, 0)", ""),
    ("SUBSTRING('abcdef', 5, 100)", "ef"),
    ("SUBSTRING('abcdef', -3, 2)", "de"),
    ("SUBSTRING('abcdef', 0, 2)", ""),
    ("substring(subject, LENGTH('orders/') + 1)", "17"),
    # Section 3.5.2: functions of integers.
    ("ABS(10)", 10),
    ("ABS(-10)", 10),
    ("ABS('-10')", 10),
    ("Abs(-2147483647)", 2147483647),
    # Section 3.7: casts by name.
    ("INT('1')", 1),
    ("INT('-1')", -1),
    ("INT('+0012')", 12),
    ("INT('-2147483648')", -2147483648),
    (f"INT('{'0' * 5000}12')", 12),
    ("INT(5)", 5),
    ("INT(TRUE)", 1),
    ("INT(FALSE)", 0),
    ("BOOL('TRUE')", True),
    ('BOOL("false")', False),
    ("BOOL(0)", False),
    ("BOOL(-50)", True),
    ("BOOL(TRUE)", True),
    ("STRING(TRUE)", "true"),
    ("STRING(FALSE)", "false"),
    ("STRING(-1)", "-1"),
    ("STRING(007)", "7"),
    ("STRING('a')", "a"),
    ("STRING(digest)", "AP8="),
    # Section 3.6: what binds before what.
    ("2 + 3 * 4", 14),
    ("2 * 3 + 4", 10),
    ("(2 + 3) * 4", 20),
    ("10 - 4 - 3", 3),
    ("100 / 10 / 5", 2),
    ("4 * (2 + 4) / 2", 12),
    ("1 + 1 = 2", True),
    ("1 < 2 = TRUE", True),
    ("3 > 2 > 0", True),
    ("TRUE OR TRUE AND FALSE", False),
    ("TRUE OR (TRUE AND FALSE)", True),
    ("FALSE AND FALSE OR TRUE", True),
    ("TRUE XOR TRUE OR TRUE AND FALSE", False),
    ("NOT FALSE = FALSE", False),
    ("NOT (FALSE = FALSE)", False),
    ("NOT TRUE AND FALSE", False),
    ("NOT 'true' LIKE 'false'", True),
    ("-1 LIKE '-1'", True),
    ("1 + 2 IN (2)", 2),
    ("EXISTS id LIKE 'tr%'", True),
    ("EXISTS id AND NOT EXISTS none", True),
    ("'a' LIKE 'a' IN (TRUE)", True),
    ("'a' IN ('a') LIKE 'true'", True),
]
FAILING: list[tuple[str, Value, list[ErrorKind]]] = [
    # Section 3.2: the zero of what is made of an attribute that is not there.
    ("none", False, [ATTRIBUTE]),
    ("(none)", False, [ATTRIBUTE]),
    ("none = ''", False, [ATTRIBUTE]),
    ("none <> ''", False, [ATTRIBUTE]),
    ("'' = none", False, [ATTRIBUTE]),
    ("none = nobody", False, [ATTRIBUTE]),
    ("none < 1", False, [ATTRIBUTE]),
    ("1 >= none", False, [ATTRIBUTE]),
    ("none * 5", 0, [ATTRIBUTE]),
    ("1 / none", 0, [ATTRIBUTE]),
    ("none % 0", 0, [ATTRIBUTE]),
    ("-none", 0, [ATTRIBUTE]),
    ("NOT none", False, [ATTRIBUTE]),
    ("NOT (none = 1)", True, [ATTRIBUTE]),
    ("none LIKE '%'", False, [ATTRIBUTE]),
    ("none NOT LIKE '%'", False, [ATTRIBUTE]),
    ("none IN (1)", False, [ATTRIBUTE]),
    ("none NOT IN (1)", False, [ATTRIBUTE]),
    ("2 IN (1, none)", False, [ATTRIBUTE]),
    ("2 NOT IN (1, none)", False, [ATTRIBUTE]),
    ("LENGTH(none)", 0, [ATTRIBUTE]),
    ("UPPER(none)", "", [ATTRIBUTE]),
    ("CONCAT('a', none)", "", [ATTRIBUTE]),
    ("BOOL(none)", False, [ATTRIBUTE]),
    ("true AND (missingAttribute = '')", False, [ATTRIBUTE]),
    ("TRUE AND none", False, [ATTRIBUTE]),
    ("FALSE OR none", False, [ATTRIBUTE]),
    ("none AND TRUE", False, [ATTRIBUTE]),
    ("none OR TRUE", False, [ATTRIBUTE]),
    ("none OR FALSE OR TRUE", True, [ATTRIBUTE]),
    ("none OR nobody OR TRUE", True, [ATTRIBUTE]),
    ("FALSE OR none OR TRUE", True, [ATTRIBUTE]),
    ("none XOR TRUE", False, [ATTRIBUTE]),
    ("TRUE XOR none XOR TRUE", True, [ATTRIBUTE]),
    ("LENGTH(none) + 1", 1, [ATTRIBUTE]),
    ("none = 1 OR nobody = 1", False, [ATTRIBUTE, ATTRIBUTE]),
    # Section 3.7: what cannot be cast.
    ("INT('abc')", 0, [CAST]),
    ("INT('')", 0, [CAST]),
    ("INT(' 1')", 0, [CAST]),
    ("INT('1_0')", 0, [CAST]),
    ("INT('--1')", 0, [CAST]),
    ("INT('\u0661')", 0, [CAST]),
    ("INT('1.0')", 0, [CAST]),
    ("INT('2147483648')", 0, [CAST]),
    ("INT('-2147483649')", 0, [CAST]),
    ("INT(large)", 0, [CAST]),
    ("BOOL('yes')", False, [CAST]),
    ("BOOL('1')", False, [CAST]),
    ("BOOL('')", False, [CAST]),
    ("NOT 'abc'", True, [CAST]),
    ("-'abc'", 0, [CAST]),
    ("'abc' + 1", 1, [CAST]),
    ("1 - 'abc'", 1, [CAST]),
    ("'a' * 'b'", 0, [CAST, CAST]),
    ("'abc' = 0", False, [CAST]),
    ("'abc' <> 0", False, [CAST]),
    ("'abc' = FALSE", False, [CAST]),
    ("id = priority", False, [CAST]),
    ("'abc' < 1", True, [CAST]),
    ("1 IN ('x', 1)", True, [CAST]),
    ("2 IN ('x', 1)", False, [CAST]),
    ("priority IN ('x', 7)", True, [CAST]),
    ("TRUE NOT IN ('x')", True, [CAST]),
    ("'abc' OR TRUE", True, [CAST]),
    ("LEFT('abc', 'x')", "", [CAST]),
    ("ABS('x')", 0, [CAST]),
    # Arithmetic.
    ("5 / 0", 0, [MATH]),
    ("5 % 0", 0, [MATH]),
    ("priority / '0'", 0, [MATH]),
    ("1 / 'abc'", 0, [CAST, MATH]),
    ("2147483647 + 1", 0, [MATH]),
    ("-2147483648 - 1", 0, [MATH]),
    ("65536 * 65536", 0, [MATH]),
    ("-2147483648 / -1", 0, [MATH]),
    ("--2147483648", 0, [MATH]),
    ("ABS(-2147483648)", 2147483647, [MATH]),
    ("1 / 0 + 1 / 0", 0, [MATH, MATH]),
    ("TRUE AND 1 / 0 = 1", False, [MATH]),
    ("FALSE OR 1 / 0 = 0", True, [MATH]),
    # Functions.
    ("LEFT('abc', -2)", "abc", [EVALUATION]),
    ("RIGHT('abc', -2)", "abc", [EVALUATION]),
    ("SUBSTRING('abc', 4)", "", [EVALUATION]),
    ("SUBSTRING('abc', -4)", "", [EVALUATION]),
    ("SUBSTRING('', 1)", "", [EVALUATION]),
    ("SUBSTRING('abc', 4, 1)", "", [EVALUATION]),
    ("SUBSTRING('abc', -4, 1)", "", [EVALUATION]),
    ("SUBSTRING('abc', 1, -1)", "", [EVALUATION]),
    ("SUBSTRING('abc', 0, -1)", "", [EVALUATION]),
    ("NO_SUCH()", False, [FUNCTION]),
    ("NO_SUCH(none)", False, [FUNCTION]),
    ("NO_SUCH() + 1", 1, [FUNCTION]),
    ("CONCAT_WS()", False, [FUNCTION]),
    ("LENGTH()", False, [FUNCTION]),
    ("LENGTH('a', 'b')", False, [FUNCTION]),
    ("SUBSTRING('a')", False, [FUNCTION]),
    ("SUBSTRING('a', 1, 1, 1)", False, [FUNCTION]),
]


@pytest.mark.parametrize(("text", "value"), RIGHT)
def test_an_expression_comes_to_its_value(text: str, value: Value) -> None:
    node = parse_cesql(text)
    outcome = evaluate(node, EVENT)
    assert outcome.errors == ()
    assert (outcome.value, type(outcome.value)) == (value, type(value))
    compiled = compile_cesql(node)(EVENT)
    assert (compiled, type(compiled)) == (value, type(value))


@pytest.mark.parametrize(("text", "value", "kinds"), FAILING)
def test_an_error_leaves_a_value_and_makes_a_filter_false(
    text: str, value: Value, kinds: list[ErrorKind]
) -> None:
    node = parse_cesql(text)
    outcome = evaluate(node, EVENT)
    assert [error.kind for error in outcome.errors] == kinds
    assert (outcome.value, type(outcome.value)) == (value, type(value))
    assert not outcome.passes
    assert compile_cesql(node)(EVENT) is None


def test_the_table_calls_every_function_rightly_and_wrongly() -> None:
    for name in FUNCTIONS:
        assert any(f"{name}(" in text.upper() for text, _ in RIGHT)


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
