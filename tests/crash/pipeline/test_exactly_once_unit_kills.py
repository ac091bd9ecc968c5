"""The exactly-once sink without Spark is killed, frozen and overtaken at random: every row is there once."""

from __future__ import annotations

import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually
from support.pipeline import unit_kills
from support.pipeline.unit_kills import UnitProgram
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

RUN_TIMEOUT_SECONDS = 120


@pytest.fixture(params=["python", pytest.param("jvm", marks=pytest.mark.long)])
def java(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...] | None:
    """The command of the program in Java, None for the one in Python."""
    return unit_kills.java_command(tmp_path / "classes") if request.param == "jvm" else None


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.long)])
def test_rows_are_there_once_whatever_is_killed_or_comes_back(
    cluster: Cluster, unique_name: str, tmp_path: Path, java: tuple[str, ...] | None, kills: int
) -> None:
    """Some runs are killed; some are frozen, and come back to life when the next run has taken over."""
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name, 2)])
    chance = random.Random(kills)
    batches = kills * 5
    log = tmp_path / "log"
    log.mkdir()
    program = UnitProgram(kafka.bootstrap, unique_name, log, batches, java)
    frozen: list[subprocess.Popen[bytes]] = []
    runs: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        name = f"run-{len(runs)}"
        with (tmp_path / "output.log").open("ab") as output:
            runs.append(subprocess.Popen(program.command(name), stdout=output, stderr=subprocess.STDOUT))
        while not program.is_ready(name) and runs[-1].poll() is None:
            _wait(runs[-1], 0.002)
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

    assert_once(kafka, unique_name, batches)


def assert_once(kafka: KafkaCluster, topic: str, batches: int) -> None:
    """Every row of all units of so many batches is in the topic once."""
    found = Counter(int(message.value() or b"") for message in kafka.read(topic))
    expected = {
        row
        for batch in range(batches)
        for unit in range(unit_kills.UNITS)
        for row in unit_kills.row_ids(batch, unit)
    }
    assert {row: count for row, count in found.items() if count > 1} == {}, "rows that are there twice"
    assert expected - set(found) == set(), "rows that are missing"
    assert set(found) == expected


@pytest.mark.parametrize("ending", ["deleted", pytest.param("expired", marks=pytest.mark.long)])
@pytest.mark.timeout(400)
def test_rows_are_there_once_when_kafka_forgets_groups_between_a_kill_and_the_next_start(
    cluster_kind: str, unique_name: str, tmp_path: Path, java: tuple[str, ...] | None, ending: str
) -> None:
    """Killed with some or all units of a batch in Kafka and the batch not finished, and long away."""
    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[cluster_kind]
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    chance = random.Random(ending)
    batches = 6
    with start(tmp_path / "broker" / "data", settings=settings if ending == "expired" else {}) as broker:
        kafka = KafkaCluster(broker.bootstrap)
        kafka.ensure_topics([Topic(unique_name, 2)])
        log = tmp_path / "log"
        log.mkdir()
        program = UnitProgram(kafka.bootstrap, unique_name, log, batches, java)

        killed_in = chance.randrange(1, batches), chance.randint(1, unit_kills.UNITS)
        first = program.command("1", *killed_in)
        assert subprocess.run(first, timeout=RUN_TIMEOUT_SECONDS).returncode == -signal.SIGKILL
        assert unit_kills.finished_batches(log) == killed_in[0]
        groups = kafka.groups(f"{unique_name}-sink-")
        assert groups
        if ending == "deleted":
            for group in groups:
                assert kafka.delete_group(group)
        eventually(lambda: not kafka.groups(f"{unique_name}-sink-"), "the groups are gone", 180)
        second = subprocess.run(program.command("2"), timeout=RUN_TIMEOUT_SECONDS, capture_output=True)
        assert second.returncode == 0, second.stdout + second.stderr

        assert_once(kafka, unique_name, batches)


def _wait(run: subprocess.Popen[bytes], seconds: float) -> None:
    """Let a run go on for a moment, or until it ends."""
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return
