"""Lists that may be long, as answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from aiohttp import web

from headwater.server.http.answers import json_answer
from headwater.server.management.turns import in_turns

__all__ = ["list_answer"]

_T = TypeVar("_T")


async def list_answer(items: Iterable[_T], shown: Callable[[_T], object]) -> web.Response:
    """All items as they are shown."""
    return json_answer([shown(item) async for item in in_turns(items)])
