# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""AMQP 1.0 parts 1 and 3: the way through values and sections, for the kernels beside this one; -1 is no way.

`amqp_types.py` draws the values. These are C functions to compiled kernels (the `.pxd` names them), and functions of
bytes to the others. No bounds are checked behind a pointer: every read stands behind a comparison with the end.
"""

from __future__ import annotations

import cython

__all__ = [
    "COMPILED",
    "after_descriptor",
    "compound_end",
    "integer",
    "is_integer",
    "list_item",
    "section_code",
    "skip",
    "text_start",
]

COMPILED = cython.compiled
# Written out in an expression, they would be Python objects.
_SIGN = cython.declare(cython.longlong, 1 << 31)
_WORD = cython.declare(cython.longlong, 1 << 32)
_SECTIONS = {
    b"amqp:header:list": 0x70,
    b"amqp:delivery-annotations:map": 0x71,
    b"amqp:message-annotations:map": 0x72,
    b"amqp:properties:list": 0x73,
    b"amqp:application-properties:map": 0x74,
    b"amqp:data:binary": 0x75,
    b"amqp:amqp-sequence:list": 0x76,
    b"amqp:amqp-value:*": 0x77,
    b"amqp:footer:map": 0x78,
}


@cython.ccall
@cython.exceptval(check=False)
def list_item(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where an item of the list at the position begins, whole; -1 if it has no such item."""
    stop: cython.Py_ssize_t = compound_end(p, at, end, 0xC0)
    if stop < 0 or p[at] == 0x45:
        return -1
    is_short: cython.bint = p[at] == 0xC0
    if index >= (p[at + 2] if is_short else _u32(p, at + 5)):
        return -1
    position: cython.Py_ssize_t = at + (3 if is_short else 9)
    _k: cython.Py_ssize_t
    for _k in range(index):
        position = skip(p, position, stop)
        if position < 0:
            return -1
    return position if skip(p, position, stop) >= 0 else -1


@cython.ccall
@cython.exceptval(check=False)
def compound_end(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, short_code: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind the list (`short_code` is C0) or map (C1) at the position, short, long, or empty."""
    left: cython.Py_ssize_t = end - at
    if left < 1:
        return -1
    if p[at] == short_code:
        if left < 3 or p[at + 1] < 1 or left - 2 < p[at + 1]:
            return -1
        return at + 2 + p[at + 1]
    if p[at] == short_code + 0x10:
        size: cython.Py_ssize_t = _u32(p, at + 1) if left >= 9 else 0
        return -1 if size < 4 or left - 5 < size else at + 5 + size
    return at + 1 if p[at] == 0x45 and short_code == 0xC0 else -1


@cython.ccall
@cython.exceptval(check=False)
def text_start(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the characters of a string or symbol begin, whole or not; -1 of any other value."""
    code: cython.Py_ssize_t = p[position]
    if code == 0xA1 or code == 0xA3:
        return position + 2
    return position + 5 if code == 0xB1 or code == 0xB3 else -1


@cython.ccall
@cython.exceptval(check=False)
def skip(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Behind the value at the position, descriptors included."""
    values: cython.Py_ssize_t = 1
    while values:
        left: cython.Py_ssize_t = end - position
        if left < 1:
            return -1
        size: cython.Py_ssize_t = 0
        kind: cython.Py_ssize_t = p[position] >> 4
        if p[position] == 0:
            values += 2
        elif 0x5 <= kind <= 0x9:
            size = cython.cast(cython.Py_ssize_t, 1) << (kind - 5)
        elif kind == 0xA or kind == 0xC or kind == 0xE:
            if left < 2:
                return -1
            size = 1 + p[position + 1]
        elif kind == 0xB or kind == 0xD or kind == 0xF:
            if left < 5:
                return -1
            size = 4 + _u32(p, position + 1)
        elif kind != 0x4:
            return -1
        if left - 1 < size:
            return -1
        position += 1 + size
        values -= 1
    return position


@cython.ccall
@cython.exceptval(check=False)
def section_code(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The code of a section whose descriptor stands at the position, with a byte behind it at least."""
    left: cython.Py_ssize_t = end - position
    if left < 4 or p[position]:
        return -1
    if p[position + 1] == 0x53:
        return p[position + 2]
    if p[position + 1] == 0x80:
        if left < 11 or _u32(p, position + 2) or _u32(p, position + 6) > 0xFF:
            return -1
        return _u32(p, position + 6)
    if p[position + 1] == 0xA3 and left >= 4 + p[position + 2]:
        return _SECTIONS.get(bytes(p[position + 3 : position + 3 + p[position + 2]]), -1)
    return -1


@cython.ccall
@cython.exceptval(check=False)
def after_descriptor(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Behind a descriptor that has a code."""
    if p[position + 1] == 0x53:
        return position + 3
    return position + (10 if p[position + 1] == 0x80 else 3 + p[position + 2])


@cython.ccall
@cython.exceptval(check=False)
def is_integer(code: cython.Py_ssize_t) -> cython.bint:
    """Whether a format code is one of integers."""
    if code == 0x43 or code == 0x44:
        return True
    kind: cython.Py_ssize_t = code >> 4
    form: cython.Py_ssize_t = code & 0x0F
    if kind == 5:
        return form <= 5
    return (kind == 6 or kind == 7 or kind == 8) and form <= 1


@cython.ccall
@cython.exceptval(check=False)
def integer(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """An integer or a timestamp, which stands there whole."""
    code: cython.Py_ssize_t = p[at]
    kind: cython.Py_ssize_t = code >> 4
    number: cython.longlong
    if kind == 5:
        number = p[at + 1]
        is_signed: cython.bint = code == 0x51 or code >= 0x54
        return number - 0x100 if is_signed and number >= 0x80 else number
    if kind == 6:
        number = p[at + 1]
        number = (number << 8) | p[at + 2]
        return number - 0x10000 if code == 0x61 and number >= 0x8000 else number
    if kind == 7:
        number = _u32(p, at + 1)
        return number - _WORD if code == 0x71 and number >= _SIGN else number
    if kind == 8:
        number = _u32(p, at + 1)
        if number >= _SIGN:
            number -= _WORD
        return number * _WORD + _u32(p, at + 5)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    a: cython.Py_ssize_t = p[i]
    b: cython.Py_ssize_t = p[i + 1]
    c: cython.Py_ssize_t = p[i + 2]
    d: cython.Py_ssize_t = p[i + 3]
    return (a << 24) | (b << 16) | (c << 8) | d
