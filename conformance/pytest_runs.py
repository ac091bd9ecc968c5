"""Run somebody else's pytest tests in an environment of their own, and read how each of them ended.

A plugin of ours (plugins/conformance_report.py) writes a line for each step of each test, so nothing is lost
when the process dies or hangs: the test under way has failed, and another process runs those that are left.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.suite import SuiteError, TestResult, Verdict

PLUGINS = Path(__file__).with_name("plugins")
PLUGIN = "conformance_report"
#: Longer than any test of the suites takes on Apache Kafka. The test's own process fails it after this.
TEST_TIMEOUT_S = 120
#: A process that has not even done that is killed.
SILENCE_TIMEOUT_S = TEST_TIMEOUT_S + 60
MAX_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class PytestRun:
    """What to run. directory: where the tests are, the working directory. paths: of tests, below it.

    fixture: only tests that use it belong to the suite; empty for all. skips: a fixture's name -> why tests
    that use it can't run on either side. environment: variables beside those of this process.
    """

    python: Path
    directory: Path
    paths: tuple[str, ...]
    fixture: str = ""
    skips: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def run_pytest(run: PytestRun) -> list[TestResult]:
    """The result of every test, in the order in which pytest collects them. Raises SuiteError without any.

    A test that fails is run once more after the others, on either side alike: some lose a race with their own
    client now and then. One that passes then has passed, and its reason says what happened the first time.
    """
    results = _attempt(run, frozenset(), "first")
    failed = {result.name for result in results if result.verdict is Verdict.FAILED}
    if not failed:
        return results
    others = frozenset(result.name for result in results if result.name not in failed)
    again = {result.name: result for result in _attempt(run, others, "second") if result.name in failed}
    return [second_attempt(result, again.get(result.name)) for result in results]


def second_attempt(first: TestResult, second: TestResult | None) -> TestResult:
    """What two attempts at a test come to; None where there was no second one."""
    if second is None or second.verdict is not Verdict.PASSED:
        return first
    return TestResult(first.name, Verdict.PASSED, f"at the second attempt; at the first: {first.reason}")


def _attempt(run: PytestRun, before: frozenset[str], name: str) -> list[TestResult]:
    """Run all tests but those of `before`, in as many processes as it takes."""
    report = run.directory / f"conformance-{name}.jsonl"
    report.touch()
    done = before
    for number in range(MAX_PROCESSES):
        log = run.directory / f"pytest-{name}-{number}.log"
        how = _one_process(run, report, done, log)
        with report.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": "ended", "how": how}) + "\n")
        lines = _lines(report)
        results = read_report(lines)
        reached = before | {line["test"] for line in lines if line["event"] in ("started", "uncollected")}
        if reached <= done or all(result.name in reached for result in results):
            break
        done = reached
    if not results:
        raise SuiteError(f"pytest collected nothing ({how}); see {log}")
    return results


def read_report(lines: Iterable[Mapping[str, Any]]) -> list[TestResult]:
    """Every test of a report with how it ended; one that never did failed by how its process ended."""
    results: dict[str, TestResult] = {}
    under_way: set[str] = set()
    unreached: set[str] = set()
    for line in lines:
        event = line["event"]
        if event == "collected":
            unreached.update(name for name in line["tests"] if name not in results)
            for name in line["tests"]:
                results.setdefault(name, TestResult(name, Verdict.FAILED))
            continue
        if event == "ended":
            for name in under_way:
                results[name] = TestResult(name, Verdict.FAILED, line["how"])
            for name in unreached:
                results[name] = TestResult(name, Verdict.FAILED, f"not reached: {line['how']}")
            under_way.clear()
            continue
        name = line["test"]
        unreached.discard(name)
        if event == "uncollected":
            results[name] = TestResult(name, Verdict.FAILED, f"not collected: {line['reason']}")
        elif event == "started":
            under_way.add(name)
            results[name] = TestResult(name, Verdict.PASSED)
        elif event == "finished":
            under_way.discard(name)
        else:
            results[name] = _folded(results[name], line)
    return list(results.values())


def _folded(so_far: TestResult, line: Mapping[str, Any]) -> TestResult:
    """What a phase (setup, call, teardown) adds to those before: the first that did not pass decides."""
    if so_far.verdict is not Verdict.PASSED:
        return so_far
    verdict = Verdict(line["outcome"])
    phase = f"in {line['event']}: " if line["event"] != "call" and verdict is Verdict.FAILED else ""
    return TestResult(so_far.name, verdict, f"{phase}{line['reason']}" if line["reason"] else "")


def _lines(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]


def _one_process(run: PytestRun, report: Path, done: Iterable[str], log_path: Path) -> str:
    """Run pytest over the tests that are not done; returns how it ended, in words."""
    plan = run.directory / "conformance-plan.json"
    words = {"done": sorted(done), "fixture": run.fixture, "skips": dict(run.skips)}
    plan.write_text(json.dumps(words), encoding="utf-8")
    environment = {
        **os.environ,
        **run.environment,
        "PYTHONPATH": os.pathsep.join((str(PLUGINS), str(run.directory))),
        "CONFORMANCE_REPORT": str(report),
        "CONFORMANCE_PLAN": str(plan),
    }
    timeouts = (f"--timeout={TEST_TIMEOUT_S}", "--timeout-method=signal")
    options: Sequence[str] = ("-p", PLUGIN, "-p", "no:cacheprovider", "--tb=short", *timeouts, *run.options)
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [str(run.python), "-m", "pytest", *options, *run.paths],
            cwd=run.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            return _wait(process, report)
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], report: Path) -> str:
    started = time.time()
    while True:
        try:
            code = process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            if time.time() - max(started, report.stat().st_mtime) > SILENCE_TIMEOUT_S:
                return f"the test's process hung and was killed after {SILENCE_TIMEOUT_S} s"
        else:
            return f"the test's process ended with exit code {code}"
