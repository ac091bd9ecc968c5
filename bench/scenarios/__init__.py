"""The scenarios, by name in SCENARIOS: their measures, how these are taken, and their targets."""

from __future__ import annotations

from collections.abc import Mapping

from bench.scenarios import (
    audit,
    authorized,
    balance,
    beside,
    catch_up,
    commands,
    connect_changes,
    connect_files,
    connect_lake,
    connect_workers,
    connections,
    consuming,
    fixture,
    lag,
    latency,
    life,
    link,
    listing,
    metrics,
    mirror,
    pipeline,
    producing,
    quotas,
    replicated,
    secured,
    services,
    sizes,
    sql_queries,
    sql_rows,
    unified_logging,
)
from bench.scenarios.scenario import Scenario, Turn

__all__ = ["SCENARIOS", "Scenario", "Turn"]

_FAMILIES = (
    producing,
    latency,
    consuming,
    unified_logging,
    sizes,
    life,
    fixture,
    replicated,
    connections,
    catch_up,
    beside,
    secured,
    authorized,
    quotas,
    listing,
    lag,
    audit,
    balance,
    metrics,
    services,
    commands,
    pipeline,
    connect_changes,
    connect_files,
    connect_lake,
    connect_workers,
    mirror,
    link,
    sql_rows,
    sql_queries,
)

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario for family in _FAMILIES for scenario in family.SCENARIOS
}
