"""A service's stderr gets one line a second of a flood, whichever library logs it; with debug, all lines."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging
from ottla.cli.servers.service_command import log_service_to_stderr
log_service_to_stderr({level!r})
for number in range(500):
    logging.getLogger("ottla.client").error("%s [%s] %s", "FAIL", "rdkafka#producer-1", number)
    logging.getLogger("ottla.web").error("GET %s failed", number)
"""


@pytest.mark.parametrize(("level", "most", "least"), [("warning", 100, 4), ("debug", 1_000, 1_000)])
def test_a_flood_of_lines(level: str, most: int, least: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=level)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = ended.stderr.splitlines()
    # Both firsts, and both counts; two lines more for each second that a slow machine takes.
    assert least <= len(lines) <= most, lines
    if level == "warning":
        counted = sum(
            int(line.split(" more within")[0].split()[-1]) for line in lines if " more within" in line
        )
        assert counted + sum(" more within" not in line for line in lines) == 1_000
