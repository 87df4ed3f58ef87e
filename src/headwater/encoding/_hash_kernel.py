# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The hash of keys and the bloom filter of chunks, which is made of it.

As in `_kernel.py`, the file runs compiled and uncompiled to the same results.
"""

from __future__ import annotations

import cython

__all__ = ["COMPILED", "bloom_add", "bloom_may_contain", "hash_spans", "murmur3_32"]

COMPILED = cython.compiled


def murmur3_32(data: object, seed: cython.ulonglong = 104729) -> int:
    """MurmurHash3, x86, 32 bit, as an unsigned number."""
    size: cython.Py_ssize_t = len(data)
    return _murmur3(_readable(data), size, seed)


def hash_spans(
    buffer: object, spans: object, count: cython.Py_ssize_t, modulus: cython.ulonglong, out: object
) -> None:
    """Write the murmur3 of the bytes between each of `count` pairs of positions, modulo a number.

    Pairs below 0 are none, and leave what stands in `out`.
    """
    if count < 0 or len(spans) < 2 * count or len(out) < count or modulus < 1:
        raise ValueError(f"{count} spans are not there")
    p: cython.p_const_uchar = _readable(buffer)
    fields: cython.const[cython.longlong][::1] = spans
    values: cython.longlong[::1] = out
    size: cython.Py_ssize_t = len(buffer)
    i: cython.Py_ssize_t
    for i in range(count):
        start: cython.Py_ssize_t = fields[2 * i]
        end: cython.Py_ssize_t = fields[2 * i + 1]
        if start < 0:
            continue
        if end < start or size < end:
            raise ValueError(f"{start} to {end} is no span of a buffer of {size} bytes")
        hashed: cython.ulonglong = _murmur3(_from(p, start, end), end - start, 104729)
        values[i] = hashed % modulus


def bloom_add(bloom: object, value: object) -> None:
    """Add a filter value to the bloom filter of a chunk.

    Four bits are set: (h1 + i * h2) mod 2^32 mod the number of bits, i from 0 to 3, h1 the murmur3 of the value with
    seed 104729, h2 with seed 1299709 and its lowest bit set. Bit n is bit n % 8 (from the lowest) of byte n // 8.
    """
    # Chunks hold few values: at 8 in 128 bits four hashes let 0.2 % of the others through, two would let 1.4 %.
    bits: cython.ulonglong = 8 * len(bloom)
    if bits == 0:
        return
    size: cython.Py_ssize_t = len(value)
    p: cython.p_const_uchar = _readable(value)
    q: cython.p_uchar = _writable(bloom)
    low: cython.ulonglong = 0xFFFFFFFF
    step: cython.ulonglong = _murmur3(p, size, 1299709) | 1
    h: cython.ulonglong = _murmur3(p, size, 104729)
    for _ in range(4):
        bit: cython.Py_ssize_t = h % bits
        q[bit >> 3] |= 1 << (bit & 7)
        h = (h + step) & low


def bloom_may_contain(bloom: object, value: object) -> bool:
    """Whether the value may have been added; a filter of no bytes excludes nothing."""
    bits: cython.ulonglong = 8 * len(bloom)
    if bits == 0:
        return True
    size: cython.Py_ssize_t = len(value)
    p: cython.p_const_uchar = _readable(value)
    q: cython.p_const_uchar = _readable(bloom)
    low: cython.ulonglong = 0xFFFFFFFF
    step: cython.ulonglong = _murmur3(p, size, 1299709) | 1
    h: cython.ulonglong = _murmur3(p, size, 104729)
    for _ in range(4):
        bit: cython.Py_ssize_t = h % bits
        if not (q[bit >> 3] >> (bit & 7)) & 1:
            return False
        h = (h + step) & low
    return True


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
def _from(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.p_const_uchar:
    if cython.compiled:
        return p + start
    else:
        return p[start:end]


@cython.cfunc
@cython.exceptval(check=False)
def _murmur3(p: cython.p_const_uchar, size: cython.Py_ssize_t, seed: cython.ulonglong) -> cython.ulonglong:
    # Numbers of 32 bits stand in typed locals: as literals in an expression they would be Python objects.
    low: cython.ulonglong = 0xFFFFFFFF
    added: cython.ulonglong = 0xE6546B64
    last_1: cython.ulonglong = 0x85EBCA6B
    last_2: cython.ulonglong = 0xC2B2AE35
    h: cython.ulonglong = seed & low
    k: cython.ulonglong = 0
    tail: cython.Py_ssize_t = size - size % 4
    i: cython.Py_ssize_t = 0
    while i < tail:
        h ^= _scrambled(_u32_little(p, i))
        h = ((h << 13) | (h >> 19)) & low
        h = (h * 5 + added) & low
        i += 4
    while size > tail:
        size -= 1
        byte: cython.ulonglong = p[size]
        k = (k << 8) | byte
        i += 1
    length: cython.ulonglong = i
    h ^= _scrambled(k) ^ (length & low)
    h = ((h ^ (h >> 16)) * last_1) & low
    h = ((h ^ (h >> 13)) * last_2) & low
    return h ^ (h >> 16)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32_little(p: cython.p_const_uchar, i: cython.Py_ssize_t) -> cython.ulonglong:
    p = _at(p, i)
    a: cython.ulonglong = p[0]
    b: cython.ulonglong = p[1]
    c: cython.ulonglong = p[2]
    d: cython.ulonglong = p[3]
    return (d << 24) | (c << 16) | (b << 8) | a


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _scrambled(k: cython.ulonglong) -> cython.ulonglong:
    low: cython.ulonglong = 0xFFFFFFFF
    first: cython.ulonglong = 0xCC9E2D51
    second: cython.ulonglong = 0x1B873593
    k = (k * first) & low
    k = ((k << 15) | (k >> 17)) & low
    return (k * second) & low
