"""What time it is."""

from __future__ import annotations

import time

__all__ = ["wall_clock_ms"]


def wall_clock_ms() -> int:
    """Milliseconds since 1970, which may step back."""
    return time.time_ns() // 1_000_000
