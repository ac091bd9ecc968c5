"""Kafka's own command-line programs against the cluster: each run of a tool is a test.

Those of security (AclCommand, DelegationTokenCommand, ConfigCommand for users and quotas) have a suite of
their own, on a secured broker. Left out: JmxTool (there is no Java to look into) and the tools of Kafka
Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from conformance.access import Way
from conformance.java.stories import Story, clients, groups, security, tell, topics
from conformance.suite import Suite, SuiteError, Target, TestResult
from ottla.pipeline.spark.java_runtime import JavaError
from ottla.pipeline.spark.maven import MavenError
from support.java.java_tools import (
    TOOL_DRIVER,
    TOOLS_VERSION,
    CompileError,
    compile_java,
    java_command,
    tools_classpath,
)
from support.java.tool_driver import ToolDriverError, tool_driver

STORIES = (*topics.STORIES, *groups.STORIES, *clients.STORIES)


def run_tools(stories: Sequence[Callable[[Story], None]], target: Target) -> Sequence[TestResult]:
    """Every story's tests. Raises SuiteError when there is no Java or no jars."""
    try:
        programs = compile_java([TOOL_DRIVER], tools_classpath(), target.workspace / "classes")
        with tool_driver(lambda main, words: java_command(main, *words, class_path=programs)) as driver:
            return tell(stories, target, driver)
    except (CompileError, JavaError, MavenError, ToolDriverError, OSError) as problem:
        raise SuiteError(str(problem)) from problem


ORIGIN = f"org.apache.kafka:kafka-tools {TOOLS_VERSION}"
SUITES = (
    Suite("kafka-tools", ORIGIN, partial(run_tools, STORIES)),
    Suite(
        "kafka-tools-security",
        f"{ORIGIN}, on a secured broker",
        partial(run_tools, security.STORIES),
        way=Way.PLAINTEXT,
    ),
)
