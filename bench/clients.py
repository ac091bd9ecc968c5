"""Run the real clients that drive a broker: a process each, the same command line for both."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from bench import java_output, processes
from bench.errors import BenchError, tail
from bench.servers import Served
from support.java.java_tools import java_command

CLIENT_TIMEOUT_SECONDS = 600.0
ADMIN_TIMEOUT_SECONDS = 30.0
# How long ConsumerPerformance waits for its group and for the next records before it gives up.
CONSUMER_PATIENCE_MS = 60_000
TOPIC = "bench"
# What a topic just created may answer on a broker that has not heard of it, or of its leader.
NOT_READY = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
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
    """The output of a client (or of several, one after the other), and the use of the processors meanwhile.

    server_cpu_seconds: the broker's. other_cpu_share: the time of all processors, as a share of one, that was
    used by neither the broker nor the client nor this process, but by other programs and by the kernel's own
    threads.
    """

    output: str
    server_cpu_seconds: float
    other_cpu_share: float


@dataclass(slots=True)
class Transcript:
    """The lines that one client printed, each with the time (Unix, seconds) at which it came."""

    lines: list[tuple[float, str]] = field(default_factory=list)

    def read(self, stream: IO[str]) -> None:
        """Take lines until the client closes its output."""
        for line in stream:
            self.lines.append((time.time(), line))

    @property
    def text(self) -> str:
        return "".join(line for _, line in self.lines)

    def came_at(self, text: str) -> float:
        """The time at which the first line with `text` in it came. Raises BenchError if there is none."""
        for at, line in self.lines:
            if text in line:
                return at
        raise BenchError(f"a client never said {text!r}:\n{tail(self.text)}")


def run_client(server: Served, command: Sequence[str], *, name: str) -> ClientRun:
    """Run a client to its end. Raises BenchError when it fails or hangs, or the broker dies meanwhile."""
    _, client = run_together(server, [command], name=name)
    return client


def run_together(
    server: Served, commands: Sequence[Sequence[str]], *, name: str
) -> tuple[list[Transcript], ClientRun]:
    """Start clients at once and wait for all of them. Raises BenchError as `run_client` does."""
    machine, server_cpu, ours = processes.machine_cpu_times(), server.cpu_seconds(), _our_cpu_seconds()
    began = time.perf_counter()
    deadline = time.monotonic() + CLIENT_TIMEOUT_SECONDS
    with ExitStack() as stack:
        clients = [stack.enter_context(_Client(command)) for command in commands]
        for client in clients:
            try:
                code = client.wait(deadline - time.monotonic())
            except subprocess.TimeoutExpired as error:
                raise BenchError(
                    f"{name} on {server.system.title} hung for {CLIENT_TIMEOUT_SECONDS} s"
                ) from error
            server.check_running()
            if code != 0:
                words = tail(client.transcript.text + client.errors())
                raise BenchError(f"{name} on {server.system.title} ended with {code}:\n{words}")
    elapsed = time.perf_counter() - began
    server_cpu = server.cpu_seconds() - server_cpu
    busy = processes.machine_cpu_times().busy - machine.busy
    others = busy - server_cpu - (_our_cpu_seconds() - ours)
    transcripts = [client.transcript for client in clients]
    output = "".join(transcript.text for transcript in transcripts)
    return transcripts, ClientRun(output, server_cpu, max(0.0, others) / elapsed)


class _Client:
    """A client's process; it does not outlive the block."""

    def __init__(self, command: Sequence[str]) -> None:
        self.transcript = Transcript()
        self._command = command

    def __enter__(self) -> _Client:
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self.transcript.read, args=(self._process.stdout,))
        self._reader.start()
        return self

    def wait(self, timeout_seconds: float) -> int:
        """Its exit code, with its transcript whole. Raises subprocess.TimeoutExpired."""
        code = self._process.wait(timeout_seconds)
        self._reader.join()
        return code

    def errors(self) -> str:
        """The client's standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def _our_cpu_seconds() -> float:
    """This process and the clients that it has waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def create_topic(
    server: Served, *, partitions: int = 1, topic: str = TOPIC, replication_factor: int = 1
) -> None:
    create_topics(server, [topic], partitions=partitions, replication_factor=replication_factor)


def create_topics(
    server: Served, topics: Sequence[str], *, partitions: int = 1, replication_factor: int = 1
) -> None:
    """Create topics that are alike. Raises BenchError."""
    new = [NewTopic(topic, partitions, replication_factor) for topic in topics]
    try:
        with _admin(server) as admin:
            for made in admin.create_topics(new, request_timeout=ADMIN_TIMEOUT_SECONDS).values():
                made.result(ADMIN_TIMEOUT_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"could not create a topic on {server.system.title}: {error}") from error


def _admin(server: Served) -> AdminClient:
    """An admin client, for use in a `with`: an open one goes on connecting to a dead broker's port."""
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})


def end_offsets(server: Served, partitions: int, *, topic: str = TOPIC, at_least: int = 0) -> int:
    """The sum of a topic's high watermarks, by ListOffsets.

    Asked again while it is below `at_least`, as followers may lag, and while a new topic has no leaders yet.
    """
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    deadline = time.monotonic() + ADMIN_TIMEOUT_SECONDS
    with _admin(server) as admin:
        while True:
            overdue = time.monotonic() > deadline
            try:
                futures = admin.list_offsets(wanted, request_timeout=ADMIN_TIMEOUT_SECONDS)
                found = sum(future.result(ADMIN_TIMEOUT_SECONDS).offset for future in futures.values())
                if found >= at_least or overdue:
                    return int(found)
            except (KafkaException, TimeoutError) as error:
                not_ready = isinstance(error, KafkaException) and error.args[0].code() in NOT_READY
                if not not_ready or overdue:
                    raise BenchError(f"no offsets from {server.system.title}: {error}") from error
            time.sleep(0.05)


def wait_for_end_offset(server: Served, expected: int, *, timeout_seconds: float) -> float:
    """The time (perf_counter) at which ListOffsets gave `expected` as the partition's end.

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
class Access:
    """How a Java client gets in at another listener than the server's own. config: a file of `properties`."""

    bootstrap: str
    properties: Mapping[str, str]
    config: Path


@dataclass(frozen=True, slots=True)
class Production:
    """The records that a run of ProducerPerformance writes, as fast as possible.

    The first `warmup_records` of `records` are not counted. A record is `record_bytes` random letters, or a
    random line of `payload_file`. With `transaction_ms` the producer is transactional and commits that often.
    Without an `access` it goes to the server's own listener.
    """

    records: int
    warmup_records: int
    record_bytes: int
    topic: str = TOPIC
    partitions: int = 1
    payload_file: Path | None = None
    transaction_ms: int | None = None
    access: Access | None = None

    @property
    def counted_records(self) -> int:
        return self.records - self.warmup_records


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
    """One ProducerPerformance; see Production and `produce`."""
    production = Production(
        records, warmup_records, record_bytes, partitions=partitions, transaction_ms=transaction_ms
    )
    return produce(server, properties, production)


def produce(server: Served, properties: Mapping[str, str], production: Production) -> ProducerRun:
    """Java's ProducerPerformance. Afterwards the partitions must hold exactly `records` more than before
    (and the transactions' markers).
    """
    expected = end_offsets(server, production.partitions, topic=production.topic) + production.records
    command = producer_command(server, properties, production)
    client = run_client(server, command, name="ProducerPerformance")
    summary = java_output.parse_producer_performance(
        client.output, records=production.records, warmup_records=production.warmup_records
    )
    check_written(server, production, expected)
    return ProducerRun(summary, client)


def producer_command(server: Served, properties: Mapping[str, str], production: Production) -> list[str]:
    payload: tuple[str, ...] = ("--record-size", str(production.record_bytes))
    if production.payload_file is not None:
        payload = ("--payload-file", str(production.payload_file))
    transactions: tuple[str, ...] = ()
    if production.transaction_ms is not None:
        transactions = ("--transactional-id", "bench")
        transactions += ("--transaction-duration-ms", str(production.transaction_ms))
    return java_command(
        "org.apache.kafka.tools.ProducerPerformance",
        *_way_in(server, production.access),
        *("--topic", production.topic, "--throughput", "-1"),
        *("--num-records", str(production.records), "--warmup-records", str(production.warmup_records)),
        *("--print-metrics", *payload, *transactions),
        *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        flags=JAVA_CLIENT_FLAGS,
    )


def _way_in(server: Served, access: Access | None) -> tuple[str, ...]:
    if access is None:
        return ("--bootstrap-server", server.bootstrap)
    return ("--bootstrap-server", access.bootstrap, "--command-config", str(access.config))


def check_written(server: Served, production: Production, expected: int) -> None:
    """Raises BenchError unless the partitions end where they must: at `expected`, with markers beyond it."""
    found = end_offsets(server, production.partitions, topic=production.topic, at_least=expected)
    if found != expected and (production.transaction_ms is None or found < expected):
        raise BenchError(f"{server.system.title} ends at offset {found} where {expected} was acknowledged")


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


def consumer_performance(
    server: Served, *, records: int, access: Access | None = None
) -> tuple[java_output.ConsumerSummary, ClientRun]:
    """Java's ConsumerPerformance from the first record on, in a group of its own."""
    client = run_client(server, consumer_command(server, records, access), name="ConsumerPerformance")
    return java_output.parse_consumer_performance(client.output, records=records), client


def consumer_command(server: Served, records: int, access: Access | None = None) -> list[str]:
    return java_command(
        "org.apache.kafka.tools.ConsumerPerformance",
        *_way_in(server, access),
        *("--topic", TOPIC, "--num-records", str(records)),
        *("--date-format", java_output.CONSUMER_DATE_FORMAT),
        *("--timeout", str(CONSUMER_PATIENCE_MS)),
        flags=JAVA_CLIENT_FLAGS,
    )


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
