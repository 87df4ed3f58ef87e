"""LIKE: text against a pattern in time that grows with the text alone, whatever the pattern is.

A pattern is cut at its %. The first part must stand at the start, the last one at the end, and those between are looked
for one behind the other, each as early as it can be, which never has to be taken back. A part without _ is looked
for as any text is; one with _ by a kernel, which walks the text once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headwater.encoding._like_kernel import PartFinder

__all__ = ["DanglingEscape", "like_matcher"]

_Part: TypeAlias = tuple[str | None, ...]
"""Characters; None is any one."""


class DanglingEscape(ValueError):
    """A pattern ends with its escape character."""


def like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """A function that says whether text matches; raises `DanglingEscape`."""
    parts = _parts(pattern, escape)
    if len(parts) == 1:
        size, is_whole = len(parts[0]), _placed(parts[0])
        return lambda text: len(text) == size and is_whole(text, 0)
    first, *between, last = parts
    return _open_matcher(first, [part for part in between if part], last)


def _open_matcher(first: _Part, between: list[_Part], last: _Part) -> Callable[[str], bool]:
    """For a pattern with a % before and behind each part between."""
    first_size, last_size = len(first), len(last)
    size_min = first_size + last_size + sum(len(part) for part in between)
    is_first, is_last = _placed(first), _placed(last)
    finders = [_finder(part) for part in between]

    def matches(text: str) -> bool:
        if len(text) < size_min or not is_first(text, 0):
            return False
        last_at = len(text) - last_size
        if not is_last(text, last_at):
            return False
        position = first_size
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


def _placed(part: _Part) -> Callable[[str, int], bool]:
    """A function that says whether the part stands in text at a position, behind which there is room for it."""
    literal = _literal(part)
    if literal is not None:
        return lambda text, position: text.startswith(literal, position)
    wanted = [(index, character) for index, character in enumerate(part) if character is not None]
    return lambda text, position: all(text[position + index] == character for index, character in wanted)


def _literal(part: _Part) -> str | None:
    return None if None in part else "".join(character for character in part if character is not None)


def _finder(part: _Part) -> Callable[[str, int, int], int]:
    """A function that finds the part in text between two positions, and gives the position behind it, or -1."""
    literal = _literal(part)
    if literal is not None:
        size = len(literal)

        def find_literal(text: str, start: int, end: int) -> int:
            found = text.find(literal, start, end)
            return -1 if found < 0 else found + size

        return find_literal

    return PartFinder(part).find
