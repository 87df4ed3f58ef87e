"""When to read on from a client whose messages come in small reads: at once, or a moment later.

A commit for every few messages costs far more than the messages. A client that sends as time goes by sends no less when
it is read a millisecond later, and its messages share a commit; one that waits for confirms before it sends more does.
Nothing else tells them apart, so it is tried: read late for a while, and look whether as much comes as before.
"""

from __future__ import annotations

__all__ = ["LATE_S", "ReadPace"]

LATE_S = 0.001
PERIOD_S = 0.1
"""Over so long it is counted what comes."""
PERIOD_S_MAX = 0.3
"""A longer one had a pause in it, and tells nothing."""
ROUND_S_MAX = 0.002
"""Commits that take longer gather enough by themselves."""
KEPT_SHARE_MIN = 0.7
"""Of what came before; less is a client that waits for its confirms."""
LATE_PERIODS_MAX = 20
"""Then it is counted again what comes when it is read at once."""
PERIODS_UNTIL_TRIED_AGAIN = 50


class ReadPace:
    """Of one connection; asked after each commit that it waited for."""

    __slots__ = ("_asked_at", "_began_at", "_bytes_before", "_is_late", "_periods_left", "_rate_at_once")

    def __init__(self) -> None:
        self._is_late = False
        self._periods_left = 1
        """Until the other pace is tried."""
        self._rate_at_once = 0.0
        self._began_at = 0.0
        self._bytes_before = 0
        self._asked_at = 0.0

    def reads_late(self, now: float, received_bytes: int) -> bool:
        """Whether to read on in `LATE_S`; the bytes are all that have come so far."""
        round_s = now - self._asked_at
        self._asked_at = now
        passed_s = now - self._began_at
        if passed_s >= PERIOD_S:
            if passed_s <= PERIOD_S_MAX:
                self._period_over((received_bytes - self._bytes_before) / passed_s)
            self._began_at, self._bytes_before = now, received_bytes
        return self._is_late and round_s <= ROUND_S_MAX

    def _period_over(self, rate: float) -> None:
        self._periods_left -= 1
        if not self._is_late:
            self._rate_at_once = rate
            if self._periods_left <= 0:
                self._is_late, self._periods_left = True, LATE_PERIODS_MAX
        elif rate < KEPT_SHARE_MIN * self._rate_at_once:
            self._is_late, self._periods_left = False, PERIODS_UNTIL_TRIED_AGAIN
        elif self._periods_left <= 0:
            self._is_late, self._periods_left = False, 1
