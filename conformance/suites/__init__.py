"""One module a family of suites; each has `SUITES`, a tuple of Suite."""

from __future__ import annotations

import importlib

from conformance.suite import Suite, SuiteError

#: In the order in which they run and stand in the scoreboard.
MODULES = (
    "kafka_python",
    "aiokafka",
    "confluent_kafka",
    "kcat",
    "java_clients",
    "kafka_tools",
    "streams",
    "node_clients",
    "go_clients",
    "registry_clients",
    "connect_clients",
    "sql_clients",
)


def load_suites() -> dict[str, Suite]:
    """Every suite by its name. Raises SuiteError when two have the same."""
    suites: dict[str, Suite] = {}
    for module in MODULES:
        for suite in importlib.import_module(f"conformance.suites.{module}").SUITES:
            if suite.name in suites:
                raise SuiteError(f"two suites are called {suite.name}")
            suites[suite.name] = suite
    return suites
