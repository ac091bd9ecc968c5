"""Clients of a Schema Registry, in programs of ours that do what their users do, against `ottla registry`.

The registry is ottla's on both sides; it keeps its schemas in the cluster that the suite runs against, Apache
Kafka or ottla, and must do the same on either. What fails on both is the registry's fault or the client's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from conformance.suite import Suite, SuiteError, Target, TestResult
from conformance.suites.go_clients import walk_go
from conformance.suites.node_clients import walk_node
from support.servers.cluster import ServerError
from support.servers.services import ServiceProcess

# The programs create their topics; one that springs up by itself would hide the error for a missing one.
SETTINGS = (("auto.create.topics.enable", "false"),)


def _run(walk: Callable[..., Sequence[TestResult]], program: str, target: Target) -> Sequence[TestResult]:
    try:
        with ServiceProcess.start("registry", target.bootstrap, target.workspace / "registry") as registry:
            return walk(program, target, registry.url)
    except ServerError as problem:
        raise SuiteError(str(problem)) from problem


SUITES = (
    Suite(
        name="registry-kafkajs",
        origin="ours, with @kafkajs/confluent-schema-registry 4.1.0 on Node and ottla's registry",
        run=functools.partial(_run, walk_node, "schema_registry.mjs"),
        settings=SETTINGS,
        needs=("node", "npm"),
    ),
    Suite(
        name="registry-franz-sr",
        origin="ours, with github.com/twmb/franz-go/pkg/sr v1.8.0 and ottla's registry",
        run=functools.partial(_run, walk_go, "schemaregistry"),
        settings=SETTINGS,
        needs=("go",),
    ),
    Suite(
        name="registry-hamba",
        origin="ours, with github.com/hamba/avro/v2/registry v2.31.0 and ottla's registry",
        run=functools.partial(_run, walk_go, "hamba"),
        settings=SETTINGS,
        needs=("go",),
    ),
)
