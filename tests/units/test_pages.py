"""Pages of long lists."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from headwater.server.management.pages import page_of
from headwater.server.management.turns import COST_PER_TURN, in_turns


def keys(items: list[str], count_max: int) -> list[str]:
    """All of them, page by page."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page, after = asyncio.run(page_of(items, lambda item: item, after, count_max))
        assert len(page) <= count_max
        found += page
    return found


@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 7))
def test_pages_together_are_all_items_in_the_order_of_their_keys(items: list[str], count_max: int) -> None:
    assert keys(items, count_max) == sorted(items)


def test_there_is_no_next_page_behind_one_that_is_just_full() -> None:
    assert asyncio.run(page_of("ba", str, "", 2)) == (["a", "b"], None)
    assert asyncio.run(page_of("cba", str, "", 2)) == (["a", "b"], "b")
    assert asyncio.run(page_of("", str, "", 2)) == ([], None)


def test_a_page_of_very_many_is_found_with_turns_for_others() -> None:
    items = [f"{number:06}" for number in range(50_000)]
    random.Random(1).shuffle(items)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> tuple[list[str], str | None]:
        others = asyncio.create_task(count_turns())
        try:
            return await page_of(items, str, "025000", 3)
        finally:
            others.cancel()

    assert asyncio.run(look()) == (["025001", "025002", "025003"], "025003")
    assert turns >= len(items) // COST_PER_TURN


def test_items_that_are_much_work_have_fewer_of_them_in_a_turn() -> None:
    async def turns(cost: int) -> int:
        seen, ticks = 0, 0

        async def tick() -> None:
            nonlocal ticks
            while seen < 100:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async for _ in in_turns(range(100), lambda _: cost):
            seen += 1
        await ticking
        return ticks

    assert asyncio.run(turns(COST_PER_TURN)) >= 99
    assert asyncio.run(turns(1)) <= 2
