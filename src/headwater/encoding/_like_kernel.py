# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A part of a LIKE pattern, looked for in text: all places where it could have begun are followed at once, bit by bit.

For each character that the part names there is a row of four words, in which bit n says that the character may be the
n-th; row 0 is that of all others. What matches so far is shifted by one with each character of the text, and what may
not stand there falls out (Shift-And). So a text is walked once, whatever the part is.

As in `_kernel.py`, the file runs compiled and uncompiled to the same results.
"""

from __future__ import annotations

from array import array

import cython

__all__ = ["COMPILED", "PART_CHARACTERS_MAX", "PartFinder"]

COMPILED = cython.compiled
PART_CHARACTERS_MAX = 256
_LOW = 0xFFFFFFFFFFFFFFFF


@cython.cclass
class PartFinder:
    """Looks for characters behind each other; None is any one."""

    _ascii_rows: cython.const[cython.uchar][::1]
    """The row of each of the first 128 characters."""
    _points: cython.const[cython.longlong][::1]
    """The other characters that have a row, in their order."""
    _points_row: cython.Py_ssize_t
    """Of the first of them; those of the others follow."""
    _rows: cython.const[cython.ulonglong][::1]
    _size: cython.Py_ssize_t

    def __init__(self, part: object) -> None:
        if not 0 < len(part) <= PART_CHARACTERS_MAX:
            raise ValueError(f"a part has 1 to {PART_CHARACTERS_MAX} characters, not {len(part)}")
        anywhere: object = sum(1 << index for index, wanted in enumerate(part) if wanted is None)
        named: object = sorted({ord(wanted) for wanted in part if wanted is not None})
        masks: object = [anywhere]
        ascii_rows: object = bytearray(128)
        for row, point in enumerate(named, 1):
            masks.append(anywhere | sum(1 << at for at, wanted in enumerate(part) if wanted == chr(point)))
            if point < 128:
                ascii_rows[point] = row
        others: object = [point for point in named if point >= 128]
        self._ascii_rows = bytes(ascii_rows)
        self._points = array("q", others)
        self._points_row = 1 + len(named) - len(others)
        self._rows = array("Q", [mask >> shift & _LOW for mask in masks for shift in (0, 64, 128, 192)])
        self._size = len(part)

    def find(self, text: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
        """Where the part ends that ends first, between two positions of a text; -1 if it is not there."""
        if start < 0 or end > len(text):
            raise ValueError(f"{start} to {end} is no part of a text of {len(text)} characters")
        plain: str = (
            text if type(text) is str else text[:]
        )  # subclasses are not typed, slices of them are plain
        low: cython.ulonglong = _LOW
        one: cython.ulonglong = 1
        goal: cython.ulonglong = one << ((self._size - 1) & 63)
        goal_word: cython.Py_ssize_t = (self._size - 1) >> 6
        s0: cython.ulonglong = 0
        s1: cython.ulonglong = 0
        s2: cython.ulonglong = 0
        s3: cython.ulonglong = 0
        reached: cython.ulonglong = 0
        i: cython.Py_ssize_t
        for i in range(start, end):
            point: cython.Py_ssize_t = ord(plain[i])
            row: cython.Py_ssize_t = 4 * (self._ascii_rows[point] if point < 128 else self._row_of(point))
            if goal_word:
                s3 = ((s3 << 1) & low | s2 >> 63) & self._rows[row + 3]
                s2 = ((s2 << 1) & low | s1 >> 63) & self._rows[row + 2]
                s1 = ((s1 << 1) & low | s0 >> 63) & self._rows[row + 1]
                s0 = ((s0 << 1) & low | 1) & self._rows[row]
                reached = s1 if goal_word == 1 else s2 if goal_word == 2 else s3
            else:
                s0 = ((s0 << 1) & low | 1) & self._rows[row]
                reached = s0
            if reached & goal:
                return i + 1
        return -1

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _row_of(self, point: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The row of one of the other characters."""
        low: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = len(self._points)
        high: cython.Py_ssize_t = count
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if self._points[middle] < point:
                low = middle + 1
            else:
                high = middle
        return self._points_row + low if low < count and self._points[low] == point else 0
