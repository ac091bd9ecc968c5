"""The scenarios: what each measures, how, and what is to be reached. One entry in SCENARIOS a name."""

from __future__ import annotations

from collections.abc import Mapping

from bench.scenarios import (
    catch_up,
    connections,
    consuming,
    latency,
    life,
    pipeline,
    producing,
    replicated,
    services,
    sizes,
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
    replicated,
    connections,
    catch_up,
    services,
    pipeline,
)

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario for family in _FAMILIES for scenario in family.SCENARIOS
}
