# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops of `headwater bench` over messages: ids and times into Publish frames, and latencies out of chunks.

A message of the bench, as it stands in a Publish; in a chunk it has no id:

    0  8  publishing id
    8  4  length of what follows
   12  5  00 53 75 a0 and the length of the body, or 8: 00 53 75 b0 and its length (one AMQP 1.0 data section)
       8  marker of this run
       8  time, ns
          filling

A histogram counts microseconds: 128 buckets of 1, then 64 for each power of two, so none is wider than 1/64 of its
values.
The file runs compiled and uncompiled to the same results.
"""

from __future__ import annotations

import cython

from headwater.errors import MalformedFrame

__all__ = ["BUCKETS", "COMPILED", "record", "scan", "stamp"]

COMPILED = cython.compiled
BUCKETS = 2304
"""Of a histogram: up to 2^41 microseconds."""


def stamp(
    frame: bytearray,
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    stride: cython.Py_ssize_t,
    time_at: cython.Py_ssize_t,
    first_id: cython.ulonglong,
    time_ns: cython.ulonglong,
) -> None:
    """Write a rising id, and `time_at` bytes behind it the time, to each of `count` messages of `stride` bytes."""
    if start < 0 or count < 0 or stride < 8 or time_at < 8 or time_at + 8 > stride:
        raise ValueError("no such layout of messages")
    if count > (len(frame) - start) // stride:
        raise ValueError(f"{count} messages of {stride} bytes have no room in {len(frame)} bytes")
    q: cython.p_uchar = frame
    position: cython.Py_ssize_t = start
    id_: cython.ulonglong = first_id
    for _ in range(count):
        _put_u64(q, position, id_)
        _put_u64(q, position + time_at, time_ns)
        position += stride
        id_ += 1


def scan(
    data: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    entries: cython.Py_ssize_t,
    marker: cython.ulonglong,
    now_ns: cython.ulonglong,
    histogram: object,
) -> tuple[int, int]:
    """Count the age of all messages with this marker among the entries of a chunk; gives their number and bytes.

    Sub-batches are passed over. Raises MalformedFrame if the entries do not end where they must.
    """
    if start < 0 or end < start or len(data) < end or len(histogram) < 2304:
        raise ValueError(f"{start} to {end} is no span of {len(data)} bytes, or the histogram is too small")
    p: cython.p_const_uchar = _readable(data)
    buckets: cython.longlong[::1] = histogram
    position: cython.Py_ssize_t = start
    found: cython.Py_ssize_t = 0
    found_bytes: cython.Py_ssize_t = 0
    for _ in range(entries):
        left: cython.Py_ssize_t = end - position
        if left < 4:
            raise MalformedFrame("an entry of a chunk is cut off")
        size: cython.Py_ssize_t = _u32(p, position)
        behind: cython.Py_ssize_t = position + 4
        if size >> 31:
            if left < 11:
                raise MalformedFrame("a sub-batch of a chunk is cut off")
            size = _u32(p, position + 7)
            behind = position + 11
            if size > end - behind:
                raise MalformedFrame("a sub-batch of a chunk is cut off")
        else:
            if size > end - behind:
                raise MalformedFrame("an entry of a chunk is cut off")
            head: cython.Py_ssize_t = _head_bytes(p, behind, size)
            if head > 0 and _u64(p, behind + head) == marker:
                sent_ns: cython.ulonglong = _u64(p, behind + head + 8)
                age_us: cython.ulonglong = (now_ns - sent_ns) // 1000 if now_ns > sent_ns else 0
                buckets[_bucket(age_us)] += 1
                found += 1
                found_bytes += size - head
        position = behind + size
    if position != end:
        raise MalformedFrame(f"a chunk has {end - position} bytes behind its entries")
    return found, found_bytes


def record(histogram: object, microseconds: cython.ulonglong, count: cython.longlong) -> None:
    """Count a value so many times."""
    if len(histogram) < 2304:
        raise ValueError("the histogram is too small")
    buckets: cython.longlong[::1] = histogram
    buckets[_bucket(microseconds)] += count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _head_bytes(p: cython.p_const_uchar, i: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """What stands before the body of a message of the bench; 0 if it is none."""
    if size < 21 or p[i] != 0 or p[i + 1] != 0x53 or p[i + 2] != 0x75:
        return 0
    if p[i + 3] == 0xA0:
        return 5
    return 8 if p[i + 3] == 0xB0 and size >= 24 else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bucket(value: cython.ulonglong) -> cython.Py_ssize_t:
    if value < 128:
        return value
    shift: cython.Py_ssize_t = 0
    while value >= 128:
        value >>= 1
        shift += 1
    if shift > 34:
        return 2303
    return 64 + 64 * shift + (value - 64)


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
def _put_u64(q: cython.p_uchar, position: cython.Py_ssize_t, value: cython.ulonglong) -> cython.void:
    k: cython.Py_ssize_t
    for k in range(8):
        q[position + 7 - k] = value & 0xFF
        value >>= 8


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.ulonglong:
    a: cython.ulonglong = p[i]
    b: cython.ulonglong = p[i + 1]
    c: cython.ulonglong = p[i + 2]
    d: cython.ulonglong = p[i + 3]
    return (a << 24) | (b << 16) | (c << 8) | d


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u64(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.ulonglong:
    return (_u32(p, i) << 32) | _u32(p, i + 4)
