"""docs/metrics.md: every metric of every table, and every alert rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from monitoring.alerts import Alert
from ottla.metrics.metric import Metric
from ottla.metrics.tables import MetricTable

INTRODUCTION: Final = Path(__file__).with_name("introduction.md")


def page(tables: Sequence[MetricTable], alerts: Sequence[Alert]) -> str:
    """The text of the page."""
    parts = [INTRODUCTION.read_text(encoding="utf-8").rstrip(), "", "## The metrics", ""]
    for table in tables:
        parts += [f"### {table.title}", "", *_rows(table.metrics), ""]
    parts += ["## The alert rules", "", *_alert_rows(alerts), ""]
    return "\n".join(parts)


def _rows(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind.value} | {labels} | {_cell(_meaning(metric))} |"


def _meaning(metric: Metric) -> str:
    sentences = [metric.help]
    if metric.differs:
        sentences.append(metric.differs)
    if metric.requested_by:
        sentences.append(f"Only with `{metric.requested_by}`.")
    if metric.origin:
        sentences.append(f"(`{metric.origin}`)")
    return " ".join(sentences)


def _alert_rows(alerts: Iterable[Alert]) -> Iterator[str]:
    yield "| alert | severity | after | it fires when | what to do |"
    yield "|---|---|---|---|---|"
    for alert in alerts:
        yield (
            f"| `{alert.name}` | {alert.severity.value} | {alert.after} | {_cell(alert.meaning)} | "
            f"{_cell(alert.remedy)} |"
        )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
