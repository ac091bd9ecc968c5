"""The exactly-once sink without Spark is killed, frozen and overtaken at random: every row is there once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ottla.pipeline.kafka import KafkaCluster, Topic
from support import unit_kills
from support.cluster import Cluster

RUN_TIMEOUT_SECONDS = 60


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.long)])
def test_rows_are_there_once_whatever_is_killed_or_comes_back(
    cluster: Cluster, unique_name: str, tmp_path: Path, kills: int
) -> None:
    """Some runs are killed; some are frozen, and come back to life when the next run has taken over."""
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name, 2)])
    chance = random.Random(kills)
    batches = kills * 5
    log = tmp_path / "log"
    log.mkdir()
    frozen: list[subprocess.Popen[bytes]] = []
    runs: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, unit_kills.__file__, "--bootstrap", kafka.bootstrap, "--name", unique_name]
        command += ["--topic", unique_name, "--run", f"run-{len(runs)}", "--batches", str(batches)]
        with (tmp_path / "output.log").open("ab") as output:
            runs.append(
                subprocess.Popen([*command, "--directory", str(log)], stdout=output, stderr=subprocess.STDOUT)
            )
        return runs[-1]

    try:
        for number in range(kills):
            run = start()
            wanted = unit_kills.finished_batches(log) + chance.randint(0, 3)
            while unit_kills.finished_batches(log) < wanted and run.poll() is None:
                _wait(run, 0.002)
            _wait(run, chance.uniform(0, 0.15))
            if number % 2 == 0:
                run.send_signal(signal.SIGSTOP)
                frozen.append(run)
            else:
                run.kill()
            for back in frozen[:-1] if number % 2 == 0 else []:
                back.send_signal(signal.SIGCONT)
        for back in frozen:
            back.send_signal(signal.SIGCONT)
        codes = [run.wait(RUN_TIMEOUT_SECONDS) for run in runs]
        while codes[-1] != 0:  # the last run may have been killed, or overtaken by one that came back
            codes.append(start().wait(RUN_TIMEOUT_SECONDS))
            assert codes.count(1) == 0 and len(codes) < kills * 3, (tmp_path / "output.log").read_text()[
                -3000:
            ]
    finally:
        for run in runs:
            if run.poll() is None:
                run.kill()
                run.wait()

    found = Counter(int(message.value() or b"") for message in kafka.read(unique_name))
    expected = {
        row
        for batch in range(batches)
        for unit in range(unit_kills.UNITS)
        for row in unit_kills.row_ids(batch, unit)
    }
    assert {row: count for row, count in found.items() if count > 1} == {}, "rows that are there twice"
    assert expected - set(found) == set(), "rows that are missing"
    assert set(found) == expected


def _wait(run: subprocess.Popen[bytes], seconds: float) -> None:
    """Let a run go on for a moment, or until it ends."""
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return
