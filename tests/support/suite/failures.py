"""Names a failed test at once: a run of several processes says so only at its end otherwise."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that runs the others has the terminal."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Namer(config))


class _Namer:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each step of each test, in whatever process it ran."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal is not None:
            step = "" if report.when == "call" else f" ({report.when})"
            terminal.write_line(f"\nFAILED {report.nodeid}{step}", red=True)
