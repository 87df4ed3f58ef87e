"""Pages of long lists, found without a turn of the loop that is long itself."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

from headwater.server.management.turns import in_turns

__all__ = ["page_of"]

T = TypeVar("T")


async def page_of(
    items: Iterable[T], key: Callable[[T], str], after: str, count_max: int
) -> tuple[list[T], str | None]:
    """Items behind a key, so many at most, in the order of their keys, and the key that the next page begins after."""
    found: dict[str, T] = {}
    last = ""
    async for item in in_turns(items):
        of_item = key(item)
        if of_item <= after or (last and of_item > last):
            continue
        found[of_item] = item
        if len(found) > 2 * count_max + 1:
            found = {each: found[each] for each in heapq.nsmallest(count_max + 1, found)}
            last = max(found)
    keys = sorted(found)
    page = keys[:count_max]
    return [found[each] for each in page], page[-1] if len(keys) > len(page) else None
