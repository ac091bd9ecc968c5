"""The metrics of the endpoint itself: each process that exposes metrics has them."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "The endpoint itself"

SCRAPES: Final = Metric(
    "ottla_metrics_scrapes_total", Kind.COUNTER, "Scrapes that were answered before this one."
)
SCRAPE_SECONDS: Final = Metric(
    "ottla_metrics_scrape_duration_seconds",
    Kind.GAUGE,
    "The time from the beginning of this scrape to this line.",
    unit=Unit.SECONDS,
    panel=Panel(Dashboard.CLUSTER, "Scrapes", "Time of a scrape"),
)
SCRAPE_WORK_SECONDS: Final = Metric(
    "ottla_metrics_scrape_work_seconds",
    Kind.GAUGE,
    "The part of that time in which the process worked for the scrape; in the rest it did other work.",
    unit=Unit.SECONDS,
)
LONGEST_SLICE_SECONDS: Final = Metric(
    "ottla_metrics_scrape_longest_slice_seconds",
    Kind.GAUGE,
    "The longest time for which this scrape, up to this line, kept the process's event loop from other work.",
    unit=Unit.SECONDS,
    panel=Panel(Dashboard.CLUSTER, "Scrapes", "Longest hold of the loop by a scrape"),
)
SOURCE_ERRORS: Final = Metric(
    "ottla_metrics_source_errors_total",
    Kind.COUNTER,
    "Failures of a source of metrics, whose series a scrape then lacks; the log tells the first of each.",
)
SERIES_DROPPED: Final = Metric(
    "ottla_metrics_series_dropped",
    Kind.GAUGE,
    "Series that this scrape leaves out, by metric, because a metric has more than its description allows.",
    ("metric",),
    panel=Panel(Dashboard.CLUSTER, "Scrapes", "Series left out"),
)

METRICS: Final = metrics_in(globals())
