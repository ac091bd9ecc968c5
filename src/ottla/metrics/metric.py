"""The description of a metric: name, kind, labels, help, and its place on a dashboard.

Every metric that a process exposes stands in one of the tables of `tables/`. docs/metrics.md and the
dashboards are made from them, and the exposition takes types and help texts from there.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
MOST_SERIES: Final = 20_000
"""Series of a metric with labels, where its description says no other number."""


class Kind(enum.StrEnum):
    """A metric's type, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    """Quantiles, a count and a sum, of a Histogram."""
    HISTOGRAM = "histogram"
    """Cumulative buckets, a count and a sum, of a Histogram."""


class Unit(enum.StrEnum):
    """A value's unit, by Grafana's names of them."""

    COUNT = "short"
    BYTES = "bytes"
    MILLISECONDS = "ms"
    SECONDS = "s"
    FRACTION = "percentunit"
    """From 0 to 1."""
    PERCENT = "percent"
    """From 0 to 100."""
    FLAG = "bool"
    """0 or 1."""


class Dashboard(enum.StrEnum):
    """The dashboards."""

    CLUSTER = "Cluster"
    TOPICS = "Topics"
    GROUPS = "Groups"
    QUORUM = "Quorum"
    SERVICES = "Services"
    STREAMS = "Streams"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a dashboard. Metrics with the same panel are drawn together.

    row: the heading that it stands under. by: the labels by which series are summed before they are drawn;
    none for the labels of the metric. query: a PromQL expression, where the usual one (the rate of a
    counter, the value of a gauge, the quantiles of a summary) would not tell what the panel is for.
    """

    dashboard: Dashboard
    row: str
    title: str
    by: tuple[str, ...] = ()
    query: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    origin: the MBean of Apache Kafka or the metric of another program whose name and meaning it has; empty
    for ottla's own. differs: where the value is not what the origin's is, in a sentence for the reference.
    most_series: how many series are exposed at most; further ones are counted in
    ottla_metrics_series_dropped. requested_by: the setting that asks for this metric; empty where it is
    always there.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: Unit = Unit.COUNT
    panel: Panel | None = None
    origin: str = ""
    differs: str = ""
    most_series: int = MOST_SERIES
    requested_by: str = ""

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ValueError(f"{self.name!r} is no name of a metric")
        for label in self.labels:
            if LABEL_NAME.fullmatch(label) is None or label in ("le", "quantile"):
                raise ValueError(f"{label!r} is no name of a label of {self.name}")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"a label of {self.name} stands twice")
        if not self.help or self.most_series < 1:
            raise ValueError(f"{self.name} needs a help text and room for a series")
