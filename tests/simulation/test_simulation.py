"""Whole clusters under faults: seeds that once failed, a few hundred others, and repeatable runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simulation.cluster import run_seed
from simulation.seeds import SEEDS

HERE = Path(__file__).resolve().parent
SHORT_RUNS = 240
"""The seeds of `make test`; `make simulate` runs tens of thousands of others."""
GROUPS = 8


@pytest.mark.parametrize("seed", sorted(SEEDS))
def test_a_seed_that_once_failed(seed: int) -> None:
    assert run_seed(seed).problems == [], SEEDS[seed]


@pytest.mark.parametrize("group", range(GROUPS))
def test_clusters_under_faults(group: int) -> None:
    failed = {}
    for seed in range(group, SHORT_RUNS, GROUPS):
        problems = run_seed(seed).problems
        if problems:
            failed[seed] = problems
    assert not failed, "run `python tests/simulation/run.py --seed N` to see what happened"


def test_a_seed_is_one_run() -> None:
    first, second = run_seed(7), run_seed(7)
    assert first.trace == second.trace
    assert first.digest == second.digest
    assert run_seed(8).digest != first.digest


def test_another_process_runs_a_seed_the_same_way() -> None:
    script = "from simulation.cluster import run_seed; print(run_seed(11).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": str(HERE.parent), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {run_seed(11).digest}


def test_the_runs_are_worth_something() -> None:
    results = [run_seed(seed) for seed in range(10)]
    assert sum(result.acknowledged for result in results) > 300
    kinds = {line[2] for result in results for line in result.trace}
    assert {"killed", "stops", "cuts", "leads", "truncates", "active controller", "fences"} <= kinds
