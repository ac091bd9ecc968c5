"""What a suite is: a named set of tests that somebody else wrote, or that a real client carries out."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from conformance.access import Access, Way

#: In a setting's value: the broker's own host:port.
BOOTSTRAP_PLACEHOLDER = "{bootstrap}"


class Verdict(enum.Enum):
    """How one test ended on one side."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test of a suite. reason: one line, what failed or why it was skipped; empty when it passed."""

    __test__: ClassVar[bool] = False  # pytest takes what is called Test… for tests

    name: str
    verdict: Verdict
    reason: str = ""


class SuiteError(Exception):
    """A suite could not be run at all (a download, a compiler, a dead broker); one line that says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a suite runs against.

    name: `ottla` or `apache-kafka`. bootstrap: `host:port` of its only broker. data: its data directory
    (tools that read segments). workspace: an empty directory for this suite's own files, removed afterwards.
    downloads: a directory that stays, for what is fetched once (sdists, node packages, Go modules, jars).
    way, access: how its clients come to the broker; an open one has no other listeners, and no access.
    """

    name: str
    bootstrap: str
    data: Path
    workspace: Path
    downloads: Path
    way: Way = Way.OPEN
    access: Access | None = None

    def environment(self) -> Mapping[str, str]:
        """The variables of a program of ours, beside this process's own."""
        if self.access is None or self.way is Way.PLAINTEXT:
            return {}
        return self.access.environment(self.way)

    def librdkafka(self) -> Mapping[str, str]:
        """The properties of a client of librdkafka."""
        way_in = {} if self.access is None else self.access.librdkafka(self.way)
        return {"bootstrap.servers": self.bootstrap, **way_in}


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite by name.

    origin: whose tests these are, with the version. settings: broker settings beyond the usual ones, given
    to both sides alike; BOOTSTRAP_PLACEHOLDER in a value stands for the broker's address. needs: commands
    that must be on the PATH (`node`, `go`, `kcat`); without one of them the suite is left out and the
    scoreboard says so. run: gives a result for every test, in a fixed order;
    raises SuiteError. way: how its clients come to the broker.
    """

    name: str
    origin: str
    run: Callable[[Target], Sequence[TestResult]]
    settings: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    way: Way = Way.OPEN
    #: Tests that fail on ottla for a reason that was looked into: name of the test -> why, told in the table.
    explained: tuple[tuple[str, str], ...] = ()


def in_every_way(suite: Suite) -> tuple[Suite, ...]:
    """A suite to an open broker, and the same by SASL_SSL and by mutual TLS."""
    secured = (
        dataclasses.replace(
            suite, name=f"{suite.name}-{name}", origin=f"{suite.origin}, by {way.value}", way=way
        )
        for name, way in (("sasl-ssl", Way.SASL_SSL), ("mtls", Way.MUTUAL))
    )
    return (suite, *secured)
