"""Lists that come in pages: so many at most, and where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["PAGE_ITEMS_MAX", "Page"]

PAGE_ITEMS_MAX = 1000


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which part of a list is wanted."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_ITEMS_MAX, description="How many are listed at most.")] = 100
    after: Annotated[str, Meta(description="List those behind this name; as `next` of the page before.")] = ""

    def cut(self, names: Sequence[str]) -> tuple[list[str], str | None]:
        """The names of this page, of all in their order, and what the next page begins after."""
        left = [name for name in names if name > self.after]
        page = left[: self.limit]
        return page, page[-1] if len(left) > len(page) else None
