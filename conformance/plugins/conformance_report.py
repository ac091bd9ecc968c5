"""A pytest plugin that writes what happens to each test at once, a line of JSON each (for pytest_runs).

It runs in the environment of the suite, which knows nothing of ottla. CONFORMANCE_REPORT names the file;
CONFORMANCE_PLAN names a JSON file with `done` (tests that an earlier process has run), `fixture` (only tests
that use it belong to the suite; empty for all) and `skips` (a fixture's name -> why tests with it can't run).
"""

import json
import os
from pathlib import Path

import pytest

MAX_REASON_CHARACTERS = 300


class Reporter:
    """Appends to the report; every line is whole, whenever the process ends."""

    def __init__(self, report, plan):
        self._report = report
        self._done = frozenset(plan["done"])
        self._fixture = plan["fixture"]
        self._skips = plan["skips"]

    def _write(self, **line):
        with self._report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if not self._fixture or self._fixture in item.fixturenames]
        self._write(event="collected", tests=[item.nodeid for item in chosen])
        left = [item for item in chosen if item.nodeid not in self._done]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left
        for item in items:
            for fixture, reason in self._skips.items():
                if fixture in item.fixturenames:
                    item.add_marker(pytest.mark.skip(reason=reason))

    def pytest_collectreport(self, report):
        if report.failed:
            self._write(event="uncollected", test=report.nodeid or "collection", reason=_reason(report))

    def pytest_runtest_logstart(self, nodeid):
        self._write(event="started", test=nodeid)

    def pytest_runtest_logreport(self, report):
        reason = "" if report.passed else _reason(report)
        self._write(event=report.when, test=report.nodeid, outcome=report.outcome, reason=reason)

    def pytest_runtest_logfinish(self, nodeid):
        self._write(event="finished", test=nodeid)


def _reason(report):
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return _one_line(f"fails as its authors expect: {expected}")
    said = report.longrepr
    if isinstance(said, tuple):
        return _one_line(str(said[2]).removeprefix("Skipped: "))
    crash = getattr(said, "reprcrash", None)
    return _one_line(crash.message if crash is not None else str(said))


def _one_line(text):
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return " | ".join(lines)[:MAX_REASON_CHARACTERS] or "no reason given"


def pytest_configure(config):
    plan = json.loads(Path(os.environ["CONFORMANCE_PLAN"]).read_text(encoding="utf-8"))
    config.pluginmanager.register(
        Reporter(Path(os.environ["CONFORMANCE_REPORT"]), plan), "conformance-reporter"
    )
