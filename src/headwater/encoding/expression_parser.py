"""Text into a syntax tree, by operator precedence (Pratt): OR, AND, NOT, comparisons, + and -, * / and %, signs.

Reserved words are so in any case. Comparisons do not follow each other without parentheses. Where nothing but a
condition can stand a value is refused, and the other way round; what depends on the event is found out with the event.
BETWEEN becomes two comparisons, and operations on constants become constants.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.encoding.expression import (
    IN_ITEMS_MAX,
    And,
    Arithmetic,
    Comparison,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Negation,
    Node,
    Not,
    Or,
    Quantity,
    is_condition,
)
from headwater.encoding.expression_dialects import Dialect
from headwater.encoding.expression_like import DanglingEscape, like_matcher
from headwater.encoding.expression_position import check_position
from headwater.encoding.expression_pratt import PrattParser
from headwater.encoding.expression_tokens import tokens_of
from headwater.encoding.expression_values import COMPARISONS, calculate, is_number
from headwater.encoding.expression_words import CONSTANT, END, NAME, Token
from headwater.errors import InvalidExpression

__all__ = ["parse_expression"]

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(10, 80, 10)
_POWERS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys((*COMPARISONS, "IS", "IN", "LIKE", "BETWEEN", "NOT"), _COMPARISON),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
_BOOLEANS = {"TRUE": True, "FALSE": False}


def parse_expression(text: str, dialect: Dialect) -> Node:
    """The condition that a text says; raises `InvalidExpression`."""
    return _Parser(text, dialect).parse()


class _Parser(PrattParser[Node]):
    powers = _POWERS

    def __init__(self, text: str, dialect: Dialect) -> None:
        super().__init__(tokens_of(text, dialect))
        self._dialect = dialect

    def parse(self) -> Node:
        if self._next.kind is END and self._dialect.empty_selects_all:
            return Literal(True)
        node = self._condition(self._expression(0))
        self._need_end()
        return node

    def _prefix(self) -> Node:
        token = self._take()
        match token.kind:
            case "(":
                node = self._expression(0)
                self._need(")", "an operator or )")
                return node
            case "NOT":
                operand = self._condition(self._expression(_NOT))
                return self._made(Not(operand, token.position), operand)
            case "-" | "+":
                return self._signed(token)
        if token.kind is CONSTANT:
            assert not isinstance(token.value, Field | None)
            return self._made(Literal(token.value, token.position))
        if token.kind is NAME:
            assert isinstance(token.value, Field)
            return self._made(token.value)
        if token.kind in _BOOLEANS:
            return self._made(Literal(_BOOLEANS[token.kind], token.position))
        if token.kind == "NULL":
            raise InvalidExpression(token.position, "null is asked for with IS NULL")
        self._index -= token.kind is not END
        raise self._unexpected("a name, a constant, NOT or (")

    def _signed(self, sign: Token) -> Node:
        operand = self._number(self._expression(_SIGN))
        if isinstance(operand, Literal):
            assert isinstance(operand.value, int | float)
            return self._made(Literal(-operand.value if sign.kind == "-" else operand.value, sign.position))
        return self._made(Negation(operand, sign.position), operand) if sign.kind == "-" else operand

    def _infix(self, left: Node, token: Token, power: int) -> Node:
        if power > _COMPARISON:
            return self._arithmetic(left, token, self._expression(power))
        if power < _COMPARISON:
            return self._logical(left, token, power)
        test = self._test(left, token)
        if self.powers.get(self._next.kind) == _COMPARISON:
            raise InvalidExpression(
                self._next.position,
                "a comparison is over here; go on with AND or OR, or put it in parentheses",
            )
        return test

    def _test(self, left: Node, token: Token) -> Node:
        kind = token.kind
        if kind in COMPARISONS:
            return self._comparison(left, token, self._expression(_COMPARISON))
        if kind == "IS":
            is_denied = self._takes("NOT")
            self._need("NULL", "NULL" if is_denied else "NULL or NOT NULL")
            return self._denied(is_denied, self._made(IsNull(self._value(left), token.position), left))
        is_denied = kind == "NOT"
        if is_denied:
            if self._next.kind not in {"IN", "LIKE", "BETWEEN"}:
                raise self._unexpected("IN, LIKE or BETWEEN")
            token = self._take()
        read: Callable[[Node, Token], Node] = {"IN": self._in, "LIKE": self._like, "BETWEEN": self._between}[
            token.kind
        ]
        return self._denied(is_denied, read(self._value(left), token))

    def _denied(self, is_denied: bool, node: Node) -> Node:
        return self._made(Not(node, node.position), node) if is_denied else node

    def _logical(self, left: Node, token: Token, power: int) -> Node:
        operands = [self._condition(left), self._condition(self._expression(power))]
        while self._takes(token.kind):
            operands.append(self._condition(self._expression(power)))
        kind = And if token.kind == "AND" else Or
        return self._made(kind(tuple(operands), token.position), *operands)

    def _arithmetic(self, left: Node, token: Token, right: Node) -> Node:
        self._number(left)
        self._number(right)
        if isinstance(left, Literal) and isinstance(right, Literal):
            number = calculate(token.kind, left.value, right.value)
            if number is None:
                raise InvalidExpression(token.position, "this has no result within 64 bits")
            return self._made(Literal(number, left.position))
        return self._made(Arithmetic(token.kind, left, right, token.position), left, right)

    def _comparison(self, left: Node, token: Token, right: Node) -> Comparison:
        if token.kind not in {"=", "<>"}:
            self._value(left)
            self._value(right)
        node = Comparison(token.kind, left, right, token.position)
        check_position(node)
        return self._made(node, left, right)

    def _between(self, operand: Node, token: Token) -> Node:
        low = self._expression(_COMPARISON)
        self._need("AND", "AND, and the upper bound,")
        high = self._expression(_COMPARISON)
        bounds = (
            self._comparison(operand, token._replace(kind=">="), low),
            self._comparison(operand, token._replace(kind="<="), high),
        )
        return self._made(And(bounds, token.position), *bounds)

    def _in(self, operand: Node, token: Token) -> Node:
        self._need("(")
        items = [self._item()]
        while self._takes(","):
            if len(items) == IN_ITEMS_MAX:
                raise InvalidExpression(self._next.position, f"a list has at most {IN_ITEMS_MAX:,} items")
            items.append(self._item())
        self._need(")", ", or )")
        if isinstance(operand, Field) and operand.quantity is not None:
            equal = [self._comparison(operand, token._replace(kind="="), self._made(item)) for item in items]
            return equal[0] if len(equal) == 1 else self._made(Or(tuple(equal), token.position), *equal)
        return self._made(In(operand, tuple(item.value for item in items), token.position), operand)

    def _item(self) -> Literal:
        sign = self._take() if self._next.kind in {"-", "+"} else None
        if self._next.kind not in {CONSTANT, *_BOOLEANS}:
            raise self._unexpected("a constant")
        token = self._take()
        value = _BOOLEANS.get(token.kind, token.value)
        assert value is not None
        assert not isinstance(value, Field)
        if sign is None:
            return Literal(value, token.position)
        if isinstance(value, str | bool):
            raise InvalidExpression(token.position, "a number is expected here")
        return Literal(-value if sign.kind == "-" else value, sign.position)

    def _like(self, operand: Node, token: Token) -> Like:
        pattern = self._pattern(token.position)
        escape = None
        if self._takes("ESCAPE"):
            position = self._next.position
            escape = self._text("one character in quotes")
            if len(escape) != 1:
                raise InvalidExpression(position, "one character in quotes is expected here")
        try:
            like_matcher(pattern, escape)
        except DanglingEscape:
            raise InvalidExpression(token.position, "the pattern ends with its escape character") from None
        return self._made(Like(operand, pattern, escape, token.position), operand)

    def _condition(self, node: Node) -> Node:
        is_value = isinstance(node, Arithmetic | Negation) or (
            isinstance(node, Literal) and not isinstance(node.value, bool)
        )
        if is_value:
            raise InvalidExpression(
                node.position, "a condition is expected here, and there is a value; compare it"
            )
        return node

    def _value(self, node: Node) -> Node:
        if is_condition(node):
            raise InvalidExpression(
                node.position, "a value is expected on both sides, and there is a condition"
            )
        return node

    def _number(self, node: Node) -> Node:
        self._value(node)
        is_text = isinstance(node, Field) and node.quantity is Quantity.OFFSET
        if is_text or (isinstance(node, Literal) and not is_number(node.value)):
            raise InvalidExpression(node.position, "a number is expected here")
        return node
