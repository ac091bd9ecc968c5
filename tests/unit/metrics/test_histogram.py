"""Distributions in integer buckets: quantiles near the true ones, counts and sums exact."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metrics.histogram import BUCKETS, QUANTILES, Histogram, lower_bound

values_strategy = st.lists(st.integers(0, 2**40), min_size=1, max_size=200)


@given(st.integers(0, 2**60))
def test_a_value_lies_within_its_bucket(value: int) -> None:
    histogram = Histogram()
    histogram.observe(value)
    index = histogram.counts.index(1)
    assert lower_bound(index) <= value
    assert index == BUCKETS - 1 or value < lower_bound(index + 1)


def test_buckets_follow_each_other_without_a_gap() -> None:
    bounds = [lower_bound(index) for index in range(BUCKETS + 1)]
    assert bounds == sorted(set(bounds))


@given(values_strategy)
def test_quantiles_are_at_most_an_eighth_off(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    ordered = sorted(values)
    for quantile, found in zip(QUANTILES, histogram.quantiles(), strict=True):
        true = ordered[math.ceil(max(1, quantile * len(ordered))) - 1]
        assert abs(found - true) <= true / 8
    assert histogram.count == len(values)
    assert histogram.sum == sum(values)
    assert histogram.maximum == max(values)


@given(values_strategy)
def test_cumulative_buckets_rise_and_never_count_a_value_above_their_bound(values: list[int]) -> None:
    histogram = Histogram(0.001)
    for value in values:
        histogram.observe(value)
    bounds = [0.5, 1, 10, 1e3, 1e12]
    found = histogram.cumulative(bounds)
    assert found == sorted(found)
    for bound, count in zip(bounds, found, strict=True):
        assert count <= sum(value * 0.001 <= bound for value in values)
    assert found[-1] == len(values)


def test_a_negative_time_counts_as_none() -> None:
    histogram = Histogram()
    histogram.observe(-5)
    assert (histogram.count, histogram.sum, histogram.maximum) == (1, 0, 0)


@pytest.mark.parametrize("scale", [1, 0.001])
def test_an_empty_distribution_has_quantiles_of_zero(scale: float) -> None:
    assert Histogram(scale).quantiles() == [0.0] * len(QUANTILES)
