"""Show where ottla spends its time in a scenario: one turn under Python's own profiler."""

from __future__ import annotations

import pstats
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.errors import BenchError
from bench.scenarios import Scenario, Turn
from bench.servers import System

FUNCTIONS_SHOWN = 45


def profile(
    scenario: Scenario, *, quick: bool, directory: Path, output: Path, say: Callable[[str], None]
) -> None:
    """Run one turn of ottla under cProfile, print the costliest functions, keep the profile at `output`.

    The profiler makes every call dearer, so the figures of the turn mean nothing: the shares do. It sees the
    main thread alone.
    """
    workspace = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=directory))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        flags = ("-m", "cProfile", "-o", str(output))
        turn = Turn(System.OTTLA, workspace, quick, ottla_python_flags=flags)
        figures = scenario.run(turn)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    if not output.exists():
        raise BenchError("ottla left no profile: it did not end in the way a Python program ends")
    say(f"under the profiler: {figures}")
    statistics = pstats.Stats(str(output))
    statistics.sort_stats("tottime").print_stats(FUNCTIONS_SHOWN)
    statistics.sort_stats("cumtime").print_stats(FUNCTIONS_SHOWN)
    say(f"kept at {output}")
