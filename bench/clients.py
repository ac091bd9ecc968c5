"""Run the real clients that drive a broker: a process each, the same command line for both."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench import java_output, processes
from bench.errors import BenchError, tail
from bench.servers import Served
from support.java_tools import java_command

CLIENT_TIMEOUT_SECONDS = 600.0
ADMIN_TIMEOUT_SECONDS = 30.0
TOPIC = "bench"
# What a topic just created may answer on a broker that has not heard of it, or of its leader.
NOT_READY = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
)

# What Kafka's own kafka-producer-perf-test.sh and kafka-run-class.sh give a tool.
JAVA_CLIENT_FLAGS = (
    "-Xmx512m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What a client printed, and who used the processors meanwhile.

    server_cpu_seconds: the broker's. other_cpu_share: the processors' time, as a share of one processor,
    that went to neither the broker nor the client nor this process: other programs, and the kernel's own
    threads.
    """

    output: str
    server_cpu_seconds: float
    other_cpu_share: float


def run_client(server: Served, command: Sequence[str], *, name: str) -> ClientRun:
    """Run a client to its end. Raises BenchError when it fails or hangs, or the broker dies meanwhile."""
    machine, server_cpu, ours = processes.machine_cpu_times(), server.cpu_seconds(), _our_cpu_seconds()
    began = time.perf_counter()
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLIENT_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{name} on {server.system.title} hung for {CLIENT_TIMEOUT_SECONDS} s") from error
    elapsed = time.perf_counter() - began
    server.check_running()
    if result.returncode != 0:
        words = tail(result.stdout + result.stderr)
        raise BenchError(f"{name} on {server.system.title} ended with {result.returncode}:\n{words}")
    server_cpu = server.cpu_seconds() - server_cpu
    busy = processes.machine_cpu_times().busy - machine.busy
    others = busy - server_cpu - (_our_cpu_seconds() - ours)
    return ClientRun(result.stdout, server_cpu, max(0.0, others) / elapsed)


def _our_cpu_seconds() -> float:
    """This process and the clients that it has waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def create_topic(
    server: Served, *, partitions: int = 1, topic: str = TOPIC, replication_factor: int = 1
) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})
    new_topic = NewTopic(topic, partitions, replication_factor)
    futures = admin.create_topics([new_topic], request_timeout=ADMIN_TIMEOUT_SECONDS)
    try:
        futures[topic].result(ADMIN_TIMEOUT_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"could not create a topic on {server.system.title}: {error}") from error


def end_offset(server: Served, *, topic: str = TOPIC, partition: int = 0) -> int:
    """The high watermark of a partition, by ListOffsets."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "bench-offsets"})
    deadline = time.monotonic() + ADMIN_TIMEOUT_SECONDS
    try:
        while True:
            try:
                _, high = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=ADMIN_TIMEOUT_SECONDS
                )
                break
            except KafkaException as error:
                # A topic just created may not have its leader yet.
                not_ready = error.args[0].code() in NOT_READY
                if not not_ready or time.monotonic() > deadline:
                    raise
    except KafkaException as error:
        raise BenchError(f"no offsets from {server.system.title}: {error}") from error
    finally:
        consumer.close()
    return int(high)


def end_offsets(server: Served, partitions: int, *, at_least: int = 0) -> int:
    """The sum of the high watermarks; waited for if it is still below `at_least`, as followers may lag."""
    deadline = time.monotonic() + ADMIN_TIMEOUT_SECONDS
    while True:
        found = sum(end_offset(server, partition=partition) for partition in range(partitions))
        if found >= at_least or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def wait_for_end_offset(server: Served, expected: int, *, timeout_seconds: float) -> float:
    """When (perf_counter) ListOffsets said that the partition ends at `expected`.

    Raises BenchError for another end, and after `timeout_seconds`.
    """
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "bench-offsets", "log_level": 0})
    deadline = time.perf_counter() + timeout_seconds
    try:
        while time.perf_counter() < deadline:
            server.check_running()
            try:
                _, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=1.0)
            except KafkaException:
                time.sleep(0.005)  # not up yet: asked again until the deadline
                continue
            if high == expected:
                return time.perf_counter()
            raise BenchError(f"{server.system.title} ends at offset {high} where {expected} was acknowledged")
    finally:
        consumer.close()
    raise BenchError(f"{server.system.title} has no end offset after {timeout_seconds} s")


@dataclass(frozen=True, slots=True)
class ProducerRun:
    """A run of ProducerPerformance: its summary, and the client run it came from."""

    summary: java_output.ProducerSummary
    client: ClientRun


def producer_performance(
    server: Served,
    properties: Mapping[str, str],
    *,
    records: int,
    warmup_records: int,
    record_bytes: int,
    transaction_ms: int | None = None,
    partitions: int = 1,
) -> ProducerRun:
    """Java's ProducerPerformance as fast as it goes, the first `warmup_records` of `records` not counted.

    With `transaction_ms` it is transactional, with a commit that often. Afterwards the partitions must hold
    exactly `records` more than before (and the transactions' markers).
    """
    transactions: tuple[str, ...] = ()
    if transaction_ms is not None:
        transactions = ("--transactional-id", "bench", "--transaction-duration-ms", str(transaction_ms))
    expected = end_offsets(server, partitions) + records
    command = java_command(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", TOPIC, "--throughput", "-1", "--print-metrics"),
        *("--num-records", str(records), "--warmup-records", str(warmup_records)),
        *("--record-size", str(record_bytes), *transactions),
        *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        flags=JAVA_CLIENT_FLAGS,
    )
    client = run_client(server, command, name="ProducerPerformance")
    summary = java_output.parse_producer_performance(
        client.output, records=records, warmup_records=warmup_records
    )
    found = end_offsets(server, partitions, at_least=expected)
    if found != expected and (transaction_ms is None or found < expected):
        raise BenchError(f"{server.system.title} ends at offset {found} where {expected} was acknowledged")
    return ProducerRun(summary, client)


def end_to_end_latency_java(
    server: Served, *, records: int, record_bytes: int
) -> tuple[java_output.LatencySummary, ClientRun]:
    """Java's EndToEndLatency with acks=1: send, wait for the acknowledgement, poll; one record at a time."""
    command = java_command(
        "org.apache.kafka.tools.EndToEndLatency",
        *("--bootstrap-server", server.bootstrap, "--topic", TOPIC, "--num-records", str(records)),
        *("--producer-acks", "1", "--record-size", str(record_bytes)),
        flags=JAVA_CLIENT_FLAGS,
    )
    client = run_client(server, command, name="EndToEndLatency")
    return java_output.parse_end_to_end_latency(client.output), client


def consumer_performance(server: Served, *, records: int) -> tuple[java_output.ConsumerSummary, ClientRun]:
    """Java's ConsumerPerformance from the first record on, in a group of its own."""
    command = java_command(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", server.bootstrap, "--topic", TOPIC, "--num-records", str(records)),
        flags=JAVA_CLIENT_FLAGS,
    )
    client = run_client(server, command, name="ConsumerPerformance")
    return java_output.parse_consumer_performance(client.output, records=records), client


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """Milliseconds from produce() to the record's return from poll(), by bench.latency_client."""

    p50_ms: float
    p99_ms: float
    p999_ms: float


def end_to_end_latency_confluent(
    server: Served, *, records: int, warmup_records: int, record_bytes: int
) -> tuple[LatencyFigures, ClientRun]:
    command = [
        sys.executable,
        "-m",
        "bench.latency_client",
        "--bootstrap",
        server.bootstrap,
        "--topic",
        TOPIC,
    ]
    command += ["--records", str(records), "--warmup-records", str(warmup_records)]
    command += ["--record-bytes", str(record_bytes)]
    client = run_client(server, command, name="the latency client")
    try:
        figures = LatencyFigures(**json.loads(client.output))
    except (ValueError, TypeError) as error:
        raise BenchError(f"the latency client printed no figures:\n{tail(client.output)}") from error
    return figures, client
