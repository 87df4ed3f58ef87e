"""Operator precedence (Pratt): what the parsers of expressions share, whatever their language.

A parser is a table of how strongly operators bind, what stands before them, and what stands behind. Nesting, depth and
number of parts are bounded here, for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from headwater.encoding.expression import (
    DEPTH_MAX,
    LIKE_PATTERN_CHARACTERS_MAX,
    NODES_MAX,
)
from headwater.encoding.expression_words import CONSTANT, END, Token
from headwater.errors import InvalidExpression

__all__ = ["PrattParser"]


class _Positioned(Protocol):
    @property
    def position(self) -> int: ...


_Node = TypeVar("_Node", bound=_Positioned)
_Made = TypeVar("_Made", bound=_Positioned)


class PrattParser(ABC, Generic[_Node]):
    """Reads the words of one text from left to right."""

    powers: ClassVar[Mapping[str, int]]
    """How strongly an operator behind an operand binds it, above 0."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._nesting = 0
        self._depths: dict[int, tuple[_Positioned, int]] = {}
        """By identity; the node is kept so that no other one gets its identity."""

    @abstractmethod
    def _prefix(self) -> _Node:
        """An operand, with the operators before it."""

    @abstractmethod
    def _infix(self, left: _Node, token: Token, power: int) -> _Node:
        """An operand with an operator behind it, which has been taken, and what belongs to that."""

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._tokens[self._index]
        self._index += token.kind is not END
        return token

    def _takes(self, kind: str) -> bool:
        """Whether the next word is of this kind; then it is taken."""
        if self._next.kind != kind:
            return False
        self._index += 1
        return True

    def _need(self, kind: str, expected: str = "") -> Token:
        if self._next.kind != kind:
            raise self._unexpected(expected or kind)
        return self._take()

    def _need_end(self) -> None:
        if self._next.kind is not END:
            raise self._unexpected("an operator or the end")

    def _text(self, expected: str) -> str:
        value = self._next.value
        if self._next.kind is not CONSTANT or not isinstance(value, str):
            raise self._unexpected(expected)
        self._take()
        return value

    def _pattern(self, position: int) -> str:
        """What is behind LIKE, which stands at a position."""
        pattern = self._text("a pattern in quotes")
        if len(pattern) > LIKE_PATTERN_CHARACTERS_MAX:
            raise InvalidExpression(
                position, f"a pattern has at most {LIKE_PATTERN_CHARACTERS_MAX} characters"
            )
        return pattern

    def _unexpected(self, expected: str) -> InvalidExpression:
        token = self._next
        return InvalidExpression(token.position, f"{expected} is expected here, and there is {token.shown}")

    def _expression(self, power_min: int) -> _Node:
        """What stands here up to an operator that binds no more than that."""
        self._nesting += 1
        self._check_depth(self._nesting, self._next.position)
        left = self._prefix()
        while (power := self.powers.get(self._next.kind, 0)) > power_min:
            left = self._infix(left, self._take(), power)
        self._nesting -= 1
        return left

    def _made(self, node: _Made, *parts: _Node) -> _Made:
        """The same, having been counted."""
        depth = 1 + max((self._depths[id(part)][1] for part in parts), default=0)
        self._check_depth(depth, node.position)
        self._depths[id(node)] = (node, depth)
        if len(self._depths) > NODES_MAX:
            raise InvalidExpression(
                node.position, f"it has more than {NODES_MAX:,} parts, which is the maximum"
            )
        return node

    def _check_depth(self, depth: int, position: int) -> None:
        if depth > DEPTH_MAX:
            raise InvalidExpression(
                position, f"it is nested more than {DEPTH_MAX} deep, which is the maximum"
            )
