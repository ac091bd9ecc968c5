"""The data pipeline beside its peers: ottla's Streams on Spark, Java Kafka Streams, quixstreams.

Here the sides are not brokers: all programs run on Apache Kafka, the left column is Java Kafka Streams,
the right one ottla's Streams. quixstreams' figures stand in the left column under its own name, ottla's
Streams on ottla's broker in the right one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import clients
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.pipeline_clients import peers, watching
from bench.pipeline_clients.peers import PARTITIONS, Peer, Program, Task
from bench.pipeline_clients.topics import create_topics, read_all
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server, System, serve

INPUT: Final = "input"
OUTPUT: Final = "output"
MINUTE_MS: Final = 60_000
RUN_TIMEOUT_SECONDS: Final = 900.0

# So many that the first quarter, which does not count, is longer than the JVMs' compilers need.
MAP_RECORDS: Final = 18_000_000
MAP_BATCH: Final = 600_000
# A peer in Python alone is given fewer: its rate is as steady after a minute as after five.
QUIX_SHARE: Final = 5
VALUE_BYTES: Final = 100

WINDOWED_RECORDS: Final = 7_000_000
WINDOWED_KEYS: Final = 1_000_000
WINDOWED_BATCH: Final = 1_000_000
WINDOWED_MINUTES: Final = 5

LATENCY_RECORDS: Final = 1_000
# 40 s: until then the JVMs, Spark's most of all, are busy compiling.
LATENCY_WARMUP_RECORDS: Final = 2_000
LATENCY_INTERVAL_MS: Final = 20

RESTART_KEYS: Final = 10_000_000
RESTART_BATCH: Final = 1_000_000
RESTART_VALUE_BYTES: Final = 10

# Kafka Streams' own default with exactly-once, for latency; the rates are taken with the longer one, which
# suits them better and is nearer to the batches of the others.
LATENCY_COMMIT_MS: Final = 100
RATE_COMMIT_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """An input: how much of what."""

    program: Program
    records: int
    keys: int
    value_bytes: int
    minutes: int
    batch: int
    each_key_once: bool = False


def _map_load(turn: Turn) -> Load:
    return Load(Program.UPPER, turn.size(MAP_RECORDS), 1_000_000, VALUE_BYTES, 5, turn.size(MAP_BATCH))


def _windowed_load(turn: Turn) -> Load:
    return Load(
        Program.WINDOWED_COUNT,
        turn.size(WINDOWED_RECORDS),
        turn.size(WINDOWED_KEYS),
        VALUE_BYTES,
        WINDOWED_MINUTES,
        turn.size(WINDOWED_BATCH),
    )


def _rates(load_of: Callable[[Turn], Load], turn: Turn) -> dict[str, float]:
    """A side's turn of a scenario of rates: its programs one after the other, each on a fresh broker."""
    load = load_of(turn)
    if turn.system is System.KAFKA:
        own = _rate(turn, System.KAFKA, Peer.KAFKA_STREAMS, load)
        fewer = dataclasses.replace(load, records=load.records // QUIX_SHARE)
        quix = _rate(turn, System.KAFKA, Peer.QUIXSTREAMS, fewer)
        return own | {f"quix_{name}": value for name, value in quix.items()}
    own = _rate(turn, System.KAFKA, Peer.OTTLA, load)
    whole = _rate(turn, System.OTTLA, Peer.OTTLA, load)
    return own | {"ottla_broker_records_per_second": whole["records_per_second"]}


def _rate(turn: Turn, broker: System, peer: Peer, load: Load) -> dict[str, float]:
    workspace = _workspace(turn, broker, peer)
    with _filled(broker, workspace, load) as server:
        task = _task(server, load, peer, workspace, RATE_COMMIT_MS)
        with peers.run(peer, task) as running:
            course = _follow(turn, server, running, load.records)
            running.check_running()
            running.stop()
        _check_output(server, load)
    return dict(watching.figures(course))


def _workspace(turn: Turn, broker: System, peer: Peer) -> Path:
    workspace = turn.workspace / f"{peer.name.lower()}-on-{broker.value}"
    workspace.mkdir()
    return workspace


@contextmanager
def _filled(broker: System, workspace: Path, load: Load) -> Iterator[Server]:
    """A fresh broker with the input in its topic."""
    with serve(broker, workspace) as server:
        create_topics(server, INPUT, OUTPUT)
        if load.records:
            begin_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 2 * load.minutes * MINUTE_MS
            peers.fill(
                server.bootstrap,
                INPUT,
                records=load.records,
                keys=load.keys,
                value_bytes=load.value_bytes,
                begin_ms=begin_ms,
                span_ms=load.minutes * MINUTE_MS,
                each_key_once=load.each_key_once,
            )
        os.sync()
        yield server


def _task(server: Server, load: Load, peer: Peer, workspace: Path, commit_interval_ms: int) -> Task:
    return Task(
        load.program,
        server.bootstrap,
        INPUT,
        OUTPUT,
        f"bench-{load.program.value}",
        workspace / "program",
        commit_interval_ms,
        load.batch if peer is Peer.OTTLA else 0,
    )


def _offsets(server: Server, group: str) -> contextlib.closing[watching.CommittedOffsets]:
    return contextlib.closing(watching.CommittedOffsets(server.bootstrap, group, INPUT, PARTITIONS))


def _follow(
    turn: Turn, server: Server, running: peers.Running, records: int, begin_records: int = 0
) -> watching.Course:
    def check_running() -> None:
        running.check_running()
        server.check_running()

    with _offsets(server, running.group) as offsets:
        course = watching.watch(
            offsets,
            records,
            started_at=running.started_at,
            pids=running.pids,
            check_running=check_running,
            server_cpu_seconds=server.cpu_seconds,
            timeout_seconds=RUN_TIMEOUT_SECONDS,
            begin_records=begin_records,
        )
    turn.other_cpu_shares.append(course.other_cpu_share)
    return course


def _check_output(server: Server, load: Load) -> None:
    """Each program's whole output, after the measurement: every record mapped once, every record counted."""
    match load.program:
        case Program.UPPER:
            found = sum(_is_upper(value) for _, value in read_all(server, OUTPUT))
        case _:
            last: dict[bytes, int] = {}
            for key, value in read_all(server, OUTPUT):
                counted, window = _count_of(value)
                last[key + window] = counted
            found = sum(last.values())
    if found != load.records:
        raise BenchError(f"the output speaks of {found:,} records where {load.records:,} went in")


def _is_upper(value: bytes) -> bool:
    if not value.isupper():
        raise BenchError(f"{value!r} came out of upper()")
    return True


def _count_of(value: bytes) -> tuple[int, bytes]:
    """A count, and the window where it stands in the value: quixstreams' JSON {start, end, value}."""
    if value[:1] == b"{":
        result = json.loads(value)
        return int(result["value"]), str(result["start"]).encode()
    return int.from_bytes(value, "big"), b""


def _latencies(turn: Turn) -> dict[str, float]:
    if turn.system is System.KAFKA:
        own = _latency(turn, System.KAFKA, Peer.KAFKA_STREAMS)
        quix = _latency(turn, System.KAFKA, Peer.QUIXSTREAMS)
        return own | {f"quix_{name}": value for name, value in quix.items()}
    own = _latency(turn, System.KAFKA, Peer.OTTLA)
    broker = _latency(turn, System.OTTLA, Peer.OTTLA)
    return own | {f"ottla_broker_{name}": value for name, value in broker.items()}


def _real_time_latencies(turn: Turn) -> dict[str, float]:
    if turn.system is System.KAFKA:
        return _latency(turn, System.KAFKA, Peer.KAFKA_STREAMS)
    return _latency(turn, System.KAFKA, Peer.OTTLA, real_time=True)


def _latency(turn: Turn, broker: System, peer: Peer, *, real_time: bool = False) -> dict[str, float]:
    workspace = _workspace(turn, broker, peer)
    load = Load(Program.UPPER, 0, 0, VALUE_BYTES, 0, 0)
    with _filled(broker, workspace, load) as server:
        task = _task(server, load, peer, workspace, LATENCY_COMMIT_MS)
        task = dataclasses.replace(task, real_time=real_time)
        with peers.run(peer, task) as running:
            command = [sys.executable, "-m", "bench.pipeline_clients.paced_client"]
            command += ["--bootstrap", server.bootstrap, "--input", INPUT, "--output", OUTPUT]
            command += ["--records", str(turn.size(LATENCY_RECORDS))]
            command += ["--warmup-records", str(LATENCY_WARMUP_RECORDS)]
            command += ["--interval-ms", str(LATENCY_INTERVAL_MS), "--partitions", str(PARTITIONS)]
            before, began = watching.cpu_seconds(running.pids()), time.perf_counter()
            client = clients.run_client(server, command, name="the paced client")
            own_share = (watching.cpu_seconds(running.pids()) - before) / (time.perf_counter() - began)
            # To the client the program is just another one.
            turn.other_cpu_shares.append(max(0.0, client.other_cpu_share - own_share))
            running.check_running()
            running.stop()
    found: dict[str, float] = json.loads(client.output)
    return found


def _restarts(turn: Turn) -> dict[str, float]:
    peer = Peer.KAFKA_STREAMS if turn.system is System.KAFKA else Peer.OTTLA
    keys = turn.size(RESTART_KEYS)
    load = Load(
        Program.COUNT, keys, keys, RESTART_VALUE_BYTES, 5, turn.size(RESTART_BATCH), each_key_once=True
    )
    workspace = _workspace(turn, System.KAFKA, peer)
    with _filled(System.KAFKA, workspace, load) as server:
        task = _task(server, load, peer, workspace, RATE_COMMIT_MS)
        with peers.run(peer, task) as running:
            built = _follow(turn, server, running, keys)
            running.stop()
        stopped = _restart(turn, server, peer, task, load, keys + 1, kill=True)
        killed = _restart(turn, server, peer, task, load, keys + 2, kill=False)
        _check_output(server, dataclasses.replace(load, records=keys + 2))
    return {
        "restart_seconds": stopped.start_seconds,
        "killed_restart_seconds": killed.start_seconds,
        "build_records_per_second": built.steady_records_per_second,
        "peak_mebibytes": max(built.peak_resident_bytes, stopped.peak_resident_bytes) / (1 << 20),
    }


def _restart(
    turn: Turn, server: Server, peer: Peer, task: Task, load: Load, records: int, *, kill: bool
) -> watching.Course:
    """Start again on the state that is there; from the process's start until one more record is through."""
    peers.fill(
        server.bootstrap,
        INPUT,
        records=1,
        keys=1,
        value_bytes=load.value_bytes,
        begin_ms=int(time.time() * 1000),
        span_ms=1,
    )
    with _offsets(server, task.group_of(peer)) as offsets:
        before = offsets.total()
    if before != records - 1:
        raise BenchError(f"{before:,} records were through before the restart, not {records - 1:,}")
    with peers.run(peer, task) as running:
        course = _follow(turn, server, running, records, before)
        if kill:
            running.kill()
        else:
            running.stop()
    return course


_TITLES: Final[Mapping[str, tuple[str, str]]] = {
    "records_per_second": ("rate", "records/s"),
    "whole_records_per_second": ("rate, its start included", "records/s"),
    "start_seconds": ("from its start to its first output", "s"),
    "cpu_seconds_per_million": ("processor time a million records", "s"),
    "peak_mebibytes": ("most RSS", "MiB"),
}


def _measures(least_records_per_second: float) -> tuple[Measure, ...]:
    target = Target(Bound.VALUE_AT_LEAST, least_records_per_second)
    own = [
        Measure(name, title, unit, target if name == "records_per_second" else None)
        for name, (title, unit) in _TITLES.items()
    ]
    quix = [
        Measure(f"quix_{name}", f"quixstreams: {title}", unit, apache_kafka_only=True)
        for name, (title, unit) in _TITLES.items()
    ]
    broker = Measure(
        "ottla_broker_records_per_second", "rate on ottla's broker", "records/s", ottla_only=True
    )
    return (*own, broker, *quix)


def _at_most(limit: float) -> Target:
    return Target(Bound.VALUE_AT_MOST, limit)


_PEERS: Final = (
    "Left Java Kafka Streams 4.3.1 (two stream threads, RocksDB, heap of 1 GiB), right ottla's Streams on "
    "Spark (local[2], heap of 2 GiB); quixstreams 3.28.1 (two processes of one group) under its own name. "
    "All on Apache Kafka on the same machine, each on a fresh one; topics of two partitions, "
    "exactly-once, read_committed, lz4. "
)
_RATE: Final = (
    "How far a program is: the offsets its group has committed, which become visible with the output; the "
    "rate is from a quarter of the input to its end, so that starts and warming up are told apart. The whole "
    "output is read and checked afterwards. The processor time and memory are the program's, without the "
    f"broker's. Commit interval {RATE_COMMIT_MS} ms where there is one; quixstreams gets a fifth of the "
    "input."
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "streams-map",
        f"{MAP_RECORDS:,} records of {VALUE_BYTES} bytes to upper case, topic to topic. {_PEERS}ottla takes "
        f"{MAP_BATCH:,} records a micro-batch. {_RATE}",
        _measures(300_000),
        functools.partial(_rates, _map_load),
    ),
    Scenario(
        "streams-windowed-count",
        f"{WINDOWED_RECORDS:,} records counted by key and minute: {WINDOWED_KEYS:,} keys drawn at random, "
        f"{WINDOWED_MINUTES} minutes of event time, one minute of grace, changes written as they come. "
        f"{_PEERS}State is in RocksDB in all of them. ottla takes {WINDOWED_BATCH:,} records a micro-batch. "
        f"{_RATE}",
        _measures(100_000),
        functools.partial(_rates, _windowed_load),
    ),
    Scenario(
        "streams-latency",
        f"A record every {LATENCY_INTERVAL_MS} ms through the map of streams-map: from produce() until its "
        f"result returns from poll() in one and the same client (confluent-kafka, read_committed), "
        f"{LATENCY_RECORDS:,} records after {LATENCY_WARMUP_RECORDS:,}. {_PEERS}Commit interval "
        f"{LATENCY_COMMIT_MS} ms, Kafka Streams' default with exactly-once; ottla in micro-batches.",
        (
            Measure("p50_ms", "p50", "ms", _at_most(150)),
            Measure("p99_ms", "p99", "ms"),
            Measure("ottla_broker_p50_ms", "p50 on ottla's broker", "ms", ottla_only=True),
            Measure("ottla_broker_p99_ms", "p99 on ottla's broker", "ms", ottla_only=True),
            Measure("quix_p50_ms", "quixstreams: p50", "ms", apache_kafka_only=True),
            Measure("quix_p99_ms", "quixstreams: p99", "ms", apache_kafka_only=True),
        ),
        _latencies,
    ),
    Scenario(
        "streams-latency-real-time",
        "As streams-latency, ottla in Spark's real-time mode, which is at-least-once; Kafka Streams as "
        "before.",
        (Measure("p50_ms", "p50", "ms", _at_most(80)), Measure("p99_ms", "p99", "ms")),
        _real_time_latencies,
    ),
    Scenario(
        "streams-restart",
        f"A count by key over {RESTART_KEYS:,} keys is built up and stopped by SIGTERM; then it is started "
        "again, from its process's start until one more record is through; killed by SIGKILL, and started "
        f"again. {_PEERS}",
        (
            Measure("restart_seconds", "start after SIGTERM", "s", _at_most(60)),
            Measure("killed_restart_seconds", "start after SIGKILL", "s", _at_most(60)),
            Measure("build_records_per_second", "rate while building", "records/s"),
            Measure("peak_mebibytes", "most RSS", "MiB"),
        ),
        _restarts,
    ),
)
