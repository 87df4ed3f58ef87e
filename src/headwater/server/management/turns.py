"""Long lists, gone through piece by piece, so that the doors are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

__all__ = ["in_turns"]

COST_PER_TURN = 200

_T = TypeVar("_T")


async def in_turns(items: Iterable[_T], cost: Callable[[_T], int] = lambda _: 1) -> AsyncIterator[_T]:
    """The items one by one, with a turn of the loop for others after every so many, or so much work."""
    left = COST_PER_TURN
    for item in items:
        yield item
        left -= cost(item)
        if left <= 0:
            left = COST_PER_TURN
            await asyncio.sleep(0)
