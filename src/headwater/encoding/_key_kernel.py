# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Where messages say that they belong: one annotation of each of a run, and the run in the order of its partitions.

Annotations (AMQP 1.0 section 3.2.10) are a map in a section of the message, behind a header if there is one:

    00  descriptor  c1  size 1  count 1  keys and values           descriptor:   53  code
    00  descriptor  d1  size 4  count 4  keys and values                         80  code, 8
                                                                                 a3  length 1, name

Keys are symbols (a3, b3), or strings (a1, b1) from clients that do not know better; so is the value that is looked for.
The first pair with the key counts, and what stands behind it does not matter.

`_span_kernel.py` draws the spans of messages. The file runs compiled and uncompiled to the same results. Spans are
compared with the size of their buffer before a pointer is used, and every read stands behind a comparison with the end.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp

__all__ = ["COMPILED", "NONE", "UNREADABLE", "find_annotations", "sort_spans"]

COMPILED = cython.compiled
NONE = -1
"""The position of an annotation that is not there, or null."""
UNREADABLE = -2
"""The position of one that has another type, or of which cannot be told whether it is there."""

_NONE = cython.declare(cython.Py_ssize_t, -1)
_UNREADABLE = cython.declare(cython.Py_ssize_t, -2)
_CODES = {
    b"amqp:header:list": 0x70,
    b"amqp:delivery-annotations:map": 0x71,
    b"amqp:message-annotations:map": 0x72,
}


def find_annotations(
    buffer: object,
    spans: object,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    section: cython.Py_ssize_t,
    name: bytes,
    found: object,
) -> tuple[int, int]:
    """Write where the value of an annotation of each of `count` messages begins and ends, from the `first` one on.

    The section is that of delivery annotations (0x71) or of message annotations (0x72). Gives how many have it, and how
    many are `UNREADABLE`.
    """
    _check_span(len(spans) // 4, first, first + count)
    _check_span(len(found) // 2, 0, count)
    p: cython.p_const_uchar = _readable(buffer)
    n: cython.p_const_uchar = name
    name_bytes: cython.Py_ssize_t = len(name)
    fields: cython.const[cython.longlong][::1] = spans
    values: cython.longlong[::1] = found
    buffer_bytes: cython.Py_ssize_t = len(buffer)
    # Delivery annotations stand between head and rest, message annotations at the beginning of the rest.
    offset: cython.Py_ssize_t = 1 if section == 0x71 else 2
    there: cython.Py_ssize_t = 0
    unreadable: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(count):
        at: cython.Py_ssize_t = 4 * (first + i) + offset
        start: cython.Py_ssize_t = fields[at]
        end: cython.Py_ssize_t = fields[at + 1]
        _check_span(buffer_bytes, start, end)
        position: cython.Py_ssize_t = _value_at(p, start, end, section, n, name_bytes)
        if position >= 0:
            there += 1
            values[2 * i] = position + _string_head(p[position])
            values[2 * i + 1] = _behind(p, position, end)
        else:
            if position == _UNREADABLE:
                unreadable += 1
            values[2 * i] = values[2 * i + 1] = position
    return there, unreadable


def sort_spans(
    spans: object,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    partitions: object,
    counts: object,
    sorted_spans: object,
    order: object,
) -> int:
    """Write the spans of `count` messages from the `first` one on in the order of their partitions, and their numbers.

    `partitions` has one number for each message; those below 0 are left out. Messages of a partition keep their order.
    `counts`, one 0 for each partition, becomes how many it has. Gives how many messages there are in all.
    """
    _check_span(len(spans) // 4, first, first + count)
    _check_span(len(partitions), 0, count)
    _check_span(len(sorted_spans) // 4, 0, count)
    _check_span(len(order), 0, count)
    fields: cython.const[cython.longlong][::1] = spans
    chosen: cython.const[cython.longlong][::1] = partitions
    sizes: cython.longlong[::1] = counts
    out: cython.longlong[::1] = sorted_spans
    numbers: cython.longlong[::1] = order
    room: cython.Py_ssize_t = len(counts)
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    for i in range(count):
        if chosen[i] >= room:
            raise ValueError(f"there is no partition {chosen[i]} of {room}")
        if chosen[i] >= 0:
            sizes[chosen[i]] += 1
    total: cython.Py_ssize_t = 0
    for k in range(room):
        size: cython.Py_ssize_t = sizes[k]
        sizes[k] = total
        total += size
    for i in range(count):
        if chosen[i] >= 0:
            to: cython.Py_ssize_t = sizes[chosen[i]]
            sizes[chosen[i]] = to + 1
            numbers[to] = i
            for k in range(4):
                out[4 * to + k] = fields[4 * (first + i) + k]
    # Where each partition ends, and so how many it has.
    for k in range(room - 1, 0, -1):
        sizes[k] -= sizes[k - 1]
    return total


@cython.cfunc
@cython.exceptval(check=False)
def _value_at(
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    section: cython.Py_ssize_t,
    name: cython.p_const_uchar,
    name_bytes: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Where the value with a name stands in a section, or `_NONE`, or `_UNREADABLE`."""
    at: cython.Py_ssize_t = start
    while at < end:
        code: cython.Py_ssize_t = _code(p, at, end)
        if code < 0x70:
            return _UNREADABLE
        if code > section:
            return _NONE
        at += 3 if p[at + 1] == 0x53 else 10 if p[at + 1] == 0x80 else 3 + p[at + 2]
        if code == section:
            return _value_in_map(p, at, end, name, name_bytes)
        at = _behind(p, at, end)
        if at < 0:
            return _UNREADABLE
    return _NONE


@cython.cfunc
@cython.exceptval(check=False)
def _value_in_map(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    name: cython.p_const_uchar,
    name_bytes: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    map_end: cython.Py_ssize_t = _behind(p, at, end)
    if map_end < 0:
        return _UNREADABLE
    count: cython.Py_ssize_t
    if p[at] == 0xC1 and map_end - at >= 3:
        count = p[at + 2]
        at += 3
    elif p[at] == 0xD1 and map_end - at >= 9:
        count = _u32(p, at + 5)
        at += 9
    else:
        return _UNREADABLE
    while count >= 2:
        value: cython.Py_ssize_t = _behind(p, at, map_end)
        behind: cython.Py_ssize_t = -1 if value < 0 else _behind(p, value, map_end)
        if behind < 0:
            return _UNREADABLE
        head: cython.Py_ssize_t = _string_head(p[at])
        if head and value - at == head + name_bytes and _same(p, at + head, name, name_bytes):
            if p[value] == 0x40:
                return _NONE
            return value if _string_head(p[value]) else _UNREADABLE
        at = behind
        count -= 2
    return _NONE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _string_head(code: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """What stands before the bytes of a string or a symbol; 0 for any other format code."""
    if code == 0xA1 or code == 0xA3:
        return 2
    return 5 if code == 0xB1 or code == 0xB3 else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _code(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The code of the descriptor at the position, behind which there is another byte at least."""
    if end - at < 4 or p[at]:
        return -1
    if p[at + 1] == 0x53:
        return p[at + 2]
    return _long_code(p, at, end - at)


@cython.cfunc
@cython.exceptval(check=False)
def _long_code(p: cython.p_const_uchar, at: cython.Py_ssize_t, left: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if p[at + 1] == 0x80:
        if left < 11 or _u32(p, at + 2) or _u32(p, at + 6) > 0xFF:
            return -1
        return _u32(p, at + 6)
    if p[at + 1] == 0xA3 and left >= 4 + p[at + 2]:
        return _CODES.get(bytes(p[at + 3 : at + 3 + p[at + 2]]), -1)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _behind(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The position behind the value at the position, by the widths of section 1.2.2; -1 if it is not whole."""
    awaited: cython.Py_ssize_t = 1
    while awaited:
        if at >= end:
            return -1
        kind: cython.Py_ssize_t = p[at] >> 4
        size: cython.Py_ssize_t = 0
        at += 1
        if kind == 0:
            if p[at - 1]:
                return -1
            awaited += 1  # a descriptor, and what it describes
            continue
        if kind < 4:
            return -1
        if kind < 10:
            size = 0 if kind == 4 else 1 << (kind - 5)
        elif kind & 1 == 0:
            size = 1 + p[at] if end - at >= 1 else 1
        else:
            size = 4 + _u32(p, at) if end - at >= 4 else 4
        if end - at < size:
            return -1
        at += size
        awaited -= 1
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _same(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    name: cython.p_const_uchar,
    name_bytes: cython.Py_ssize_t,
) -> cython.bint:
    if cython.compiled:
        return memcmp(p + at, name, name_bytes) == 0
    else:
        return p[at : at + name_bytes] == name


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
def _at(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.p_const_uchar:
    if cython.compiled:
        return p + i
    else:
        return p[i : i + 4]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    p = _at(p, i)
    a: cython.Py_ssize_t = p[0]
    b: cython.Py_ssize_t = p[1]
    c: cython.Py_ssize_t = p[2]
    d: cython.Py_ssize_t = p[3]
    return (a << 24) | (b << 16) | (c << 8) | d
