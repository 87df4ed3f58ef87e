# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""CloudEvents 1.0, section "Type System": what the texts of attributes may be, and times as text.

    STRING           no control characters, no noncharacters
    URI_REFERENCE    RFC 3986, section 4.1
    URI              the same with a scheme; a fragment is let pass
    TIMESTAMP        RFC 3339
    MEDIA_TYPE       RFC 2046, parameters behind `;`
    NAME             of an attribute: lower-case letters and digits, and not `data`

The file runs compiled and uncompiled to the same results. Every read stands behind a comparison with the end.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp

__all__ = [
    "COMPILED",
    "MEDIA_TYPE",
    "NAME",
    "STRING",
    "TIMESTAMP",
    "URI",
    "URI_REFERENCE",
    "allowed",
    "is_allowed",
    "kind_of",
    "names_cloudevents",
    "slot_of",
    "timestamp_ms",
    "timestamp_text",
]

COMPILED = cython.compiled
STRING = 0
URI_REFERENCE = 1
URI = 2
TIMESTAMP = 3
MEDIA_TYPE = 4
NAME = 5

_DIGITS = b"0123456789"
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SCHEME = _LETTERS + _DIGITS + b"+-."
_PCHAR = _LETTERS + _DIGITS + b"-._~!$&'()*+,;=:@"
_TOKEN = bytes(range(0x21, 0x7F)).translate(None, b'()<>@,;:\\"/[]?=')


def _low(characters: bytes) -> int:
    return sum(1 << character for character in characters if character < 64)


def _high(characters: bytes) -> int:
    return sum(1 << (character - 64) for character in characters if character >= 64)


# Sets of characters, one bit for each: those below 64, and those from there to 127.
_SCHEME_LOW = cython.declare(cython.ulonglong, _low(_SCHEME))
_SCHEME_HIGH = cython.declare(cython.ulonglong, _high(_SCHEME))
_PCHAR_LOW = cython.declare(cython.ulonglong, _low(_PCHAR))
_PCHAR_HIGH = cython.declare(cython.ulonglong, _high(_PCHAR))
_TOKEN_LOW = cython.declare(cython.ulonglong, _low(_TOKEN))
_TOKEN_HIGH = cython.declare(cython.ulonglong, _high(_TOKEN))

# Written out in an expression, the larger ones would be Python objects.
_DAY_MS = cython.declare(cython.longlong, 86_400_000)
_YEAR_0_MS = cython.declare(cython.longlong, -62_167_219_200_000)
_YEAR_10000_MS = cython.declare(cython.longlong, 253_402_300_800_000)
_TWO_DIGITS = tuple(f"{number:02}" for number in range(100))


def is_allowed(kind: cython.Py_ssize_t, text: bytes) -> bool:
    """Whether a text in UTF-8 is what its kind has to be."""
    p: cython.p_const_uchar = text
    return bool(allowed(kind, p, 0, len(text)))


@cython.ccall
@cython.exceptval(check=False)
def allowed(
    kind: cython.Py_ssize_t, p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """The same, of a text that stands in a buffer."""
    if kind == 0:
        return _is_string(p, at, end)
    if kind == 1 or kind == 2:
        return _is_uri(p, at, end, kind == 2)
    if kind == 3:
        return _is_timestamp(p, at, end)
    if kind == 4:
        return _is_media_type(p, at, end)
    return _is_name(p, at, end)


def timestamp_text(ms: cython.longlong) -> object:
    """Milliseconds since 1970, UTC, as RFC 3339 writes a time, with no fraction or three digits.

    None outside of the years that it has.
    """
    if ms < _YEAR_0_MS or ms >= _YEAR_10000_MS:
        return None
    # Days are counted from a 1st of March 400 years before year 0, so that nothing is negative.
    since: cython.longlong = ms - _YEAR_0_MS
    days: cython.longlong = since // _DAY_MS + 146_097 - 60
    in_day: cython.longlong = since % _DAY_MS
    era: cython.longlong = days // 146_097
    of_era: cython.longlong = days % 146_097
    year: cython.longlong = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year: cython.longlong = of_era - (365 * year + year // 4 - year // 100)
    month: cython.longlong = (5 * of_year + 2) // 153
    day: cython.longlong = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += 400 * (era - 1) + (1 if month <= 2 else 0)
    second: cython.longlong = in_day // 1000
    fraction: cython.longlong = in_day % 1000
    two: tuple[str, ...] = _TWO_DIGITS
    date: str = f"{two[year // 100]}{two[year % 100]}-{two[month]}-{two[day]}"
    time: str = f"{two[second // 3600]}:{two[second // 60 % 60]}:{two[second % 60]}"
    if fraction == 0:
        return f"{date}T{time}Z"
    return f"{date}T{time}.{two[fraction // 10]}{two[fraction % 10][1]}Z"


def timestamp_ms(text: bytes) -> object:
    """What `timestamp_text` makes this text of; None of any other."""
    p: cython.p_const_uchar = text
    size: cython.Py_ssize_t = len(text)
    if not _is_timestamp(p, 0, size) or p[size - 1] != 90 or p[10] != 84 or p[17] == 54:
        return None
    fraction: cython.longlong = 0
    if size == 24:
        fraction = 100 * (p[20] - 48) + _two(p, 21)
    if size != 20 and fraction == 0:
        return None
    year: cython.longlong = 100 * _two(p, 0) + _two(p, 2) + 400
    month: cython.longlong = _two(p, 5)
    year -= 1 if month <= 2 else 0
    month = month - 3 if month > 2 else month + 9
    days: cython.longlong = 365 * year + year // 4 - year // 100 + year // 400
    days += (153 * month + 2) // 5 + _two(p, 8) - 1 + 60 - 146_097
    seconds: cython.longlong = 3600 * _two(p, 11) + 60 * _two(p, 14) + _two(p, 17)
    return _YEAR_0_MS + days * _DAY_MS + 1000 * seconds + fraction


@cython.ccall
@cython.exceptval(check=False)
def slot_of(p: cython.p_const_uchar, name: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The field of an attribute that CloudEvents defines, -1 of an extension."""
    if size == 2:
        return 9 if _are_equal(p, name, b"id", 2) else -1
    if size == 4:
        return 11 if _are_equal(p, name, b"type", 4) else 13 if _are_equal(p, name, b"time", 4) else -1
    if size == 6:
        return 10 if _are_equal(p, name, b"source", 6) else -1
    if size == 7:
        return 12 if _are_equal(p, name, b"subject", 7) else -1
    if size == 10:
        return 14 if _are_equal(p, name, b"dataschema", 10) else -1
    if size == 11:
        return 8 if _are_equal(p, name, b"specversion", 11) else -1
    if size == 15:
        return 6 if _are_equal(p, name, b"datacontenttype", 15) else -1
    return -1


@cython.ccall
@cython.exceptval(check=False)
def kind_of(slot: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """What the text of an attribute has to be."""
    return 1 if slot == 10 else 2 if slot == 14 else 3 if slot == 13 else 0


@cython.ccall
@cython.exceptval(check=False)
def names_cloudevents(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether a content-type begins with `application/cloudevents`, in letters of any case."""
    prefix: cython.p_const_uchar = b"application/cloudevents"
    if end - at < 23:
        return False
    k: cython.Py_ssize_t
    for k in range(23):
        if (p[at + k] | 0x20) != prefix[k]:
            return False
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _are_equal(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, name: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    if cython.compiled:
        return memcmp(p + at, name, size) == 0
    else:
        return p[at : at + size] == name


@cython.cfunc
@cython.exceptval(check=False)
def _is_string(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    while at < end:
        if p[at] < 0x80:
            if p[at] < 0x20 or p[at] == 0x7F:
                return False
            at += 1
            continue
        width: cython.Py_ssize_t = _width(p[at])
        if width == 0 or end - at < width:
            return False
        point: cython.Py_ssize_t = p[at] & (0x7F >> width)
        k: cython.Py_ssize_t
        for k in range(1, width):
            if p[at + k] >> 6 != 2:
                return False
            point = point << 6 | (p[at + k] & 0x3F)
        if not _is_character(point, width):
            return False
        at += width
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _width(lead: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """How many bytes a character takes whose first one is not ASCII; 0 if it cannot be a first one."""
    if lead < 0xC2 or lead > 0xF4:
        return 0
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_character(point: cython.Py_ssize_t, width: cython.Py_ssize_t) -> cython.bint:
    """Whether a code point is allowed, and needs as many bytes."""
    if width == 2:
        return point >= 0xA0
    if point & 0xFFFE == 0xFFFE:
        return False
    if width == 3:
        return point >= 0x800 and not 0xD800 <= point <= 0xDFFF and not 0xFDD0 <= point <= 0xFDEF
    return 0x10000 <= point <= 0x10FFFF


@cython.cfunc
@cython.exceptval(check=False)
def _is_name(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    size: cython.Py_ssize_t = end - at
    if size == 0:
        return False
    if size == 4 and p[at] == 100 and p[at + 1] == 97 and p[at + 2] == 116 and p[at + 3] == 97:
        return False
    while at < end:
        if not (97 <= p[at] <= 122 or 48 <= p[at] <= 57):
            return False
        at += 1
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_in(character: cython.Py_ssize_t, low: cython.ulonglong, high: cython.ulonglong) -> cython.bint:
    if character < 64:
        return (low >> character) & 1 == 1
    return character < 128 and (high >> (character - 64)) & 1 == 1


# URIs: scheme ":" "//" authority path "?" query "#" fragment, of which all but the path may be missing.


@cython.cfunc
@cython.exceptval(check=False)
def _is_uri(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, needs_scheme: cython.bint
) -> cython.bint:
    i: cython.Py_ssize_t = at
    while i < end and _is_in(p[i], _SCHEME_LOW, _SCHEME_HIGH):
        i += 1
    if i < end and p[i] == 58 and i > at and p[at] >= 65:
        i += 1
    elif needs_scheme or (i < end and p[i] == 58):
        return False
    else:
        # Without a scheme the first segment has no colon.
        while i < end and p[i] != 47 and p[i] != 63 and p[i] != 35:
            if p[i] == 58:
                return False
            i += 1
        i = at
    if end - i >= 2 and p[i] == 47 and p[i + 1] == 47:
        i = _after_authority(p, i + 2, end)
        if i < 0:
            return False
    in_fragment: cython.bint = False
    while i < end:
        if p[i] == 35:
            if in_fragment:
                return False
            in_fragment = True
        elif p[i] != 47 and p[i] != 63:
            stop: cython.Py_ssize_t = _after_pchars(p, i, end)
            if stop == i:
                return False
            i = stop
            continue
        i += 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _after_pchars(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind the characters, escaped ones too, that may stand in any part."""
    while at < end:
        if _is_in(p[at], _PCHAR_LOW, _PCHAR_HIGH):
            at += 1
        elif p[at] == 37 and end - at >= 3 and _is_hex(p[at + 1]) and _is_hex(p[at + 2]):
            at += 3
        else:
            break
    return at


@cython.cfunc
@cython.exceptval(check=False)
def _after_authority(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind user information, host and port; -1 if they cannot be."""
    host: cython.Py_ssize_t = at
    stop: cython.Py_ssize_t = at
    while stop < end and p[stop] != 47 and p[stop] != 63 and p[stop] != 35:
        if p[stop] == 64:
            if host > at or _after_pchars(p, at, stop) != stop:
                return -1
            host = stop + 1
        stop += 1
    i: cython.Py_ssize_t = host
    if host < stop and p[host] == 91:
        i += 1
        while i < stop and p[i] != 93:
            i += 1
        if i == stop or i == host + 1 or _after_pchars(p, host + 1, i) != i:
            return -1
        i += 1
        if i < stop and p[i] != 58:
            return -1
    else:
        while i < stop and p[i] != 58:
            i += 1
        if _after_pchars(p, host, i) != i:
            return -1
    i += 1
    while i < stop:
        if not 48 <= p[i] <= 57:
            return -1
        i += 1
    return stop


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_hex(character: cython.Py_ssize_t) -> cython.bint:
    return 48 <= character <= 57 or 65 <= character <= 70 or 97 <= character <= 102


# Times: YYYY-MM-DDTHH:MM:SS, a fraction, and Z or +HH:MM.


@cython.cfunc
@cython.exceptval(check=False)
def _is_timestamp(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    if end - at < 20 or not _is_day(p, at) or (p[at + 10] | 0x20) != 116:
        return False
    if not (_is_pair(p, at + 11, 23) and p[at + 13] == 58 and _is_pair(p, at + 14, 59) and p[at + 16] == 58):
        return False
    if not _is_pair(p, at + 17, 60):  # 60: a leap second
        return False
    i: cython.Py_ssize_t = at + 19
    if p[i] == 46:
        i += 1
        if i == end or not 48 <= p[i] <= 57:
            return False
        while i < end and 48 <= p[i] <= 57:
            i += 1
    if end - i == 1:
        return (p[i] | 0x20) == 122
    if end - i != 6 or (p[i] != 43 and p[i] != 45):
        return False
    return _is_pair(p, i + 1, 23) and p[i + 3] == 58 and _is_pair(p, i + 4, 59)


@cython.cfunc
@cython.exceptval(check=False)
def _is_day(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
    if not (_is_pair(p, at, 99) and _is_pair(p, at + 2, 99) and p[at + 4] == 45 and p[at + 7] == 45):
        return False
    if not (_is_pair(p, at + 5, 12) and _is_pair(p, at + 8, 31)):
        return False
    year: cython.Py_ssize_t = 100 * _two(p, at) + _two(p, at + 2)
    month: cython.Py_ssize_t = _two(p, at + 5)
    day: cython.Py_ssize_t = _two(p, at + 8)
    if month == 0 or day == 0:
        return False
    if month == 2:
        is_leap: cython.bint = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if is_leap else 28)
    return day <= (30 if month == 4 or month == 6 or month == 9 or month == 11 else 31)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_pair(p: cython.p_const_uchar, at: cython.Py_ssize_t, most: cython.Py_ssize_t) -> cython.bint:
    return 48 <= p[at] <= 57 and 48 <= p[at + 1] <= 57 and _two(p, at) <= most


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _two(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return 10 * (p[at] - 48) + (p[at + 1] - 48)


# Media types: type "/" subtype, and any number of ";" name "=" value.


@cython.cfunc
@cython.exceptval(check=False)
def _is_media_type(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    i: cython.Py_ssize_t = _after_token(p, at, end)
    if i == at or i == end or p[i] != 47:
        return False
    at = i + 1
    i = _after_token(p, at, end)
    if i == at:
        return False
    while True:
        i = _after_spaces(p, i, end)
        if i == end:
            return True
        if p[i] != 59:
            return False
        at = _after_spaces(p, i + 1, end)
        i = _after_token(p, at, end)
        if i == at:  # a semicolon with nothing behind it
            continue
        if i == end or p[i] != 61:
            return False
        at = i + 1
        i = _after_quoted(p, at, end) if at < end and p[at] == 34 else _after_token(p, at, end)
        if i <= at:
            return False


@cython.cfunc
@cython.exceptval(check=False)
def _after_token(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    while at < end and _is_in(p[at], _TOKEN_LOW, _TOKEN_HIGH):
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def _after_spaces(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    while at < end and p[at] == 32:
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def _after_quoted(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Behind the closing quotation mark; -1 if there is none."""
    at += 1
    while at < end and 32 <= p[at] < 127:
        if p[at] == 34:
            return at + 1
        at += 2 if p[at] == 92 and end - at >= 2 and 32 <= p[at + 1] < 127 else 1
    return -1
