"""Regular expressions on log names that match in linear time, whatever the pattern and the name are.

The `re` module backtracks: `(a+)+b` against 40 letters runs for hours, and whoever may choose a name could stop the
server with it. So patterns here are the part of Python's syntax that needs no memory of the past: characters,
classes, groups, alternatives and repeats; and they are matched by following all possibilities at once. Each place in
the pattern that takes one character is a position (Glushkov's construction); sets of positions are bits of an int.
The work is at most `POSITIONS_MAX` times the length of the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from headwater.server.security.errors import InvalidPattern

__all__ = [
    "CHARS_REMEMBERED_MAX",
    "DEPTH_MAX",
    "NAME_BYTES_MAX",
    "PATTERN_CHARS_MAX",
    "POSITIONS_MAX",
    "NamePattern",
    "compile_pattern",
]

NAME_BYTES_MAX = 255
PATTERN_CHARS_MAX = 255
POSITIONS_MAX = 512
DEPTH_MAX = 16
PATTERNS_REMEMBERED_MAX = 1024
CHARS_REMEMBERED_MAX = 1024

_TOKEN = re.compile(
    r"""
      (?P<open>   \( (?:\?:)? (?!\?) )
    | (?P<close>  \) )
    | (?P<bar>    \| )
    | (?P<anchor> [\^$] )
    | (?P<repeat> (?: [*+?] | \{ (?:\d{1,4},?\d{0,4} | ,\d{1,4}) \} ) \?? (?!\+) )
    | (?P<chars>  \\[dDsSwW] | \\[^0-9A-Za-z] | [^\\\[\](){}|*+?^$]
                | \[ \^? (?: \\[dDsSwW] | \\[^0-9A-Za-z] | [^\\\[\]] )+ \] )
    """,
    re.VERBOSE | re.DOTALL,
)
_SET_OPERATORS = ("--", "&&", "~~", "||")


@dataclass(frozen=True, slots=True)
class _Chars:
    index: int
    size = 1


@dataclass(frozen=True, slots=True)
class _Sequence:
    items: tuple[_Node, ...]
    size: int


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple[_Node, ...]
    size: int


@dataclass(frozen=True, slots=True)
class _Repeat:
    item: _Node
    low: int
    high: int | None
    size: int


_Node = _Chars | _Sequence | _Choice | _Repeat


@lru_cache(PATTERNS_REMEMBERED_MAX)
def compile_pattern(text: str) -> NamePattern:
    """The pattern of a text; raises `InvalidPattern` for one that does not compile or that is too large."""
    if len(text) > PATTERN_CHARS_MAX:
        raise InvalidPattern(text[:40] + "…", f"it is longer than {PATTERN_CHARS_MAX} characters")
    tokens = list(_tokens(text))
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise InvalidPattern(text, str(error)) from error
    parser = _Parser(text, tokens)
    return NamePattern(text, parser.parse(), parser.classes)


class NamePattern:
    """One compiled pattern."""

    def __init__(self, text: str, tree: _Node, classes: list[str]) -> None:
        self.text = text
        self._classes = [re.compile(source) for source in classes]
        self._class_of: list[int] = []
        self._follow: list[int] = []
        whole = self._build(tree)
        self._is_nullable, self._first, self._last = whole.is_nullable, whole.first, whole.last
        self._accepting: dict[str, int] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name is one that the pattern describes."""
        if not name:
            return self._is_nullable
        possible = self._first
        reached = 0
        for char in name:
            reached = possible & self._accepting_positions(char)
            if not reached:
                return False
            possible = self._following(reached)
        return bool(reached & self._last)

    def _following(self, reached: int) -> int:
        following = 0
        while reached:
            lowest = reached & -reached
            following |= self._follow[lowest.bit_length() - 1]
            reached ^= lowest
        return following

    def _accepting_positions(self, char: str) -> int:
        known = self._accepting.get(char)
        if known is not None:
            return known
        takes = [pattern.fullmatch(char) is not None for pattern in self._classes]
        accepting = sum(1 << position for position, index in enumerate(self._class_of) if takes[index])
        if len(self._accepting) < CHARS_REMEMBERED_MAX:
            self._accepting[char] = accepting
        return accepting

    def _build(self, node: _Node) -> _Part:
        match node:
            case _Chars(index):
                position = 1 << len(self._follow)
                self._follow.append(0)
                self._class_of.append(index)
                return _Part(is_nullable=False, first=position, last=position)
            case _Sequence(items):
                whole = _NOTHING
                for item in items:
                    whole = self._joined(whole, self._build(item))
                return whole
            case _Choice(options):
                parts = [self._build(option) for option in options]
                first = last = 0
                for part in parts:
                    first, last = first | part.first, last | part.last
                return _Part(any(part.is_nullable for part in parts), first, last)
            case _Repeat(item, low, high):
                return self._repeated(item, low, high)

    def _repeated(self, item: _Node, low: int, high: int | None) -> _Part:
        whole = _NOTHING
        for _ in range(low if high is not None else max(low - 1, 0)):
            whole = self._joined(whole, self._build(item))
        if high is None:
            part = self._build(item)
            self._connect(part.last, part.first)
            return self._joined(whole, part if low else part.optional())
        for _ in range(high - low):
            whole = self._joined(whole, self._build(item).optional())
        return whole

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._connect(left.last, right.first)
        return _Part(
            left.is_nullable and right.is_nullable,
            left.first | (right.first if left.is_nullable else 0),
            right.last | (left.last if right.is_nullable else 0),
        )

    def _connect(self, last: int, first: int) -> None:
        while last:
            lowest = last & -last
            self._follow[lowest.bit_length() - 1] |= first
            last ^= lowest


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a part of the pattern: whether it takes the empty text, and where texts of it begin and end."""

    is_nullable: bool
    first: int
    last: int

    def optional(self) -> _Part:
        return _Part(is_nullable=True, first=self.first, last=self.last)


_NOTHING = _Part(is_nullable=True, first=0, last=0)


class _Parser:
    """Tokens to a tree, by recursive descent; sizes are counted before anything of that size is built."""

    def __init__(self, text: str, tokens: list[tuple[str, str]]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self.classes: list[str] = []

    def parse(self) -> _Node:
        return self._choice()

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self._taken("bar"):
            options.append(self._sequence())
        return _Choice(tuple(options), self._sized(sum(option.size for option in options)))

    def _sequence(self) -> _Node:
        items: list[_Node] = []
        while self._taken("anchor", "^"):
            self._check_outermost()
        while self._kind() in ("open", "chars"):
            items.append(self._repeats(self._item()))
        while self._taken("anchor", "$"):
            self._check_outermost()
        if self._kind() not in ("bar", "close", "end"):
            raise self._refused("^ and $ stand only where a whole name begins and ends")
        return _Sequence(tuple(items), self._sized(sum(item.size for item in items)))

    def _item(self) -> _Node:
        if self._taken("open"):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise self._refused(f"groups are nested more than {DEPTH_MAX} deep")
            inner = self._choice()
            self._next += 1  # the closing parenthesis: that there is one, `re.compile` has seen
            self._depth -= 1
            return inner
        source = self._tokens[self._next][1]
        self._next += 1
        if source not in self.classes:
            self.classes.append(source)
        return _Chars(self.classes.index(source))

    def _repeats(self, item: _Node) -> _Node:
        if self._kind() != "repeat":
            return item
        low, high = _bounds(self._tokens[self._next][1])
        self._next += 1
        copies = max(low, 1) if high is None else high
        return _Repeat(item, low, high, self._sized(item.size * copies))

    def _sized(self, size: int) -> int:
        # What takes no character counts too: it would be built as often as it is repeated.
        if size > POSITIONS_MAX:
            raise self._refused(f"written out it is longer than {POSITIONS_MAX} characters")
        return max(size, 1)

    def _check_outermost(self) -> None:
        if self._depth:
            raise self._refused("^ and $ stand only where a whole name begins and ends")

    def _kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else "end"

    def _taken(self, kind: str, source: str | None = None) -> bool:
        if self._kind() != kind or source not in (None, self._tokens[self._next][1]):
            return False
        self._next += 1
        return True

    def _refused(self, reason: str) -> InvalidPattern:
        return InvalidPattern(self._text, reason)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise InvalidPattern(text, f"what stands at character {position + 1} is not supported")
        source = found.group()
        if source.startswith("[") and any(operator in source for operator in _SET_OPERATORS):
            raise InvalidPattern(text, "classes do not hold --, &&, ~~ or ||")
        yield found.lastgroup, source
        position = found.end()


def _bounds(source: str) -> tuple[int, int | None]:
    source = source[:-1] if len(source) > 1 and source.endswith("?") else source
    if source in ("*", "+", "?"):
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[source]
    low, comma, high = source[1:-1].partition(",")
    return int(low or 0), int(high) if high else (None if comma else int(low))
