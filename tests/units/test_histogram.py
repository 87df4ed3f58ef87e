"""Latencies: percentiles out of buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.histogram import Histogram


def test_nothing_recorded_has_no_latency() -> None:
    assert Histogram().latency() is None


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_percentiles_are_those_of_the_values_to_a_64th(values_ns: list[int]) -> None:
    one, other = Histogram(), Histogram()
    for index, value in enumerate(values_ns):
        (one if index % 2 else other).record(value)
    one.add(other)
    latency = one.latency()
    assert latency is not None
    ordered = sorted(value / 1e6 for value in values_ns)
    for share, found in ((0.5, latency.p50_ms), (0.99, latency.p99_ms), (1.0, latency.max_ms)):
        exact = ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]
        assert exact - 0.002 <= found <= exact * (1 + 1 / 64) + 0.002
    assert latency.count == len(values_ns)


def test_a_value_counts_as_often_as_it_is_said() -> None:
    histogram = Histogram()
    histogram.record(1_000_000, 99)
    histogram.record(9_000_000)
    histogram.record(-5)
    latency = histogram.latency()
    assert latency is not None
    assert latency.count == 101
    assert latency.p50_ms < 1.02
    assert latency.max_ms > 8.9
