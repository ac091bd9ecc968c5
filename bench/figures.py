"""The measures of a scenario, and the arithmetic that turns runs into a comparison."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class Bound(enum.Enum):
    """The kind of a target's limit: for ottla's figure over Kafka's, or for ottla's figure alone."""

    RATIO_AT_LEAST = "ratio ≥"
    RATIO_AT_MOST = "ratio ≤"
    VALUE_AT_MOST = "≤"
    VALUE_AT_LEAST = "≥"


@dataclass(frozen=True, slots=True)
class Target:
    """A target; `limit` is a ratio or a value in the measure's unit, depending on `bound`."""

    bound: Bound
    limit: float


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure that a run of a scenario gives.

    name: the key in results.json. unit: of the value, for the table. target: None where the figure is told
    for information. apache_kafka_only: a thing that ottla does not do as a step of its own (formatting a
    directory). ottla_only: the same the other way round. history: what it is called in the unified-logging
    seed's table of 2014, and the figure there.
    """

    name: str
    title: str
    unit: str
    target: Target | None = None
    apache_kafka_only: bool = False
    ottla_only: bool = False
    history: str | None = None

    def is_of(self, ottla: bool) -> bool:
        """Whether ottla's side, or else Kafka's, has this measure."""
        return not (self.apache_kafka_only if ottla else self.ottla_only)

    @property
    def more_is_better(self) -> bool:
        """Rates are to be high; times, sizes and costs low."""
        return self.unit.endswith("/s")


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of several runs."""

    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """ottla over Kafka, told twice: the medians of all runs, and the median of the ratios of neighbouring
    runs.

    The machine's mood drifts over minutes; two runs next to each other share it. Where both ratios agree the
    figure stands; where they do not, it needs more runs.
    """

    kafka: Spread
    ottla: Spread
    ratio_of_medians: float
    pair_ratios: Spread

    @property
    def median_of_pair_ratios(self) -> float:
        return self.pair_ratios.median


def spread(samples: Sequence[float]) -> Spread:
    """Raises ValueError for no samples or one that is not a finite number."""
    if not samples:
        raise ValueError("no samples")
    if not all(math.isfinite(sample) for sample in samples):
        raise ValueError(f"not finite: {list(samples)}")
    return Spread(statistics.median(samples), min(samples), max(samples))


def compare(kafka: Sequence[float], ottla: Sequence[float]) -> Comparison:
    """Compare runs in turns: kafka[i] and ottla[i] were neighbours. Raises ValueError if they do not pair."""
    if len(kafka) != len(ottla):
        raise ValueError(f"{len(kafka)} runs of Kafka cannot be paired with {len(ottla)} of ottla")
    if any(sample <= 0 for sample in kafka):
        raise ValueError(f"cannot divide by {min(kafka)}")
    kafka_spread, ottla_spread = spread(kafka), spread(ottla)
    pair_ratios = [b / a for a, b in zip(kafka, ottla, strict=True)]
    return Comparison(
        kafka_spread,
        ottla_spread,
        ottla_spread.median / kafka_spread.median,
        spread(pair_ratios),
    )


def target_met(target: Target, comparison: Comparison) -> bool:
    """A ratio counts as reached only when both ways to take it agree."""
    ratios = (comparison.ratio_of_medians, comparison.median_of_pair_ratios)
    match target.bound:
        case Bound.RATIO_AT_LEAST:
            return min(ratios) >= target.limit
        case Bound.RATIO_AT_MOST:
            return max(ratios) <= target.limit
        case Bound.VALUE_AT_MOST:
            return comparison.ottla.median <= target.limit
        case Bound.VALUE_AT_LEAST:
            return comparison.ottla.median >= target.limit


def value_target_met(target: Target, ottla: Spread) -> bool | None:
    """Whether a measure of ottla's alone meets its target; None for a target that is a ratio."""
    match target.bound:
        case Bound.VALUE_AT_MOST:
            return ottla.median <= target.limit
        case Bound.VALUE_AT_LEAST:
            return ottla.median >= target.limit
        case Bound.RATIO_AT_LEAST | Bound.RATIO_AT_MOST:
            return None


def percentile(samples: Sequence[float], fraction: float) -> float:
    """The smallest sample that at least `fraction` of all samples do not exceed (nearest rank)."""
    if not samples:
        raise ValueError("no samples")
    if not 0 < fraction <= 1:
        raise ValueError(f"not a fraction: {fraction}")
    return sorted(samples)[math.ceil(fraction * len(samples)) - 1]
