"""CloudEvents SQL for tests: printed and made up."""

from __future__ import annotations

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
    Value,
)
from headwater.cloudevents.cesql_functions import FUNCTIONS
from headwater.cloudevents.cesql_values import INTEGER_MAX, INTEGER_MIN

__all__ = ["NAMES", "events", "nodes", "text_of"]

NAMES = ("id", "type", "subject", "n", "b", "x1", "missing")


def text_of(node: Node) -> str:
    """The text of a tree, with parentheses wherever a part has parts."""

    def part(child: Node) -> str:
        return text_of(child) if isinstance(child, Literal | Attribute | Call) else f"({text_of(child)})"

    def parts(children: tuple[Node, ...], separator: str) -> str:
        return separator.join(map(part, children))

    match node:
        case Literal(value):
            return constant(value)
        case Attribute(name) | Exists(name):
            return f"{'EXISTS ' * isinstance(node, Exists)}{name}"
        case Negation(operand) | Not(operand):
            return f"{'NOT' if isinstance(node, Not) else '-'} {part(operand)}"
        case Arithmetic(symbol, left, right) | Comparison(symbol, left, right):
            return f"{part(left)} {symbol} {part(right)}"
        case Logical(symbol, operands):
            return parts(operands, f" {symbol} ")
        case Like(operand, pattern, is_denied):
            return f"{part(operand)} {'NOT ' * is_denied}LIKE {constant(pattern)}"
        case In(operand, items, is_denied):
            return f"{part(operand)} {'NOT ' * is_denied}IN ({parts(items, ', ')})"
        case Call(name, arguments):
            return f"{name}({parts(arguments, ', ')})"
    raise AssertionError(node)


def constant(value: Value) -> str:
    if isinstance(value, str):
        quote = '"' if "'" in value else "'"
        return quote + value.replace(quote, "\\" + quote) + quote
    return str(value).upper() if isinstance(value, bool) else str(value)


texts = st.one_of(
    st.sampled_from(["", "a", "true", "FALSE", "1", "-7", "+007", "2147483648", "a_b%c", "it's", '"', " x "]),
    st.text("ab\\%_1'\" ", max_size=6).filter(lambda text: not text.endswith("\\") and '\\"' not in text),
).filter(lambda text: "\\'" not in text)
"""What can be said in quotes: no text has a backslash before a quote, or at its end."""
integers = st.one_of(st.integers(-10, 10), st.sampled_from([INTEGER_MIN, INTEGER_MAX, 1 << 20]))
literals = st.builds(Literal, st.one_of(texts, integers, st.booleans()))
attributes = st.builds(Attribute, st.sampled_from(NAMES))
calls = {
    "LENGTH": (1, 1),
    "CONCAT": (0, 3),
    "CONCAT_WS": (0, 3),
    "LOWER": (1, 1),
    "UPPER": (1, 1),
    "TRIM": (1, 1),
    "LEFT": (2, 2),
    "RIGHT": (2, 2),
    "SUBSTRING": (2, 3),
    "ABS": (1, 2),
    "INT": (1, 1),
    "BOOL": (1, 1),
    "STRING": (1, 1),
    "NONE_SUCH": (0, 1),
}
assert calls.keys() == {*FUNCTIONS, "NONE_SUCH"}


def _combined(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Negation, parts),
        st.builds(Not, parts),
        st.builds(Arithmetic, st.sampled_from("+-*/%"), parts, parts),
        st.builds(Comparison, st.sampled_from(["=", "<>", "<", ">", "<=", ">="]), parts, parts),
        st.builds(
            Logical, st.sampled_from(["AND", "OR", "XOR"]), st.lists(parts, min_size=2, max_size=4).map(tuple)
        ),
        st.builds(Like, parts, texts, st.booleans()),
        st.builds(In, parts, some, st.booleans()),
        st.sampled_from(sorted(calls)).flatmap(
            lambda name: st.builds(
                Call,
                st.just(name),
                st.lists(parts, min_size=calls[name][0], max_size=calls[name][1]).map(tuple),
            )
        ),
    )


nodes: st.SearchStrategy[Node] = st.recursive(
    st.one_of(literals, attributes, st.builds(Exists, st.sampled_from(NAMES))), _combined, max_leaves=12
)
"""Expressions of any kind."""

_values: st.SearchStrategy[AttributeValue] = st.one_of(
    texts, integers, st.booleans(), st.binary(max_size=3), st.just(1 << 40)
)
events: st.SearchStrategy[dict[str, AttributeValue]] = st.dictionaries(
    st.sampled_from([name for name in NAMES if name != "missing"]), _values
)
"""Attributes, valid or not."""
