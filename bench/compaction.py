"""Compaction of one partition: fill it with keys that repeat, switch compaction on, wait for the checkpoint.

Both brokers write `cleaner-offset-checkpoint`, in one format, when a cleaning is done: the time is taken from
outside and alike. Cleaning is held back until all is written, by a topic that does not compact yet.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.clients import ADMIN_TIMEOUT_SECONDS
from bench.errors import BenchError
from bench.servers import Server, System

# The map of 1 million keys takes 24 MB in Apache Kafka and some 140 MB in ottla: both are given enough.
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(256 << 20),
    "log.segment.delete.delay.ms": "1000",
}
KEY_BYTES = 10
TIMEOUT_SECONDS = 900.0
_POLL_SECONDS = 0.01
_SEED = 4711


def data_directory(system: System, workspace: Path) -> Path:
    """Where a side keeps its partitions."""
    data = workspace / "data"
    return data / "logs" if system is System.KAFKA else data


def checkpoint_path(system: System, workspace: Path) -> Path:
    """The cleaner's checkpoint in the data directory of a side."""
    return data_directory(system, workspace) / "cleaner-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class Filling:
    """The records to write: each of `record_bytes`, with one of `keys` keys at random."""

    total_bytes: int
    keys: int
    record_bytes: int
    segment_bytes: int


def fill(server: Server, topic: str, filling: Filling) -> None:
    """Make a topic that does not compact, and fill it."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})
    config = {"cleanup.policy": "delete", "segment.bytes": str(filling.segment_bytes), "retention.ms": "-1"}
    made = admin.create_topics([NewTopic(topic, 1, 1, config=config)])
    try:
        made[topic].result(ADMIN_TIMEOUT_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"could not create a topic on {server.system.title}: {error}") from error
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "batch.size": 16_384,
            "linger.ms": 5,
            "acks": "1",
            "queue.buffering.max.messages": 500_000,
        }
    )
    draw = random.Random(_SEED)
    value = draw.randbytes(filling.record_bytes - KEY_BYTES)
    count = filling.total_bytes // filling.record_bytes
    failures: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        key = b"%010d" % int(draw.random() * filling.keys)
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(TIMEOUT_SECONDS) or failures:
        raise BenchError(f"{server.system.title} did not take all records: {failures[:1]}")


def closed_segments(system: System, workspace: Path, topic: str) -> tuple[int, int]:
    """The bytes of the segments that can be compacted, and the offset where they end."""
    logs = {int(path.stem): path for path in (data_directory(system, workspace) / f"{topic}-0").glob("*.log")}
    active = max(logs)
    return sum(path.stat().st_size for base, path in logs.items() if base < active), active


def start_compacting(server: Server, topic: str) -> float:
    """Switch the topic to compaction; returns the time (perf_counter) of the request."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"))
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    began = time.perf_counter()
    try:
        admin.incremental_alter_configs([resource])[resource].result(ADMIN_TIMEOUT_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"could not alter a topic on {server.system.title}: {error}") from error
    return began


def checkpointed_offset(path: Path, topic: str) -> int:
    """The offset up to which the topic is clean; 0 before its first checkpoint."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return 0
    for line in lines[2:]:
        name, _, offset = line.split()
        if name == topic:
            return int(offset)
    return 0


def wait_until_clean(server: Server, path: Path, topic: str, offset: int) -> float:
    """The time (perf_counter) at which the checkpoint reached `offset`. Raises BenchError."""
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        server.check_running()
        if checkpointed_offset(path, topic) >= offset:
            return time.perf_counter()
        time.sleep(_POLL_SECONDS)
    raise BenchError(f"{server.system.title} has not compacted up to {offset} after {TIMEOUT_SECONDS} s")
