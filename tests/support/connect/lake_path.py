"""File -> topic -> Iceberg and Delta at once, on two workers whose processes are killed and frozen."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.reading import read
from support.connect.lakes import delta_rows, iceberg_metadata, iceberg_rows
from support.connect.workers import ConnectWorker
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import descendants, wait_until_gone

TOPIC: Final = "rows"
PARTITIONS: Final = 3
SOURCE, ICEBERG, DELTA = "lines", "iceberg", "delta"
TABLE: Final = "db.rows"
SESSION_S: Final = 6.0
PROGRESS_S: Final = 150.0
"""For sinks to commit after a kill: a Spark of a busy machine starts in half a minute, twice if it must."""
JVMS: Final = ("SparkSubmit", "PythonGatewayServer")
LEASH: Final = "ottla.connect.worker.leash"
WORKER: Final = {
    "group.id": "lake-path",
    "session.timeout.ms": str(int(SESSION_S * 1000)),
    "heartbeat.interval.ms": "500",
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "200",
    # a drill's kills are more than a day's
    "ottla.task.restart.max": "10000",
    "ottla.task.restart.backoff.max.ms": "2000",
    "ottla.spark.master": "local[2]",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
}


class Victim(enum.Enum):
    """What a blow hits."""

    WORKER = "worker"
    MACHINE = "worker with all of its processes"
    LEASH = "leash of a Spark host"
    SPARK_HOST = "Spark host"
    DRIVER = "driver"
    PYTHON_HOST = "Python host"
    BROKER = "broker"
    FROZEN_WORKER = "frozen worker"
    FROZEN_MACHINE = "frozen worker with all of its processes"


WEIGHTS: Final[Mapping[Victim, int]] = {
    Victim.WORKER: 4,
    Victim.MACHINE: 2,
    Victim.LEASH: 1,
    Victim.SPARK_HOST: 3,
    Victim.DRIVER: 4,
    Victim.PYTHON_HOST: 5,
    Victim.BROKER: 5,
    Victim.FROZEN_WORKER: 2,
    Victim.FROZEN_MACHINE: 2,
}


@dataclass(slots=True)
class LakePath:
    """The running path. chance, lines: what blows and the file's lines are drawn from. sent: its lines."""

    broker: OttlaBroker
    workers: list[ConnectWorker]
    directory: Path
    chance: random.Random
    lines: random.Random
    sent: int = 0
    blows: Counter[Victim] = field(default_factory=Counter)

    # -- what runs ------------------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        """The file that is read."""
        return self.directory / "lines.txt"

    def begin(self) -> None:
        """Make the connectors, and wait for the first rows in both lakes."""
        KafkaCluster(self.broker.bootstrap).ensure_topics([Topic(TOPIC, PARTITIONS)])
        self.file.touch()
        self.grow(200)
        values = {
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "topics": TOPIC,
            "tasks.max": "2",
            "ottla.commit.interval.ms": "0",
            "ottla.batch.max.records": "400",
        }
        configs = {
            SOURCE: {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "file": str(self.file),
                "topic": TOPIC,
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "batch.size": "50",
                "transaction.boundary": "interval",
                "transaction.boundary.interval.ms": "100",
            },
            ICEBERG: {
                **values,
                "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
                "iceberg.tables": TABLE,
                "iceberg.tables.auto-create-enabled": "true",
                "iceberg.catalog.warehouse": str(self.directory / "warehouse"),
            },
            DELTA: {
                **values,
                "connector.class": "ottla.connect.spark.DeltaSinkConnector",
                "delta.path": str(self.directory / "delta"),
            },
        }
        for name, config in configs.items():
            answer = self.workers[0].ask("PUT", f"/connectors/{name}/config", config)
            assert answer.status == 201, answer
        self.wait_for_commits({ICEBERG: 0, DELTA: 0})

    def grow(self, most: int) -> None:
        """Append lines to the file, in pieces that may end within a line."""
        count = self.lines.randint(1, most)
        text = "".join(
            json.dumps({"id": self.sent + at, "word": "x" * self.lines.randint(0, 40)}) + "\n"
            for at in range(count)
        ).encode()
        cut = self.lines.randrange(len(text))
        with self.file.open("ab") as file:
            for piece in (text[:cut], text[cut:]):
                file.write(piece)
                file.flush()
        self.sent += count

    # -- what is there --------------------------------------------------------------------------------

    def commits(self) -> dict[str, int]:
        """The number of commits of each lake."""
        metadata = iceberg_metadata(self._iceberg)
        entries = (self.directory / "delta" / "_delta_log").glob("*.json")
        return {
            ICEBERG: 0 if metadata is None else int(metadata.name.removeprefix("v").partition(".")[0]),
            DELTA: sum(1 for _ in entries),
        }

    @property
    def _iceberg(self) -> Path:
        return self.directory / "warehouse" / Path(*TABLE.split("."))

    def ids(self, lake: str) -> Counter[int]:
        """The rows of a lake, as an independent reader finds them."""
        rows = iceberg_rows(self._iceberg) if lake == ICEBERG else delta_rows(self.directory / "delta")
        return Counter(row["id"] for row in rows)

    def topic_ids(self) -> Counter[int]:
        """The committed records of the topic."""
        ends = KafkaCluster(self.broker.bootstrap).end_positions(TOPIC)
        found = read(ClusterAccess(self.broker.bootstrap), TOPIC, dict.fromkeys(ends, 0), ends)
        return Counter(json.loads(each.value() or b"")["id"] for each in found)

    def wait_for_commits(self, before: Mapping[str, int], lakes: Collection[str] = (ICEBERG, DELTA)) -> None:
        """Wait until each of the lakes has more commits than before; the file grows meanwhile."""
        deadline = time.monotonic() + PROGRESS_S
        while not all(self.commits()[lake] > before[lake] for lake in lakes):
            assert time.monotonic() < deadline, f"no commit within {PROGRESS_S} s: {self.told()}"
            self.require_alive()
            self.grow(20)
            time.sleep(0.2)

    def wait_for_all(self) -> None:
        """Wait until both lakes have as many rows as the file has lines, or more."""
        deadline = time.monotonic() + 2 * PROGRESS_S
        for lake in (ICEBERG, DELTA):
            while (found := sum(self.ids(lake).values())) < self.sent:
                assert time.monotonic() < deadline, f"{lake}: {found} of {self.sent} rows: {self.told()}"
                self.require_alive()
                time.sleep(1)

    def require_alive(self) -> None:
        """No worker and no broker ends by itself."""
        for worker in self.workers:
            assert worker.server.running, f"a worker has ended: {worker.server.log_tail(60)}"
        assert self.broker.server.running, f"the broker has ended: {self.broker.server.log_tail(60)}"

    def told(self) -> str:
        """What the workers say of their connectors, and the ends of their logs."""
        said = []
        for worker in self.workers:
            for name in (SOURCE, ICEBERG, DELTA):
                with contextlib.suppress(OSError):
                    said.append(str(worker.ask("GET", f"/connectors/{name}/status").body))
            said.append(worker.server.log_tail(60))
        return "\n".join(said)

    # -- blows ----------------------------------------------------------------------------------------

    def strike(self) -> Victim:
        """Hit somebody, once; what was killed is started again, what was frozen goes on."""
        while True:
            victim = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if self._hit(victim):
                self.blows[victim] += 1
                return victim

    def _hit(self, victim: Victim) -> bool:
        worker = self.chance.choice(self.workers)
        match victim:
            case Victim.BROKER:
                self.broker.kill()
                self._pass(self.chance.choice((0.0, 1.0, SESSION_S + 4)))
                self.broker.server.start()
            case Victim.WORKER | Victim.MACHINE:
                processes = descendants(worker.server.process.pid)
                worker.kill()
                if victim is Victim.MACHINE:
                    _kill(processes)
                self._pass(self.chance.choice((0.0, 1.0, SESSION_S + 4)))
                worker.server.start()
            case Victim.FROZEN_WORKER:
                hosts = _hosts(worker)
                worker.freeze()
                self._pass(SESSION_S)
                # before the others may have its tasks
                left = wait_until_gone(hosts, 1)
                assert not left, f"a frozen worker's processes: {left}"
                self._pass(self.chance.random() * 10)
                worker.thaw()
            case Victim.FROZEN_MACHINE:
                self._freeze_machine(worker)
            case Victim.LEASH | Victim.SPARK_HOST | Victim.DRIVER | Victim.PYTHON_HOST:
                found = [
                    pid
                    for each in self.workers
                    for pid, command in descendants(each.server.process.pid).items()
                    if _kind(command) is victim
                ]
                if not found:
                    return False
                _kill([self.chance.choice(found)])
        return True

    def _freeze_machine(self, worker: ConnectWorker) -> None:
        """As a suspended machine: nobody kills what was at work, and it goes on in the midst of a write."""
        pid = worker.server.process.pid
        frozen = [pid, *descendants(pid)]
        for each in frozen:
            _signal(each, signal.SIGSTOP)
        self._pass(SESSION_S + 4)
        if self.chance.random() < 0.7:  # the other worker has taken over, and has written
            self.wait_for_commits(self.commits())
        for each in self.chance.sample(frozen, len(frozen)):
            _signal(each, signal.SIGCONT)

    def _pass(self, seconds: float) -> None:
        """Let time pass, while the file grows."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.grow(20)
            time.sleep(min(left, 0.5))

    # -- the end --------------------------------------------------------------------------------------

    def stop_workers(self) -> None:
        """End the workers in order: nothing writes from now on."""
        for worker in self.workers:
            worker.server.stop()

    def assert_each_line_once(self) -> None:
        """The topic and both lakes have what the file has."""
        found = {TOPIC: self.topic_ids(), ICEBERG: self.ids(ICEBERG), DELTA: self.ids(DELTA)}
        wanted = Counter(range(self.sent))
        for place, ids in found.items():
            assert not ids - wanted, f"{place}: twice {sorted(ids - wanted)[:20]}"
            assert not wanted - ids, f"{place}: missing {sorted(wanted - ids)[:20]}"


def _kind(command: str) -> Victim | None:
    """What a process of a worker is, by its command line."""
    if LEASH in command:
        return Victim.LEASH if "--engine spark" in command else None
    if "ottla.connect.host --engine spark" in command:
        return Victim.SPARK_HOST
    if "ottla.connect.host --engine python" in command:
        return Victim.PYTHON_HOST
    return Victim.DRIVER if is_jvm(command) else None


def is_jvm(command: str) -> bool:
    """Whether a process is a Spark's JVM."""
    return any(name in command for name in JVMS)


def _hosts(worker: ConnectWorker) -> dict[int, str]:
    """A worker's hosts and what they have started, without their leashes."""
    found = descendants(worker.server.process.pid)
    return {pid: command for pid, command in found.items() if LEASH not in command}


def _kill(pids: Collection[int]) -> None:
    for pid in pids:
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _worker(bootstrap: str, directory: Path, number: int) -> ConnectWorker:
    settings = {**WORKER, "ottla.spark.directory": str(directory / f"spark-{number}")}
    return ConnectWorker.installed(bootstrap, directory / f"worker-{number}.log", settings)


@contextmanager
def lake_path(directory: Path, seed: int) -> Iterator[LakePath]:
    """A broker and two workers, without connectors yet; all of their processes are killed at the end."""
    settings = {"group.min.session.timeout.ms": "1000"}
    with OttlaBroker.start(directory / "broker", settings=settings) as broker:
        workers = [_worker(broker.bootstrap, directory, number) for number in range(2)]
        try:
            for worker in workers:
                worker.server.start()
            yield LakePath(broker, workers, directory, random.Random(seed), random.Random(seed + 1))
        finally:
            for worker in workers:
                if worker.server.running:
                    processes = descendants(worker.server.process.pid)
                    worker.kill()
                    _kill(processes)
