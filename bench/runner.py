"""Take the turns: Kafka, ottla, Kafka, ottla, …; one broker at a time, a fresh directory each."""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.errors import BenchError
from bench.scenarios import Scenario, Turn
from bench.servers import SIDES, System
from support.java.java_tools import KAFKA_VERSION

QUIET_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. directory: where the brokers' data goes. wait_quiet_seconds: how long to wait, before each
    turn, for other programs to leave the processors alone.
    """

    runs: int
    quick: bool
    directory: Path
    wait_quiet_seconds: float
    systems: Sequence[System] = SIDES


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """Everything a scenario measured: samples[system][measure] is one value a run, in the order of the turns.

    other_cpu_share: the largest share of a processor that other programs took during a run.
    """

    name: str
    taken_at: str
    runs: int
    quick: bool
    commit: str
    other_cpu_share: float
    samples: dict[str, dict[str, list[float]]]
    kafka_version: str = "4.3.1"
    """Of the Apache Kafka beside it; older results, which don't name it, are of 4.3.1."""


def run_scenario(
    scenario: Scenario, options: Options, commit: str, say: Callable[[str], None]
) -> ScenarioResult:
    """Run a scenario `options.runs` times on each side, and on the null broker for the client's limit.

    Any failure ends it with a BenchError.
    """
    systems = list(options.systems)
    if scenario.shows_client_limit and System.OTTLA in systems and System.KAFKA in systems:
        systems.append(System.NULL)
    samples: dict[str, dict[str, list[float]]] = {system.value: {} for system in systems}
    other_cpu_shares: list[float] = [0.0]
    for run in range(options.runs):
        for system in systems:
            figures = _take_turn(scenario, system, options, other_cpu_shares, say)
            for name, value in figures.items():
                samples[system.value].setdefault(name, []).append(value)
            told = ", ".join(f"{name}={value:,.4g}" for name, value in figures.items())
            say(f"{scenario.name} {run + 1}/{options.runs} {system.value}: {told}")
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return ScenarioResult(
        scenario.name,
        now,
        options.runs,
        options.quick,
        commit,
        max(other_cpu_shares),
        samples,
        KAFKA_VERSION,
    )


def _take_turn(
    scenario: Scenario,
    system: System,
    options: Options,
    other_cpu_shares: list[float],
    say: Callable[[str], None],
) -> dict[str, float]:
    workspace = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=options.directory))
    try:
        _settle(options.wait_quiet_seconds, say)
        turn = Turn(system, workspace, options.quick)
        figures = scenario.run(turn)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    other_cpu_shares += turn.other_cpu_shares
    wanted = {measure.name for measure in scenario.measures if measure.is_of(system is not System.KAFKA)}
    if set(figures) != wanted:
        raise BenchError(f"{scenario.name} gave {sorted(figures)} where {sorted(wanted)} are its measures")
    return figures


def _settle(wait_quiet_seconds: float, say: Callable[[str], None]) -> None:
    """Let the disk finish what the last turn left it, and wait for other programs if asked to."""
    os.sync()
    deadline = time.monotonic() + wait_quiet_seconds
    while wait_quiet_seconds > 0:
        before = processes.machine_cpu_times()
        time.sleep(1.0)
        after = processes.machine_cpu_times()
        share = (after.busy - before.busy) / (after.total - before.total)
        if share <= QUIET_SHARE:
            return
        if time.monotonic() >= deadline:
            say(
                f"the machine is still {share:.0%} busy after {wait_quiet_seconds:.0f} s: going on all the "
                f"same"
            )
            return
