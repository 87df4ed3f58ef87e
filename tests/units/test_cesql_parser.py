"""CloudEvents SQL 1.0: the trees that texts make, where the others go wrong, and the bounds."""

from __future__ import annotations

import pytest

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
from headwater.cloudevents.cesql_parser import parse_cesql
from headwater.encoding.expression import (
    DEPTH_MAX,
    LIKE_PATTERN_CHARACTERS_MAX,
    NODES_MAX,
    TEXT_CHARACTERS_MAX,
)
from headwater.errors import InvalidExpression

A, B, C, D = (Attribute(name) for name in "abcd")
ONE, TWO = Literal(1), Literal(2)


@pytest.mark.clause("CESQL 2", "CESQL 3.6")
@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a OR b AND c XOR d", Logical("XOR", (Logical("AND", (Logical("OR", (A, B)), C)), D))),
        ("a OR (b AND c)", Logical("OR", (A, Logical("AND", (B, C))))),
        ("a AND b AND c", Logical("AND", (A, B, C))),
        ("(a AND b) AND c", Logical("AND", (Logical("AND", (A, B)), C))),
        ("NOT a = b", Comparison("=", Not(A), B)),
        ("NOT a LIKE 'x'", Like(Not(A), "x")),
        ("NOT a IN (1)", In(Not(A), (ONE,))),
        ("NOT NOT - a", Not(Not(Negation(A)))),
        ("-a * b", Arithmetic("*", Negation(A), B)),
        ("a = b = c", Comparison("=", Comparison("=", A, B), C)),
        ("a - 1 - 2", Arithmetic("-", Arithmetic("-", A, ONE), TWO)),
        ("a-1", Arithmetic("-", A, ONE)),
        ("a - -1", Arithmetic("-", A, Literal(-1))),
        ("a - - 1", Arithmetic("-", A, Negation(ONE))),
        ("1 + 2 * a", Arithmetic("+", ONE, Arithmetic("*", TWO, A))),
        ("1 % 2 / a", Arithmetic("/", Arithmetic("%", ONE, TWO), A)),
        ("a + b LIKE 'x'", Arithmetic("+", A, Like(B, "x"))),
        ("a * b NOT IN (1)", Arithmetic("*", A, In(B, (ONE,), is_denied=True))),
        ("a < 1 + 2", Comparison("<", A, Arithmetic("+", ONE, TWO))),
        ("a != b", Comparison("<>", A, B)),
        ("EXISTS a = b", Comparison("=", Exists("a"), B)),
        ("a IN (b, c AND d, 1)", In(A, (B, Logical("AND", (C, D)), ONE))),
        ("a NOT LIKE '%'", Like(A, "%", is_denied=True)),
        ("Left(a, 1)", Call("LEFT", (A, ONE))),
        ("left", Attribute("left")),
        ("int(int)", Call("INT", (Attribute("int"),))),
        ("f_g()", Call("F_G", ())),
        ("firstName = 'x'", Comparison("=", Attribute("firstname"), Literal("x"))),
        ("\t( a\r\n)", A),
        ("1a", Attribute("1a")),
    ],
)
def test_a_text_makes_a_tree(text: str, node: Node) -> None:
    assert parse_cesql(text) == node


def test_a_node_tells_where_its_word_stands() -> None:
    node = parse_cesql("abc AND - x NOT LIKE 'y' = -5")
    assert isinstance(node, Logical)
    comparison = node.operands[1]
    assert isinstance(comparison, Comparison)
    assert (node.position, comparison.position, comparison.left.position) == (4, 25, 16)
    assert comparison.right.position == 27


@pytest.mark.clause("CESQL 2", "CESQL 3.3")
@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "and there is the end"),
        ("a =", 3, "a name, a constant, a function"),
        ("a b", 2, "an operator or the end is expected here, and there is 'b'"),
        ("(a", 2, "an operator or )"),
        ("a)", 1, "an operator or the end"),
        ("a IN ()", 6, "a name, a constant"),
        ("a IN (1", 7, ", or )"),
        ("a IN 1", 5, "( is expected"),
        ("a NOT = 1", 6, "LIKE or IN"),
        ("a LIKE b", 7, "a pattern in quotes"),
        ("a LIKE 1", 7, "a pattern in quotes"),
        ("EXISTS 'a'", 7, "a name"),
        ("EXISTS (a)", 7, "a name"),
        ("EXISTS", 6, "a name"),
        ("AND", 0, "a name, a constant"),
        ("a AND OR b", 6, "a name, a constant"),
        ("+ 5", 0, "right before digits"),
        ("+a", 0, "right before digits"),
        ("+'5'", 0, "right before digits"),
        ("2147483648", 0, "integers have 32 bits"),
        ("1 + -2147483649", 5, "integers have 32 bits"),
        ("- 2147483648", 2, "integers have 32 bits"),
        ("99999999999999999999", 0, "integers have 32 bits"),
        ("1.5", 1, "the character '.' has no meaning here"),
        ("a = 'x", 4, "its closing quote is missing"),
        ("a = 'x\\'", 4, "its closing quote is missing"),
        ('a = "x', 4, "its closing quote is missing"),
        ("'a''b'", 3, "an operator or the end"),
        ("my_name = 1", 0, "the name of an attribute has letters and digits alone"),
        ("EXISTS my_name", 7, "the name of an attribute has letters and digits alone"),
        ("f2(a)", 0, "the name of a function has letters and underscores alone"),
        ("_f(a)", 0, "the name of a function has letters and underscores alone"),
        ("f(a,)", 4, "a name, a constant"),
        ("f(a b)", 4, ", or )"),
        ("größe = 1", 2, "the character 'ö' has no meaning here"),
        ("a\u00a0= 1", 1, "has no meaning here"),
        ("a;b", 1, "the character ';' has no meaning here"),
        (f"a {'b' * 100}", 2, f"there is '{'b' * 40}…'"),
    ],
)
def test_what_is_no_expression_is_refused_with_position_and_reason(
    text: str, position: int, reason: str
) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_cesql(text)
    assert caught.value.position == position
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("fitting", "excessive", "reason"),
    [
        (
            f"a = '{'x' * (TEXT_CHARACTERS_MAX - 6)}'",
            f"a = '{'x' * (TEXT_CHARACTERS_MAX - 5)}'",
            "longer than 8,192 characters",
        ),
        (
            f"a LIKE '{'x' * LIKE_PATTERN_CHARACTERS_MAX}'",
            f"a LIKE '{'x' * (LIKE_PATTERN_CHARACTERS_MAX + 1)}'",
            "a pattern has at most 256 characters",
        ),
        (
            "(" * (DEPTH_MAX - 1) + "a" + ")" * (DEPTH_MAX - 1),
            "(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX,
            "nested more than 50 deep",
        ),
        ("NOT " * (DEPTH_MAX - 1) + "a", "NOT " * DEPTH_MAX + "a", "nested more than 50 deep"),
        ("1" + " + 1" * (DEPTH_MAX - 1), "1" + " + 1" * DEPTH_MAX, "nested more than 50 deep"),
        (
            "f(" * (DEPTH_MAX - 1) + "a" + ")" * (DEPTH_MAX - 1),
            "f(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX,
            "nested more than 50 deep",
        ),
        (
            f"a IN ({'1,' * (NODES_MAX - 3)}1)",
            f"a IN ({'1,' * (NODES_MAX - 2)}1)",
            "more than 1,000 parts",
        ),
        ("a OR " * (NODES_MAX - 2) + "a", "a OR " * (NODES_MAX - 1) + "a", "more than 1,000 parts"),
    ],
)
def test_an_expression_is_bounded(fitting: str, excessive: str, reason: str) -> None:
    parse_cesql(fitting)
    with pytest.raises(InvalidExpression, match=reason):
        parse_cesql(excessive)
