"""`ottla audit count` and `report` as processes, for tests: small buckets, quick rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.servers.services import ServiceProcess

LATENESS_MS = 1_000
QUICK = {"flush.ms": "50", "round.ms": "200", "lateness.ms": str(LATENESS_MS), "bucket.ms": "1000"}


@contextmanager
def counting(
    bootstrap: str, directory: Path, tier: str, settings: Mapping[str, str] | None = None
) -> Iterator[ServiceProcess]:
    given = {**QUICK, "tier": tier, **(settings or {})}
    with ServiceProcess.start("audit", bootstrap, directory, given, words=("audit", "count")) as service:
        yield service


def report(bootstrap: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the rows of the command."""
    command = [sys.executable, "-m", "ottla", "audit", "report", "--bootstrap", bootstrap, "--json"]
    command += ["--lateness-ms", str(LATENESS_MS), "--since", "7d", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode in (0, 3), ended.stderr
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]
