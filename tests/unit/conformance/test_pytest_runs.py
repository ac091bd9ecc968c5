"""Somebody else's pytest tests: how each ended, whatever becomes of the process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conformance.pytest_runs import PytestRun, read_report, run_pytest, second_attempt
from conformance.suite import SuiteError, TestResult, Verdict

PASSED, FAILED, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED


def phase(name: str, when: str, outcome: str, reason: str = "") -> dict[str, object]:
    return {"event": when, "test": name, "outcome": outcome, "reason": reason}


def whole(name: str, *phases: dict[str, object]) -> list[dict[str, object]]:
    return [{"event": "started", "test": name}, *phases, {"event": "finished", "test": name}]


@pytest.mark.parametrize(
    ("phases", "verdict", "reason"),
    [
        ([("setup", "passed", ""), ("call", "passed", ""), ("teardown", "passed", "")], PASSED, ""),
        (
            [("setup", "passed", ""), ("call", "failed", "1 != 2"), ("teardown", "passed", "")],
            FAILED,
            "1 != 2",
        ),
        ([("setup", "failed", "no port"), ("teardown", "passed", "")], FAILED, "in setup: no port"),
        (
            [("setup", "passed", ""), ("call", "passed", ""), ("teardown", "failed", "open socket")],
            FAILED,
            "in teardown: open socket",
        ),
        (
            [("setup", "passed", ""), ("call", "failed", "first"), ("teardown", "failed", "second")],
            FAILED,
            "first",
        ),
        ([("setup", "skipped", "no TLS"), ("teardown", "passed", "")], SKIPPED, "no TLS"),
        # sub-tests report before their test does
        ([("setup", "passed", ""), ("call", "failed", "i=1"), ("call", "passed", "")], FAILED, "i=1"),
    ],
)
def test_the_phases_of_a_test_come_to_one_verdict(
    phases: list[tuple[str, str, str]], verdict: Verdict, reason: str
):
    lines = whole("t", *(phase("t", *each) for each in phases))
    assert read_report(lines) == [TestResult("t", verdict, reason)]


def test_what_a_dead_process_left_has_failed():
    lines = [
        {"event": "collected", "tests": ["a", "b", "c"]},
        *whole("a", phase("a", "setup", "passed"), phase("a", "call", "passed")),
        {"event": "started", "test": "b"},
        phase("b", "setup", "passed"),
        {"event": "ended", "how": "exit code -9"},
    ]
    assert read_report(lines) == [
        TestResult("a", PASSED),
        TestResult("b", FAILED, "exit code -9"),
        TestResult("c", FAILED, "not reached: exit code -9"),
    ]
    # and what the next process says counts
    more = [
        {"event": "collected", "tests": ["a", "b", "c"]},
        *whole("c"),
        {"event": "ended", "how": "exit code 0"},
    ]
    assert read_report(lines + more) == [
        TestResult("a", PASSED),
        TestResult("b", FAILED, "exit code -9"),
        TestResult("c", PASSED),
    ]


def test_a_second_attempt_that_passes_tells_of_the_first():
    first = TestResult("t", FAILED, "too early")
    assert second_attempt(first, None) == first
    assert second_attempt(first, TestResult("t", FAILED, "too late")) == first
    assert second_attempt(first, TestResult("t", PASSED)) == TestResult(
        "t", PASSED, "at the second attempt; at the first: too early"
    )


STRANGERS = """
import os, pathlib, pytest

@pytest.fixture
def broker():
    return "broker"

@pytest.fixture
def tls():
    return "tls"

def test_without_broker():
    assert False

def test_passes(broker):
    pass

def test_fails(broker):
    assert 1 == 2, "one is not two"

def test_needs_tls(broker, tls):
    assert False

@pytest.mark.xfail(reason="known")
def test_is_expected_to_fail(broker):
    assert False

def test_ends_the_process(broker):
    os._exit(3)

def test_passes_at_the_second_attempt(broker):
    been = pathlib.Path("been")
    if not been.exists():
        been.touch()
        raise ValueError("not yet")
"""


def test_a_run_of_strangers_tests(tmp_path: Path):
    # given tests of which one ends its process in the middle
    (tmp_path / "test_strangers.py").write_text(STRANGERS, encoding="utf-8")
    run = PytestRun(
        Path(sys.executable),
        tmp_path,
        ("test_strangers.py",),
        fixture="broker",
        skips={"tls": "there is no TLS"},
        options=("--rootdir=.", "--override-ini=addopts="),
    )
    # when they are run
    results = {result.name.partition("::")[2]: result for result in run_pytest(run)}
    # then those that use the broker have a verdict each, in the order in which they stand
    assert [(name, result.verdict, result.reason) for name, result in results.items()] == [
        ("test_passes", PASSED, ""),
        ("test_fails", FAILED, "AssertionError: one is not two | assert 1 == 2"),
        ("test_needs_tls", SKIPPED, "there is no TLS"),
        ("test_is_expected_to_fail", SKIPPED, "fails as its authors expect: known"),
        ("test_ends_the_process", FAILED, "the test's process ended with exit code 3"),
        (
            "test_passes_at_the_second_attempt",
            PASSED,
            "at the second attempt; at the first: ValueError: not yet",
        ),
    ]


def test_a_run_without_tests_is_refused(tmp_path: Path):
    run = PytestRun(Path(sys.executable), tmp_path, ("nothing_here.py",), options=("--rootdir=.",))
    with pytest.raises(SuiteError, match="collected nothing"):
        run_pytest(run)
