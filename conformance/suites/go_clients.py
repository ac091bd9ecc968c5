"""Go clients, each in a program of ours that does what its users do: sarama, segmentio/kafka-go and franz-go.

The programs and the module's go.mod and go.sum are in `clients/go`. Modules and compiled packages stay in
Go's own caches, the programs below the downloads. What fails on both brokers alike is the client's own fault:
kafka-go's Reader hands out the marker that ends a transaction as if it were a message.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from conformance.downloads import command
from conformance.programs import walk
from conformance.suite import Suite, Target, TestResult, in_every_way

MODULE = Path(__file__).resolve().parent.parent / "clients" / "go"
# The programs create their topics; one that springs up by itself would hide the error for a missing one.
SETTINGS = (("auto.create.topics.enable", "false"),)


def walk_go(package: str, target: Target, *arguments: str) -> Sequence[TestResult]:
    """What the program tells of this target's broker; `arguments` follow its address. Raises SuiteError."""
    program = target.downloads / "go" / package
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    command(["go", "build", "-C", str(MODULE), "-o", str(program), f"./{package}"], environment=environment)
    return walk(
        [str(program), target.bootstrap, *arguments],
        directory=target.workspace,
        environment={**os.environ, **target.environment()},
    )


SUITES = tuple(
    suite
    for name, client, package in (
        ("go-sarama", "github.com/IBM/sarama v1.61.1", "sarama"),
        ("go-segmentio-kafka", "github.com/segmentio/kafka-go v0.4.51", "segmentio"),
        ("go-franz", "github.com/twmb/franz-go v1.22.2", "franz"),
    )
    for suite in in_every_way(
        Suite(
            name=name,
            origin=f"ours, with {client}",
            run=functools.partial(walk_go, package),
            settings=SETTINGS,
            needs=("go",),
        )
    )
)
