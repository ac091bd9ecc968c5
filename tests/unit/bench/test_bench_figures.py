"""Medians, pairs and targets of the benchmarks."""

from __future__ import annotations

import pytest
from bench.figures import Bound, Spread, Target, compare, percentile, spread, target_met, value_target_met


def test_a_spread_is_the_median_and_both_ends():
    assert spread([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)
    assert spread([1.0, 2.0, 3.0, 10.0]).median == 2.5


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")]])
def test_a_spread_of_nothing_or_of_no_number_is_refused(samples):
    with pytest.raises(ValueError):
        spread(samples)


def test_a_comparison_tells_both_ratios():
    # given a machine that got twice as fast in the last pair
    kafka, ottla = [10.0, 10.0, 20.0], [15.0, 16.0, 40.0]
    # when compared
    comparison = compare(kafka, ottla)
    # then the medians are 10 and 16, and the pairs 1.5, 1.6 and 2.0
    assert comparison.ratio_of_medians == pytest.approx(1.6)
    assert comparison.median_of_pair_ratios == pytest.approx(1.6)
    assert comparison.kafka.maximum == 20.0
    assert comparison.pair_ratios == Spread(pytest.approx(1.6), pytest.approx(1.5), pytest.approx(2.0))


def test_pairs_are_neighbours_not_sorted():
    comparison = compare([1.0, 2.0, 4.0], [4.0, 2.0, 1.0])
    assert comparison.ratio_of_medians == 1.0
    assert comparison.median_of_pair_ratios == 1.0
    comparison = compare([1.0, 2.0, 4.0], [3.0, 6.0, 5.0])
    assert comparison.ratio_of_medians == 2.5
    assert comparison.median_of_pair_ratios == 3.0


def test_runs_that_do_not_pair_are_refused():
    with pytest.raises(ValueError, match="cannot be paired"):
        compare([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="cannot divide"):
        compare([0.0], [1.0])


@pytest.mark.parametrize(
    ("target", "kafka", "ottla", "met"),
    [
        (Target(Bound.RATIO_AT_LEAST, 1.5), [10.0], [15.0], True),
        (Target(Bound.RATIO_AT_LEAST, 1.5), [10.0], [14.9], False),
        (Target(Bound.RATIO_AT_MOST, 0.8), [10.0], [8.0], True),
        (Target(Bound.RATIO_AT_MOST, 0.8), [10.0], [8.1], False),
        (Target(Bound.VALUE_AT_MOST, 80.0), [400.0], [80.0], True),
        (Target(Bound.VALUE_AT_MOST, 80.0), [400.0], [80.1], False),
        (Target(Bound.VALUE_AT_LEAST, 5_000.0), [1.0], [5_000.0], True),
        (Target(Bound.VALUE_AT_LEAST, 5_000.0), [1.0], [4_999.0], False),
        # ratio of medians 2.5, median of the pairs 3.0: not met unless both meet it
        (Target(Bound.RATIO_AT_LEAST, 2.8), [1.0, 2.0, 4.0], [3.0, 6.0, 5.0], False),
        (Target(Bound.RATIO_AT_MOST, 2.8), [1.0, 2.0, 4.0], [3.0, 6.0, 5.0], False),
        (Target(Bound.RATIO_AT_MOST, 3.0), [1.0, 2.0, 4.0], [3.0, 6.0, 5.0], True),
    ],
)
def test_a_target_is_met_when_both_ratios_meet_it(target, kafka, ottla, met):
    assert target_met(target, compare(kafka, ottla)) is met


def test_percentiles_are_samples_by_nearest_rank():
    samples = [float(value) for value in range(100, 0, -1)]
    assert percentile(samples, 0.5) == 50.0
    assert percentile(samples, 0.99) == 99.0
    assert percentile(samples, 0.999) == 100.0
    assert percentile([7.0], 0.01) == 7.0
    for bad in (0.0, 1.1):
        with pytest.raises(ValueError):
            percentile(samples, bad)
    with pytest.raises(ValueError):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("bound", "median", "met"),
    [
        (Bound.VALUE_AT_MOST, 64.0, True),
        (Bound.VALUE_AT_MOST, 64.1, False),
        (Bound.VALUE_AT_LEAST, 64.0, True),
        (Bound.VALUE_AT_LEAST, 63.9, False),
        (Bound.RATIO_AT_MOST, 1.0, None),
        (Bound.RATIO_AT_LEAST, 100.0, None),
    ],
)
def test_a_measure_of_ottlas_alone_meets_a_value_and_never_a_ratio(bound, median, met):
    assert value_target_met(Target(bound, 64.0), spread([0.0, median, 1000.0])) is met
