"""AMQP 1.0 part 1: types. Every encoding of a value is read; the most compact one is written.

A value is a constructor, then its bytes. A constructor is a format code, or 00, a descriptor (itself a value), and
a constructor. The high half of a format code says how many bytes follow; a size counts what stands behind it.

    4.  none                               40 null   41 true   42 false   43 uint 0   44 ulong 0   45 empty list
    5.  1                                  50 ubyte  51 byte   52 uint    53 ulong    54 int  55 long  56 boolean
    6.  2                                  60 ushort 61 short
    7.  4                                  70 uint   71 int    72 float   73 char     74 decimal32
    8.  8                                  80 ulong  81 long   82 double  83 timestamp   84 decimal64
    9.  16                                 94 decimal128   98 uuid
    A.  size 1, bytes                      a0 binary   a1 string   a3 symbol
    B.  size 4, bytes                      b0 binary   b1 string   b3 symbol
    C.  size 1, count 1, values            c0 list   c1 map
    D.  size 4, count 4, values            d0 list   d1 map
    E.  size 1, count 1, constructor,      e0 array
    F.  size 4, count 4, ... bytes         f0 array

In Python null is None, boolean bool, string str, binary bytes, long int, double float, list list, map dict and uuid
UUID. All other types have a class below, most of them a subclass of a plain one, so that a value is written as what it
was read. Plain equality holds between them: a map whose keys are equal in Python counts as one with a key twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "NESTING_DEPTH_MAX",
    "ZERO_WIDTH_ITEMS_MAX",
    "Array",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float32",
    "Int",
    "Short",
    "Symbol",
    "Timestamp",
    "Ubyte",
    "Uint",
    "Ulong",
    "Ushort",
]

NESTING_DEPTH_MAX = 32
"""Lists, maps, arrays and descriptions inside each other, in what a peer sends."""
ZERO_WIDTH_ITEMS_MAX = 64
"""In an array whose items take no bytes, so that a few bytes do not make many items."""


class Ubyte(int):
    """8 bits, unsigned."""

    __slots__ = ()


class Ushort(int):
    """16 bits, unsigned."""

    __slots__ = ()


class Uint(int):
    """32 bits, unsigned."""

    __slots__ = ()


class Ulong(int):
    """64 bits, unsigned."""

    __slots__ = ()


class Byte(int):
    """8 bits, signed."""

    __slots__ = ()


class Short(int):
    """16 bits, signed."""

    __slots__ = ()


class Int(int):
    """32 bits, signed."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970, UTC."""

    __slots__ = ()


class Float32(float):
    """IEEE 754 binary32."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """A name out of a constrained domain; ASCII."""

    __slots__ = ()


class Decimal32(bytes):
    """IEEE 754 decimal32, passed through as its 4 bytes."""


class Decimal64(bytes):
    """IEEE 754 decimal64, passed through as its 8 bytes."""


class Decimal128(bytes):
    """IEEE 754 decimal128, passed through as its 16 bytes."""


class Described(msgspec.Struct, frozen=True, gc=False):
    """A value, and the descriptor that says what it means."""

    descriptor: Any
    value: Any


class Array(msgspec.Struct, frozen=True, gc=False):
    """Items of one type, which `constructor` names: a class, or for described items a Described(descriptor, class)."""

    items: tuple[Any, ...]
    constructor: Any
