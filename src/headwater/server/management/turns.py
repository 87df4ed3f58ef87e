"""Long lists, gone through piece by piece, so that the doors are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

__all__ = ["in_turns"]

ITEMS_PER_TURN = 200

_T = TypeVar("_T")


async def in_turns(items: Iterable[_T]) -> AsyncIterator[_T]:
    """The items one by one, with a turn of the loop for others after every so many."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)
