"""PromQL expressions of a panel, and the variables of a dashboard put into them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.metrics.metric import Kind, Metric

#: How the series of a histogram or summary are named besides its own name.
SUFFIXES: Final = ("_bucket", "_sum", "_count")
QUANTILES: Final = 'quantile=~"0.5|0.99"'
RATE_WINDOW: Final = "$__rate_interval"
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_TOKEN: Final = re.compile(rf"{_STRING}|[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Target:
    """An expression of a panel, and the legend of its series in Grafana's braces."""

    expression: str
    legend: str


def targets(metric: Metric, shown_with: int) -> Iterator[Target]:
    """The expressions that draw a metric. shown_with: how many metrics its panel has in all."""
    assert metric.panel is not None
    named = metric.name if shown_with > 1 else ""
    by = metric.panel.by or metric.labels or ("instance",)
    if metric.panel.query:
        yield Target(metric.panel.query.replace("{metric}", metric.name), _legend(by, named))
        return
    grouped = f" by ({', '.join(by)})"
    # Kafka has a series of all topics, without the label, beside those of each.
    series = f'{metric.name}{{topic!=""}}' if "topic" in by else metric.name
    match metric.kind:
        case Kind.COUNTER:
            yield Target(f"sum{grouped} (rate({series}[{RATE_WINDOW}]))", _legend(by, named))
        case Kind.GAUGE if metric.panel.by:
            yield Target(f"sum{grouped} ({series})", _legend(by, named))
        case Kind.GAUGE:
            yield Target(metric.name, _legend(("instance", *metric.labels), named))
        case Kind.SUMMARY:
            with_quantile = ", ".join((*by, "quantile"))
            yield Target(
                f"max by ({with_quantile}) ({metric.name}{{{QUANTILES}}})", _legend((*by, "quantile"), named)
            )
        case Kind.HISTOGRAM:
            with_bound = ", ".join((*by, "le"))
            buckets = f"sum by ({with_bound}) (rate({metric.name}_bucket[{RATE_WINDOW}]))"
            for quantile in (0.5, 0.99):
                legend = f"{_legend(by, named)} p{quantile * 100:g}".strip()
                yield Target(f"histogram_quantile({quantile}, {buckets})", legend)


def _legend(labels: tuple[str, ...], name: str) -> str:
    return " ".join(filter(None, (name, *(f"{{{{{label}}}}}" for label in labels))))


def series_names(metrics: Collection[Metric]) -> frozenset[str]:
    """The names under which the series of metrics are queried."""
    names = {metric.name for metric in metrics}
    for metric in metrics:
        if metric.kind in (Kind.SUMMARY, Kind.HISTOGRAM):
            names |= {metric.name + suffix for suffix in SUFFIXES}
    return frozenset(names)


def names_in(expression: str, known: Collection[str]) -> list[str]:
    """The names of series in an expression, in their order."""
    return [found[0] for found in _TOKEN.finditer(expression) if found[0] in known]


def selected(expression: str, selector: str, known: Collection[str]) -> str:
    """The expression with a selector added to each of its series."""
    parts, position = [], 0
    for found in _TOKEN.finditer(expression):
        if found[0] not in known:
            continue
        parts.append(expression[position : found.end()])
        position = found.end()
        if expression[position : position + 1] == "{":
            position += 1
            parts.append(f"{{{selector}," if expression[position : position + 1] != "}" else f"{{{selector}")
        else:
            parts.append(f"{{{selector}}}")
    return "".join((*parts, expression[position:]))
