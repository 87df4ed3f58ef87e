# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records in two spans of a buffer, on their way from AMQP transfers into a chunk, or from a chunk into transfers.

`SPAN_FIELDS` integers tell of a record:

    head start    head end    rest start    rest end

It consists of head and rest. What may stand between them are the delivery annotations of a message (AMQP 1.0 section
3.2.2), which are not stored, and go out as our own. As head start and end, -1 says that the record is no AMQP message.

As it is gathered, a record becomes an entry of chunk data: its length in 4 bytes, then head and rest. As it is written,
it becomes an AMQP frame:

     0  4  size                       15  4  handle                 32     message-format to batchable
     4     02 00                      19     70                     38     head, of a message its header
     6  2  channel                    20  4  delivery-id                   delivery annotations
     8     00 53 14 c0 19 0b 70       24     a0 04                         rest, of a record that is no message behind
                                      26  4  delivery-tag, the id          the descriptor and the length of data

The file runs compiled and uncompiled to the same results. Spans are compared with the size of their buffer, and what is
written with the room for it, before a pointer is used.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

__all__ = ["COMPILED", "FRAME_HEAD_BYTES", "SPAN_FIELDS", "gather_spans", "write_transfers"]

COMPILED = cython.compiled
SPAN_FIELDS = 4
"""Integers for each record."""
FRAME_HEAD_BYTES = 38
"""What stands before the message in a frame of ours."""

_FRAME_HEAD = (
    b"....\x02\x00.."
    b"\x00\x53\x14\xc0\x19\x0b"
    b"\x70....\x70....\xa0\x04...."
    b"\x43.\x42"  # message-format 0, settled, more false
    b"\x40\x40\x42\x42\x42"  # no mode, no state; resume, aborted and batchable false
)
_FRAME_HEAD_BYTES = cython.declare(cython.Py_ssize_t, 38)
_SETTLED_AT = cython.declare(cython.Py_ssize_t, 31)
_RECORD_BYTES_MAX = cython.declare(cython.Py_ssize_t, (1 << 31) - 1)
# Written out in an expression, it would be a Python object.
_SERIAL_MASK = cython.declare(cython.Py_ssize_t, (1 << 32) - 1)


def gather_spans(
    buffer: object,
    spans: object,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    entry_bytes_max: cython.Py_ssize_t,
    out: object,
    out_start: cython.Py_ssize_t,
    out_end: cython.Py_ssize_t,
    entries_room: cython.Py_ssize_t,
) -> tuple[int, int]:
    """Copy up to `count` records to `out` as entries, from the `first` one on, until one has no room or is too large.

    Gives the number of records and the position in `out`.
    """
    _check_span(len(out), out_start, out_end)
    _check_span(len(spans) // 4, first, first + count)
    p: cython.p_const_uchar = _readable(buffer)
    q: cython.p_uchar = _writable(out)
    fields: cython.const[cython.longlong][::1] = spans
    buffer_bytes: cython.Py_ssize_t = len(buffer)
    out_position: cython.Py_ssize_t = out_start
    taken: cython.Py_ssize_t = 0
    while taken < count and taken < entries_room:
        at: cython.Py_ssize_t = 4 * (first + taken)
        head: cython.Py_ssize_t = fields[at]
        head_bytes: cython.Py_ssize_t = fields[at + 1] - head
        rest: cython.Py_ssize_t = fields[at + 2]
        rest_bytes: cython.Py_ssize_t = fields[at + 3] - rest
        _check_span(buffer_bytes, head, head + head_bytes)
        _check_span(buffer_bytes, rest, rest + rest_bytes)
        size: cython.Py_ssize_t = head_bytes + rest_bytes
        if size > _RECORD_BYTES_MAX or 4 + size > entry_bytes_max or out_end - out_position < 4 + size:
            break
        _put_u32(q, out_position, size)
        if head_bytes:
            _copy(q, out_position + 4, p, head, head_bytes)
        _copy(q, out_position + 4 + head_bytes, p, rest, rest_bytes)
        out_position += 4 + size
        taken += 1
    return taken, out_position


def write_transfers(
    data: object,
    spans: object,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: object,
    out_start: cython.Py_ssize_t,
    out_end: cython.Py_ssize_t,
    frame_size_max: cython.Py_ssize_t,
    channel: cython.Py_ssize_t,
    handle: cython.Py_ssize_t,
    delivery_id: cython.Py_ssize_t,
    settled: cython.bint,
    annotations: bytes,
) -> tuple[int, int]:
    """Write up to `count` records to `out` as deliveries of one frame each, until one has no room or is too large.

    Gives the number of records and the position in `out`. `delivery_id` and `annotations`, nothing or a section that
    ends with the 16 hexadecimal digits of an offset, are those of the `first` one; id and digits are counted up.
    """
    if 0 < len(annotations) < 16:
        raise ValueError("the annotations do not end with an offset")
    _check_span(len(out), out_start, out_end)
    _check_span(len(spans) // 4, first, first + count)
    p: cython.p_const_uchar = _readable(data)
    q: cython.p_uchar = _writable(out)
    fields: cython.const[cython.longlong][::1] = spans
    data_bytes: cython.Py_ssize_t = len(data)
    prefix: bytearray = bytearray(_FRAME_HEAD + annotations)
    prefix_bytes: cython.Py_ssize_t = len(prefix)
    f: cython.p_uchar = prefix
    _put_u16(f, 6, channel)
    _put_u32(f, 15, handle)
    f[_SETTLED_AT] = 0x41 if settled else 0x42
    o: cython.Py_ssize_t = out_start
    written: cython.Py_ssize_t = 0
    while written < count:
        at: cython.Py_ssize_t = 4 * (first + written)
        head: cython.Py_ssize_t = fields[at]
        head_bytes: cython.Py_ssize_t = fields[at + 1] - head
        rest: cython.Py_ssize_t = fields[at + 2]
        rest_bytes: cython.Py_ssize_t = fields[at + 3] - rest
        data_head_bytes: cython.Py_ssize_t = 0
        _check_span(data_bytes, rest, rest + rest_bytes)
        if head >= 0:
            _check_span(data_bytes, head, head + head_bytes)
        else:
            head_bytes, data_head_bytes = 0, 5 if rest_bytes < 256 else 8
        size: cython.Py_ssize_t = prefix_bytes + head_bytes + data_head_bytes + rest_bytes
        if size > frame_size_max or size > out_end - o:
            break
        if head_bytes:
            _copy(q, o, f, 0, _FRAME_HEAD_BYTES)
            _copy(q, o + _FRAME_HEAD_BYTES, p, head, head_bytes)
            _copy(
                q, o + _FRAME_HEAD_BYTES + head_bytes, f, _FRAME_HEAD_BYTES, prefix_bytes - _FRAME_HEAD_BYTES
            )
        else:
            _copy(q, o, f, 0, prefix_bytes)
        _put_u32(q, o, size)
        _put_u32(q, o + 20, delivery_id)
        _put_u32(q, o + 26, delivery_id)
        if data_head_bytes:
            _put_data_head(q, o + prefix_bytes, rest_bytes)
        _copy(q, o + size - rest_bytes, p, rest, rest_bytes)
        o += size
        _count_up(f, prefix_bytes)
        delivery_id = (delivery_id + 1) & _SERIAL_MASK
        written += 1
    return written, o


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
def _writable(data: object) -> cython.p_uchar:
    if cython.compiled:
        if isinstance(data, bytearray):
            return data
        view: cython.uchar[::1] = data
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
def _put_u16(q: cython.p_uchar, i: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    q[i] = (value >> 8) & 0xFF
    q[i + 1] = value & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_u32(q: cython.p_uchar, i: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.void:
    q[i] = (value >> 24) & 0xFF
    q[i + 1] = (value >> 16) & 0xFF
    q[i + 2] = (value >> 8) & 0xFF
    q[i + 3] = value & 0xFF


@cython.cfunc
@cython.exceptval(check=False)
def _put_data_head(q: cython.p_uchar, i: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.void:
    """Descriptor, format code and length of a data section."""
    if size < 256:
        _put_u32(q, i, 0x005375A0)
        q[i + 4] = size
    else:
        _put_u32(q, i, 0x005375B0)
        _put_u32(q, i + 4, size)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _count_up(f: cython.p_uchar, end: cython.Py_ssize_t) -> cython.void:
    """Add one to the 16 hexadecimal digits that end there, behind the head of a frame, if there are any."""
    if end < _FRAME_HEAD_BYTES + 16:
        return
    i: cython.Py_ssize_t = end - 1
    while f[i] == 0x66 and i > end - 16:
        f[i] = 0x30
        i -= 1
    f[i] = 0x61 if f[i] == 0x39 else (f[i] + 1) & 0xFF


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
