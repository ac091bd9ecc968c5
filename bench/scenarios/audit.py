"""The audit: how fast a cluster is counted, what marks cost a producer, how soon the page is there."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
import urllib.request

from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.ottla_commands import ottla_environment, ottla_words, run_ottla
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server, System

TOPIC, PARTITIONS = "audited", 2
RECORDS = 6_000_000
PORT = 18_924
RATE, SECONDS = 20_000, 20
WAIT_SECONDS = 300
TOPICS, DAYS, DAY_MS, BUCKET_MS = 1_000, 365, 86_400_000, 600_000

FILLER = """
import sys
from ottla.audit import AuditedProducer
bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
config = {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 131072, "compression.type": "lz4",
          "queue.buffering.max.messages": 1000000}
with AuditedProducer(config, tier="bench") as producer:
    for number in range(count):
        producer.produce(topic, b"v" * 100, partition=number // 5000 % 2)
        if number % 10000 == 0:
            while len(producer) > 500000:
                producer.poll(0.05)
"""
PACED = """
import resource, sys, time
from confluent_kafka import Producer
from ottla.audit import AuditedProducer
bootstrap, topic, kind = sys.argv[1:4]
rate, seconds = map(int, sys.argv[4:6])
config = {"bootstrap.servers": bootstrap, "linger.ms": 20}
producer = Producer(config) if kind == "plain" else AuditedProducer(config, tier="bench")
value = b"v" * 1000
def send(count):
    for _ in range(count):
        producer.produce(topic, value)
    producer.poll(0)
send(1000)
producer.flush()
began, used = time.perf_counter(), time.process_time()
for step in range(seconds * 100):
    send(rate // 100)
    time.sleep(max(began + (step + 1) / 100 - time.perf_counter(), 0))
print(time.process_time() - used)
producer.flush()
"""


def _create(server: Server) -> None:
    shape = ("--partitions", str(PARTITIONS), "--replication-factor", "1")
    run_ottla(server, "topic", "create", "-q", TOPIC, *shape)


def _run(program: str, *words: str) -> str:
    command = [sys.executable, "-c", program, *words]
    run = subprocess.run(
        command, env=ottla_environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    if run.returncode:
        raise BenchError(f"a producer fails: {run.stderr[-500:]}")
    return run.stdout


def _count(turn: Turn) -> dict[str, float]:
    """Records per second of `ottla audit count`, from the last look that found none counted on."""
    with turn.server() as server:
        _create(server)
        records = turn.size(RECORDS)
        _run(FILLER, server.bootstrap, TOPIC, str(records))
        return {f"{how}_per_second": _counted(server, how, records) for how in ("headers", "records")}


def _counted(server: Server, how: str, records: int) -> float:
    words = ["audit", "count", "--bootstrap", server.bootstrap, "--listen", f"127.0.0.1:{PORT}"]
    for name, value in {"tier": f"bench-{how}", "counting": how, "topics.include": TOPIC}.items():
        words += ["--set", f"{name}={value}"]
    with subprocess.Popen(ottla_words(*words), env=ottla_environment(), stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            first: tuple[float, int] | None = None
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=30) as answer:
                        counted = json.load(answer)["counted"]
                    now = time.perf_counter()
                    if first is None or counted == 0:
                        first = (now, counted)
                    if counted >= records:
                        if first[1] < records:
                            return (counted - first[1]) / (now - first[0])
                        raise BenchError("all was counted before the first look: more records are needed")
                time.sleep(0.02)
            raise BenchError("ottla audit count takes too long")
        finally:
            process.terminate()


def _producer(turn: Turn) -> dict[str, float]:
    """Processor time of a producer at a fixed rate, plain and audited, turn about."""
    with turn.server() as server:
        _create(server)
        used = {"plain": 0.0, "audited": 0.0}
        seconds = str(max(turn.size(SECONDS), 5))
        for kind in ("plain", "audited", "audited", "plain"):
            used[kind] += float(_run(PACED, server.bootstrap, TOPIC, kind, str(RATE), seconds))
        return {
            "plain_cpu_share": used["plain"] / (2 * int(seconds)),
            "audited_cpu_share": used["audited"] / (2 * int(seconds)),
            "more_of_a_core": 100 * (used["audited"] - used["plain"]) / (2 * int(seconds)),
        }


def _page(turn: Turn) -> dict[str, float]:
    """The first view of a year: 1,000 topics in two tiers, single buckets of the last day."""
    if turn.system is System.KAFKA:
        return {}
    from ottla.audit.core.rows import Row, State
    from ottla.audit.core.view import AuditView
    from ottla.audit.serve.page import Asked, body_of, span_of

    view = AuditView()
    now_ms = time.time_ns() // 1_000_000
    newest = now_ms // BUCKET_MS * BUCKET_MS
    starts = [newest - number * BUCKET_MS for number in range(DAY_MS // BUCKET_MS)]
    starts += [newest - day * DAY_MS for day in range(1, DAYS)]
    for tier in ("app", "lake"):
        for topic in range(turn.size(TOPICS)):
            for start_ms in starts:
                row = Row(f"topic-{topic}", tier, start_ms, BUCKET_MS, State.COMPLETE, sent=900, counted=900)
                view.take(row)
    took = {}
    for span in ("24h", "1y"):
        began = time.perf_counter()
        body_of(view, Asked(span_of(span)), now_ms, {"app": now_ms})
        took[span] = 1_000 * (time.perf_counter() - began)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return {"first_view_ms": took["24h"], "year_view_ms": took["1y"], "memory_mebibytes": memory}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "audit-count",
        f"{RECORDS:,} records of 100 bytes with marks in batches of a hundred and more (LZ4), counted by one "
        "process of `ottla audit count` beside the broker, on both processors: from the last look at its "
        "count, of fifty a second, that found none to the first that found all.",
        (
            Measure(
                "headers_per_second", "from headers", "records/s", Target(Bound.VALUE_AT_LEAST, 1_000_000)
            ),
            Measure("records_per_second", "by record", "records/s", Target(Bound.VALUE_AT_LEAST, 300_000)),
        ),
        _count,
    ),
    Scenario(
        "audit-producer",
        f"A producer of confluent-kafka at {RATE:,} records of 1,000 bytes a second, with and without "
        "an audit: its processor time, as a share of a core.",
        (
            Measure("plain_cpu_share", "without", "cores"),
            Measure("audited_cpu_share", "with", "cores"),
            Measure("more_of_a_core", "more", "% of a core", Target(Bound.VALUE_AT_MOST, 3.0)),
        ),
        _producer,
    ),
    Scenario(
        "audit-page",
        f"The Audit page of {TOPICS:,} topics in two tiers with a year of sums and a day of buckets: made "
        "anew, without a cache.",
        (
            Measure(
                "first_view_ms", "first view (24h)", "ms", Target(Bound.VALUE_AT_MOST, 300), ottla_only=True
            ),
            Measure("year_view_ms", "a year", "ms", ottla_only=True),
            Measure("memory_mebibytes", "memory", "MiB", ottla_only=True),
        ),
        _page,
    ),
)
