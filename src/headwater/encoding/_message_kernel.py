# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""AMQP 1.0 section 3.2: one value out of a stored message, found without decoding what stands around it.

A section is 00, a descriptor and a value; the sections of a message stand in the order of their codes. Sought is

    a field of a list (header 70, properties 73) by its index, or
    an entry of a map (annotations 72, application properties 74) by its key, text in any of its encodings

and of the values those that an expression can compare: booleans, numbers, text. Any other value is `OTHER`. What is
not there, null, or does not parse is None.

The file runs compiled and uncompiled to the same results. No bounds are checked behind a pointer: every read stands
behind a comparison with the end that the caller gave, and that end behind one with the size of its buffer.
"""

from __future__ import annotations

import struct

import cython

__all__ = ["COMPILED", "OTHER", "list_position", "list_value", "map_value"]

COMPILED = cython.compiled
OTHER = ...
"""A value that is there, and is nothing that an expression can compare."""

_CODES = {
    b"amqp:header:list": 0x70,
    b"amqp:delivery-annotations:map": 0x71,
    b"amqp:message-annotations:map": 0x72,
    b"amqp:properties:list": 0x73,
    b"amqp:application-properties:map": 0x74,
}
_FLOAT = struct.Struct(">f").unpack
_DOUBLE = struct.Struct(">d").unpack

# Written out in an expression, the larger ones would be Python objects.
_SIGN = cython.declare(cython.longlong, 1 << 31)
_WORD = cython.declare(cython.longlong, 1 << 32)


def map_value(
    buffer: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    section: cython.Py_ssize_t,
    key: object,
) -> object:
    """The value of a key, given as UTF-8, in the map of a section of the message from `start` to `end`."""
    _check_span(len(buffer), start, end)
    key_size: cython.Py_ssize_t = len(key)
    p: cython.p_const_uchar = _readable(buffer)
    at: cython.Py_ssize_t = _section(p, start, end, section)
    if at >= 0:
        at = _in_map(p, at, end, _readable(key), key_size)
    return None if at < 0 else _value(p, at, end)


def list_value(
    buffer: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    section: cython.Py_ssize_t,
    index: cython.Py_ssize_t,
) -> object:
    """The value of a field, by its index, in the list of a section of the message from `start` to `end`."""
    at: cython.Py_ssize_t = list_position(buffer, start, end, section, index)
    return None if at < 0 else _value(_readable(buffer), at, end)


def list_position(
    buffer: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    section: cython.Py_ssize_t,
    index: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Where that field begins, for those who decode it themselves; -1 if it is not there."""
    _check_span(len(buffer), start, end)
    p: cython.p_const_uchar = _readable(buffer)
    at: cython.Py_ssize_t = _section(p, start, end, section)
    return -1 if at < 0 else _in_list(p, at, end, index)


# Where things stand; -1 if they do not.


@cython.cfunc
@cython.exceptval(check=False)
def _section(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t, section: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """What the section describes."""
    position: cython.Py_ssize_t = start
    while position >= 0:
        code: cython.Py_ssize_t = _code(p, position, end)
        if code < 0x70 or code > section:
            return -1
        at: cython.Py_ssize_t = _after_descriptor(p, position)
        if code == section:
            return at
        position = _skip(p, at, end)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _in_map(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    key: cython.p_const_uchar,
    key_size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    stop: cython.Py_ssize_t = _compound_end(p, at, end, 0xC1)
    position: cython.Py_ssize_t = at + (3 if p[at] == 0xC1 else 9) if stop >= 0 else 0
    while position < stop:
        name: cython.Py_ssize_t = _text_start(p, position, stop)
        value: cython.Py_ssize_t = _skip(p, position, stop)
        if value < 0 or value >= stop:
            return -1
        if name >= 0 and value - name == key_size and _are_equal(p, name, key, key_size):
            return value
        position = _skip(p, value, stop)
        if position < 0:
            return -1
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _in_list(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    stop: cython.Py_ssize_t = _compound_end(p, at, end, 0xC0)
    if stop < 0 or p[at] == 0x45 or index < 0:
        return -1
    is_short: cython.bint = p[at] == 0xC0
    count: cython.Py_ssize_t = p[at + 2] if is_short else _u32(p, at + 5)
    if index >= count:
        return -1
    position: cython.Py_ssize_t = at + (3 if is_short else 9)
    _k: cython.Py_ssize_t
    for _k in range(index):
        position = _skip(p, position, stop)
        if position < 0:
            return -1
    return position if position < stop else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _compound_end(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, short: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind the list (C0) or map (C1) at the position, in its short form, its long one, or empty."""
    left: cython.Py_ssize_t = end - at
    if left < 1:
        return -1
    size: cython.Py_ssize_t
    if p[at] == short:
        if left < 3 or p[at + 1] < 1 or left - 2 < p[at + 1]:
            return -1
        return at + 2 + p[at + 1]
    if p[at] == short + 0x10:
        if left < 9:
            return -1
        size = _u32(p, at + 1)
        if size < 4 or left - 5 < size:
            return -1
        return at + 5 + size
    return at + 1 if p[at] == 0x45 and short == 0xC0 else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _text_start(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where the characters of a string or symbol begin, which may still reach beyond the end."""
    code: cython.Py_ssize_t = p[position]
    if code == 0xA1 or code == 0xA3:
        return position + 2
    return position + 5 if code == 0xB1 or code == 0xB3 else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _are_equal(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, key: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    k: cython.Py_ssize_t
    for k in range(size):
        if p[at + k] != key[k]:
            return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _skip(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
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
        elif kind == 0x4:
            size = 0
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
        else:
            return -1
        if left - 1 < size:
            return -1
        position += 1 + size
        values -= 1
    return position


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _code(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The code of the descriptor at the position, behind which there is another byte at least."""
    left: cython.Py_ssize_t = end - position
    if left < 4 or p[position]:
        return -1
    if p[position + 1] == 0x53:
        return p[position + 2]
    return _long_code(p, position, left)


@cython.cfunc
@cython.exceptval(check=False)
def _long_code(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, left: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    if p[position + 1] == 0x80:
        if left < 11 or _u32(p, position + 2) or _u32(p, position + 6) > 0xFF:
            return -1
        return _u32(p, position + 6)
    if p[position + 1] == 0xA3 and left >= 4 + p[position + 2]:
        return _CODES.get(bytes(p[position + 3 : position + 3 + p[position + 2]]), -1)
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_descriptor(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Behind a descriptor that has a code."""
    if p[position + 1] == 0x53:
        return position + 3
    if p[position + 1] == 0x80:
        return position + 10
    return position + 3 + p[position + 2]


# Values (section 1.6).


@cython.cfunc
def _value(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
    behind: cython.Py_ssize_t = _skip(p, at, end)
    if behind < 0:
        return None
    code: cython.Py_ssize_t = p[at]
    if code == 0xA1 or code == 0xA3:
        return _text(p, at + 2, behind)
    if code == 0xB1 or code == 0xB3:
        return _text(p, at + 5, behind)
    kind: cython.Py_ssize_t = code >> 4
    if kind == 0x4:
        return _constant(code)
    return _number(p, code, at + 1) if 0x5 <= kind <= 0x8 else OTHER


@cython.cfunc
def _constant(code: cython.Py_ssize_t) -> object:
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x43 or code == 0x44:
        return 0
    return OTHER if code == 0x45 else None


@cython.cfunc
def _number(p: cython.p_const_uchar, code: cython.Py_ssize_t, at: cython.Py_ssize_t) -> object:
    number: cython.longlong
    wide: cython.ulonglong
    if code == 0x50 or code == 0x52 or code == 0x53:
        return p[at]
    if code == 0x51 or code == 0x54 or code == 0x55:
        number = p[at]
        return number - 0x100 if number >= 0x80 else number
    if code == 0x56:
        return None if p[at] > 1 else p[at] == 1
    if code == 0x60 or code == 0x61:
        number = _u16(p, at)
        return number - 0x10000 if code == 0x61 and number >= 0x8000 else number
    if code == 0x70 or code == 0x71:
        number = _u32(p, at)
        return number - _WORD if code == 0x71 and number >= _SIGN else number
    if code == 0x80:
        wide = _u32(p, at)
        return (wide << 32) | _u32(p, at + 4)
    if code == 0x81 or code == 0x83:
        number = _u32(p, at)
        if number >= _SIGN:
            number -= _WORD
        return number * _WORD + _u32(p, at + 4)
    if code == 0x72:
        return _FLOAT(bytes(p[at : at + 4]))[0]
    if code == 0x82:
        return _DOUBLE(bytes(p[at : at + 8]))[0]
    if code == 0x73:
        number = _u32(p, at)
        return None if number > 0x10FFFF or 0xD800 <= number < 0xE000 else chr(number)
    return OTHER if code == 0x74 or code == 0x84 else None


@cython.cfunc
def _text(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
    try:
        if cython.compiled:
            return p[start:end].decode("utf-8")
        else:
            return str(p[start:end], "utf-8")
    except UnicodeDecodeError:
        return None


# Bytes, as in `_kernel.py`: a file that also runs uncompiled cannot have inline functions of another one.


@cython.cfunc
def _readable(data: object) -> cython.p_const_uchar:
    if cython.compiled:
        if isinstance(data, (bytes, bytearray)):
            return data
        view: cython.const[cython.uchar][::1] = data
        return cython.address(view[0])
    else:
        return data


@cython.cfunc
def _check_span(size: cython.Py_ssize_t, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    if start < 0 or end < start or size < end:
        raise ValueError(f"{start} to {end} is no span of a buffer of {size} bytes")
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u16(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    a: cython.Py_ssize_t = p[i]
    b: cython.Py_ssize_t = p[i + 1]
    return (a << 8) | b


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    a: cython.Py_ssize_t = p[i]
    b: cython.Py_ssize_t = p[i + 1]
    c: cython.Py_ssize_t = p[i + 2]
    d: cython.Py_ssize_t = p[i + 3]
    return (a << 24) | (b << 16) | (c << 8) | d
