# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops of a client over its messages: Publish frames, the ids in confirms, and spans of AMQP messages.

`encoding/_kernel.py` draws the messages of a Publish. With `as_data` each record becomes an AMQP 1.0 message of one
data section (AMQP 1.0 part 3, section 3.2.6): 00 53 75 a0 and size 1, or 00 53 75 b0 and size 4; then the record.

The file runs compiled and uncompiled to the same results.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

__all__ = ["COMPILED", "fill_publish", "id_runs", "messages_that_fit", "moved_spans", "record_spans"]

COMPILED = cython.compiled


def messages_that_fit(
    records: list,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    filters: list | None,
    as_data: cython.bint,
    room_bytes: cython.Py_ssize_t,
) -> tuple[int, int]:
    """How many of the records from `start` to `end` a Publish has room for, and the bytes of their messages."""
    if start < 0 or end < start or len(records) < end or (filters is not None and len(filters) < end):
        raise ValueError(f"{start} to {end} is no span of {len(records)} records")
    taken_bytes: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = start
    while i < end:
        record: bytes = records[i]
        size: cython.Py_ssize_t = 12 + len(record)
        if as_data:
            size += 5 if len(record) < 256 else 8
        if filters is not None:
            size += 2
            if filters[i] is not None:
                value: bytes = filters[i]
                size += len(value)
        if taken_bytes + size > room_bytes:
            break
        taken_bytes += size
        i += 1
    return i - start, taken_bytes


def fill_publish(
    out: bytearray,
    position: cython.Py_ssize_t,
    records: list,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    first_id: cython.ulonglong,
    ids: list | None,
    filters: list | None,
    as_data: cython.bint,
) -> int:
    """Write the messages of the records from `start` to `end`; gives the position behind them.

    Their ids are in `ids`, at the places of the records, or rise from `first_id` on.
    `messages_that_fit` has said what room they take; it is checked again, for a list may change.
    """
    fits, _ = messages_that_fit(records, start, end, filters, as_data, len(out) - position)
    if position < 0 or fits != end - start:
        raise ValueError(f"{end - start} messages have no room behind byte {position} of {len(out)}")
    if ids is not None and len(ids) < end:
        raise ValueError(f"there are {len(ids)} ids for {end} records")
    q: cython.p_uchar = out
    id_: cython.ulonglong = first_id
    i: cython.Py_ssize_t
    for i in range(start, end):
        record: bytes = records[i]
        record_bytes: cython.Py_ssize_t = len(record)
        if ids is not None:
            id_ = ids[i]
        _put(q, position, id_, 8)
        position += 8
        if filters is not None:
            if filters[i] is None:
                _put(q, position, 0xFFFF, 2)
                position += 2
            else:
                value: bytes = filters[i]
                _put(q, position, len(value), 2)
                _copy(q, position + 2, value, len(value))
                position += 2 + len(value)
        if not as_data:
            _put(q, position, record_bytes, 4)
            position += 4
        elif record_bytes < 256:
            _put(q, position, record_bytes + 5, 4)
            _put(q, position + 4, 0x005375A0, 4)
            _put(q, position + 8, record_bytes, 1)
            position += 9
        else:
            _put(q, position, record_bytes + 8, 4)
            _put(q, position + 4, 0x005375B0, 4)
            _put(q, position + 8, record_bytes, 4)
            position += 12
        _copy(q, position, record, record_bytes)
        position += record_bytes
        id_ += 1
    return position


def id_runs(ids: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> list[tuple[int, int]]:
    """The ids of 8 bytes each from `start` to `end` as runs of consecutive ones: first id and count."""
    if start < 0 or end < start or len(ids) < end or (end - start) % 8:
        raise ValueError(f"{start} to {end} is no span of ids in {len(ids)} bytes")
    runs: list[tuple[int, int]] = []
    if start == end:
        return runs
    p: cython.p_const_uchar = _readable(ids)
    first: cython.ulonglong = _u64(p, start)
    count: cython.ulonglong = 1
    position: cython.Py_ssize_t = start + 8
    while position < end:
        id_: cython.ulonglong = _u64(p, position)
        if id_ > first and id_ - first == count:
            count += 1
        else:
            runs.append((first, count))
            first = id_
            count = 1
        position += 8
    runs.append((first, count))
    return runs


def record_spans(records: object, as_data: cython.bint, spans: object) -> int:
    """Write where each of these bytes lies when all stand one behind the other; gives the size of the longest.

    `encoding/_span_kernel.py` draws spans. With `as_data` they are no AMQP messages, and become the data of such.
    """
    fields: cython.longlong[::1] = spans
    room: cython.Py_ssize_t = len(spans)
    position: cython.longlong = 0
    longest: cython.longlong = 0
    at: cython.Py_ssize_t = 0
    for record in records:
        if room - at < 4:
            raise ValueError(f"there is no room for the spans of {len(records)} records")
        size: cython.longlong = len(record)
        fields[at] = fields[at + 1] = -1 if as_data else position
        fields[at + 2] = position
        position += size
        fields[at + 3] = position
        if size > longest:
            longest = size
        at += 4
    return longest


def moved_spans(spans: object, count: cython.Py_ssize_t, base: cython.longlong, moved: object) -> None:
    """Write the first `count` spans as they are when what was at `base` stands at 0; they must be of messages."""
    fields: cython.const[cython.longlong][::1] = spans
    out: cython.longlong[::1] = moved
    if count < 0 or len(spans) < 4 * count or len(moved) < 4 * count:
        raise ValueError(f"there are no {count} spans, or there is no room for them")
    i: cython.Py_ssize_t
    for i in range(4 * count):
        out[i] = fields[i] - base


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
@cython.inline
@cython.exceptval(check=False)
def _put(
    q: cython.p_uchar, position: cython.Py_ssize_t, value: cython.ulonglong, size: cython.Py_ssize_t
) -> cython.void:
    while size > 0:
        size -= 1
        q[position + size] = value & 0xFF
        value >>= 8


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    q: cython.p_uchar, position: cython.Py_ssize_t, data: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.void:
    if cython.compiled:
        memcpy(q + position, data, size)
    else:
        q[position : position + size] = data


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u64(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.ulonglong:
    value: cython.ulonglong = 0
    k: cython.Py_ssize_t
    for k in range(8):
        byte: cython.ulonglong = p[i + k]
        value = (value << 8) | byte
    return value
