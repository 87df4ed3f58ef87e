"""AMQP 1.0 part 2, section 2.8.10: sequence numbers, which are the serial numbers of RFC 1982.

Inside the engine every counter is an unbounded integer, so that ranges compare and subtract as integers do; only what
goes over the wire is cut to 32 bits.
"""

from __future__ import annotations

__all__ = ["unwrapped", "wrapped"]

_HALF = 1 << 31
_MASK = (1 << 32) - 1


def wrapped(number: int) -> int:
    """A counter as it goes over the wire."""
    return number & _MASK


def unwrapped(serial: int, near: int) -> int:
    """The counter that a serial number stands for: the one closest to a counter that is known."""
    return near + ((serial - near + _HALF) & _MASK) - _HALF
