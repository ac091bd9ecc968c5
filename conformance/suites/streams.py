"""Kafka Streams 4.3.1: its own smoke tests, one of some twenty operators and one of joins between tables.

A smoke test is a driver that feeds an application for a minute or so and then verifies what came out, and the
application, each in a Java virtual machine of its own. Each stage of each is a test of the table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from conformance.suite import Suite, SuiteError, Target, TestResult, Verdict
from ottla.pipeline.spark.java_runtime import JavaError
from ottla.pipeline.spark.maven import MavenError
from support.clients.confluent import create_topic
from support.java.java_tools import TOOLS_VERSION
from support.java.streams_apps import (
    SMOKE_PARTITIONS,
    SMOKE_TOPICS,
    STREAMS_FLAGS,
    StreamsProcess,
    smoke_test,
    streams_classpath,
    streams_process,
)

RELATIONAL_TEST = "org.apache.kafka.streams.tests.RelationalSmokeTest"
RELATIONAL_TOPICS = ("in-article", "in-comment", "out-augmented-article", "out-augmented-comment")
RELATIONAL_PARTITIONS = 4
STARTS_WITHIN_S = 60.0
DELIVERED_WITHIN_S = 170.0
VERIFIED_WITHIN_S = 90.0


class Stages:
    """Waits for what a program says; each wait is a test, and after one that failed the rest are skipped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.results: list[TestResult] = []
        self._failed = False

    def stage(self, test: str, wait: Callable[[], object]) -> None:
        """One stage, carried out unless an earlier one has failed."""
        verdict, reason = Verdict.PASSED, ""
        if self._failed:
            verdict, reason = Verdict.SKIPPED, "an earlier stage failed"
        else:
            try:
                wait()
            except AssertionError as problem:
                self._failed = True
                verdict, reason = Verdict.FAILED, " ".join(str(problem).split())[:300]
        self.results.append(TestResult(f"{self.name}: {test}", verdict, reason))


def smoke(target: Target, protocol: str, guarantee: str) -> Sequence[TestResult]:
    """StreamsSmokeTest in one form."""
    stages = Stages(f"StreamsSmokeTest with the {protocol} protocol, {guarantee}")
    for topic in SMOKE_TOPICS:
        create_topic(target.bootstrap, topic, partitions=SMOKE_PARTITIONS)
    settings = {
        "group_protocol": protocol,
        "processing_guarantee": guarantee,
        "state_dir": str(target.workspace / "smoke-state"),
    }
    with contextlib.ExitStack() as programs:
        application = programs.enter_context(
            smoke_test(target.bootstrap, target.workspace, "process", **settings)
        )
        stages.stage(
            "the application starts",
            lambda: application.wait_for("SMOKE-TEST-CLIENT-STARTED", STARTS_WITHIN_S),
        )
        driver = programs.enter_context(smoke_test(target.bootstrap, target.workspace, "run", **settings))
        stages.stage(
            "all records are delivered", lambda: driver.wait_for("ALL-RECORDS-DELIVERED", DELIVERED_WITHIN_S)
        )
        stages.stage(
            "every result is as expected", lambda: said(driver, "SUCCESS", "FAILURE", VERIFIED_WITHIN_S)
        )
        # Not closed in peace: its minute for that is the disk's, which syncs a hundred stores.
        application.process.kill()
        stages.stage(
            "no thread has failed", lambda: nobody_said(application.rest(), "SMOKE-TEST-CLIENT-EXCEPTION")
        )
        driver.process.kill()
    return stages.results


def relational(target: Target, protocol: str, guarantee: str) -> Sequence[TestResult]:
    """RelationalSmokeTest in one form."""
    stages = Stages(f"RelationalSmokeTest with the {protocol} protocol, {guarantee}")
    for topic in RELATIONAL_TOPICS:
        create_topic(target.bootstrap, topic, partitions=RELATIONAL_PARTITIONS)
    state = str(target.workspace / "relational-state")
    with contextlib.ExitStack() as programs:
        words = ("application", target.bootstrap, "one", guarantee, protocol, state)
        application = programs.enter_context(relational_program(*words))
        stages.stage(
            "the application starts", lambda: application.wait_for("Streams has started", STARTS_WITHIN_S)
        )
        driver = programs.enter_context(relational_program("driver", target.bootstrap))
        stages.stage(
            "all records are delivered", lambda: driver.wait_for("finished producing", DELIVERED_WITHIN_S)
        )
        stages.stage(
            "every result is as expected",
            lambda: said(driver, "Smoke test complete: passed", "complete: failed", VERIFIED_WITHIN_S),
        )
        application.process.kill()
        driver.process.kill()
    return stages.results


def relational_program(*arguments: str) -> AbstractContextManager[StreamsProcess]:
    """A part of RelationalSmokeTest for the length of the block; it says how it goes on in its log."""
    log = f"-Dorg.slf4j.simpleLogger.log.{RELATIONAL_TEST}=info"
    return streams_process(RELATIONAL_TEST, *arguments, flags=(*STREAMS_FLAGS, log))


def said(program: StreamsProcess, good: str, bad: str, timeout_s: float) -> None:
    """Wait for the good word. Raises AssertionError without it, or when the bad one was said before."""
    program.wait_for(good, timeout_s)
    nobody_said(program.output, bad)


def nobody_said(lines: Sequence[str], text: str) -> None:
    """Raises AssertionError with the first line that has the text."""
    for line in lines:
        assert text not in line, line


def run_smoke_tests(target: Target) -> Sequence[TestResult]:
    """Both smoke tests. Raises SuiteError when there is no Java or no jars."""
    try:
        streams_classpath()
    except (MavenError, JavaError) as problem:
        raise SuiteError(str(problem)) from problem
    return (
        *smoke(target, "streams", "exactly_once_v2"),
        *relational(target, "classic", "at_least_once"),
    )


SUITES = (
    Suite(
        "streams-smoke",
        f"org.apache.kafka:kafka-streams:test {TOOLS_VERSION}",
        run_smoke_tests,
        settings=(("group.streams.initial.rebalance.delay.ms", "500"),),
    ),
)
