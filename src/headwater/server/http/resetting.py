"""Where consumers are to go on from, as requests of the HTTP door say it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headwater.server.http.endpoint import Vhost
from headwater.server.http.paging import Page
from headwater.server.management.reset_target import OFFSET_MAX, TARGET_CHARS_MAX
from headwater.server.security.users import DEFAULT_VHOST

__all__ = ["ConsumerPage", "Reset", "Target"]

Target = Annotated[
    Annotated[str, Meta(min_length=1, max_length=TARGET_CHARS_MAX)]
    | Annotated[int, Meta(ge=0, le=OFFSET_MAX)],
    Meta(description="earliest, latest, an offset, or a time such as 2030-01-31T12:00:00Z."),
]


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to go on from."""

    to: Target
    partition: Annotated[
        str | None, Meta(description="Id or name of one partition; without one all are reset.")
    ] = None


class ConsumerPage(Page, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which groups or subscriptions are listed."""

    vhost: Vhost = DEFAULT_VHOST
    log: Annotated[str | None, Meta(description="List those of this log alone.")] = None
