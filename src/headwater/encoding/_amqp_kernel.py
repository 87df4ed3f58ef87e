# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""AMQP 1.0 sections 2.3, 2.7.5, 2.7.6 and 3.2, as far as all messages pass: runs of transfers and of dispositions read.

A frame, and the transfer in it:

    0  4  size              then, 4 * doff behind the start, 00, a descriptor and a list:
    4  1  doff, 2 or more
    5  1  type, 0              0 handle, uint             6 rcv-settle-mode, ubyte
    6  2  channel              1 delivery-id, uint        7 state
                               2 delivery-tag, binary     8 resume, boolean
    descriptor:                3 message-format, uint     9 aborted, boolean
     53  code                  4 settled, boolean        10 batchable, boolean
     80  code, 8               5 more, boolean
     a3  length 1, name                                   then the payload: the sections of a message

A disposition fills its frame: role, first, last, settled, state, batchable.

What is read is the common case alone. A frame that is anything else ends a run without an error, and is left to the
general decoder, which knows what is wrong with it, if anything is. A section is 00, a descriptor and a value. Of the
sections of a message only the delivery annotations (section 3.2.2) matter here, which are not stored: they come first,
or behind a header. What does not parse has none. `_span_kernel.py` draws how the messages that were found are told.

The file runs compiled and uncompiled to the same results. No bounds are checked behind a pointer: every read stands
behind a comparison with the end that the caller gave, and that end behind one with the size of its buffer.
"""

from __future__ import annotations

import cython

from headwater.errors import MalformedChunk

__all__ = [
    "COMPILED",
    "join_dispositions",
    "peek_transfer",
    "scan_transfers",
    "skim_entries",
    "skim_message",
]

COMPILED = cython.compiled

_CODES = {
    b"amqp:transfer:list": 0x14,
    b"amqp:disposition:list": 0x15,
    b"amqp:accepted:list": 0x24,
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

# Written out in an expression, the larger ones would be Python objects.
_SERIAL_MASK = cython.declare(cython.longlong, (1 << 32) - 1)
_SERIAL_HALF = cython.declare(cython.longlong, 1 << 31)


def peek_transfer(
    buffer: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t, frame_size_max: cython.longlong
) -> tuple[int, int, int, bool] | None:
    """Channel, handle, delivery-id and settled of the frame at `start`, if that is a transfer for `scan_transfers`."""
    _check_span(len(buffer), start, end)
    p: cython.p_const_uchar = _readable(buffer)
    frame_end: cython.Py_ssize_t = _frame_end(p, start, end, frame_size_max)
    if frame_end < 0:
        return None
    at: cython.Py_ssize_t = _list_at(p, start, frame_end, 0x14)
    if at < 0:
        return None
    position: cython.Py_ssize_t = _first_field(p, at)
    handle: cython.longlong = _uint(p, position, frame_end)
    if handle < 0:
        return None
    delivery_id: cython.longlong = _uint(p, position + _uint_bytes(p, position), frame_end)
    if delivery_id < 0:
        return None
    for settled in (False, True):
        if _payload_start(p, start, frame_end, handle, delivery_id, settled) >= 0:
            return _u16(p, start + 6), handle, delivery_id, settled
    return None


def scan_transfers(
    buffer: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    frame_size_max: cython.longlong,
    channel: cython.longlong,
    handle: cython.longlong,
    delivery_id: cython.longlong,
    settled: cython.bint,
    message_size_max: cython.longlong,
    spans: object,
) -> tuple[int, int, int]:
    """Find the whole transfers of one link that follow one another from `start` on, and write their spans.

    Gives the number of messages, the position behind their frames, and how many have delivery annotations. Each is a
    delivery of one frame, its id one above that before it, with the same `settled`. A `message_size_max` of 0 is none.
    A transfer of another link, an incomplete frame, or `spans` being full ends the run, as all does that is uncommon.
    """
    _check_span(len(buffer), start, end)
    p: cython.p_const_uchar = _readable(buffer)
    fields: cython.longlong[::1] = spans
    room: cython.Py_ssize_t = len(spans) // 4
    position: cython.Py_ssize_t = start
    found: cython.Py_ssize_t = 0
    annotated: cython.Py_ssize_t = 0
    while found < room:
        frame_end: cython.Py_ssize_t = _frame_end(p, position, end, frame_size_max)
        if frame_end < 0 or _u16(p, position + 6) != channel:
            break
        payload: cython.Py_ssize_t = _payload_start(p, position, frame_end, handle, delivery_id, settled)
        if payload < 0 or 0 < message_size_max < frame_end - payload:
            break
        head_end: cython.Py_ssize_t = _after_header(p, payload, frame_end)
        rest: cython.Py_ssize_t = _after_annotations(p, head_end, frame_end)
        if rest == head_end:
            head_end = rest = payload
        else:
            annotated += 1
        at: cython.Py_ssize_t = 4 * found
        fields[at] = payload
        fields[at + 1] = head_end
        fields[at + 2] = rest
        fields[at + 3] = frame_end
        position = frame_end
        found += 1
        delivery_id = (delivery_id + 1) & _SERIAL_MASK
    return found, position, annotated


def skim_message(buffer: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> tuple[bool, int, int]:
    """Whether this is a message: known sections fill it; and where its delivery annotations begin and end.

    Without any, that is where they would stand: behind the header if there is one.
    """
    _check_span(len(buffer), start, end)
    p: cython.p_const_uchar = _readable(buffer)
    head_end: cython.Py_ssize_t = _after_header(p, start, end)
    return _is_message(p, start, end), head_end, _after_annotations(p, head_end, end)


def skim_entries(
    data: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    spans: object,
) -> tuple[int, int]:
    """Write the spans of up to `count` entries of chunk data, as far as `spans` has room and no sub-batch comes.

    Gives the number of entries and the position behind them.
    """
    _check_span(len(data), start, end)
    p: cython.p_const_uchar = _readable(data)
    fields: cython.longlong[::1] = spans
    room: cython.Py_ssize_t = len(spans) // 4
    position: cython.Py_ssize_t = start
    found: cython.Py_ssize_t = 0
    while found < count and found < room and not (position < end and p[position] >= 0x80):
        size: cython.Py_ssize_t = _u32(p, position) if end - position >= 4 else 0
        record: cython.Py_ssize_t = position + 4
        if end - record < size:
            raise MalformedChunk(position, f"entry {found}: an entry reaches beyond the end")
        position = record + size
        at: cython.Py_ssize_t = 4 * found
        fields[at] = fields[at + 1] = -1
        fields[at + 2] = record
        fields[at + 3] = position
        if _is_message(p, record, position):
            head_end: cython.Py_ssize_t = _after_header(p, record, position)
            fields[at] = record
            fields[at + 1] = head_end
            fields[at + 2] = _after_annotations(p, head_end, position)
        found += 1
    return found, position


def join_dispositions(
    buffer: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t, frame_size_max: cython.longlong
) -> tuple[int, int, int, bool, int, int, bool, bool] | None:
    """Join the dispositions from `start` on that go on where the one before them ends, and say the same.

    Gives the number of frames, the position behind them, channel, role (true: the receiver), first, last, settled, and
    whether the state is accepted; else there is no state. None if the first frame is none such.
    """
    _check_span(len(buffer), start, end)
    p: cython.p_const_uchar = _readable(buffer)
    position: cython.Py_ssize_t = start
    joined: cython.Py_ssize_t = 0
    channel: cython.longlong = 0
    verdict: cython.Py_ssize_t = 0
    first: cython.longlong = 0
    last: cython.longlong = 0
    while True:
        frame_end: cython.Py_ssize_t = _frame_end(p, position, end, frame_size_max)
        if frame_end < 0:
            break
        at: cython.Py_ssize_t = _list_at(p, position, frame_end, 0x15)
        found: cython.Py_ssize_t = -1 if at < 0 else _verdict(p, at, frame_end)
        if found < 0:
            break
        next_first: cython.longlong = _disposition_first(p, at)
        next_last: cython.longlong = _disposition_last(p, at)
        if not joined:
            channel = _u16(p, position + 6)
            verdict = found
            first = next_first
        elif (
            _u16(p, position + 6) != channel
            or found != verdict
            or next_first != (last + 1) & _SERIAL_MASK
            or (next_last - first) & _SERIAL_MASK >= _SERIAL_HALF
        ):
            break
        last = next_last
        position = frame_end
        joined += 1
    if not joined:
        return None
    return joined, position, channel, verdict & 1 > 0, first, last, verdict & 2 > 0, verdict & 4 > 0


# Frames. What gives a position gives -1 where there is none such.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _frame_end(
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    frame_size_max: cython.longlong,
) -> cython.Py_ssize_t:
    """Behind the AMQP frame at the position, if it is whole."""
    if end - position < 8:
        return -1
    size: cython.longlong = _u32(p, position)
    doff: cython.longlong = p[position + 4]
    if size > frame_size_max or size > end - position or doff < 2 or size < 4 * doff or p[position + 5]:
        return -1
    return position + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _list_at(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, frame_end: cython.Py_ssize_t, code: cython.longlong
) -> cython.Py_ssize_t:
    """Where the list of the performative begins that the code names, if it has a field and ends within the frame."""
    body: cython.Py_ssize_t = position + 4 * p[position + 4]
    if _code(p, body, frame_end) != code:
        return -1
    at: cython.Py_ssize_t = _after_descriptor(p, body)
    list_end: cython.Py_ssize_t = _compound_end(p, at, frame_end, 0xC0)
    return at if list_end >= 0 and _first_field(p, at) < list_end else -1


@cython.cfunc
@cython.exceptval(check=False)
def _payload_start(
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    frame_end: cython.Py_ssize_t,
    handle: cython.longlong,
    delivery_id: cython.longlong,
    settled: cython.bint,
) -> cython.Py_ssize_t:
    """Behind the transfer of the frame at the position, if it is the common one with these fields, and not empty."""
    at: cython.Py_ssize_t = _list_at(p, position, frame_end, 0x14)
    if at < 0:
        return -1
    list_end: cython.Py_ssize_t = _compound_end(p, at, frame_end, 0xC0)
    count: cython.Py_ssize_t = _field_count(p, at)
    i: cython.Py_ssize_t = _first_field(p, at)
    if list_end == frame_end or count < 3 or count > 11:
        return -1
    if _uint(p, i, list_end) != handle:
        return -1
    i += _uint_bytes(p, i)
    if _uint(p, i, list_end) != delivery_id:
        return -1
    i += _uint_bytes(p, i)
    if list_end - i < 3 or p[i] != 0xA0 or p[i + 1] < 1 or p[i + 1] > 32 or list_end - i - 2 < p[i + 1]:
        return -1
    i += 2 + p[i + 1]
    if count > 3:
        if p[i] != 0x40 and _uint(p, i, list_end) != 0:
            return -1
        i += _uint_bytes(p, i)
    # All others are of one byte: null, true or false.
    if list_end - i != (count - 4 if count > 4 else 0) or settled != (count > 4 and p[i] == 0x41):
        return -1
    k: cython.Py_ssize_t
    for k in range(4, count):
        if p[i] != 0x40 and (
            p[i] < 0x41 or p[i] > 0x42 or k == 6 or k == 7 or (p[i] == 0x41 and k != 4 and k != 10)
        ):
            return -1
        i += 1
    return list_end


@cython.cfunc
@cython.exceptval(check=False)
def _verdict(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, frame_end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """What a disposition says: 1 for the receiver's role, 2 for settled, 4 for accepted; it must fill its frame."""
    count: cython.Py_ssize_t = _field_count(p, at)
    i: cython.Py_ssize_t = _first_field(p, at)
    if _compound_end(p, at, frame_end, 0xC0) != frame_end or count < 2 or count > 6:
        return -1
    if (p[i] != 0x41 and p[i] != 0x42) or _uint(p, i + 1, frame_end) < 0:
        return -1
    verdict: cython.Py_ssize_t = 1 if p[i] == 0x41 else 0
    i += 1 + _uint_bytes(p, i + 1)
    k: cython.Py_ssize_t
    for k in range(2, count):
        if i >= frame_end:
            return -1
        if p[i] == 0x40:
            i += 1
        elif k == 2 and _uint(p, i, frame_end) >= 0:
            i += _uint_bytes(p, i)
        elif k == 4 and _code(p, i, frame_end) == 0x24:
            verdict |= 4
            i = _compound_end(p, _after_descriptor(p, i), frame_end, 0xC0)
            if i < 0:
                return -1
        elif (k == 3 or k == 5) and (p[i] == 0x41 or p[i] == 0x42):
            if k == 3 and p[i] == 0x41:
                verdict |= 2
            i += 1
        else:
            return -1
    if (
        i != frame_end
        or (_disposition_last(p, at) - _disposition_first(p, at)) & _SERIAL_MASK >= _SERIAL_HALF
    ):
        return -1
    return verdict


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _disposition_first(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    i: cython.Py_ssize_t = _first_field(p, at) + 1
    return _uint(p, i, i + 5)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _disposition_last(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """The same as the first one, if it is null or absent."""
    i: cython.Py_ssize_t = _first_field(p, at) + 1
    i += _uint_bytes(p, i)
    if _field_count(p, at) < 3 or p[i] == 0x40:
        return _disposition_first(p, at)
    return _uint(p, i, i + 5)


# Sections.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_header(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind the header section at the start; the start itself where none is, or a broken one."""
    if _code(p, start, end) != 0x70:
        return start
    behind: cython.Py_ssize_t = _compound_end(p, _after_descriptor(p, start), end, 0xC0)
    return start if behind < 0 else behind


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_annotations(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The same for delivery annotations."""
    if _code(p, start, end) != 0x71:
        return start
    behind: cython.Py_ssize_t = _compound_end(p, _after_descriptor(p, start), end, 0xC1)
    return start if behind < 0 else behind


@cython.cfunc
@cython.exceptval(check=False)
def _is_message(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether known sections fill the span; what is in them is for others to see."""
    is_known: cython.bint = start < end
    while is_known and start < end:
        is_known = 0x70 <= _code(p, start, end) <= 0x78
        if is_known:
            start = _value_end(p, _after_descriptor(p, start), end)
            is_known = start >= 0
    return is_known


# Values (section 1.6).


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _code(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
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
) -> cython.longlong:
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


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _compound_end(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, short: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind the list (C0) or map (C1) at the position, in its short form, its long one, or empty."""
    if at >= end:
        return -1
    behind: cython.Py_ssize_t = _value_end(p, at, end)
    if behind < 0:
        return -1
    if p[at] == short:
        return behind if p[at + 1] else -1
    if p[at] == short + 0x10:
        return behind if behind >= at + 9 else -1
    return behind if p[at] == 0x45 and short == 0xC0 else -1


@cython.cfunc
@cython.exceptval(check=False)
def _value_end(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Behind the value at the position, by the widths of section 1.2.2; -1 if it is not whole."""
    awaited: cython.Py_ssize_t = 1
    while awaited:
        if at >= end:
            return -1
        width: cython.Py_ssize_t = p[at] >> 4
        at += 1
        if width == 0:
            if p[at - 1]:
                return -1
            awaited += 1  # a descriptor, and what it describes
            continue
        if width < 4:
            return -1
        left: cython.longlong = end - at
        size: cython.longlong = 0
        if width < 10:
            size = 0 if width == 4 else 1 << (width - 5)
        elif width & 1 == 0:
            size = 1 + p[at] if left else 1
        else:
            size = 4 + _u32(p, at) if left >= 4 else 4
        if left < size:
            return -1
        at += size
        awaited -= 1
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _field_count(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Of a list that is not the empty one."""
    if p[at] == 0xC0:
        return p[at + 2]
    count: cython.Py_ssize_t = _u32(p, at + 5)
    return count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _first_field(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return at + 3 if p[at] == 0xC0 else at + 9


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint(p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    if position >= end:
        return -1
    if p[position] == 0x43:
        return 0
    if p[position] == 0x52 and end - position >= 2:
        return p[position + 1]
    if p[position] == 0x70 and end - position >= 5:
        return _u32(p, position + 1)
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint_bytes(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return 5 if p[position] == 0x70 else 2 if p[position] == 0x52 else 1


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
def _u16(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    p = _at(p, i)
    a: cython.Py_ssize_t = p[0]
    b: cython.Py_ssize_t = p[1]
    return (a << 8) | b


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
