"""The tables of all metrics: each module of this folder is one system's, with a TITLE and its METRICS.

A module that is added here is found by itself; none of them is imported before its system runs, or a
document is made of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.metrics.confluent_http import HttpMetrics
from ottla.metrics.metric import Metric


@dataclass(frozen=True, slots=True)
class MetricTable:
    """The metrics of a system. name: its module's."""

    name: str
    title: str
    metrics: Sequence[Metric]


def all_tables() -> list[MetricTable]:
    """Every table, by the name of its module. Raises ValueError where two have a metric of one name."""
    tables = []
    table_of: dict[str, str] = {}
    for found in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        module = importlib.import_module(f"{__name__}.{found.name}")
        tables.append(MetricTable(found.name, module.TITLE, module.METRICS))
        for metric in module.METRICS:
            other = table_of.setdefault(metric.name, found.name)
            if other != found.name:
                raise ValueError(f"{metric.name} stands in the tables {other} and {found.name}")
    return tables


def metrics_in(namespace: dict[str, object]) -> tuple[Metric, ...]:
    """The metrics among the values of a module's namespace, in their order; for METRICS of its table."""
    found: list[Metric] = []
    for value in namespace.values():
        if isinstance(value, Metric):
            found.append(value)
        elif isinstance(value, HttpMetrics):
            found.extend(value)
    return tuple(found)
