"""CloudEvents Subscriptions: the filters of all its drafts, read into one predicate and given back as they came.

    2020-04  filter:  {dialect: "basic", conditions: [{type, property, value}, ...]}   or "filters" for "conditions"
    2020-10  filters: [{dialect: "basic", type, property, value}, ...]
    2021-02  filter:  {prefix: {type: "com."}}
    2021-05  filters: [{prefix: {type: "com."}}, ...]
    now      the same with exact, suffix, all, any, not and sql, and several attributes in exact, prefix and suffix

An early OpenAPI calls the dialect "simple". All that stand in an array must hold. Where there is no filter, or an empty
array of filters, every event passes; an empty object is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from headwater.cloudevents.filters import ALWAYS, All, Any, Match, MatchKind, Not, Predicate, sql
from headwater.errors import InvalidExpression, InvalidFilter

__all__ = ["CHARACTERS_MAX", "NESTING_MAX", "PREDICATES_MAX", "SubscriptionFilter", "read_filter"]

NESTING_MAX = 20
"""Predicates inside each other."""
PREDICATES_MAX = 1_000
"""In one filter."""
CHARACTERS_MAX = 65_536
"""Of names, values and expressions in one filter."""
SHOWN_CHARACTERS_MAX = 40
"""Of a word of the peer's, in an error."""

_BASIC = frozenset(("basic", "simple"))
_CONDITION = ("type", "property", "value")
_CONDITIONS = ("conditions", "filters")
_NAME = re.compile(r"[a-z0-9]+")
_KINDS = {kind.value: kind for kind in MatchKind}


@dataclass(frozen=True, slots=True)
class SubscriptionFilter:
    """What a subscription filters by, and how it said so."""

    predicate: Predicate
    members: Mapping[str, object] = field(default_factory=dict)

    def echo(self) -> dict[str, object]:
        """The members of the subscription that say it, as they came."""
        return {name: _copied(value) for name, value in self.members.items()}


def read_filter(subscription: Mapping[str, object]) -> SubscriptionFilter:
    """The filter among the members of a subscription, in any shape; raises `InvalidFilter`."""
    members = {
        name: subscription[name] for name in ("filter", "filters") if subscription.get(name) is not None
    }
    if len(members) > 1:
        raise InvalidFilter("filters", "there is filter, too; give one of them")
    reader = _Reader()
    predicate: Predicate = ALWAYS
    if "filter" in members:
        predicate = reader.single(members["filter"], "filter")
    elif "filters" in members:
        predicate = _together(reader.array(members["filters"], "filters", reader.element))
    return SubscriptionFilter(predicate, {name: _copied(value) for name, value in members.items()})


def _copied(value: object) -> object:
    """All containers anew; what they hold has been read, and is as deep as that can be."""
    if isinstance(value, Mapping):
        return {str(name): _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value


def _together(predicates: list[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else All(tuple(predicates))


_Read: TypeAlias = Callable[[object, str], Predicate]


class _Reader:
    """Reads one filter, and counts what is in it; places are paths from the subscription."""

    def __init__(self) -> None:
        self._nesting = 0
        self._predicates = 0
        self._characters = 0
        self._dialects: Mapping[str, _Read] = {
            **{kind.value: partial(self._matches, kind) for kind in MatchKind},
            "all": lambda value, place: All(tuple(self._nested(value, place))),
            "any": lambda value, place: Any(tuple(self._nested(value, place))),
            "not": lambda value, place: Not(self.expression(value, place)),
            "sql": self._sql,
        }

    def single(self, value: object, place: str) -> Predicate:
        """Of 2020-04 if it names a dialect, else of 2021-02."""
        members = self._object(value, place)
        if "dialect" in members:
            return self._conditions(members, place)
        if not members or members.keys() & set(_CONDITIONS):
            raise InvalidFilter(place, 'it has no dialect; for conditions that is "basic"')
        return self.expression(members, place)

    def _conditions(self, members: Mapping[str, object], place: str) -> Predicate:
        self._basic(members["dialect"], f"{place}.dialect")
        self._only(members, ("dialect", *_CONDITIONS), place)
        named = [name for name in _CONDITIONS if name in members]
        if len(named) != 1:
            raise InvalidFilter(place, "it has an array called conditions, or one called filters")
        return _together(self.array(members[named[0]], f"{place}.{named[0]}", self._condition))

    def element(self, value: object, place: str) -> Predicate:
        """Of 2020-10 if it names a dialect, else of 2021-05 and later."""
        members = self._object(value, place)
        if "dialect" not in members:
            return self.expression(members, place)
        self._basic(members["dialect"], f"{place}.dialect")
        return self._condition({name: members[name] for name in members if name != "dialect"}, place)

    def array(self, value: object, place: str, read: _Read) -> list[Predicate]:
        """What each item says."""
        if not isinstance(value, list | tuple):
            raise InvalidFilter(place, "an array is expected")
        return [read(item, f"{place}[{index}]") for index, item in enumerate(value)]

    def expression(self, value: object, place: str) -> Predicate:
        """One dialect, and what that says."""
        members = self._object(value, place)
        if len(members) != 1:
            raise InvalidFilter(
                place, f"one of {', '.join(self._dialects)} is expected, and there are {len(members)}"
            )
        ((name, said),) = members.items()
        read = self._dialects.get(name)
        if read is None:
            raise InvalidFilter(place, f"{_shown(name)} is no dialect; there are {', '.join(self._dialects)}")
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise InvalidFilter(
                place, f"there are more than {NESTING_MAX} inside each other, which is the maximum"
            )
        self._count(place)
        predicate = read(said, f"{place}.{name}")
        self._nesting -= 1
        return predicate

    def _nested(self, value: object, place: str) -> list[Predicate]:
        predicates = self.array(value, place, self.expression)
        if not predicates:
            raise InvalidFilter(place, "at least one is expected")
        return predicates

    def _matches(self, kind: MatchKind, value: object, place: str) -> Predicate:
        members = self._object(value, place)
        if not members:
            raise InvalidFilter(place, "at least one attribute is expected")
        return _together(
            [self._match(kind, name, members[name], f"{place}.{_shown(name)}") for name in members]
        )

    def _match(self, kind: MatchKind, name: str, value: object, place: str) -> Match:
        text = self._text(value, place)
        if not text:
            raise InvalidFilter(place, "a value is expected, and this is empty")
        self._count(place)
        return Match(kind, self._name(name, place), text)

    def _condition(self, value: object, place: str) -> Match:
        """One of the basic dialect; its value may be empty."""
        members = self._object(value, place)
        self._only(members, _CONDITION, place)
        kind, name, text = (self._text(members.get(member), f"{place}.{member}") for member in _CONDITION)
        if kind not in _KINDS:
            raise InvalidFilter(f"{place}.type", f"{_shown(kind)} is none of {', '.join(_KINDS)}")
        self._count(place)
        return Match(_KINDS[kind], self._name(name, f"{place}.property"), text)

    def _sql(self, value: object, place: str) -> Predicate:
        text = self._text(value, place)
        try:
            return sql(text)
        except InvalidExpression as error:
            raise InvalidFilter(place, f"position {error.position}: {error.reason}") from None

    def _basic(self, value: object, place: str) -> None:
        dialect = self._text(value, place)
        if dialect not in _BASIC:
            raise InvalidFilter(place, f"{_shown(dialect)} is not supported; there is basic")

    def _only(self, members: Mapping[str, object], known: tuple[str, ...], place: str) -> None:
        for name in members:
            if name not in known:
                raise InvalidFilter(place, f"it has {_shown(name)}; it may have {', '.join(known)}")

    def _object(self, value: object, place: str) -> Mapping[str, object]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise InvalidFilter(place, "an object is expected")
        return value

    def _text(self, value: object, place: str) -> str:
        if not isinstance(value, str):
            raise InvalidFilter(place, "a string is expected")
        self._characters += len(value)
        if self._characters > CHARACTERS_MAX:
            raise InvalidFilter(
                place, f"the filter has more than {CHARACTERS_MAX:,} characters, which is the maximum"
            )
        return value

    def _name(self, name: str, place: str) -> str:
        if _NAME.fullmatch(self._text(name, place)) is None:
            raise InvalidFilter(place, "the name of an attribute has lower-case letters and digits alone")
        return name

    def _count(self, place: str) -> None:
        self._predicates += 1
        if self._predicates > PREDICATES_MAX:
            raise InvalidFilter(
                place, f"the filter has more than {PREDICATES_MAX:,} parts, which is the maximum"
            )


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"
