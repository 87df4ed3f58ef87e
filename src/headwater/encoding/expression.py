"""Expressions over events, as filters have them: what a parsed one is made of, and how large it may be.

One syntax tree serves the SQL filter of the Event Stream Extensions (section 5.2.2), JMS selectors (Jakarta Messaging,
section 3.8) and what else is of their kind. How they differ in the text is data (`expression_dialects`); the rest is
shared: `expression_parser` makes the tree, `expression_position` reads from it where in a log the events can stand that
it selects, and `expression_compile` makes functions of it.

A node is a condition (true, false or unknown) or a value; a field and a boolean constant serve as both. Nodes that say
the same are equal, wherever in a text they stood.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "DEPTH_MAX",
    "IN_ITEMS_MAX",
    "LIKE_PATTERN_CHARACTERS_MAX",
    "NODES_MAX",
    "TEXT_CHARACTERS_MAX",
    "And",
    "Arithmetic",
    "Comparison",
    "Constant",
    "Field",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Negation",
    "Node",
    "Not",
    "Or",
    "Quantity",
    "Section",
    "is_condition",
]

TEXT_CHARACTERS_MAX = 8_192
"""Of an expression."""
NODES_MAX = 1_000
"""Parts of an expression; the items of IN do not count."""
DEPTH_MAX = 50
"""Parts inside each other."""
IN_ITEMS_MAX = 1_000
"""Of one list."""
LIKE_PATTERN_CHARACTERS_MAX = 256

Constant: TypeAlias = str | int | float | bool


class Section(enum.Enum):
    """Where a field stands: a section of the message, or what is made of several for readers of one kind."""

    HEADER = "header"
    DELIVERY_ANNOTATIONS = "delivery_annotations"
    MESSAGE_ANNOTATIONS = "message_annotations"
    PROPERTIES = "properties"
    APPLICATION_PROPERTIES = "application_properties"
    JMS = "jms"
    """Fields in the form that JMS gives them."""
    EVENT_HUB = "event_hub"
    """Message annotations that tell the position, as Event Hubs calls them."""
    CLOCK = "clock"
    """What time it is as the event is looked at: nothing of the event at all."""


class Quantity(enum.Enum):
    """What a field tells of the position of an event, and thereby what it is compared with."""

    OFFSET = "offset"
    """Text, in the order of its characters."""
    TIMESTAMP = "timestamp"
    """Milliseconds since 1970, compared with numbers; those below 10^11 are seconds."""
    NUMBER = "number"
    """The offset as a number, which may stand in quotes."""
    INSTANT = "instant"
    """Milliseconds since 1970, which may stand in quotes."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Constant
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Field:
    """What an event says under a name."""

    section: Section
    name: str
    position: int = field(default=0, compare=False)

    @property
    def quantity(self) -> Quantity | None:
        """What it tells of the position of the event, if that is what it tells."""
        return _QUANTITIES.get((self.section, self.name))


@dataclass(frozen=True, slots=True)
class Negation:
    """A number with the other sign."""

    operand: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers made into one: + - * / %."""

    operator: str
    left: Node
    right: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared: = <> < > <= >=; two conditions by the first two alone."""

    operator: str
    left: Node
    right: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """Whether a value is one of some constants."""

    operand: Node
    items: tuple[Constant, ...]
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """Whether text matches a pattern: % for any characters, _ for one, the escape character before a plain one."""

    operand: Node
    pattern: str
    escape: str | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is not there."""

    operand: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """A condition denied."""

    operand: Node
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """Two conditions or more that must all hold."""

    operands: tuple[Node, ...]
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Two conditions or more of which one must hold."""

    operands: tuple[Node, ...]
    position: int = field(default=0, compare=False)


Node: TypeAlias = Literal | Field | Negation | Arithmetic | Comparison | In | Like | IsNull | Not | And | Or


def is_condition(node: Node) -> bool:
    """Whether it is a condition and cannot be anything else."""
    return isinstance(node, Comparison | In | Like | IsNull | Not | And | Or)


_QUANTITIES = {
    (Section.DELIVERY_ANNOTATIONS, "event-streams-offset"): Quantity.OFFSET,
    (Section.DELIVERY_ANNOTATIONS, "event-streams-timestamp"): Quantity.TIMESTAMP,
    (Section.EVENT_HUB, "x-opt-offset"): Quantity.NUMBER,
    (Section.EVENT_HUB, "x-opt-sequence-number"): Quantity.NUMBER,
    (Section.EVENT_HUB, "x-opt-enqueued-time"): Quantity.INSTANT,
}
