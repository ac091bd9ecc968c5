"""A service's requests under the names of Confluent's services, from the figures that all services have."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final

from ottla.metrics.confluent_http import HttpMetrics
from ottla.metrics.exposition import Family, by_label, single
from ottla.web.request_figures import RequestFigures

QUANTILES: Final = (0.95, 0.99)
MILLISECONDS_A_SECOND: Final = 1_000


def confluent_families(metrics: HttpMetrics, figures: RequestFigures) -> Iterator[Family]:
    """The families of these metrics."""
    statuses = figures.statuses()
    of_class = {f"{number}xx": 0 for number in (4, 5)}
    for status, count in statuses.items():
        if status >= 400:
            of_class[f"{status // 100}xx"] += count
    times = figures.times()
    count = times.count
    of_95, of_99 = times.quantiles(QUANTILES)
    yield single(metrics.connections_active, figures.connections)
    yield single(metrics.request_total, count)
    yield single(metrics.request_rate, figures.recent.rate(perf_counter_ns()))
    yield by_label(metrics.request_error_total, of_class)
    yield single(metrics.latency_average, times.scaled_sum / count * MILLISECONDS_A_SECOND if count else 0.0)
    yield single(metrics.latency_maximum, times.maximum * times.scale * MILLISECONDS_A_SECOND)
    yield single(metrics.latency_95, of_95 * MILLISECONDS_A_SECOND)
    yield single(metrics.latency_99, of_99 * MILLISECONDS_A_SECOND)
