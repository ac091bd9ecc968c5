"""The command `ottla` of this checkout, run to its end on a scenario's broker, and the seconds it takes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.servers import Server

COMMAND_TIMEOUT_SECONDS = 300
_SOURCES = Path(__file__).resolve().parents[1] / "src"


def ottla_words(*words: str) -> list[str]:
    """The words that start a command of this interpreter's ottla."""
    return [sys.executable, "-m", "ottla", *words]


def ottla_environment() -> dict[str, str]:
    """The environment in which `ottla_words` runs this checkout."""
    return {**os.environ, "PYTHONPATH": str(_SOURCES)}


def run_ottla(server: Server, *words: str, codes: Sequence[int] = (0,)) -> str:
    """What a command writes. Raises BenchError when it takes too long or ends with a code not of `codes`."""
    try:
        run = subprocess.run(
            [*ottla_words(*words), "--bootstrap", server.bootstrap],
            env=ottla_environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"ottla {' '.join(words[:2])} takes longer than a bench waits") from None
    if run.returncode not in codes:
        raise BenchError(f"ottla {' '.join(words[:2])}: {run.stderr[-500:]}")
    return run.stdout


def median_seconds(server: Server, times: int, *words: str, codes: Sequence[int] = (0,)) -> float:
    """The median of the seconds that a command takes, from its start to its end, output into a pipe."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run_ottla(server, *words, codes=codes)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
