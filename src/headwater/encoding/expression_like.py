"""LIKE: text against a pattern in time that grows with the text alone, whatever the pattern is.

A pattern is cut at its %. The first part must stand at the start, the last one at the end, and those between are looked
for one behind the other, each as early as it can be, which never has to be taken back. A part without _ is looked
for as any text is; for one with _, all places where it could have begun are followed at once, as the bits of a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["DanglingEscape", "like_matcher"]

_Part: TypeAlias = tuple[str | None, ...]
"""Characters; None is any one."""


class DanglingEscape(ValueError):
    """A pattern ends with its escape character."""


def like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """A function that says whether text matches; raises `DanglingEscape`."""
    parts = _parts(pattern, escape)
    if len(parts) == 1:
        whole = parts[0]
        return lambda text: len(text) == len(whole) and _stands_at(whole, text, 0)
    first, *between, last = parts
    size_min = sum(len(part) for part in parts)
    finders = [_finder(part) for part in between if part]

    def matches(text: str) -> bool:
        if len(text) < size_min or not _stands_at(first, text, 0):
            return False
        last_at = len(text) - len(last)
        if not _stands_at(last, text, last_at):
            return False
        position = len(first)
        for find in finders:
            position = find(text, position, last_at)
            if position < 0:
                return False
        return True

    return matches


def _parts(pattern: str, escape: str | None) -> list[_Part]:
    parts: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            plain = next(characters, None)
            if plain is None:
                raise DanglingEscape
            parts[-1].append(plain)
        elif character == "%":
            parts.append([])
        else:
            parts[-1].append(None if character == "_" else character)
    return [tuple(part) for part in parts]


def _stands_at(part: _Part, text: str, position: int) -> bool:
    return all(wanted is None or wanted == text[position + index] for index, wanted in enumerate(part))


def _finder(part: _Part) -> Callable[[str, int, int], int]:
    """A function that finds the part in text between two positions, and gives the position behind it, or -1."""
    if None not in part:
        literal = "".join(character for character in part if character is not None)

        def find_literal(text: str, start: int, end: int) -> int:
            found = text.find(literal, start, end)
            return -1 if found < 0 else found + len(literal)

        return find_literal

    anywhere = sum(1 << index for index, wanted in enumerate(part) if wanted is None)
    places = {
        character: anywhere | sum(1 << index for index, wanted in enumerate(part) if wanted == character)
        for character in part
        if character is not None
    }
    complete = 1 << (len(part) - 1)

    def find(text: str, start: int, end: int) -> int:
        begun = 0
        for position in range(start, end):
            begun = (begun << 1 | 1) & places.get(text[position], anywhere)
            if begun & complete:
                return position + 1
        return -1

    return find
