"""AMQP 1.0 part 2, section 2.6.1: what names a link."""

from __future__ import annotations

import msgspec

__all__ = ["LinkId"]


class LinkId(msgspec.Struct, frozen=True):
    """What core AMQP knows a link by: the same one again, on another connection, is the one that was."""

    container: str
    name: str
    user: str = ""
    """Containers name themselves, so what one user's leaves behind is nobody else's."""
