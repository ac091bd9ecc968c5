"""Apache Kafka's Java client, of 4.4, 4.3 and 3.9: one program that walks through what it can do.

It comes in plaintext, by SASL_SSL and by mutual TLS. ACLs are there by the latter two; what other users are
refused, and delegation tokens, by SASL_SSL alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from conformance.java import CLIENTS_39_LOCK, class_path, compiled
from conformance.programs import walk
from conformance.suite import Suite, Target, TestResult, in_every_way
from support.java.java_tools import (
    JAR_LOCK,
    KAFKA_VERSION,
    TOOL_FLAGS,
    TOOLS_LOCK,
    TOOLS_VERSION,
    java_command,
)

PROGRAM = "ClientWalk"
SOURCES = (
    "ClientWalk.java",
    "Walk.java",
    "ProducerSteps.java",
    "ConsumerSteps.java",
    "AdminSteps.java",
    "SecuritySteps.java",
)
#: Steps that only a client of 4.3 and later can take.
NEW_STEPS = "NewSteps"
TIMEOUT_S = 400.0
#: The jars of each version of the client.
LOCKS = {KAFKA_VERSION: JAR_LOCK, TOOLS_VERSION: TOOLS_LOCK, "3.9.2": CLIENTS_39_LOCK}


def run_client(target: Target, *, version: str) -> Sequence[TestResult]:
    """The walk with one version of the client. Raises SuiteError when there is no Java or no jars."""
    new = version in (KAFKA_VERSION, TOOLS_VERSION)
    jars = class_path(LOCKS[version])
    sources = (*SOURCES, f"{NEW_STEPS}.java") if new else SOURCES
    programs = compiled(sources, jars, target.workspace / "classes")
    more = (NEW_STEPS,) if new else ()
    command = java_command(PROGRAM, target.bootstrap, *more, flags=TOOL_FLAGS, class_path=programs)
    environment = {**os.environ, **target.environment()}
    return walk(command, directory=target.workspace, environment=environment, timeout_s=TIMEOUT_S)


SUITES = tuple(
    suite
    for version in LOCKS
    for suite in in_every_way(
        Suite(
            f"java-client-{version.rpartition('.')[0]}",
            f"org.apache.kafka:kafka-clients {version}",
            partial(run_client, version=version),
        )
    )
)
