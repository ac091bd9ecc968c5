"""A pipeline from Kafka to Kafka in a process of its own, killed and started again until it is done.

Run as a program it is the pipeline: one query from its checkpoint to the end of its topic. `KilledPipeline`
is the other side: it starts that program, kills it or its Python workers at random moments, and tells
afterwards what should be in the output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.pipeline.sink.exactly_once_ledger import create_ledger_topic, ledger_topic
from support.servers.processes import descendants, wait_until_gone

RUN_TIMEOUT_SECONDS = 240
STATELESS, STATEFUL = "stateless", "stateful"
# An option of librdkafka alone, with which Python's workers write and not the JVM.
PYTHON_SINK = {"queue.buffering.max.messages": "1000000"}
# What the commands of Spark's Python processes and of its executors have in them.
WORKERS, EXECUTORS = "pyspark", "CoarseGrainedExecutorBackend"
# And of the driver's JVM, started by Spark's launcher and without it.
JVMS = ("SparkSubmit", "PythonGatewayServer")


def main(arguments: Sequence[str] | None = None) -> int:
    """The pipeline. Prints `started` once the query runs and `done` at its end."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "kind", "source", "sink", "name", "directory", "master"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows-a-batch", type=int, required=True)
    parser.add_argument("--python-sink", action="store_true")
    given = parser.parse_args(arguments)

    from pyspark.sql import functions as f

    from ottla.pipeline.query.topics import stream_from
    from ottla.pipeline.sink.exactly_once import source_column, write_exactly_once
    from ottla.pipeline.spark.session import SparkSettings, start_session

    directory = Path(given.directory)
    properties = {"spark.sql.streaming.minBatchesToRetain": "10000"}
    session = start_session(
        SparkSettings(
            given.name, directory, given.master, shuffle_partitions=2, quick_start=True, properties=properties
        )
    )
    frame = stream_from(
        session.spark, given.bootstrap, given.source, max_offsets_per_trigger=given.rows_a_batch
    )
    if given.kind == STATELESS:
        frame = frame.select("key", "value", source_column())
    else:
        count = f.count("*").cast("string").cast("binary").alias("value")
        frame = frame.groupBy("key").agg(count)
    writer = write_exactly_once(
        frame,
        bootstrap=given.bootstrap,
        query_name=given.name,
        topic=given.sink,
        output_mode="append" if given.kind == STATELESS else "update",
        transaction_timeout_ms=60_000,
        client_options=PYTHON_SINK if given.python_sink else None,
    )
    query = (
        writer.option("checkpointLocation", (directory / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)
    query.awaitTermination()
    print("done", flush=True)
    session.close()
    return 0


@dataclass(slots=True)
class KilledPipeline:
    """The program above, its input, and the batches that its kills have hit."""

    bootstrap: str
    kind: str
    name: str
    directory: Path
    rows_a_batch: int
    random: random.Random
    master: str = "local[2,4]"
    python_sink: bool = False
    source: str = ""
    sink: str = ""
    rows: list[tuple[bytes, bytes]] = field(default_factory=list)
    offsets: dict[int, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    unfinished_batches: int = 0
    half_written_batches: int = 0

    def produce(self, count: int, partitions: int, keys: int = 20) -> None:
        """Fill the source: partition 0 gets more than the others, so that tasks do not end together."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        self.offsets = {partition: [] for partition in range(partitions)}
        for number in range(count):
            partition = 0 if number % 2 else number // 2 % partitions
            row = (b"key %d" % (number % keys), b"%d" % number)
            producer.produce(self.source, row[1], row[0], partition)
            self.offsets[partition].append(row)
            self.rows.append(row)
            producer.poll(0)
        assert producer.flush(60) == 0

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """The program; its processes that are left at the end are killed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--bootstrap", self.bootstrap, "--kind", self.kind]
        command += ["--source", self.source, "--sink", self.sink, "--name", self.name]
        command += ["--directory", str(self.directory), "--rows-a-batch", str(self.rows_a_batch)]
        command += ["--master", self.master, *(["--python-sink"] if self.python_sink else [])]
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with (self.directory / "output.log").open("a") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        try:
            yield process
        finally:
            kill_all(process)

    def started(self, process: subprocess.Popen[str]) -> None:
        """Wait until the query runs."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "started\n", self._log()

    def batches_done(self) -> int:
        """Batches that the checkpoint calls done."""
        return len(self._batches("commits"))

    def run_until_killed(self, victims: str, more_batches: int, *, in_window: bool = False) -> bool:
        """Let it do some batches and kill it at a random moment of the next; False if it was done before.

        in_window: kill it not at random, but once a unit has written a batch of which the checkpoint does not
        know the end yet. The window is too short for random kills to be sure of it.
        """
        with contextlib.ExitStack() as stack:
            ledger = stack.enter_context(self._ledger_from_now()) if in_window else None
            process = stack.enter_context(self.running())
            self.started(process)
            wanted = self.batches_done() + more_batches
            deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
            while self.batches_done() < wanted and process.poll() is None:
                assert time.monotonic() < deadline, self._log()
                time.sleep(0.005)
            if ledger is None:
                time.sleep(self.random.uniform(0, 0.4))
            family = descendants(process.pid)
            if ledger is not None:
                self._await_unit(ledger, process, deadline)
            if process.poll() is not None:
                assert process.returncode == 0, self._log()
                return False
            match victims:
                case "everything":
                    kill_all(process, family)
                case "driver":
                    process.kill()
                    process.wait()
                    assert not wait_until_gone(family), "the JVM outlives its driver"
                case "jvm":
                    for pid, command in family.items():
                        if any(name in command for name in JVMS):
                            os.kill(pid, signal.SIGKILL)
                case _:
                    raise AssertionError(victims)
        self._note_batch()
        return True

    @contextlib.contextmanager
    def _ledger_from_now(self) -> Iterator[Consumer]:
        """A reader of the sink's ledger topic from its present end, which is told of records at once."""
        kafka, topic = KafkaCluster(self.bootstrap), ledger_topic(self.name)
        create_ledger_topic(ClusterAccess(self.bootstrap), topic)
        consumer = kafka.consumer({"fetch.wait.max.ms": "10"})
        ends = kafka.end_positions(topic)
        consumer.assign([TopicPartition(topic, partition, end) for partition, end in ends.items()])
        try:
            yield consumer
        finally:
            consumer.close()

    def _await_unit(self, ledger: Consumer, process: subprocess.Popen[str], deadline: float) -> None:
        """Wait until a unit has written a batch that the checkpoint has not ended, or the process is done."""
        while process.poll() is None:
            assert time.monotonic() < deadline, self._log()
            message = ledger.poll(0.01)
            if message is None or message.error() is not None:
                continue
            if json.loads(message.value() or b"")["next"] - 1 not in self._batches("commits"):
                return

    def run_to_the_end(self, worker_kills: int = 0, victims: str = WORKERS) -> int:
        """Let it finish, killing processes of Spark's on the way; returns how many were killed.

        victims: a text in the command of those processes. Spark repeats a task whose worker or executor died.
        It gives up a query whose helper on the driver died, and then the program is started again, as its
        supervisor would do.
        """
        killed = 0
        for _ in range(worker_kills + 1):
            with self.running() as process:
                killed += self._kill_workers(process, worker_kills - killed, victims)
                code = process.wait(RUN_TIMEOUT_SECONDS)
            if code == 0:
                return killed
            assert killed > 0, self._log()
        raise AssertionError(self._log())

    def _kill_workers(self, process: subprocess.Popen[str], count: int, victims: str) -> int:
        """Kill so many processes of Spark's, if it lives that long; returns how many."""
        self.started(process)
        killed = 0
        deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
        while killed < count and process.poll() is None:
            assert time.monotonic() < deadline, self._log()
            # An executor takes some seconds to be there again.
            time.sleep(self.random.uniform(0.05, 0.6) if victims == WORKERS else self.random.uniform(2, 8))
            workers = [pid for pid, command in descendants(process.pid).items() if victims in command]
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(sorted(workers)), signal.SIGKILL)
                    killed += 1
        return killed

    def expected(self) -> Counter[tuple[bytes, bytes]]:
        """Key and value of every row that must be in the output, by the checkpoint's own batches."""
        if self.kind == STATELESS:
            return Counter(self.rows)
        expected: Counter[tuple[bytes, bytes]] = Counter()
        counts: Counter[bytes] = Counter()
        before = dict.fromkeys(self.offsets, 0)
        for batch in self._batches("offsets"):
            end = json.loads((self.directory / "checkpoint/offsets" / str(batch)).read_text().splitlines()[2])
            keys: set[bytes] = set()
            for partition, offset in end[self.source].items():
                for key, _ in self.offsets[int(partition)][before[int(partition)] : offset]:
                    counts[key] += 1
                    keys.add(key)
                before[int(partition)] = offset
            expected.update((key, b"%d" % counts[key]) for key in keys)
        return expected

    def _batches(self, log: str) -> list[int]:
        directory = self.directory / "checkpoint" / log
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())

    def _note_batch(self) -> None:
        """Count the kill if it has hit a batch of which some units are in Kafka and its end is not."""
        open_batches = set(self._batches("offsets")) - set(self._batches("commits"))
        if not open_batches:
            return
        kafka = KafkaCluster(self.bootstrap)
        next_batches = [
            offset
            for group in kafka.groups(f"{self.name}-sink-")
            for offset in kafka.committed(group, self.sink).values()
        ]
        written = sum(offset == max(open_batches) + 1 for offset in next_batches)
        self.unfinished_batches += written > 0
        self.half_written_batches += 0 < written < len(next_batches)

    def _log(self) -> str:
        return (self.directory / "output.log").read_text()[-3000:]


def kill_all(process: subprocess.Popen[str], known: Iterable[int] = ()) -> None:
    """kill -9 for a process and all that it has started, and wait until they are gone.

    known: descendants of a moment ago. They are stopped at once, as a search for all of them takes a while.
    """
    _signal((process.pid, *known), signal.SIGSTOP)
    family = descendants(process.pid)
    _signal((process.pid, *family), signal.SIGKILL)
    process.wait()
    left = wait_until_gone(family)
    assert not left, left


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main())
