"""A Node client of ksqlDB's REST API, over HTTP/2, in a program of ours, against `ottla sql server`.

The server is ottla's on both sides; its state and rows lie in the cluster that the suite runs against, Apache
Kafka or ottla.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.suite import Suite, SuiteError, Target, TestResult
from conformance.suites.node_clients import walk_node
from support.servers.cluster import ServerError
from support.sql.sql_server import SqlServer


def _run(target: Target) -> Sequence[TestResult]:
    # Apache Kafka's brokers take no session below 6 s.
    settings = {"ottla.sql.session.timeout.ms": "6000"}
    directory = target.workspace / "sql"
    try:
        with SqlServer.start(target.bootstrap, directory, "node_", settings=settings) as server:
            return walk_node("ksqldb.mjs", target, str(server.process.port))
    except ServerError as problem:
        raise SuiteError(str(problem)) from problem


SUITES = (
    Suite(
        name="sql-node",
        origin="ours, with ksqldb-client 1.0.5 on Node and ottla's SQL server",
        run=_run,
        needs=("node", "npm"),
    ),
)
