"""Clients of ksqlDB's REST API, in programs of ours, against `ottla sql server`: Node (HTTP/2) and Python.

The server is ottla's on both sides; its state and rows lie in the cluster that the suite runs against, Apache
Kafka or ottla.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conformance import downloads
from conformance.programs import walk
from conformance.suite import Suite, SuiteError, Target, TestResult
from conformance.suites.node_clients import walk_node
from support.servers.cluster import ServerError
from support.sql.sql_server import SqlServer

PYTHON_PROGRAM = Path(__file__).resolve().parent.parent / "clients" / "python" / "ksql_walk.py"


@contextmanager
def _server(target: Target, service: str) -> Iterator[SqlServer]:
    """A server on the target's cluster. Raises SuiteError."""
    # Apache Kafka's brokers take no session below 6 s.
    settings = {"ottla.sql.session.timeout.ms": "6000"}
    try:
        with SqlServer.start(
            target.bootstrap, target.workspace / "sql", service, settings=settings
        ) as server:
            yield server
    except ServerError as problem:
        raise SuiteError(str(problem)) from problem


def _run_node(target: Target) -> Sequence[TestResult]:
    with _server(target, "node_") as server:
        return walk_node("ksqldb.mjs", target, str(server.process.port))


def _run_python(target: Target) -> Sequence[TestResult]:
    python = downloads.virtual_environment(target.downloads, "ksql")
    source = downloads.source_package(target.downloads, python, "ksql.sdist")
    program = shutil.copy(PYTHON_PROGRAM, target.workspace)
    with _server(target, "python_") as server:
        return walk(
            [str(python), str(program), server.url],
            directory=target.workspace,
            environment={**os.environ, "PYTHONPATH": str(source)},
        )


SUITES = (
    Suite(
        name="sql-node",
        origin="ours, with ksqldb-client 1.0.5 on Node and ottla's SQL server",
        run=_run_node,
        needs=("node", "npm"),
    ),
    Suite(
        name="sql-python", origin="ours, with ksql 0.10.2 in Python and ottla's SQL server", run=_run_python
    ),
)
