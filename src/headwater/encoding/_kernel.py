# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over bytes that a measurement asked for: Publish bodies and chunk data.

One message of a Publish body (RabbitMQ Streams protocol, Publish):

    0  8  publishing id
    8  2  length of the filter value, -1 for none, then the filter value     (version 2 alone)
          an entry

An entry, here and in the data of a chunk:

    one record   4  0-bit and 31-bit length, then the record
    sub-batch    1  1-bit, 3-bit compression, 4 reserved bits
                 2  records     4  unpacked length     4  length, then the packed bytes

The file runs compiled and uncompiled to the same results. No bounds are checked behind a pointer: every read stands
behind a comparison with the end that the caller gave, and that end behind one with the size of its buffer.
"""

from __future__ import annotations

import cython

from headwater.errors import MalformedChunk, MalformedFrame, MalformedSubBatch

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.libc.string import memcpy, memmove

__all__ = [
    "COMPILED",
    "NOTHING_PUBLISHED",
    "SCAN_FIELDS",
    "UNNAMED",
    "entry_spans",
    "filter_values",
    "gather_published",
    "join_published",
    "new_buffer",
    "pass_entries",
    "scan_chunks",
    "walk_entries",
    "walk_records",
]

COMPILED = cython.compiled
UNNAMED = -1
"""As `last_sequence`: the publisher has no name, so nothing is a duplicate."""
NOTHING_PUBLISHED = -2
"""As `last_sequence`: the publisher has a name, but no id of it was taken yet; id 0 counts."""
SCAN_FIELDS = 6
"""What `scan_chunks` writes for a chunk: start, bytes of header and data, bytes in all, type, records, first offset."""

# How one entry fails. All are below zero, as a size never is.
_CUT_OFF = cython.declare(cython.longlong, -1)
_NO_RECORDS = cython.declare(cython.longlong, -2)
_TOO_MANY_RECORDS = cython.declare(cython.longlong, -3)
_TOO_LARGE = cython.declare(cython.longlong, -4)
_UNKNOWN_COMPRESSION = cython.declare(cython.longlong, -5)
_NESTED = cython.declare(cython.longlong, -6)

_REASONS = {
    -1: "an entry reaches beyond the end",
    -2: "it holds no records",
    -3: "its unpacked length is too small for its records",
    -4: "its unpacked length is above 64 MiB",
    -5: "its compression is unknown",
    -6: "it is no single record",
}

# What a chunk of ours can be: far above every setting, far below what a damaged length would make a reader fetch.
_DATA_BYTES_MAX = cython.declare(cython.ulonglong, 1 << 30)
_TRAILER_BYTES_MAX = cython.declare(cython.ulonglong, 1 << 28)
_OFFSET_MAX = cython.declare(cython.ulonglong, (1 << 63) - 1)

# Larger frames are worth a call each, and not worth a copy.
_JOINED_FRAME_BYTES_MAX = cython.declare(cython.ulonglong, 1 << 16)


def new_buffer(size: cython.Py_ssize_t) -> bytearray:
    """A buffer that is to be filled, and holds anything before that: to write zeros first costs as much as a copy."""
    if size < 0:
        raise ValueError(f"{size} bytes are no size")
    if cython.compiled:
        return PyByteArray_FromStringAndSize(cython.NULL, size)
    else:
        return bytearray(size)


def gather_published(
    body: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    filtered: cython.bint,
    last_sequence: object,
    out: object,
    out_start: cython.Py_ssize_t,
    out_end: cython.Py_ssize_t,
    entries_room: cython.Py_ssize_t,
    ids: object,
    ids_start: cython.Py_ssize_t,
) -> tuple[int, int, int, int, int, int]:
    """Copy the entries of up to `count` published messages to `out`, and all their ids to `ids`, until one has no room.

    Gives position, messages taken, entries copied, records copied, position in `out`, and the last sequence. An entry
    of a named publisher whose id is not above the last sequence is passed over; its id is in `ids` all the same. What
    does not parse raises if it is the first; else those before it are taken.
    """
    _check_span(len(body), start, end)
    _check_span(len(out), out_start, out_end)
    head: cython.Py_ssize_t = 10 if filtered else 8
    if count < 0 or count > (end - start) // (head + 4):
        raise MalformedFrame(f"{count} messages cannot stand in {end - start} bytes")
    _check_span(len(ids), ids_start, ids_start + 8 * count)

    p: cython.p_const_uchar = _readable(body)
    q: cython.p_uchar = _writable(out)
    r: cython.p_uchar = _writable(ids)
    named: cython.bint = last_sequence != -1
    seen: cython.bint = last_sequence >= 0
    last: cython.ulonglong = last_sequence if seen else 0

    position: cython.Py_ssize_t = start
    out_position: cython.Py_ssize_t = out_start
    taken: cython.Py_ssize_t = 0
    entries: cython.Py_ssize_t = 0
    records: cython.Py_ssize_t = 0
    while taken < count:
        entry: cython.Py_ssize_t = position + 8
        if filtered:
            entry = _after_filter_value(p, entry, end)
            if entry < 0:
                raise MalformedFrame(f"the filter value at byte {position + 8} reaches beyond the end")
        size: cython.longlong = _entry_size(p, entry, end)
        if size < 0:
            if taken:
                break
            _refuse_message(p, position, entry, end, size)
        publishing_id: cython.ulonglong = _u64(p, position)
        if not (seen and publishing_id <= last):
            if out_end - out_position < size or entries >= entries_room:
                break
            _copy(q, out_position, p, entry, size)
            out_position += size
            entries += 1
            records += _entry_records(p, entry)
            if named:
                seen = True
                last = publishing_id
        _copy(r, ids_start + 8 * taken, p, position, 8)
        taken += 1
        position = entry + size
    return position, taken, entries, records, out_position, last if seen else last_sequence


def join_published(
    buffer: bytearray,
    start: cython.Py_ssize_t,
    first_end: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    publisher_id: cython.Py_ssize_t,
) -> tuple[int, int, int]:
    """Move the messages of small Publish frames of version 1 that follow up behind those at `start` to `first_end`.

    Gives the number of messages, where they end now, and where the last of the frames ended. Taken are whole frames of
    the same publisher, as long as the messages of each fill it exactly; `count` is the number in the first.
    """
    _check_span(len(buffer), start, first_end)
    _check_span(len(buffer), first_end, end)
    p: cython.p_const_uchar = _readable(buffer)
    q: cython.p_uchar = _writable(buffer)
    position: cython.Py_ssize_t = first_end
    joined_end: cython.Py_ssize_t = first_end
    if not _messages_fill(p, start, first_end, count):
        return count, first_end, first_end
    while end - position >= 13:
        size: cython.ulonglong = _u32(p, position)
        if size < 9 or size > _JOINED_FRAME_BYTES_MAX:
            break
        frame_end: cython.Py_ssize_t = position + 4 + size
        if frame_end > end or _u32(p, position + 4) != 0x20001 or p[position + 8] != publisher_id:
            break
        more: cython.Py_ssize_t = _u32(p, position + 9)
        if not _messages_fill(p, position + 13, frame_end, more):
            break
        _move(q, joined_end, position + 13, frame_end - position - 13)
        joined_end += frame_end - position - 13
        count += more
        position = frame_end
    return count, joined_end, position


def filter_values(
    body: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> list[bytes | None]:
    """The distinct filter values of `count` messages of a Publish body of version 2, None for those without one."""
    _check_span(len(body), start, end)
    if count < 0 or count > (end - start) // 14:
        raise MalformedFrame(f"{count} messages cannot stand in {end - start} bytes")
    p: cython.p_const_uchar = _readable(body)
    found: dict = {}
    position: cython.Py_ssize_t = start
    for _ in range(count):
        entry: cython.Py_ssize_t = _after_filter_value(p, position + 8, end)
        if entry < 0:
            raise MalformedFrame(f"the filter value at byte {position + 8} reaches beyond the end")
        absent: cython.bint = _u16(p, position + 8) == 0xFFFF
        found[None if absent else bytes(p[position + 10 : entry])] = None
        size: cython.longlong = _entry_size(p, entry, end)
        if size < 0:
            _refuse_message(p, position, entry, end, size)
        position = entry + size
    return list(found)


def walk_entries(
    data: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> tuple[int, int]:
    """Check `count` entries of chunk data; gives the position behind them and the number of their records."""
    _check_span(len(data), start, end)
    p: cython.p_const_uchar = _readable(data)
    position: cython.Py_ssize_t = start
    records: cython.Py_ssize_t = 0
    walked: cython.Py_ssize_t = 0
    while walked < count:
        size: cython.longlong = _entry_size(p, position, end)
        if size < 0:
            raise MalformedChunk(position, f"entry {walked}: {_REASONS[size]}")
        records += _entry_records(p, position)
        position += size
        walked += 1
    return position, records


def walk_records(
    data: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> int:
    """Check `count` entries of chunk data that must be single records; gives the position behind them."""
    _check_span(len(data), start, end)
    p: cython.p_const_uchar = _readable(data)
    position: cython.Py_ssize_t = start
    walked: cython.Py_ssize_t = 0
    while walked < count:
        size: cython.longlong = _entry_size(p, position, end)
        if size >= 0 and p[position] >= 0x80:
            size = _NESTED
        if size < 0:
            raise MalformedChunk(position, f"entry {walked}: {_REASONS[size]}")
        position += size
        walked += 1
    return position


def pass_entries(
    data: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    records_max: cython.longlong,
) -> tuple[int, int, int]:
    """Pass over those of `count` entries of chunk data that stand before the record behind `records_max` others.

    Gives the position of the entry that holds this record, and the numbers of entries and of records before it.
    """
    _check_span(len(data), start, end)
    p: cython.p_const_uchar = _readable(data)
    position: cython.Py_ssize_t = start
    records: cython.longlong = 0
    passed: cython.Py_ssize_t = 0
    while passed < count and records < records_max:
        size: cython.longlong = _entry_size(p, position, end)
        if size < 0:
            raise MalformedChunk(position, f"entry {passed}: {_REASONS[size]}")
        if _entry_records(p, position) > records_max - records:
            break
        records += _entry_records(p, position)
        position += size
        passed += 1
    return position, passed, records


def entry_spans(
    data: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> list[tuple[int, int, int, int]]:
    """Where the bytes of `count` entries lie: position, length, records, compression (-1: one record, no sub-batch).

    The unpacked length of a sub-batch is the 32 bits that stand 8 bytes before its position.
    """
    _check_span(len(data), start, end)
    p: cython.p_const_uchar = _readable(data)
    spans: list[tuple[int, int, int, int]] = []
    position: cython.Py_ssize_t = start
    walked: cython.Py_ssize_t = 0
    while walked < count:
        size: cython.longlong = _entry_size(p, position, end)
        if size < 0:
            raise MalformedChunk(position, f"entry {walked}: {_REASONS[size]}")
        first: cython.Py_ssize_t = p[position]
        if first < 0x80:
            spans.append((position + 4, size - 4, 1, -1))
        else:
            spans.append((position + 11, size - 11, _entry_records(p, position), (first >> 4) & 7))
        position += size
        walked += 1
    return spans


def scan_chunks(
    buffer: object,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    expected_offset: cython.longlong,
    positions: object,
) -> tuple[int, int, int, bool]:
    """Find the whole chunks that follow one another from `start`, and write `SCAN_FIELDS` integers for each.

    Gives the number of chunks, the bytes they take, the offset expected next, and whether damage ended the walk. An
    incomplete chunk, or `positions` being full, ends it without damage. CRCs are the caller's to check.
    """
    _check_span(len(buffer), start, end)
    p: cython.p_const_uchar = _readable(buffer)
    fields: cython.longlong[::1] = positions
    room: cython.Py_ssize_t = len(positions) // 6
    position: cython.Py_ssize_t = start
    found: cython.Py_ssize_t = 0
    expected: cython.ulonglong = expected_offset
    damaged: cython.bint = False
    while found < room and end - position >= 48:
        if not _header_holds(p, position) or _u64(p, position + 24) != expected:
            damaged = True
            break
        deliver_bytes: cython.Py_ssize_t = 48 + _u32(p, position + 36)
        total_bytes: cython.Py_ssize_t = deliver_bytes + _u32(p, position + 40)
        if end - position < total_bytes:
            break
        records: cython.Py_ssize_t = _u32(p, position + 4)
        at: cython.Py_ssize_t = 6 * found
        fields[at] = position
        fields[at + 1] = deliver_bytes
        fields[at + 2] = total_bytes
        fields[at + 3] = p[position + 1]
        fields[at + 4] = records
        fields[at + 5] = expected
        expected += records
        position += total_bytes
        found += 1
    return found, position - start, expected, damaged


# Pointers. A pointer stays good while the caller's argument lives and the GIL is held: leaf functions do both.


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
def _copy(
    out: cython.p_uchar,
    out_position: cython.Py_ssize_t,
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(out + out_position, p + position, size)
    else:
        out[out_position : out_position + size] = p[position : position + size]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _move(
    buffer: cython.p_uchar, to: cython.Py_ssize_t, position: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.void:
    if cython.compiled:
        memmove(buffer + to, buffer + position, size)
    else:
        buffer[to : to + size] = buffer[position : position + size]


@cython.cfunc
@cython.exceptval(check=False)
def _messages_fill(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> cython.bint:
    """Whether `count` published messages without filter values end just at `end`."""
    while count > 0 and end - position >= 12:
        size: cython.longlong = _entry_size(p, position + 8, end)
        if size < 0:
            return False
        position += 8 + size
        count -= 1
    return count == 0 and position == end


# Reads. Each byte goes into a wide local first: shifted as it is, it would be a C int. The pointer moves first, as gcc
# turns the bytes into one load only if they stand at constant distances from it.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _at(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.p_const_uchar:
    if cython.compiled:
        return p + i
    else:
        return p[i : i + 8]


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
def _u32(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.ulonglong:
    p = _at(p, i)
    a: cython.ulonglong = p[0]
    b: cython.ulonglong = p[1]
    c: cython.ulonglong = p[2]
    d: cython.ulonglong = p[3]
    return (a << 24) | (b << 16) | (c << 8) | d


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u64(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.ulonglong:
    return (_u32(p, i) << 32) | _u32(p, i + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _entry_size(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """Bytes of the entry at the position, or one of the codes below zero."""
    left: cython.longlong = end - position
    if left < 4:
        return _CUT_OFF
    size: cython.longlong = _u32(p, position)
    if size >> 31:
        return _sub_batch_size(p, position, end)
    if left - 4 < size:
        return _CUT_OFF
    return size + 4


@cython.cfunc
@cython.exceptval(check=False)
def _sub_batch_size(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    left: cython.longlong = end - position
    if left < 11:
        return _CUT_OFF
    first: cython.Py_ssize_t = p[position]
    records: cython.longlong = _u16(p, position + 1)
    unpacked: cython.longlong = _u32(p, position + 3)
    size: cython.longlong = _u32(p, position + 7)
    if (first >> 4) & 7 > 4:
        return _UNKNOWN_COMPRESSION
    if records == 0:
        return _NO_RECORDS
    # Every record in it has a length of four bytes before it.
    if 4 * records > unpacked:
        return _TOO_MANY_RECORDS
    if unpacked > 0x4000000:
        return _TOO_LARGE
    if left - 11 < size:
        return _CUT_OFF
    return size + 11


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _entry_records(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return 1 if p[position] < 0x80 else _u16(p, position + 1)


@cython.cfunc
@cython.exceptval(check=False)
def _after_filter_value(
    p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Position behind the filter value at `position`, below zero if it does not hold."""
    if end - position < 2:
        return -1
    size: cython.Py_ssize_t = _u16(p, position)
    if size == 0xFFFF:
        return position + 2
    if size > 0x7FFF or end - position - 2 < size:
        return -1
    return position + 2 + size


@cython.cfunc
def _refuse_message(
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    entry: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    code: cython.longlong,
) -> cython.bint:
    if code != _CUT_OFF and p[entry] >= 0x80:
        raise MalformedSubBatch(_u64(p, position), _REASONS[code])
    raise MalformedFrame(f"message at byte {position}: {_REASONS[code]}")


@cython.cfunc
@cython.exceptval(check=False)
def _header_holds(p: cython.p_const_uchar, position: cython.Py_ssize_t) -> cython.bint:
    """Whether 48 bytes can be the header of a chunk; the same rules as `chunk.read_header`."""
    kind: cython.Py_ssize_t = p[position + 1]
    entries: cython.ulonglong = _u16(p, position + 2)
    records: cython.ulonglong = _u32(p, position + 4)
    data_bytes: cython.ulonglong = _u32(p, position + 36)
    trailer_bytes: cython.ulonglong = _u32(p, position + 40)
    bloom_bytes: cython.ulonglong = p[position + 44]
    if p[position] != 0x50 or kind > 2 or _u32(p, position + 44) & 0xFFFFFF:
        return False
    if data_bytes > _DATA_BYTES_MAX or trailer_bytes > _TRAILER_BYTES_MAX or trailer_bytes < 28 + bloom_bytes:
        return False
    if 0 < bloom_bytes < 16 or _u64(p, position + 24) > _OFFSET_MAX - records:
        return False
    if kind == 0:
        return entries > 0 and records >= entries and data_bytes >= 4 * entries
    if entries > 0 or records > 0:
        return False
    return data_bytes == 0 if kind == 1 else data_bytes >= 8
