# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""CloudEvents in stored messages: where their attributes stand, and whether they are what CloudEvents 1.0 demands.

In binary mode (AMQP binding, section 3.1) an attribute is an application property whose name has a prefix, and
datacontenttype is the content-type. Values are made of nothing but what is asked for. `ATTRIBUTE_FIELDS` integers tell
of a message; a position that is not there is -1:

     0  BINARY, STRUCTURED, or one of FAULTS below 0       6  content-type
     1  where the name of what is wrong begins             7  the body
     2  where it ends; of what is MISSING, its slot        8  specversion   9  id       10  source   11  type
     3  the separator behind `cloudEvents`, 0 for none    12  subject      13  time     14  dataschema
     4  where the pairs of application properties begin   15  one bit for each of the names of extensions
     5  where they end

The file runs compiled and uncompiled to the same results. Spans are compared with the size of their buffer before a
pointer is used, and every read stands behind a comparison with the end.
"""

from __future__ import annotations

from array import array

import cython

from headwater.encoding._cloudevents_text_kernel import timestamp_text

if cython.compiled:
    from cython.cimports.headwater.encoding._amqp_walk_kernel import (
        after_descriptor,
        compound_end,
        integer,
        is_integer,
        list_item,
        section_code,
        skip,
        text_start,
    )
    from cython.cimports.headwater.encoding._cloudevents_text_kernel import (
        allowed,
        kind_of,
        names_cloudevents,
        slot_of,
    )
    from cython.cimports.libc.string import memcmp
else:
    from headwater.encoding._amqp_walk_kernel import (
        after_descriptor,
        compound_end,
        integer,
        is_integer,
        list_item,
        section_code,
        skip,
        text_start,
    )
    from headwater.encoding._cloudevents_text_kernel import allowed, kind_of, names_cloudevents, slot_of

__all__ = [
    "ATTRIBUTES_MAX",
    "ATTRIBUTE_FIELDS",
    "BINARY",
    "BODY",
    "COMPILED",
    "FAULTS",
    "SLOTS",
    "STRUCTURED",
    "MessageAttributes",
    "find_attributes",
]

COMPILED = cython.compiled
ATTRIBUTE_FIELDS = 16
ATTRIBUTES_MAX = 128
"""Of one event, so that looking for what is there twice has a bound."""
BINARY = 0
STRUCTURED = 1
BODY = 7
"""The field of where the body begins."""
SLOTS = {
    "specversion": 8,
    "id": 9,
    "source": 10,
    "type": 11,
    "subject": 12,
    "time": 13,
    "dataschema": 14,
    "datacontenttype": 6,
}
"""The field of each attribute that CloudEvents defines."""
FAULTS = ("malformed", "missing", "mixed", "name", "type", "value", "twice", "too many", "body")
"""Why a message is no CloudEvent, from -1 on down."""

# Written out in an expression, the larger ones would be Python objects.
_SIGN = cython.declare(cython.longlong, 1 << 31)
_YEAR_0_MS = cython.declare(cython.longlong, -62_167_219_200_000)
_YEAR_10000_MS = cython.declare(cython.longlong, 253_402_300_800_000)
_ATTRIBUTES_MAX = cython.declare(cython.Py_ssize_t, ATTRIBUTES_MAX)
_FIELDS = cython.declare(cython.Py_ssize_t, ATTRIBUTE_FIELDS)
_UNEXAMINED = cython.declare(cython.Py_ssize_t, 2)


@cython.cclass
class MessageAttributes:
    """The attributes of one message after the other, each decoded when it is asked for."""

    _buffer: object
    _bytes: cython.const[cython.uchar][::1]
    _fields: cython.longlong[::1]
    _start: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    _status: cython.Py_ssize_t
    _parsed: object

    def __init__(self, buffer: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        self._fields = array("q", bytes(8 * ATTRIBUTE_FIELDS))
        self.open(buffer, start, end)

    def open(self, buffer: object, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Go to a message of another buffer."""
        self._buffer = self._bytes = buffer
        self.move(start, end)

    def move(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Go to another message of the same buffer."""
        _check_span(len(self._bytes), start, end)
        self._start, self._end, self._status = start, end, _UNEXAMINED
        self._parsed = None

    @property
    def status(self) -> int:
        """BINARY, STRUCTURED, or below 0 what is one of FAULTS."""
        return self._examined()

    def get(self, name: str, /) -> object:
        """The value of an attribute; None if it is not there, or the message is no CloudEvent."""
        status: cython.Py_ssize_t = self._examined()
        if status:
            return self._structured(name) if status == 1 else None
        field: cython.Py_ssize_t = SLOTS.get(name, -1)
        at: cython.Py_ssize_t = (
            self._fields[field] if field >= 0 else self._extension(name.encode("utf-8", "replace"))
        )
        return None if at < 0 else _value(_first(self._bytes), at, self._end, field == 13)

    def parse(self) -> object:
        """What has the attributes of a message in structured mode, for those who know its formats."""
        return {}

    def items(self) -> list[tuple[str, int, object]]:
        """Name, format code and value of all attributes in binary mode but datacontenttype."""
        found: list[tuple[str, int, object]] = []
        if self._examined():
            return found
        p: cython.p_const_uchar = _first(self._bytes)
        position: cython.Py_ssize_t = self._fields[4]
        stop: cython.Py_ssize_t = self._fields[5]
        while position < stop:
            name: cython.Py_ssize_t = text_start(p, position)
            value: cython.Py_ssize_t = _behind(p, position, stop)
            position = -1 if value < 0 else _behind(p, value, stop)
            if position < 0:  # the buffer is no longer what it was
                return found
            if _is_prefixed(p, name, value) and p[value] != 0x40:
                text: object = _text(p, name + 12, value)
                if text != "datacontenttype":
                    found.append((text, p[value], _value(p, value, stop, text == "time")))
        return found

    @property
    def content_type(self) -> object:
        """The content-type of the message, None if it has none."""
        self._examined()
        at: cython.Py_ssize_t = self._fields[6]
        return None if at < 0 else _value(_first(self._bytes), at, self._end, False)

    @property
    def span(self) -> object:
        """Buffer, start and end of the message."""
        return self._buffer, self._start, self._end

    def field(self, number: cython.Py_ssize_t) -> int:
        """What was found, by its number."""
        if number < 0 or number >= _FIELDS:
            raise ValueError(f"there is no field {number}")
        self._examined()
        return self._fields[number]

    @cython.cfunc
    @cython.inline
    def _examined(self) -> cython.Py_ssize_t:
        if self._status == _UNEXAMINED:
            self._status = _examine(
                _first(self._bytes), self._start, self._end, _integers(self._fields), 0, False
            )
        return self._status

    def _structured(self, name: str) -> object:
        if self._parsed is None:
            self._parsed = self.parse()
        return self._parsed.get(name)

    @cython.cfunc
    def _extension(self, name: bytes) -> cython.Py_ssize_t:
        key: cython.p_const_uchar = name
        size: cython.Py_ssize_t = len(name)
        if size == 0 or not (self._fields[15] >> _bit(key, 0, size)) & 1:
            return -1
        p: cython.p_const_uchar = _first(self._bytes)
        return _named(p, self._fields[4], self._fields[5], key, 0, size)


def find_attributes(
    buffer: object,
    spans: object,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    found: object,
    is_strict: cython.bint,
) -> int:
    """Write the fields of `count` messages, from the `first` one on; gives how many are not BINARY.

    Spans are as in `_span_kernel`. Strict is to look at texts, content-type and body, too.
    """
    _check_span(len(spans) // 4, first, first + count)
    _check_span(len(found) // ATTRIBUTE_FIELDS, 0, count)
    buffer_bytes: cython.Py_ssize_t = len(buffer)
    p: cython.p_const_uchar = _readable(buffer)
    ends: cython.const[cython.longlong][::1] = spans
    view: cython.longlong[::1] = found
    fields: cython.p_longlong = _integers(view)
    others: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(count):  # what stands in front of the rest says nothing of attributes
        start: cython.Py_ssize_t = ends[4 * (first + i) + 2]
        end: cython.Py_ssize_t = ends[4 * (first + i) + 3]
        _check_span(buffer_bytes, start, end)
        if _examine(p, start, end, fields, _FIELDS * i, is_strict):
            others += 1
    return others


# One message.


@cython.cfunc
def _examine(
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    fields: cython.p_longlong,
    row: cython.Py_ssize_t,
    is_strict: cython.bint,
) -> cython.Py_ssize_t:
    """Write the fields of a message into a row; gives the first of them."""
    k: cython.Py_ssize_t
    for k in range(_FIELDS):
        fields[row + k] = -1
    fields[row + 3] = fields[row + 4] = fields[row + 5] = fields[row + 15] = 0
    status: cython.Py_ssize_t = _sections(p, start, end, fields, row)
    if status == 0:
        status = _properties(p, fields, row, is_strict)
    if status == 0:
        for k in range(8, 12):
            if fields[row + k] < 0:
                fields[row + 2] = k
                status = -2
                break
    if status == 0 and is_strict:
        status = _outside(p, end, fields, row)
    fields[row] = status
    return status


@cython.cfunc
@cython.exceptval(check=False)
def _sections(
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    fields: cython.p_longlong,
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Find content-type, application properties and body."""
    position: cython.Py_ssize_t = start
    last: cython.Py_ssize_t = 0
    while position < end:
        code: cython.Py_ssize_t = section_code(p, position, end)
        if code <= last or code > 0x78 or code < 0x70:
            return -1
        if code >= 0x75:
            fields[row + 7] = position
            break
        at: cython.Py_ssize_t = after_descriptor(p, position)
        position = _behind(p, at, end)
        if position < 0:
            return -1
        if code == 0x73:
            at = list_item(p, at, end, 6)
            if at >= 0 and p[at] != 0x40:
                if text_start(p, at) < 0:
                    fields[row + 2] = 6
                    return -5
                fields[row + 6] = at
        elif code == 0x74:
            if compound_end(p, at, end, 0xC1) != position:
                return -1
            fields[row + 4] = at + (3 if p[at] == 0xC1 else 9)
            fields[row + 5] = position
        last = code
    at = fields[row + 6]
    return 1 if at >= 0 and names_cloudevents(p, text_start(p, at), _behind(p, at, end)) else 0


@cython.cfunc
@cython.exceptval(check=False)
def _properties(
    p: cython.p_const_uchar, fields: cython.p_longlong, row: cython.Py_ssize_t, is_strict: cython.bint
) -> cython.Py_ssize_t:
    """Find the attributes among the application properties."""
    position: cython.Py_ssize_t = fields[row + 4]
    stop: cython.Py_ssize_t = fields[row + 5]
    count: cython.Py_ssize_t = 0
    while position < stop:
        key: cython.Py_ssize_t = position
        name: cython.Py_ssize_t = text_start(p, key)
        value: cython.Py_ssize_t = _behind(p, key, stop)
        behind: cython.Py_ssize_t = -1 if value < 0 else _behind(p, value, stop)
        if behind < 0:
            return -1
        position = behind
        if not _is_prefixed(p, name, value):
            continue
        if fields[row + 3] == 0:
            fields[row + 3] = p[name + 11]
        elif fields[row + 3] != p[name + 11]:
            return -3
        if p[value] == 0x40:
            continue
        count += 1
        if count > _ATTRIBUTES_MAX:
            return -8
        fields[row + 1] = name + 12
        fields[row + 2] = value
        fault: cython.Py_ssize_t = _attribute(p, key, value, behind, fields, row, is_strict)
        if fault:
            return fault
    fields[row + 1] = fields[row + 2] = -1
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _attribute(
    p: cython.p_const_uchar,
    key: cython.Py_ssize_t,
    value: cython.Py_ssize_t,
    behind: cython.Py_ssize_t,
    fields: cython.p_longlong,
    row: cython.Py_ssize_t,
    is_strict: cython.bint,
) -> cython.Py_ssize_t:
    """Note where a value stands; gives what is wrong with it, or 0."""
    name: cython.Py_ssize_t = text_start(p, key) + 12
    slot: cython.Py_ssize_t = slot_of(p, name, value - name)
    if slot == 6:  # the content-type counts
        return 0
    if slot < 0:
        if not allowed(5, p, name, value):
            return -4
        bit: cython.longlong = _bit(p, name, value - name)
        if (fields[row + 15] >> bit) & 1 and _named(p, fields[row + 4], key, p, name, value - name) >= 0:
            return -7
        fields[row + 15] |= cython.cast(cython.longlong, 1) << bit
    elif fields[row + slot] >= 0:
        return -7
    else:
        fields[row + slot] = value
    text: cython.Py_ssize_t = text_start(p, value)
    if text < 0:
        return _native(p, value, slot)
    if slot >= 0 and text == behind:
        return -6
    if slot == 8:
        return 0 if behind - text == 3 and p[text] == 49 and p[text + 1] == 46 and p[text + 2] == 48 else -6
    if is_strict and not allowed(kind_of(slot), p, text, behind):
        return -6
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _native(p: cython.p_const_uchar, value: cython.Py_ssize_t, slot: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """What is wrong with a value that is no text, or 0."""
    code: cython.Py_ssize_t = p[value]
    # A long as time is what the SDK for Python sends.
    if (code == 0x83 and slot < 0) or (slot == 13 and (code == 0x83 or code == 0x81 or code == 0x55)):
        return 0 if _YEAR_0_MS <= integer(p, value) < _YEAR_10000_MS else -6
    if slot >= 0:
        return -5
    if code == 0x41 or code == 0x42 or code == 0xA0 or code == 0xB0:
        return 0
    if code == 0x56:
        return 0 if p[value + 1] <= 1 else -6
    if not is_integer(code):
        return -5
    if code == 0x80 and p[value + 1] >= 0x80:
        return -6
    return 0 if -_SIGN <= integer(p, value) < _SIGN else -6


@cython.cfunc
@cython.exceptval(check=False)
def _outside(
    p: cython.p_const_uchar, end: cython.Py_ssize_t, fields: cython.p_longlong, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """What is wrong with content-type and body, or 0."""
    at: cython.Py_ssize_t = fields[row + 6]
    if at >= 0 and not allowed(4, p, text_start(p, at), _behind(p, at, end)):
        fields[row + 2] = 6
        return -6
    at = fields[row + 7]
    last: cython.Py_ssize_t = 0
    while 0 <= at < end:
        code: cython.Py_ssize_t = section_code(p, at, end)
        if code < 0x75 or code > 0x78 or (code <= last and not code == last == 0x75):
            return -1
        value: cython.Py_ssize_t = after_descriptor(p, at)
        at = _behind(p, value, end)
        if at < 0:
            return -1
        if code == 0x75 and p[value] >> 4 != 0xA and p[value] >> 4 != 0xB:
            return -1
        if code == 0x76 or (code == 0x77 and not _is_bytes(p[value])):
            return -9
        if last and code < 0x78 and code != last:
            return -1
        last = code
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_bytes(code: cython.Py_ssize_t) -> cython.bint:
    """Whether a value is binary, a string, or null, which is no data."""
    return code == 0xA0 or code == 0xB0 or code == 0xA1 or code == 0xB1 or code == 0x40


@cython.cfunc
@cython.exceptval(check=False)
def _named(
    p: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    key: cython.p_const_uchar,
    key_at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Where the value of an extension stands among whole pairs; -1 if it is not there, or null."""
    position: cython.Py_ssize_t = start
    while position < stop:
        name: cython.Py_ssize_t = text_start(p, position)
        value: cython.Py_ssize_t = _behind(p, position, stop)
        behind: cython.Py_ssize_t = -1 if value < 0 else _behind(p, value, stop)
        if behind < 0:
            return -1
        if value - name == size + 12 and _is_prefixed(p, name, value) and p[value] != 0x40:
            if _are_equal(p, name + 12, key, key_at, size):
                return value
        position = behind
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_prefixed(p: cython.p_const_uchar, name: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether `cloudEvents` and a separator stand before the rest of a name."""
    if name < 0 or end - name < 12 or (p[name + 11] != 95 and p[name + 11] != 58):
        return False
    return _are_equal(p, name, b"cloudEvents", 0, 11)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bit(p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Which bit stands for a name."""
    return (7 * size + 31 * p[at] + 17 * p[at + size - 1]) & 31


# Values (AMQP 1.0 section 1.6).


@cython.cfunc
def _value(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, is_time: cython.bint
) -> object:
    code: cython.Py_ssize_t = p[at]
    text: cython.Py_ssize_t = text_start(p, at)
    behind: cython.Py_ssize_t = _behind(p, at, end)
    if behind < 0:  # the buffer is no longer what it was
        return None
    if text >= 0:
        return _text(p, text, behind)
    if code == 0x41 or code == 0x42 or code == 0x56:
        return code == 0x41 or (code == 0x56 and p[at + 1] == 1)
    if code == 0x83 or is_time:
        return timestamp_text(integer(p, at))
    if code == 0xA0 or code == 0xB0:
        return bytes(p[at + (2 if code == 0xA0 else 5) : behind])
    return integer(p, at)


@cython.cfunc
def _text(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
    try:
        if cython.compiled:
            return p[start:end].decode("utf-8")
        else:
            return str(p[start:end], "utf-8")
    except UnicodeDecodeError:
        return None


# Most values are short strings, and calls of another file are not inlined.
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _behind(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if end - at >= 2 and p[at] == 0xA1 and end - at - 2 >= p[at + 1]:
        return at + 2 + p[at + 1]
    return skip(p, at, end)


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


# Bytes, as in `_kernel.py`.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _first(view: cython.const[cython.uchar][::1]) -> cython.p_const_uchar:
    if cython.compiled:
        return cython.address(view[0])
    else:
        return bytes(view)


@cython.cfunc
def _readable(data: object) -> cython.p_const_uchar:
    if cython.compiled:
        if isinstance(data, (bytes, bytearray)):
            return data
        view: cython.const[cython.uchar][::1] = data
        return cython.address(view[0])
    else:
        return bytes(data)


@cython.cfunc
def _check_span(size: cython.Py_ssize_t, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    if start < 0 or end < start or size < end:
        raise ValueError(f"{start} to {end} is no span of a buffer of {size} bytes")
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _integers(view: cython.longlong[::1]) -> cython.p_longlong:
    if cython.compiled:
        return cython.address(view[0])
    else:
        return view
