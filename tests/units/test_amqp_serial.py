"""Serial numbers: those of RFC 1982, with 32 bits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.amqp.serial import unwrapped, wrapped

pytestmark = pytest.mark.clause("AMQP 2.8.10")


@given(st.integers(0, 2**40), st.integers(-(2**31), 2**31 - 1))
def test_a_serial_number_is_the_counter_nearest_to_what_is_known(near: int, distance: int) -> None:
    assert unwrapped(wrapped(near + distance), near) == near + distance


@pytest.mark.parametrize(
    ("serial", "near", "counter"),
    [
        (0, 0, 0),
        (0, 2**32 - 1, 2**32),
        (2**32 - 1, 0, -1),
        (2**32 - 1, 2**32, 2**32 - 1),
        (5, 3 * 2**32, 3 * 2**32 + 5),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31, 0, -(2**31)),
        (1, 2**32 - 2, 2**32 + 1),
    ],
)
def test_numbers_begin_again_at_0(serial: int, near: int, counter: int) -> None:
    assert unwrapped(serial, near) == counter
    assert wrapped(counter) == serial


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**31 - 1))
def test_the_greater_of_two_is_that_which_comes_within_half_of_all(first: int, distance: int) -> None:
    """RFC 1982, section 3.2: s2 is greater if it is s1 plus less than half of the numbers."""
    second = wrapped(first + distance)
    assert unwrapped(second, first) > first
    assert unwrapped(first, second) < second
