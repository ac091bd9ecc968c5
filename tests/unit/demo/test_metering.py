"""The demo's metrics and health, without Spark."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.demo.metering import DemoMetrics, addresses
from support.metrics.samples import by_labels


def test_the_broker_and_the_queries_have_ports_that_follow_each_other() -> None:
    of_broker, of_queries = addresses("127.0.0.1:9404")
    assert (of_broker.setting, of_queries.setting) == ("127.0.0.1:9404", "127.0.0.1:9405")
    assert [each.port for each in addresses("127.0.0.1:0")] == [0, 0]
    with pytest.raises(ConfigError, match="http alone"):
        addresses("https://127.0.0.1:9404")


def test_readiness_is_that_of_the_queries() -> None:
    failure: list[str] = []
    queries: Any = SimpleNamespace(
        scoring=SimpleNamespace(name="scoring"),
        counting=SimpleNamespace(name="counting"),
        failure=lambda: failure[0] if failure else None,
    )
    metered = DemoMetrics()
    health = metered.metrics.health
    assert not asyncio.run(health.is_ready()).is_well
    metered.started(queries)
    assert asyncio.run(health.is_ready()).is_well
    running = by_labels(metered.metrics.exposition.text(), "ottla_query_running", "query")
    assert running == {("scoring",): 1, ("counting",): 1}
    failure.append("query scoring ended: no space left")
    report = asyncio.run(health.is_ready())
    assert not report.is_well and b"no space left" in report.body(with_reasons=True)
