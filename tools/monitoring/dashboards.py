"""Grafana dashboards, by Grafana's own library, from the panels that the tables of metrics name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh, VariableSort

from monitoring.expressions import selected, series_names, targets
from ottla.metrics.metric import Dashboard, Kind, Metric, Unit

SELECTOR: Final = 'job=~"$job",instance=~"$instance"'
DATA_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
PANEL_WIDTH: Final = 12
PANEL_HEIGHT: Final = 8
#: A unit a second, by Grafana's names: a counter is drawn as its rate.
RATE_UNITS: Final[Mapping[Unit, str]] = {
    Unit.COUNT: "cps",
    Unit.BYTES: "Bps",
    Unit.SECONDS: "percentunit",  # seconds of work a second
    Unit.MILLISECONDS: "ms",
}
ABOUT: Final[Mapping[Dashboard, str]] = {
    Dashboard.CLUSTER: "Brokers and controllers: traffic, requests, replication, memory, disks.",
    Dashboard.TOPICS: "Each topic's traffic, sizes and offsets.",
    Dashboard.GROUPS: "Consumer groups: members, rebalances, lag in records and in seconds.",
    Dashboard.QUORUM: "The metadata quorum: leader, epoch, votes, lag of its voters, the controller's work.",
    Dashboard.SERVICES: "Schema Registry, REST Proxy and other services: requests, errors, times, bounds.",
    Dashboard.STREAMS: "Queries and Streams applications: rates, batches, state, watermarks, latency.",
}


def all_dashboards(metrics: Sequence[Metric]) -> dict[Dashboard, str]:
    """The JSON text of each dashboard that has a panel."""
    known = series_names(metrics)
    texts = {}
    for which in Dashboard:
        shown = [each for each in metrics if each.panel is not None and each.panel.dashboard is which]
        if shown:
            texts[which] = (
                JSONEncoder(sort_keys=True, indent=1).encode(_dashboard(which, shown, known)) + "\n"
            )
    return texts


def _dashboard(which: Dashboard, shown: Sequence[Metric], known: frozenset[str]) -> object:
    built = (
        dashboard.Dashboard(f"ottla: {which.value}")
        .uid(f"ottla-{which.value.lower()}")
        .description(ABOUT[which])
        .tags(["ottla", "kafka"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    first = shown[0].name
    built.with_variable(_label_variable("job", f"label_values({first}, job)"))
    built.with_variable(_label_variable("instance", f'label_values({first}{{job=~"$job"}}, instance)'))
    rows: dict[str, dict[str, list[Metric]]] = {}
    for metric in shown:
        assert metric.panel is not None
        rows.setdefault(metric.panel.row, {}).setdefault(metric.panel.title, []).append(metric)
    for row, panels in rows.items():
        built.with_row(dashboard.Row(row))
        for title, drawn in panels.items():
            built.with_panel(_panel(title, drawn, known))
    return built.build()


def _label_variable(label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(label)
        .label(label.capitalize())
        .datasource(DATA_SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(title: str, drawn: Sequence[Metric], known: frozenset[str]) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .description("\n\n".join(_explained(metric) for metric in drawn))
        .datasource(DATA_SOURCE)
        .unit(_unit(drawn[0]))
        .min(0)
        .span(PANEL_WIDTH)
        .height(PANEL_HEIGHT)
        .legend(common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).show_legend(True))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    ids = count()
    for metric in drawn:
        for target in targets(metric, len(drawn)):
            query = prometheus.Dataquery().expr(selected(target.expression, SELECTOR, known))
            panel.with_target(query.legend_format(target.legend).ref_id(f"Q{next(ids)}"))
    return panel


def _explained(metric: Metric) -> str:
    return f"`{metric.name}`: {metric.help}" + (f" {metric.differs}" if metric.differs else "")


def _unit(metric: Metric) -> str:
    assert metric.panel is not None
    if metric.kind is Kind.COUNTER and not metric.panel.query:
        return RATE_UNITS.get(metric.unit, metric.unit.value)
    return metric.unit.value
