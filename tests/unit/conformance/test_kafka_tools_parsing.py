"""When a run of a Kafka tool is a test that failed, and what becomes of a story that breaks off."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from conformance.java import CLIENTS_39_LOCK, SOURCES
from conformance.java.stories import Story, StoryError, complaint, log_file, tell
from conformance.suite import Target, TestResult, Verdict
from conformance.suites import java_clients

from support.java.java_tools import COMPILER_LOCK, TOOL_DRIVER, jars_of
from support.java.tool_driver import ToolDriver, ToolRun

DESCRIBED = ToolRun(0, "Topic: t\tPartitionCount: 2\n\nTopic: u\tPartitionCount: 1\n", "a warning\n")


class FakeDriver:
    """Answers every run alike, and notes what was run."""

    def __init__(self, answer: ToolRun) -> None:
        self.answer = answer
        self.runs: list[tuple[str, ...]] = []

    def run(self, main_class: str, *arguments: str, stdin: str, timeout_s: float) -> ToolRun:
        self.runs.append((main_class, *arguments))
        return self.answer


def target(tmp_path: Path) -> Target:
    return Target("ottla", "127.0.0.1:9092", tmp_path, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"says": ["Topic: t"], "complains": ["a warning", "Topic: u"], "never": ["ERROR"]}, ""),
        ({"matches": [r"^Topic: u\tPartitionCount: 1$"]}, ""),
        ({"lines": ["Topic: u\tPartitionCount: 1", "Topic: t\tPartitionCount: 2"]}, ""),
        ({"code": 1}, "exit code 0 instead of 1"),
        ({"says": ["a warning"]}, "does not say 'a warning'"),
        ({"matches": ["^PartitionCount"]}, "does not match"),
        ({"lines": ["Topic: t\tPartitionCount: 2"]}, "expected ['Topic: t"),
        ({"lines": []}, "expected []"),
        ({"complains": ["ERROR"]}, "does not complain of 'ERROR'"),
        ({"never": ["warning"]}, "says 'warning'"),
    ],
)
def test_what_a_run_is_held_to(expected: dict[str, list[str]], words: str) -> None:
    reason = complaint(DESCRIBED, **{"code": 0, **expected})  # type: ignore[arg-type]
    assert reason.startswith(words) if words else reason == ""


def test_a_tool_that_does_not_end_has_failed_whatever_it_said() -> None:
    run = ToolRun(None, "Created topic t.\n", "at java.lang.Thread\n")
    assert complaint(run, code=0, says=["Created"]) == "did not end: Created topic t. at java.lang.Thread"


def test_a_story_that_breaks_off_is_a_failure_and_the_next_one_begins(tmp_path: Path) -> None:
    driver = FakeDriver(DESCRIBED)

    def first(run: Story) -> None:
        """First"""
        run("describe", "TopicCommand", "--describe")
        raise StoryError("no segment")

    def second(run: Story) -> None:
        """Second"""
        run("alone", "kafka.admin.ConfigCommand", bootstrap=False, code=1)

    results = tell((first, second), target(tmp_path), cast(ToolDriver, driver))

    assert results == [
        TestResult("First: describe", Verdict.PASSED),
        TestResult("First: to its end", Verdict.FAILED, "StoryError: no segment"),
        TestResult("Second: alone", Verdict.FAILED, results[2].reason),
    ]
    assert results[2].reason.startswith("exit code 0 instead of 1")
    assert driver.runs == [
        ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", "127.0.0.1:9092", "--describe"),
        ("kafka.admin.ConfigCommand",),
    ]


def test_the_first_segment_of_a_partition(tmp_path: Path) -> None:
    place = tmp_path / "logs" / "t-0"
    place.mkdir(parents=True)
    for name in ("00000000000000000009.log", "00000000000000000000.log", "00000000000000000000.index"):
        (place / name).touch()
    assert log_file(tmp_path, "t").name == "00000000000000000000.log"
    with pytest.raises(StoryError, match="no segment of t-1"):
        log_file(tmp_path, "t", 1)


def test_the_locks_and_programs_are_there() -> None:
    assert [jar.artifact for jar in jars_of(COMPILER_LOCK)] == ["ecj"]
    assert "kafka-clients" in {jar.artifact for jar in jars_of(CLIENTS_39_LOCK)}
    programs = (*java_clients.SOURCES, f"{java_clients.NEW_STEPS}.java")
    assert all((SOURCES / program).is_file() for program in programs)
    assert TOOL_DRIVER.is_file()
