"""Seconds that each folder of tests took, beside what it may take, and the longest files: after a long run.

The budgets stand in pyproject.toml (`[tool.ottla.tests.budget_seconds]`), in seconds on two quiet cores. No
run fails for them, since a machine may be busy; a line says which folders are over theirs.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections import defaultdict
from pathlib import PurePosixPath

import pytest

SHORT_RUN_SECONDS = 60
"""A run of less work than this is someone's look at a few tests: it prints nothing."""
SHOWN_FILES = 30
"""How many of the files that took longest are named."""


class Budgets:
    """Sums the durations of reports; with several processes, those of all of them, in the one that prints."""

    def __init__(self, budgets: dict[str, int]) -> None:
        self.budgets = budgets
        self.used: dict[str, float] = defaultdict(float)
        self.by_file: dict[str, float] = defaultdict(float)
        self.started = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.used[self.folder_of(report.nodeid)] += report.duration
        self.by_file[report.nodeid.partition("::")[0]] += report.duration

    def folder_of(self, nodeid: str) -> str:
        """The innermost folder with a budget that a test is in, or else its folder below `tests`."""
        path = PurePosixPath(nodeid.partition("::")[0])
        for folder in path.parents:
            if str(folder) in self.budgets:
                return str(folder)
        return "/".join(path.parts[:2])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = sum(self.used.values())
        if total < SHORT_RUN_SECONDS:
            return
        terminalreporter.section("seconds by folder, and its budget")
        for folder, used in sorted(self.used.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{folder:32} {used:7.0f} of {self.budgets.get(folder, 0):5}")
        processes = getattr(terminalreporter.config.option, "numprocesses", None) or 1
        elapsed = time.monotonic() - self.started
        terminalreporter.write_line(
            f"{'all':32} {total:7.0f} of {sum(self.budgets.values()):5}"
            f" in {elapsed:.0f} s by {processes} process(es) on {os.cpu_count()} cores"
        )
        slowest = sorted(self.by_file.items(), key=lambda item: -item[1])[:SHOWN_FILES]
        for file, used in slowest:
            terminalreporter.write_line(f"  {used:7.1f}  {file}")
        over = [folder for folder, used in self.used.items() if used > self.budgets.get(folder, 0)]
        if over:
            terminalreporter.write_line(f"ottla: over budget: {', '.join(sorted(over))}", yellow=True)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    pyproject = config.rootpath / "pyproject.toml"
    table = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["ottla"]["tests"]
    config.pluginmanager.register(Budgets(table["budget_seconds"]), "ottla-budgets")
