"""Lists that may be long: made piece by piece, so that the doors are served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from aiohttp import web

from headwater.server.http.answers import json_answer

__all__ = ["in_turns", "list_answer"]

ITEMS_PER_TURN = 200

_T = TypeVar("_T")


async def in_turns(items: Iterable[_T]) -> AsyncIterator[_T]:
    """The items one by one, with a turn of the loop for others after every so many."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)


async def list_answer(items: Iterable[_T], shown: Callable[[_T], object]) -> web.Response:
    """All items as they are shown."""
    return json_answer([shown(item) async for item in in_turns(items)])
