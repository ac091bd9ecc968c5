"""A topic copied to another cluster with MirrorMaker 2, and by a link, which keeps its offsets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench import clients
from bench.errors import BenchError, tail
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BATCHED, RECORD_BYTES, Scenario, Turn
from bench.servers import Server, System, serve
from ottla.connect.java.jars import fetch_connect
from ottla.pipeline.spark.java_runtime import find_java

RECORDS: Final = 4_000_000
PARTITIONS: Final = 4
REMOTE: Final = f"A.{clients.TOPIC}"
POLL_SECONDS: Final = 0.02
TIMEOUT_SECONDS: Final = 400.0
HEAP: Final = ("-Xms256m", "-Xmx2g")
"""Those of Kafka's connect-mirror-maker.sh."""


def _run(turn: Turn) -> dict[str, float]:
    records = turn.size(RECORDS)
    with ExitStack() as stack:
        servers = []
        for name in ("source", "target"):
            workspace = turn.workspace / name
            workspace.mkdir(parents=True)
            flags = turn.ottla_python_flags
            servers.append(stack.enter_context(serve(turn.system, workspace, ottla_python_flags=flags)))
        source, target = servers
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
        started = time.perf_counter()
        before = target.cpu_seconds() + source.cpu_seconds()
        if turn.system is System.OTTLA:
            stack.enter_context(_link(source, target))
            first, last = _copied(target, clients.TOPIC, records, started)
        else:
            stack.enter_context(_mirror_maker(turn, source, target))
            first, last = _copied(target, REMOTE, records, started)
        cpu_seconds = target.cpu_seconds() + source.cpu_seconds() - before
    return {
        "records_per_second": records / (last - first),
        "records_per_second_from_the_command": records / (last - started),
        "brokers_cpu_seconds_per_million": cpu_seconds / records * 1e6,
    }


@contextmanager
def _link(source: Server, target: Server) -> Iterator[None]:
    """The command that makes a link; it may take longer than the copying."""
    words = ["create", "bench", "--source", source.bootstrap, "--topic", clients.TOPIC]
    command = [sys.executable, "-m", "ottla", "link", *words, "--bootstrap", target.bootstrap]
    making = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    yield
    _, told = making.communicate(timeout=60)
    if making.returncode != 0:
        raise BenchError(f"the link was not made: {told}")


@contextmanager
def _mirror_maker(turn: Turn, source: Server, target: Server) -> Iterator[None]:
    """MirrorMaker 2 with its defaults: at least once, one task a partition."""
    topics = ("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")
    stores = ("offset.storage", "config.storage", "status.storage")
    properties = {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "A->B.topics": clients.TOPIC,
        "tasks.max": str(PARTITIONS),
        "replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        **{f"{topic}.replication.factor": "1" for topic in (*topics, *stores)},
    }
    file = turn.workspace / "mm2.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()), encoding="utf-8")
    log = turn.workspace / "mm2.log"
    path = os.pathsep.join(map(str, fetch_connect()))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = [str(find_java().executable), *HEAP, "-XX:+UseG1GC", "-cp", path, main, str(file)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    except BenchError as problem:
        raise BenchError(f"{problem}\n{tail(log.read_text(errors='replace'))}") from None
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _copied(target: Server, topic: str, records: int, started: float) -> tuple[float, float]:
    """When the target was last seen without a record, and when with all of them."""
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "watching", "log_level": 0})
    try:
        first = started
        while True:
            looked = time.perf_counter()
            end = _end(consumer, topic)
            now = time.perf_counter()
            if not end:
                first = looked
            if end >= records:
                return first, now
            if now - started > TIMEOUT_SECONDS:
                raise BenchError(f"{end:,} records of {records:,} within {TIMEOUT_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
    finally:
        consumer.close()


def _end(consumer: Consumer, topic: str) -> int:
    """The sum of the topic's ends; 0 while it is not there."""
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic]
        if known.error is not None:
            return 0
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, each), 10)[1] for each in known.partitions
        )
    except KafkaException:
        return 0


SCENARIOS: Final = (
    Scenario(
        "link",
        f"{RECORDS:,} records of {RECORD_BYTES} bytes in {PARTITIONS} partitions, written by Java's producer "
        "(16 KiB batches), copied to another cluster: MirrorMaker 4.3.1 (its script's heap, at least once, a "
        "task a partition) between two Apache Kafka brokers, a link between two of ottla's. The rate is "
        "from the last look at the target without a record to the first with all.",
        (
            Measure("records_per_second", "records", "records/s", Target(Bound.RATIO_AT_LEAST, 5.0)),
            Measure("records_per_second_from_the_command", "records, the start included", "records/s"),
            Measure("brokers_cpu_seconds_per_million", "both brokers' CPU time", "s/million"),
        ),
        _run,
    ),
)
