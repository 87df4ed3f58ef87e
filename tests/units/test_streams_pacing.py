"""Reading late from who sends by the clock, and at once from who waits for confirms; clients are simulated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.server.streams.pacing import (
    KEPT_SHARE_MIN,
    LATE_PERIODS_MAX,
    LATE_S,
    PERIOD_S,
    ROUND_S_MAX,
    ReadPace,
)

SECONDS = 20.0
MESSAGE_BYTES = 130
STARTED_AT = 1000.0


def late_share(round_s: float, sent_in: Callable[[float], int]) -> tuple[float, int]:
    """Of all rounds how many ended late, and how many messages came, when a commit takes `round_s`."""
    pace = ReadPace()
    now, received, late, rounds = STARTED_AT, 0, 0, 0
    took = round_s
    while now < STARTED_AT + SECONDS:
        received += sent_in(took) * MESSAGE_BYTES
        rounds += 1
        is_late = pace.reads_late(now, received)
        late += is_late
        took = round_s + (LATE_S if is_late else 0.0)
        now += took
    return late / rounds, received // MESSAGE_BYTES


def by_the_clock(rate: float) -> Callable[[float], int]:
    owed = 0.0

    def sent(seconds: float) -> int:
        nonlocal owed
        owed += rate * seconds
        messages, owed = int(owed), owed % 1
        return messages

    return sent


@pytest.mark.parametrize("rate", [1_000, 10_000, 50_000])
def test_who_sends_by_the_clock_is_read_late_nearly_always(rate: int) -> None:
    share, messages = late_share(0.0003, by_the_clock(rate))
    assert share > 0.8
    assert messages == pytest.approx(rate * SECONDS, rel=0.01)


@pytest.mark.parametrize("window", [1, 2, 10, 100])
def test_who_waits_for_confirms_is_read_at_once_but_for_the_trials(window: int) -> None:
    share, messages = late_share(0.0003, lambda _seconds: window)
    assert share < 0.02
    assert messages > 0.95 * window * SECONDS / 0.0003


def test_a_slow_disk_gathers_by_itself() -> None:
    share, _ = late_share(1.5 * ROUND_S_MAX, by_the_clock(10_000))
    assert share == 0


def test_a_client_that_begins_to_wait_for_confirms_is_noticed_at_once() -> None:
    pace = ReadPace()
    now, received = STARTED_AT, 0
    for _ in range(3 * LATE_PERIODS_MAX):
        now += PERIOD_S / 100
        received += 100
        pace.reads_late(now, received)
    while not pace.reads_late(now, received):
        now += PERIOD_S / 100
        received += 100
    for _ in range(202):  # this period and the one behind it
        now += PERIOD_S / 100
        received += int(100 * KEPT_SHARE_MIN / 2)
        is_late = pace.reads_late(now, received)
    assert not is_late


def test_a_pause_tells_nothing() -> None:
    pace = ReadPace()
    now, received = STARTED_AT, 0
    while not pace.reads_late(now, received):
        now += PERIOD_S / 100
        received += 100
    now += 10.0
    assert not pace.reads_late(now, received), "this round was no short one"
    assert pace.reads_late(now + PERIOD_S / 100, received)
