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
    """The result of every test, in the order in which pytest collects them. Raises SuiteError without any."""
    report = run.directory / "conformance-report.jsonl"
    report.touch()
    done: set[str] = set()
    for number in range(MAX_PROCESSES):
        how = _one_process(run, report, done, number)
        lines = _lines(report)
        results = read_report(lines, how)
        finished = {line["test"] for line in lines if line["event"] in ("started", "uncollected")}
        left = [result.name for result in results if result.name not in finished]
        if not left or finished <= done:
            break
        done = finished
    if not results:
        raise SuiteError(f"pytest collected nothing ({how}); see {run.directory / 'pytest-0.log'}")
    return results


def read_report(lines: Iterable[Mapping[str, Any]], how_it_ended: str) -> list[TestResult]:
    """Every test of a report with how it ended; one that never ended failed because of `how_it_ended`."""
    verdicts: dict[str, TestResult] = {}
    ended: set[str] = set()
    started: set[str] = set()
    for line in lines:
        event = line["event"]
        if event == "collected":
            for name in line["tests"]:
                verdicts.setdefault(name, TestResult(name, Verdict.FAILED, f"not reached: {how_it_ended}"))
            continue
        name = line["test"]
        if event == "uncollected":
            verdicts[name] = TestResult(name, Verdict.FAILED, f"not collected: {line['reason']}")
        elif event == "started":
            started.add(name)
            verdicts[name] = TestResult(name, Verdict.FAILED, how_it_ended)
        elif event == "finished":
            ended.add(name)
        else:
            verdicts[name] = _folded(verdicts[name], line, first=name in started)
            started.discard(name)
    return [
        result if name in ended or result.reason else TestResult(name, Verdict.FAILED, how_it_ended)
        for name, result in verdicts.items()
    ]


def _folded(so_far: TestResult, line: Mapping[str, Any], *, first: bool) -> TestResult:
    """What a phase (setup, call, teardown) adds to those before: the first that did not pass decides."""
    if not first and so_far.verdict is not Verdict.PASSED:
        return so_far
    verdict = Verdict(line["outcome"])
    phase = f"in {line['event']}: " if line["event"] != "call" and verdict is Verdict.FAILED else ""
    return TestResult(so_far.name, verdict, f"{phase}{line['reason']}" if line["reason"] else "")


def _lines(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]


def _one_process(run: PytestRun, report: Path, done: Iterable[str], number: int) -> str:
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
    with (run.directory / f"pytest-{number}.log").open("wb") as log:
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
