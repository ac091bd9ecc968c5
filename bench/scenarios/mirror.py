"""A topic copied to another cluster exactly once: MirrorMaker 2 beside `ottla mirror`, with the same file."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench import clients, processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BATCHED, BYTES_PER_MEBIBYTE, RECORD_BYTES, Scenario, Turn
from bench.servers import HOST, Server, System, serve
from ottla.connect.java.jars import fetch_connect
from ottla.pipeline.spark.java_runtime import find_java
from support.servers.cluster import free_port

RECORDS: Final = 4_000_000
PARTITIONS: Final = 4
PACED_RECORDS: Final = 20_000
PACED_A_SECOND: Final = 2_000
REMOTE: Final = f"A.{clients.TOPIC}"
POLL_SECONDS: Final = 0.05
QUIET_SECONDS: Final = 5.0
"""So long nothing more comes, once as many offsets as records are there."""
TIMEOUT_SECONDS: Final = 400.0
# Those of Kafka's connect-mirror-maker.sh
HEAP: Final = ("-Xms256m", "-Xmx2g")


def _run(turn: Turn) -> dict[str, float]:
    records = turn.size(RECORDS)
    with ExitStack() as stack:
        source = stack.enter_context(_cluster(turn, "source"))
        target = stack.enter_context(_cluster(turn, "target"))
        clients.create_topic(source, partitions=PARTITIONS)
        written = clients.producer_performance(
            source,
            {**BATCHED, "acks": "all"},
            records=records,
            warmup_records=0,
            record_bytes=RECORD_BYTES,
            partitions=PARTITIONS,
        )
        turn.note(written.client)
        file = _mm2_properties(turn.workspace / "mm2.properties", source, target)
        log = turn.workspace / "mirror.log"
        with log.open("wb") as output:
            started = time.perf_counter()
            process = subprocess.Popen(
                _command(turn.system, file),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OTTLA_LOG_LEVEL": "WARNING"},
            )
        try:
            first, last = _copied(target, process, records, started)
            tree = processes.process_tree(process.pid)
            cpu_seconds = sum(map(processes.cpu_seconds, tree))
            resident = sum(map(processes.resident_bytes, tree))
            counted = _count(target)
            if counted != records:
                raise BenchError(f"{counted:,} committed records on the target of {records:,}")
            added = _added_latencies(source, target, process)
        except BenchError as problem:
            raise BenchError(f"{problem}\n{log.read_text(errors='replace')[-3_000:]}") from None
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    rate = records / (last - first)
    return {
        "records_per_second": rate,
        "floor_records_per_second": rate,
        "start_seconds": first - started,
        "added_latency_p50_seconds": statistics.median(added),
        "added_latency_p99_seconds": statistics.quantiles(added, n=100)[98],
        "cpu_seconds_per_million": cpu_seconds / records * 1e6,
        "resident_mebibytes": resident / BYTES_PER_MEBIBYTE,
    }


def _cluster(turn: Turn, name: str) -> AbstractContextManager[Server]:
    workspace = turn.workspace / name
    workspace.mkdir(parents=True)
    return serve(turn.system, workspace, ottla_python_flags=turn.ottla_python_flags)


def _mm2_properties(path: Path, source: Server, target: Server) -> Path:
    properties = {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "A->B.topics": clients.TOPIC,
        "A.consumer.isolation.level": "read_committed",
        "B.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{HOST}:{free_port()}",
        "tasks.max": "1",
        "replication.factor": "1",
        "refresh.topics.interval.seconds": "5",
        "emit.heartbeats.enabled": "false",
        **{
            f"{topic}.replication.factor": "1"
            for topic in (
                "offset-syncs.topic",
                "checkpoints.topic",
                "heartbeats.topic",
                "offset.storage",
                "config.storage",
                "status.storage",
            )
        },
    }
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()), encoding="utf-8")
    return path


def _command(system: System, file: Path) -> Sequence[str]:
    if system is System.OTTLA:
        return [sys.executable, "-m", "ottla", "mirror", str(file)]
    java = str(find_java().executable)
    path = os.pathsep.join(map(str, fetch_connect()))
    return [
        java,
        *HEAP,
        "-XX:+UseG1GC",
        "-cp",
        path,
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(file),
    ]


def _copied(
    target: Server, process: subprocess.Popen[bytes], records: int, started: float
) -> tuple[float, float]:
    """When the first record came, and the last."""
    first = last = 0.0
    before = 0
    while True:
        now = time.perf_counter()
        if process.poll() is not None or now - started > TIMEOUT_SECONDS:
            raise BenchError(f"the mirror ended, or took too long: {before:,} offsets of {records:,}")
        end = _end(target)
        if end > before:
            first, last, before = first or now, now, end
        elif before >= records and now > last + QUIET_SECONDS:
            return first, last
        time.sleep(POLL_SECONDS)


def _end(target: Server) -> int:
    """The sum of the topic's ends, markers of transactions included; 0 while it is not there."""
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "watching", "log_level": 0})
    try:
        topic = consumer.list_topics(REMOTE, timeout=10).topics[REMOTE]
        if topic.error is not None:
            return 0
        return sum(
            consumer.get_watermark_offsets(TopicPartition(REMOTE, each), 10)[1] for each in topic.partitions
        )
    except KafkaException as problem:
        if problem.args[0].code() in clients.NOT_READY:
            return 0  # a new topic's leader does not know of it yet
        raise
    finally:
        consumer.close()


def _reader(target: Server, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
            **settings,
        }
    )


def _count(target: Server) -> int:
    consumer = _reader(target, **{"enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(REMOTE, each, 0) for each in range(PARTITIONS)])
        left, found = set(range(PARTITIONS)), 0
        while left:
            for message in consumer.consume(10_000, 10):
                problem = message.error()
                if problem is None:
                    found += 1
                elif problem.name() == "_PARTITION_EOF":
                    left.discard(message.partition())
        return found
    finally:
        consumer.close()


def _added_latencies(source: Server, target: Server, process: subprocess.Popen[bytes]) -> list[float]:
    """From the time that each of some records was given to the producer until a consumer had it."""
    consumer = _reader(target, **{"fetch.wait.max.ms": 10})
    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 5, "log_level": 0})
    found: list[float] = []
    try:
        ends = [
            TopicPartition(REMOTE, each, consumer.get_watermark_offsets(TopicPartition(REMOTE, each), 10)[1])
            for each in range(PARTITIONS)
        ]
        consumer.assign(ends)
        consumer.consume(1, 1.0)
        began, sent = time.time(), 0
        while len(found) < PACED_RECORDS:
            now = time.time()
            if process.poll() is not None or now > began + PACED_RECORDS / PACED_A_SECOND + 60:
                raise BenchError(f"{len(found):,} of {sent:,} paced records came")
            while sent < PACED_RECORDS and sent < (now - began) * PACED_A_SECOND:
                producer.produce(clients.TOPIC, b"%.6f" % time.time() + bytes(RECORD_BYTES - 20))
                sent += 1
            producer.poll(0)
            for message in consumer.consume(1_000, 0.005):
                if message.error() is None:
                    value = message.value()
                    assert value is not None
                    found.append(time.time() - float(value.rstrip(b"\0")))
        return found
    finally:
        consumer.close()
        producer.flush(10)


SCENARIOS: Final = (
    Scenario(
        "mirror-exactly-once",
        f"{RECORDS:,} records of {RECORD_BYTES} bytes in {PARTITIONS} partitions, written by Java's producer "
        "(16 KiB batches), copied to another cluster exactly once by one task: MirrorMaker 4.3.1 "
        "(its script's heap) between two Apache Kafka brokers beside `ottla mirror` between two of "
        "ottla's, with the same mm2.properties. The rate is from the first record on the target to the last; "
        "the committed records are counted. Then records come at "
        f"{PACED_A_SECOND:,}/s: the added latency is from the producer's call on the source to a "
        "read_committed consumer on the target.",
        (
            Measure("records_per_second", "records", "records/s", Target(Bound.RATIO_AT_LEAST, 1.5)),
            Measure(
                "floor_records_per_second",
                "records, the floor",
                "records/s",
                Target(Bound.VALUE_AT_LEAST, 150_000),
            ),
            Measure("added_latency_p50_seconds", "added latency p50", "s", Target(Bound.VALUE_AT_MOST, 0.5)),
            Measure("added_latency_p99_seconds", "added latency p99", "s"),
            Measure("resident_mebibytes", "RSS after copying", "MiB", Target(Bound.RATIO_AT_MOST, 1.0)),
            Measure("cpu_seconds_per_million", "mirror's CPU time", "s/million"),
            Measure("start_seconds", "until the first record", "s"),
        ),
        _run,
    ),
)
