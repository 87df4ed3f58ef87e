# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""CloudEvents in JSON as AMQP messages in binary mode, written from the text itself.

The text is JSON. Taken is what is common: members without escapes, data that are JSON, attributes as they have to be.
Any other event is left to those who know all of it, and so is one without room. Written is, as `amqp_binding` would:

    00 53 73  c0 ...  40 (6 times)  content-type  40 (6 times)   with data, or a datacontenttype
    00 53 74  c1 ...  a1 "cloudEvents_" name  value          each other attribute
    00 53 75  a0 ...  data                                   00 53 77 40 without data

Members of an event are noted in `fields`, `_FIELDS` integers each: name, its end, value, its end, and

    0 text    1 true    2 false    3 integer    4 a timestamp, in place of the end of the value its milliseconds

The file runs compiled and uncompiled to the same results. Every read stands behind a comparison with the end, and what
an event takes is compared with the room before it is written.
"""

from __future__ import annotations

from array import array

import cython

from headwater.encoding._cloudevents_text_kernel import timestamp_ms

if cython.compiled:
    from cython.cimports.headwater.encoding._cloudevents_text_kernel import allowed, names_cloudevents
    from cython.cimports.libc.string import memcmp, memcpy
else:
    from headwater.encoding._cloudevents_text_kernel import allowed, names_cloudevents

__all__ = ["COMPILED", "MEMBERS_MAX", "write_events"]

COMPILED = cython.compiled
MEMBERS_MAX = 32  # an event with more of them is left to others
_NOTED = array("q", bytes(8 * 5 * MEMBERS_MAX + 8 * 8))  # one call after the other has it

_FIELDS = cython.declare(cython.Py_ssize_t, 5)
_MEMBERS_MAX = cython.declare(cython.Py_ssize_t, 32)
_NAME_BYTES_MAX = cython.declare(cython.Py_ssize_t, 200)
_TYPE_BYTES_MAX = cython.declare(cython.Py_ssize_t, 200)
_INT32_MAX = cython.declare(cython.longlong, (1 << 31) - 1)
_BYTES_MAX = cython.declare(cython.Py_ssize_t, (1 << 30))

_SPECVERSION = cython.declare(cython.Py_ssize_t, 1)
_ID = cython.declare(cython.Py_ssize_t, 2)
_SOURCE = cython.declare(cython.Py_ssize_t, 4)
_TYPE = cython.declare(cython.Py_ssize_t, 8)
_REQUIRED = cython.declare(cython.Py_ssize_t, 15)
_SUBJECT = cython.declare(cython.Py_ssize_t, 16)
_TIME = cython.declare(cython.Py_ssize_t, 32)
_DATASCHEMA = cython.declare(cython.Py_ssize_t, 64)
_CONTENT_TYPE = cython.declare(cython.Py_ssize_t, 128)
_DATA = cython.declare(cython.Py_ssize_t, 256)
_OTHER = cython.declare(cython.Py_ssize_t, 512)
_UNFIT = cython.declare(cython.Py_ssize_t, 1024)


def write_events(
    text: bytes,
    position: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    key: bytes,
    out: bytearray,
    out_position: cython.Py_ssize_t,
    spans: object,
    keys: object,
    first: cython.Py_ssize_t,
) -> tuple[int, int, int]:
    """Write up to `count` events of a text as messages, and their spans and keys from the `first` place on.

    They begin at a position, with commas between them. Gives how many were written, the position of the event that was
    not, or of what stands in its place, and that in `out`. Keys are spans of `out`, -1 for none.
    """
    size: cython.Py_ssize_t = len(text)
    out_end: cython.Py_ssize_t = len(out)
    if position < 0 or size < position or out_position < 0 or out_end < out_position or size > _BYTES_MAX:
        raise ValueError(f"{position} and {out_position} are no positions in the buffers")
    if count < 0 or first < 0 or len(spans) < 4 * (first + count) or len(keys) < 2 * (first + count):
        raise ValueError(f"{count} spans are not there")
    p: cython.p_const_uchar = text
    k: cython.p_const_uchar = key
    q: cython.p_uchar = out
    into: cython.longlong[::1] = spans
    key_into: cython.longlong[::1] = keys
    noted: cython.longlong[::1] = _NOTED
    written: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = _after_space(p, position, size)
    while written < count:
        if first + written > 0 and at < size and p[at] == 44:
            at = _after_space(p, at + 1, size)
        number: cython.Py_ssize_t = first + written
        members: cython.Py_ssize_t = _note(p, at, size, noted)
        if members < 0 or not _note_key(p, noted, members, k, len(key), key_into, number):
            break
        behind: cython.Py_ssize_t = _write(p, noted, members, q, out_position, out_end)
        key_bytes: cython.Py_ssize_t = key_into[2 * number + 1] - key_into[2 * number]
        if behind < 0 or out_end - behind < key_bytes:
            break
        into[4 * number] = into[4 * number + 1] = into[4 * number + 2] = out_position
        into[4 * number + 3] = out_position = behind
        if key_into[2 * number] >= 0:
            _copy(q, behind, p, key_into[2 * number], key_bytes)
            key_into[2 * number] = behind
            key_into[2 * number + 1] = out_position = behind + key_bytes
        written += 1
        at = _after_space(p, noted[_FIELDS * _MEMBERS_MAX + 4], size)
    return written, at, out_position


# Reading.


@cython.cfunc
def _note(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, noted: cython.longlong[::1]
) -> cython.Py_ssize_t:
    """Note the members of an object that is an event, with what is special behind them; gives their number, or -1.

    Behind the members stand data and its end, content-type and its end, and the end of the object.
    """
    extra: cython.Py_ssize_t = _FIELDS * _MEMBERS_MAX
    noted[extra] = noted[extra + 2] = -1
    if at >= size or p[at] != 123:
        return -1
    members: cython.Py_ssize_t = 0
    seen: cython.Py_ssize_t = 0
    at = _after_space(p, at + 1, size)
    while at < size and p[at] == 34:
        name: cython.Py_ssize_t = at + 1
        name_end: cython.Py_ssize_t = _plain_end(p, name, size)
        if name_end < 0:
            return -1
        at = _after_space(p, name_end + 1, size)
        if at >= size or p[at] != 58:
            return -1
        at = _after_space(p, at + 1, size)
        slot: cython.Py_ssize_t = _slot(p, name, name_end)
        if at >= size or slot == _UNFIT or seen & slot:
            return -1
        if slot != _OTHER:
            seen |= slot
        if slot == _DATA:
            noted[extra] = at
            at = _value_end(p, at, size)
            noted[extra + 1] = at
        elif slot == _CONTENT_TYPE:
            noted[extra + 2] = at + 1
            if p[at] != 34:
                return -1
            at = _plain_end(p, at + 1, size)
            if at < 0:
                return -1
            noted[extra + 3] = at
            at += 1
        else:
            if members == _MEMBERS_MAX:
                return -1
            if slot == _OTHER and _is_noted(p, noted, members, name, name_end):
                return -1
            if p[at] != 110:
                at = _note_value(p, name, name_end, at, size, noted, members, slot)
                members += 1
            elif slot == _OTHER or slot & _REQUIRED:
                return -1
            else:
                at += 4
        if at < 0:
            return -1
        at = _after_space(p, at, size)
        if at < size and p[at] == 44:
            at = _after_space(p, at + 1, size)
        elif at >= size or p[at] != 125:
            return -1
    if at >= size or p[at] != 125 or (seen & _REQUIRED) != _REQUIRED:
        return -1
    noted[extra + 4] = at + 1
    return members if _is_fit(p, noted) else -1


@cython.cfunc
@cython.exceptval(check=False)
def _is_fit(p: cython.p_const_uchar, noted: cython.longlong[::1]) -> cython.bint:
    """Whether data and content-type are what can be written as they are."""
    extra: cython.Py_ssize_t = _FIELDS * _MEMBERS_MAX
    start: cython.Py_ssize_t = noted[extra + 2]
    if start < 0:
        return True
    end: cython.Py_ssize_t = noted[extra + 3]
    if end - start > _TYPE_BYTES_MAX or names_cloudevents(p, start, end) or not allowed(4, p, start, end):
        return False
    return noted[extra] < 0 or _is_json(p, start, end)


@cython.cfunc
@cython.exceptval(check=False)
def _is_json(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether a media type ends with /json or +json, in letters of any case; parameters are not looked at."""
    stop: cython.Py_ssize_t = start
    while stop < end and p[stop] != 59:
        stop += 1
    while stop > start and (p[stop - 1] == 32 or p[stop - 1] == 9):
        stop -= 1
    if stop - start < 5 or (p[stop - 5] != 47 and p[stop - 5] != 43):
        return False
    js: cython.bint = (p[stop - 4] | 32) == 106 and (p[stop - 3] | 32) == 115
    return js and (p[stop - 2] | 32) == 111 and (p[stop - 1] | 32) == 110


@cython.cfunc
@cython.exceptval(check=False)
def _is_noted(
    p: cython.p_const_uchar,
    noted: cython.longlong[::1],
    members: cython.Py_ssize_t,
    name: cython.Py_ssize_t,
    name_end: cython.Py_ssize_t,
) -> cython.bint:
    i: cython.Py_ssize_t
    for i in range(members):
        start: cython.Py_ssize_t = noted[_FIELDS * i]
        if noted[_FIELDS * i + 1] - start == name_end - name and _are_equal(
            p, start, p, name, name_end - name
        ):
            return True
    return False


@cython.cfunc
def _note_value(
    p: cython.p_const_uchar,
    name: cython.Py_ssize_t,
    name_end: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    noted: cython.longlong[::1],
    member: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Note an attribute that is not null; gives the position behind it, -1 if it is nothing for us."""
    row: cython.Py_ssize_t = _FIELDS * member
    noted[row] = name
    noted[row + 1] = name_end
    noted[row + 2] = noted[row + 3] = at + 1
    if p[at] == 34:
        end: cython.Py_ssize_t = _plain_end(p, at + 1, size)
        if end < 0 or not _is_valid(p, at + 1, end, slot):
            return -1
        noted[row + 3] = end
        noted[row + 4] = 0
        if slot == _TIME:
            ms: object = timestamp_ms(p[at + 1 : end])
            if ms is not None:
                noted[row + 3] = ms
                noted[row + 4] = 4
        return end + 1
    if slot != _OTHER:
        return -1
    if p[at] == 116 or p[at] == 102:
        noted[row + 4] = 1 if p[at] == 116 else 2
        return at + (4 if p[at] == 116 else 5)
    return _note_integer(p, at, size, noted, row)


@cython.cfunc
@cython.exceptval(check=False)
def _note_integer(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    noted: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    is_negative: cython.bint = p[at] == 45
    digit: cython.Py_ssize_t = at + 1 if is_negative else at
    end: cython.Py_ssize_t = digit
    value: cython.longlong = 0
    while end < size and 48 <= p[end] <= 57 and end - digit < 11:
        value = 10 * value + (p[end] - 48)
        end += 1
    if end == digit or end - digit > 10 or (is_negative and value == 0) or value > _INT32_MAX:
        return -1
    if end < size and (p[end] == 46 or p[end] == 69 or p[end] == 101):
        return -1
    noted[row + 2] = -value if is_negative else value
    noted[row + 4] = 3
    return end


@cython.cfunc
@cython.exceptval(check=False)
def _is_valid(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t, slot: cython.Py_ssize_t
) -> cython.bint:
    """Whether a text is what the attribute has to be."""
    if slot == _SPECVERSION:
        return end - start == 3 and _are_equal(p, start, b"1.0", 0, 3)
    kind: cython.Py_ssize_t = (
        1 if slot == _SOURCE else 2 if slot == _DATASCHEMA else 3 if slot == _TIME else 0
    )
    return (end > start or slot == _OTHER) and allowed(kind, p, start, end)


@cython.cfunc
@cython.exceptval(check=False)
def _slot(p: cython.p_const_uchar, name: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Which attribute a name is; `_UNFIT` of what is none, or nothing for us."""
    size: cython.Py_ssize_t = end - name
    if size == 2 and _are_equal(p, name, b"id", 0, 2):
        return _ID
    if size == 4:
        if _are_equal(p, name, b"type", 0, 4):
            return _TYPE
        if _are_equal(p, name, b"time", 0, 4):
            return _TIME
        if _are_equal(p, name, b"data", 0, 4):
            return _DATA
    if size == 6 and _are_equal(p, name, b"source", 0, 6):
        return _SOURCE
    if size == 7 and _are_equal(p, name, b"subject", 0, 7):
        return _SUBJECT
    if size == 10 and _are_equal(p, name, b"dataschema", 0, 10):
        return _DATASCHEMA
    if size == 11 and _are_equal(p, name, b"specversion", 0, 11):
        return _SPECVERSION
    if size == 15 and _are_equal(p, name, b"datacontenttype", 0, 15):
        return _CONTENT_TYPE
    return _OTHER if size <= _NAME_BYTES_MAX and allowed(5, p, name, end) else _UNFIT


@cython.cfunc
@cython.exceptval(check=False)
def _note_key(
    p: cython.p_const_uchar,
    noted: cython.longlong[::1],
    members: cython.Py_ssize_t,
    key: cython.p_const_uchar,
    key_bytes: cython.Py_ssize_t,
    keys: cython.longlong[::1],
    number: cython.Py_ssize_t,
) -> cython.bint:
    """Write where in the text the value of the attribute stands that is the key; False if it is no text."""
    keys[2 * number] = keys[2 * number + 1] = -1
    i: cython.Py_ssize_t
    for i in range(members):
        row: cython.Py_ssize_t = _FIELDS * i
        start: cython.Py_ssize_t = noted[row]
        if noted[row + 1] - start == key_bytes and _are_equal(p, start, key, 0, key_bytes):
            if noted[row + 4] != 0:
                return False
            keys[2 * number] = noted[row + 2]
            keys[2 * number + 1] = noted[row + 3]
            return True
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_space(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    while at < size and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _plain_end(p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where a string without escapes ends; -1 of any other."""
    while at < size and p[at] != 34:
        if p[at] == 92 or p[at] < 32:
            return -1
        at += 1
    return at if at < size else -1


@cython.cfunc
@cython.exceptval(check=False)
def _value_end(p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Behind a value; of arrays and objects, where as many were closed as were opened."""
    depth: cython.Py_ssize_t = 0
    while at < size:
        c: cython.Py_ssize_t = p[at]
        at += 1
        if c == 34:
            while at < size and p[at] != 34:
                at += 2 if p[at] == 92 else 1
            if at >= size:
                return -1
            at += 1
        elif c == 123 or c == 91:
            depth += 1
        elif c == 125 or c == 93:
            depth -= 1
        elif depth == 0:
            while at < size and p[at] > 32 and p[at] != 44 and p[at] != 93 and p[at] != 125:
                at += 1
            return at
        if depth == 0:
            return at
        if depth < 0:
            return -1
    return -1


# Writing.


@cython.cfunc
@cython.exceptval(check=False)
def _write(
    p: cython.p_const_uchar,
    noted: cython.longlong[::1],
    members: cython.Py_ssize_t,
    q: cython.p_uchar,
    o: cython.Py_ssize_t,
    out_end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the message of an event; gives the position behind it, -1 without room."""
    extra: cython.Py_ssize_t = _FIELDS * _MEMBERS_MAX
    data: cython.Py_ssize_t = noted[extra]
    data_bytes: cython.Py_ssize_t = noted[extra + 1] - data if data >= 0 else 0
    contents: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(members):
        contents += _pair_bytes(noted, _FIELDS * i)
    # The two sections before the data, at their largest, and that of the data with its head.
    if out_end - o < 20 + _TYPE_BYTES_MAX + 16 + contents + 16 + data_bytes:
        return -1
    if noted[extra + 2] >= 0:
        o = _write_type(q, o, p, noted[extra + 2], noted[extra + 3] - noted[extra + 2])
    elif data >= 0:
        o = _write_type(q, o, b"application/json", 0, 16)
    o = _write_map_head(q, o, 2 * members, contents)
    for i in range(members):
        o = _write_pair(p, noted, _FIELDS * i, q, o)
    if data < 0:
        _put_u32(q, o, 0x00537740)
        return o + 4
    if data_bytes < 256:
        _put_u32(q, o, 0x005375A0)
        q[o + 4] = data_bytes
        o += 5
    else:
        _put_u32(q, o, 0x005375B0)
        _put_u32(q, o + 4, data_bytes)
        o += 8
    _copy(q, o, p, data, data_bytes)
    return o + data_bytes


@cython.cfunc
@cython.exceptval(check=False)
def _write_type(
    q: cython.p_uchar,
    o: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The properties section, a list of 13 of which all but the content-type are null."""
    _put_u32(q, o, 0x005373C0)
    q[o + 4] = size + 15
    q[o + 5] = 13
    i: cython.Py_ssize_t
    for i in range(6):
        q[o + 6 + i] = q[o + 14 + size + i] = 0x40
    q[o + 12] = 0xA3
    q[o + 13] = size
    _copy(q, o + 14, p, start, size)
    return o + 20 + size


@cython.cfunc
@cython.exceptval(check=False)
def _write_map_head(
    q: cython.p_uchar, o: cython.Py_ssize_t, count: cython.Py_ssize_t, contents: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    if contents < 255:
        _put_u32(q, o, 0x005374C1)
        q[o + 4] = contents + 1
        q[o + 5] = count
        return o + 6
    _put_u32(q, o, 0x005374D1)
    _put_u32(q, o + 4, contents + 4)
    _put_u32(q, o + 8, count)
    return o + 12


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pair_bytes(noted: cython.longlong[::1], row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    name_bytes: cython.Py_ssize_t = 14 + noted[row + 1] - noted[row]
    kind: cython.Py_ssize_t = noted[row + 4]
    if kind == 0:
        size: cython.Py_ssize_t = noted[row + 3] - noted[row + 2]
        return name_bytes + size + (2 if size < 256 else 5)
    if kind == 3:
        return name_bytes + (2 if -128 <= noted[row + 2] <= 127 else 9)
    return name_bytes + (9 if kind == 4 else 1)


@cython.cfunc
@cython.exceptval(check=False)
def _write_pair(
    p: cython.p_const_uchar,
    noted: cython.longlong[::1],
    row: cython.Py_ssize_t,
    q: cython.p_uchar,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Name and value of an attribute."""
    size: cython.Py_ssize_t = noted[row + 1] - noted[row]
    q[o] = 0xA1
    q[o + 1] = size + 12
    _copy(q, o + 2, b"cloudEvents_", 0, 12)
    _copy(q, o + 14, p, noted[row], size)
    o += 14 + size
    kind: cython.Py_ssize_t = noted[row + 4]
    if kind == 1 or kind == 2:
        q[o] = 0x41 if kind == 1 else 0x42
        return o + 1
    if kind == 3 or kind == 4:
        return _write_number(q, o, noted[row + 2] if kind == 3 else noted[row + 3], kind == 4)
    size = noted[row + 3] - noted[row + 2]
    if size < 256:
        q[o] = 0xA1
        q[o + 1] = size
        o += 2
    else:
        q[o] = 0xB1
        _put_u32(q, o + 1, size)
        o += 5
    _copy(q, o, p, noted[row + 2], size)
    return o + size


@cython.cfunc
@cython.exceptval(check=False)
def _write_number(
    q: cython.p_uchar, o: cython.Py_ssize_t, value: cython.longlong, is_time: cython.bint
) -> cython.Py_ssize_t:
    if not is_time and -128 <= value <= 127:
        q[o] = 0x55
        q[o + 1] = value & 0xFF
        return o + 2
    q[o] = 0x83 if is_time else 0x81
    _put_u32(q, o + 1, value >> 32)
    _put_u32(q, o + 5, value)
    return o + 9


# Bytes, as in `_kernel.py`.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_u32(q: cython.p_uchar, i: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    q[i] = (value >> 24) & 0xFF
    q[i + 1] = (value >> 16) & 0xFF
    q[i + 2] = (value >> 8) & 0xFF
    q[i + 3] = value & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    q: cython.p_uchar,
    to: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(q + to, p + position, size)
    else:
        q[to : to + size] = p[position : position + size]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _are_equal(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    key: cython.p_const_uchar,
    key_at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.bint:
    if cython.compiled:
        return memcmp(p + at, key + key_at, size) == 0
    else:
        return p[at : at + size] == key[key_at : key_at + size]
