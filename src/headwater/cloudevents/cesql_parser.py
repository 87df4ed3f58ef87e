"""CloudEvents SQL 1.0, sections 2 and 3.6: text into a syntax tree.

From the loosest to the strongest bind: AND, OR and XOR alike, comparisons, + and -, * / and %, LIKE and IN, the
signs NOT and -. What binds alike goes from left to right: `a OR b AND c` is `(a OR b) AND c`, and `NOT a = b` is
`(NOT a) = b`. Keywords, functions and names are read in any case; names of attributes are in lower case.
"""

from __future__ import annotations

import re

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
from headwater.cloudevents.cesql_values import INTEGER_MAX
from headwater.encoding.expression import Field
from headwater.encoding.expression_pratt import PrattParser
from headwater.encoding.expression_words import CONSTANT, END, NAME, Token, words_of
from headwater.errors import InvalidExpression

__all__ = ["parse_cesql"]

_LOGIC, _COMPARISON, _SUM, _PRODUCT, _TEST, _SIGN = range(10, 70, 10)
_POWERS = {
    **dict.fromkeys(("AND", "OR", "XOR"), _LOGIC),
    **dict.fromkeys(("=", "<>", "<", ">", "<=", ">="), _COMPARISON),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
    **dict.fromkeys(("LIKE", "IN", "NOT"), _TEST),
}
_BOOLEANS = {"TRUE": True, "FALSE": False}
_KEYWORDS = frozenset(("AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", *_BOOLEANS))
_ORDINARY = {"!=": "<>"}
"""Operators with a second spelling."""

_WORD = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<name>[A-Za-z0-9_]+)"
    r"|(?P<string>'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
    r"|(?P<operator><=|>=|<>|!=|[=<>(),+\-*/%])",
    re.DOTALL,
)
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
_FUNCTION_NAME = re.compile(r"[A-Z][A-Z_]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_OUT_OF_RANGE = "integers have 32 bits, from -2147483648 to 2147483647"
_DIGITS_MAX = 10


def parse_cesql(text: str) -> Node:
    """The expression that a text says; raises `InvalidExpression`."""
    return _Parser(words_of(text, _WORD, _token, _misfit)).parse()


def _token(match: re.Match[str]) -> Token:
    position, text, kind = match.start(), match[0], match.lastgroup
    if kind == "operator":
        return Token(_ORDINARY.get(text, text), position, text)
    if kind == "string":
        return Token(CONSTANT, position, text, _unquoted(text))
    if text.isdigit():
        return Token(CONSTANT, position, text, _digits(text, position))
    if (keyword := text.upper()) in _KEYWORDS:
        return Token(keyword, position, text)
    return Token(NAME, position, text, text)


def _unquoted(text: str) -> str:
    """Section 2.2: the quotes around it are escaped within; a backslash is plain before anything else."""
    quote = text[0]
    return _ESCAPED.sub(lambda escape: quote if escape[1] == quote else escape[0], text[1:-1])


def _digits(text: str, position: int) -> int:
    digits = text.lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX:
        raise InvalidExpression(position, _OUT_OF_RANGE)
    return int(digits)


def _misfit(character: str) -> str:
    if character in "'\"":
        return "a string begins here and its closing quote is missing"
    return f"the character {character!r} has no meaning here; strings stand in quotes"


class _Parser(PrattParser[Node]):
    powers = _POWERS

    def parse(self) -> Node:
        node = self._expression(0)
        self._need_end()
        return node

    def _prefix(self) -> Node:
        token = self._take()
        if token.kind is CONSTANT:
            return self._made(self._constant(token))
        if token.kind is NAME:
            return self._call(token) if self._takes("(") else self._made(_attribute(token))
        if token.kind in _BOOLEANS:
            return self._made(Literal(_BOOLEANS[token.kind], token.position))
        match token.kind:
            case "(":
                node = self._expression(0)
                self._need(")", "an operator or )")
                return node
            case "NOT":
                operand = self._expression(_SIGN)
                return self._made(Not(operand, token.position), operand)
            case "-" | "+":
                return self._signed(token)
            case "EXISTS":
                return self._made(Exists(_attribute(self._need(NAME)).name, token.position))
        self._index -= token.kind is not END
        raise self._unexpected("a name, a constant, a function, NOT, EXISTS or (")

    def _constant(self, token: Token, sign: Token | None = None) -> Literal:
        """A sign belongs to the digits right behind it."""
        value = token.value
        assert value is not None
        assert not isinstance(value, Field | float)
        if isinstance(value, str):
            return Literal(value, token.position)
        is_negative = sign is not None and sign.kind == "-"
        if value > INTEGER_MAX + is_negative:
            raise InvalidExpression(token.position, _OUT_OF_RANGE)
        return Literal(-value if is_negative else value, (sign or token).position)

    def _signed(self, sign: Token) -> Node:
        token = self._next
        if token.position == sign.position + 1 and token.kind is CONSTANT and isinstance(token.value, int):
            return self._made(self._constant(self._take(), sign))
        if sign.kind == "+":
            raise InvalidExpression(sign.position, "+ stands between two values, or right before digits")
        operand = self._expression(_SIGN)
        return self._made(Negation(operand, sign.position), operand)

    def _call(self, token: Token) -> Call:
        name = token.text.upper()
        if _FUNCTION_NAME.fullmatch(name) is None:
            raise InvalidExpression(
                token.position, "the name of a function has letters and underscores alone"
            )
        arguments: tuple[Node, ...] = ()
        if not self._takes(")"):
            arguments = self._list()
        return self._made(Call(name, arguments, token.position), *arguments)

    def _list(self) -> tuple[Node, ...]:
        """Expressions up to the parenthesis that closes them."""
        items = [self._expression(0)]
        while self._takes(","):
            items.append(self._expression(0))
        self._need(")", ", or )")
        return tuple(items)

    def _infix(self, left: Node, token: Token, power: int) -> Node:
        if power == _TEST:
            return self._test(left, token)
        right = self._expression(power)
        if power == _LOGIC:
            return self._logical(left, token, right)
        kind = Comparison if power == _COMPARISON else Arithmetic
        return self._made(kind(token.kind, left, right, token.position), left, right)

    def _logical(self, left: Node, token: Token, right: Node) -> Node:
        operands = [left, right]
        while self._takes(token.kind):
            operands.append(self._expression(_LOGIC))
        return self._made(Logical(token.kind, tuple(operands), token.position), *operands)

    def _test(self, left: Node, token: Token) -> Node:
        is_denied = token.kind == "NOT"
        if is_denied:
            if self._next.kind not in {"LIKE", "IN"}:
                raise self._unexpected("LIKE or IN")
            token = self._take()
        if token.kind == "LIKE":
            pattern = self._pattern(token.position)
            return self._made(Like(left, pattern, is_denied, token.position), left)
        self._need("(")
        items = self._list()
        return self._made(In(left, items, is_denied, token.position), left, *items)


def _attribute(token: Token) -> Attribute:
    name = token.text.lower()
    if _ATTRIBUTE_NAME.fullmatch(name) is None:
        raise InvalidExpression(token.position, "the name of an attribute has letters and digits alone")
    return Attribute(name, token.position)
