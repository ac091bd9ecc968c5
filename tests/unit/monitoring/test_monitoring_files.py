"""The page, dashboards and rules are those that the tables of metrics give, and they hang together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.metrics.tables import all_tables

REPOSITORY = Path(__file__).parents[3]
MONITORING = REPOSITORY / "packaging" / "monitoring"
TOOL = REPOSITORY / "tools" / "generate_monitoring.py"
TABLES = all_tables()
METRICS = {metric.name: metric for table in TABLES for metric in table.metrics}
DASHBOARDS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in (MONITORING / "grafana").glob("*.json")
}


def test_the_files_are_as_the_tables_say() -> None:
    checked = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, checked.stderr


def drawn(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a dashboard that draw something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_there_is_a_dashboard_for_each_part_of_the_platform() -> None:
    assert set(DASHBOARDS) == {
        f"ottla-{part}" for part in ("cluster", "topics", "groups", "quorum", "services", "streams")
    }


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_each_panel_asks_for_metrics_of_the_chosen_cluster(name: str) -> None:
    for panel in drawn(DASHBOARDS[name]):
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert 'job=~"$job",instance=~"$instance"' in target["expr"], target["expr"]
            assert any(metric in target["expr"] for metric in METRICS), target["expr"]


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_panels_do_not_lie_over_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARDS[name]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_metric_with_a_panel_is_drawn_where_it_says() -> None:
    for metric in METRICS.values():
        if metric.panel is None:
            continue
        dashboard = DASHBOARDS[f"ottla-{metric.panel.dashboard.value.lower()}"]
        assert any(
            each["title"] == metric.panel.title and f"`{metric.name}`" in each["description"]
            for each in drawn(dashboard)
        )


@pytest.mark.system("promtool", "prometheus")
def test_prometheus_reads_every_expression_of_the_dashboards(tmp_path: Path) -> None:
    expressions = {
        target["expr"]
        for dashboard in DASHBOARDS.values()
        for panel in drawn(dashboard)
        for target in panel["targets"]
    }
    records = [
        {"record": f"panel_{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(sorted(expressions))
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(records) > 50


@pytest.mark.system("promtool", "prometheus")
def test_prometheus_takes_the_example_of_a_configuration() -> None:
    file = MONITORING / "prometheus" / "prometheus.yml"
    checked = subprocess.run(
        ["promtool", "check", "config", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
