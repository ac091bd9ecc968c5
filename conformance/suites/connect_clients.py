"""A Node client of Connect's REST API, in a program of ours that does what users do, against `ottla connect`.

The worker is ottla's on both sides; its state and its connectors' records lie in the cluster that the suite
runs against, Apache Kafka or ottla. Python's clients are in tests/services/connect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from conformance.suite import Suite, SuiteError, Target, TestResult
from conformance.suites.node_clients import walk_node
from support.servers.cluster import ServerError
from support.servers.services import ServiceProcess

_WORKER: Final[Mapping[str, str]] = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "300",
    "offset.flush.interval.ms": "200",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def _run(target: Target) -> Sequence[TestResult]:
    directory = target.workspace / "connect"
    try:
        with ServiceProcess.start("connect", target.bootstrap, directory, _WORKER) as worker:
            lines = directory / "lines.txt"
            lines.write_text("one\ntwo\n", encoding="utf-8")
            return walk_node("connect.mjs", target, str(worker.port), str(lines))
    except ServerError as problem:
        raise SuiteError(str(problem)) from problem


SUITES = (
    Suite(
        name="connect-node",
        origin="ours, with kafka-connect-client 2.3.0 on Node and ottla's Connect",
        run=_run,
        needs=("node", "npm"),
    ),
)
