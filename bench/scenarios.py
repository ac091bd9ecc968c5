"""The scenarios: what each measures, how, and what is to be reached. One entry in SCENARIOS a name."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench import clients, clusters, compaction
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.servers import Ending, Server, System, prepare, run, serve

RECORD_BYTES = 100
BATCHED_RECORDS = 5_000_000
BATCHED_WARMUP_RECORDS = 3_000_000
TRANSACTION_MS = 100
LATENCY_RECORDS = 20_000
LATENCY_WARMUP_RECORDS = 20_000
CLUSTER_RECORDS = 2_000_000
CLUSTER_WARMUP_RECORDS = 1_000_000
CLUSTER_PARTITIONS = 3
CLUSTER_KILLS = 5
MANY_PARTITIONS = 2_000
IDLE_SETTLE_SECONDS = 5.0
RECOVERY_TIMEOUT_SECONDS = 600.0
BYTES_PER_GIGABYTE = 1e9
BYTES_PER_GIBIBYTE = 1 << 30
BYTES_PER_MEBIBYTE = 1 << 20

# Kafka 4's own defaults, said out loud: they decide the size of a batch.
BATCHED = {"batch.size": "16384", "linger.ms": "5"}
# A batch of one record, and with one partition one batch a request; records-per-request-avg proves it.
# With the default buffer the client heaps up 190,000 batches, and collecting its garbage decides the figure.
UNBATCHED = {"batch.size": "0", "linger.ms": "0", "buffer.memory": "262144", "acks": "1"}


@dataclass(slots=True)
class Turn:
    """One run of one scenario on one side: a fresh directory, and how much of everything to do."""

    system: System
    workspace: Path
    quick: bool = False
    ottla_python_flags: Sequence[str] = ()
    other_cpu_shares: list[float] = field(default_factory=list)

    def server(self) -> AbstractContextManager[Server]:
        return serve(self.system, self.workspace, ottla_python_flags=self.ottla_python_flags)

    def size(self, full: int) -> int:
        """`full`, or a fifth of it when only a quick look is wanted. Warm-ups are never shortened."""
        return full // 5 if self.quick else full

    def note(self, client: clients.ClientRun) -> None:
        self.other_cpu_shares.append(client.other_cpu_share)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named way to drive a broker; `run` gives a value for every measure of the side it ran on."""

    name: str
    method: str
    measures: tuple[Measure, ...]
    run: Callable[[Turn], dict[str, float]]


AT_LEAST_A_FIFTH_FASTER = Target(Bound.RATIO_AT_LEAST, 1.2)
AT_LEAST_HALF_AS_FAST_AGAIN = Target(Bound.RATIO_AT_LEAST, 1.5)
NO_SLOWER = Target(Bound.RATIO_AT_MOST, 1.0)
NO_LESS = Target(Bound.RATIO_AT_LEAST, 1.0)
AT_MOST_FOUR_FIFTHS = Target(Bound.RATIO_AT_MOST, 0.8)

_RATE = Measure("records_per_second", "records", "records/s", AT_LEAST_HALF_AS_FAST_AGAIN)
_CPU = Measure("cpu_seconds_per_gigabyte", "broker's CPU time", "s/GB")


def _produce_batched(acks: str) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        records = BATCHED_WARMUP_RECORDS + turn.size(BATCHED_RECORDS)
        with turn.server() as server:
            clients.create_topic(server)
            run = clients.producer_performance(
                server,
                {**BATCHED, "acks": acks},
                records=records,
                warmup_records=BATCHED_WARMUP_RECORDS,
                record_bytes=RECORD_BYTES,
            )
            turn.note(run.client)
        gigabytes = records * RECORD_BYTES / BYTES_PER_GIGABYTE
        return {
            "records_per_second": run.summary.records_per_second,
            "cpu_seconds_per_gigabyte": run.client.server_cpu_seconds / gigabytes,
        }

    return run


def _produce_transactional(turn: Turn) -> dict[str, float]:
    records = BATCHED_WARMUP_RECORDS + turn.size(BATCHED_RECORDS)
    with turn.server() as server:
        clients.create_topic(server)
        run = clients.producer_performance(
            server,
            {**BATCHED, "acks": "all"},
            records=records,
            warmup_records=BATCHED_WARMUP_RECORDS,
            record_bytes=RECORD_BYTES,
            transaction_ms=TRANSACTION_MS,
        )
        turn.note(run.client)
    return {"records_per_second": run.summary.records_per_second}


def _produce_one_record(
    in_flight: int, *, records: int, warmup_records: int
) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        properties: Mapping[str, str] = {**UNBATCHED, "max.in.flight.requests.per.connection": str(in_flight)}
        with turn.server() as server:
            clients.create_topic(server)
            run = clients.producer_performance(
                server,
                properties,
                records=warmup_records + turn.size(records),
                warmup_records=warmup_records,
                record_bytes=RECORD_BYTES,
            )
            turn.note(run.client)
        if run.summary.records_per_request != 1.0:
            raise BenchError(f"{run.summary.records_per_request} records a request where one was meant")
        return {"records_per_second": run.summary.records_per_second}

    return run


def _latency_confluent(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        clients.create_topic(server)
        figures, client = clients.end_to_end_latency_confluent(
            server,
            records=turn.size(LATENCY_RECORDS),
            warmup_records=LATENCY_WARMUP_RECORDS,
            record_bytes=RECORD_BYTES,
        )
        turn.note(client)
    return {"p50_ms": figures.p50_ms, "p99_ms": figures.p99_ms, "p999_ms": figures.p999_ms}


def _latency_java(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        clients.create_topic(server)
        # The tool has no warm-up of its own: the first run warms the broker, the second is counted.
        clients.end_to_end_latency_java(server, records=LATENCY_WARMUP_RECORDS, record_bytes=RECORD_BYTES)
        summary, client = clients.end_to_end_latency_java(
            server, records=turn.size(LATENCY_RECORDS), record_bytes=RECORD_BYTES
        )
        turn.note(client)
    return {"mean_ms": summary.mean_ms}


def _consume(turn: Turn) -> dict[str, float]:
    records = turn.size(5_000_000)
    with turn.server() as server:
        clients.create_topic(server)
        clients.producer_performance(
            server, {**BATCHED, "acks": "1"}, records=records, warmup_records=0, record_bytes=RECORD_BYTES
        )
        clients.consumer_performance(server, records=records)
        summary, client = clients.consumer_performance(server, records=records)
        turn.note(client)
    gigabytes = records * RECORD_BYTES / BYTES_PER_GIGABYTE
    return {
        "records_per_second": summary.fetch_records_per_second,
        "cpu_seconds_per_gigabyte": client.server_cpu_seconds / gigabytes,
    }


def _recovery(turn: Turn) -> dict[str, float]:
    # Without checkpoints of what was synced the whole log is to be checked, on both sides alike.
    settings = {"log.flush.offset.checkpoint.interval.ms": "86400000"}
    record_bytes = 1_000
    records = turn.size(10) * BYTES_PER_GIBIBYTE // record_bytes
    prepared = prepare(
        turn.system, turn.workspace, settings=settings, ottla_python_flags=turn.ottla_python_flags
    )
    with run(prepared, ending=Ending.KILLED) as server:
        clients.create_topic(server)
        clients.producer_performance(
            server, {**BATCHED, "acks": "1"}, records=records, warmup_records=0, record_bytes=record_bytes
        )
    with run(prepared, start_timeout_seconds=RECOVERY_TIMEOUT_SECONDS) as server:
        served_at = clients.wait_for_end_offset(server, records, timeout_seconds=RECOVERY_TIMEOUT_SECONDS)
        return {"recovery_seconds": served_at - server.started_at}


def _compaction(turn: Turn) -> dict[str, float]:
    filling = compaction.Filling(
        turn.size(BYTES_PER_GIBIBYTE), turn.size(1_000_000), RECORD_BYTES, BYTES_PER_GIBIBYTE // 16
    )
    prepared = prepare(
        turn.system,
        turn.workspace,
        settings=compaction.SETTINGS,
        ottla_python_flags=turn.ottla_python_flags,
    )

    def produce(server: Server) -> float:
        run = clients.producer_performance(
            server,
            {**BATCHED, "acks": "1"},
            records=2_000_000 + turn.size(5_000_000),
            warmup_records=2_000_000,
            record_bytes=RECORD_BYTES,
        )
        return run.summary.records_per_second

    path = compaction.checkpoint_path(turn.system, turn.workspace)
    with run(prepared) as server:
        clients.create_topic(server)
        compaction.fill(server, "alone", filling)
        size_bytes, end = compaction.closed_segments(turn.system, turn.workspace, "alone")
        began = compaction.start_compacting(server, "alone")
        seconds = compaction.wait_until_clean(server, path, "alone", end) - began
        compaction.fill(server, "beside", filling)
        undisturbed = produce(server)
        compaction.start_compacting(server, "beside")
        disturbed = produce(server)
        _, end = compaction.closed_segments(turn.system, turn.workspace, "beside")
        compaction.wait_until_clean(server, path, "beside", end)
    return {
        "mebibytes_per_second": size_bytes / BYTES_PER_MEBIBYTE / seconds,
        "produce_slowdown": undisturbed / disturbed,
    }


def _cluster_produce(acks: str) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        records = CLUSTER_WARMUP_RECORDS + turn.size(CLUSTER_RECORDS)
        with clusters.serve_cluster(turn.system, turn.workspace) as server:
            clients.create_topic(server, partitions=CLUSTER_PARTITIONS, replication_factor=clusters.BROKERS)
            run = clients.producer_performance(
                server,
                {**BATCHED, "acks": acks},
                records=records,
                warmup_records=CLUSTER_WARMUP_RECORDS,
                record_bytes=RECORD_BYTES,
                partitions=CLUSTER_PARTITIONS,
            )
            turn.note(run.client)
        gigabytes = records * RECORD_BYTES / BYTES_PER_GIGABYTE
        return {
            "records_per_second": run.summary.records_per_second,
            "cpu_seconds_per_gigabyte": run.client.server_cpu_seconds / gigabytes,
        }

    return run


def _cluster_failover(turn: Turn) -> dict[str, float]:
    with clusters.serve_cluster(turn.system, turn.workspace, settings=clusters.FAILOVER_SETTINGS) as server:
        taken: dict[bool, list[float]] = {False: [], True: []}
        for number in range(turn.size(CLUSTER_KILLS)):
            for of_controller in taken:
                topic = f"failover-{number}-{of_controller}"
                taken[of_controller].append(
                    clusters.failover_seconds(server, topic, of_controller=of_controller)
                )
    return {
        "leader_seconds": statistics.median(taken[False]),
        "controller_seconds": statistics.median(taken[True]),
    }


def _cluster_many_partitions(turn: Turn) -> dict[str, float]:
    with clusters.serve_cluster(turn.system, turn.workspace) as server:
        created = clusters.create_partitions_seconds(server, "many", turn.size(MANY_PARTITIONS))
        failed_over = clusters.controller_failover_seconds(server, "after")
    return {"create_seconds": created, "controller_failover_seconds": failed_over}


def _start(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        figures = {"start_seconds": server.start_seconds}
        if server.format_seconds is not None:
            figures["format_seconds"] = server.format_seconds
    return figures


def _memory(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        time.sleep(IDLE_SETTLE_SECONDS)
        idle_bytes = server.resident_bytes()
        clients.create_topic(server)
        records = turn.size(2_000_000)
        run = clients.producer_performance(
            server, {**BATCHED, "acks": "1"}, records=records, warmup_records=0, record_bytes=RECORD_BYTES
        )
        turn.note(run.client)
        clients.consumer_performance(server, records=records)
        loaded_bytes = server.resident_bytes()
    return {
        "idle_mebibytes": idle_bytes / BYTES_PER_MEBIBYTE,
        "loaded_mebibytes": loaded_bytes / BYTES_PER_MEBIBYTE,
    }


_BATCHED_METHOD = (
    "Java's ProducerPerformance, 100-byte records, 1 partition, acks={acks}, batch.size=16384 and "
    "linger.ms=5 (the defaults), as fast as it goes: 5 million records after 3 million of warm-up. CPU time "
    "is of both."
)
_CLUSTER_METHOD = (
    "Three combined nodes (broker and controller) on this node, replication factor 3; Kafka's have a heap of "
    "1g each."
)
_UNBATCHED_METHOD = (
    "Java's ProducerPerformance, 100-byte records, 1 partition, acks=1, batch.size=0, linger.ms=0, "
    "buffer.memory=262144 (a short queue: with the default one the client is busy collecting its garbage), "
    "max.in.flight.requests.per.connection={in_flight}: every request carries one record (the client's own "
    "records-per-request-avg must be 1). {records:,} records after {warmup_records:,} of warm-up."
)


def _one_record_scenario(name: str, in_flight: int, records: int, warmup_records: int) -> Scenario:
    method = _UNBATCHED_METHOD.format(in_flight=in_flight, records=records, warmup_records=warmup_records)
    run = _produce_one_record(in_flight, records=records, warmup_records=warmup_records)
    return Scenario(name, method, (_RATE,), run)


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "produce-100b-acks1",
            _BATCHED_METHOD.format(acks="1"),
            (_RATE, _CPU),
            _produce_batched("1"),
        ),
        Scenario(
            "produce-100b-acksall",
            _BATCHED_METHOD.format(acks="all") + " Idempotent, as the client does by default with acks=all.",
            (_RATE, _CPU),
            _produce_batched("all"),
        ),
        Scenario(
            "produce-transactional",
            _BATCHED_METHOD.format(acks="all").removesuffix(" CPU time is of both.")
            + " One transactional producer that commits every 100 ms (transactions of version 2).",
            (Measure("records_per_second", "records", "records/s", NO_LESS),),
            _produce_transactional,
        ),
        _one_record_scenario("produce-one-record-a-request", 5, 200_000, 100_000),
        _one_record_scenario("produce-one-record-a-request-1-in-flight", 1, 100_000, 50_000),
        Scenario(
            "end-to-end-latency",
            "confluent-kafka in one process: produce() one 100-byte record (acks=1, no linger), poll() "
            "until it comes back, then the next; 20,000 records after 20,000 of warm-up.",
            (
                Measure("p50_ms", "p50", "ms", AT_MOST_FOUR_FIFTHS),
                Measure("p99_ms", "p99", "ms", AT_MOST_FOUR_FIFTHS),
                Measure("p999_ms", "p99.9", "ms"),
            ),
            _latency_confluent,
        ),
        Scenario(
            "end-to-end-latency-java",
            "Java's EndToEndLatency with acks=1 (send, wait for the acknowledgement, poll), 20,000 records "
            "after a run of 20,000 as warm-up. Its percentiles are whole milliseconds, so the mean is told.",
            (Measure("mean_ms", "mean", "ms"),),
            _latency_java,
        ),
        Scenario(
            "consume-100b",
            "Java's ConsumerPerformance on 5 million 100-byte records in 1 partition, in the page cache, "
            "after one such run as warm-up; the rate of fetching, without the time of joining the group.",
            (Measure("records_per_second", "records", "records/s"), _CPU),
            _consume,
        ),
        Scenario(
            "start",
            "From the start of the process on an empty directory to the first Metadata request answered "
            "with a broker in it, asked every millisecond. ottla formats the directory within this time; "
            "Apache Kafka's is formatted before, and that is told apart.",
            (
                Measure("start_seconds", "start", "s", Target(Bound.VALUE_AT_MOST, 0.5)),
                Measure("format_seconds", "format", "s", apache_kafka_only=True),
            ),
            _start,
        ),
        Scenario(
            "recovery",
            "10 GiB of 1,000-byte records in 1 partition (ProducerPerformance, batched), then kill -9: from "
            "the start of the process to the partition's right end offset by ListOffsets. The checkpoint of "
            "what was synced is put off on both sides, so that both check all of the log.",
            (Measure("recovery_seconds", "recovery", "s", NO_SLOWER),),
            _recovery,
        ),
        Scenario(
            "compaction",
            "1 GiB of 100-byte records with random ones of 1 million 10-byte keys in 1 partition of 64 MiB "
            "segments, written while the topic does not compact: from the request that switches it to "
            "compact to the cleaner's checkpoint (log.cleaner.dedupe.buffer.size=256 MiB, backoff 100 ms). "
            "Then the same again with ProducerPerformance on another topic beside it (5 million 100-byte "
            "records after 2 million): its undisturbed rate over its rate beside the compaction.",
            (
                Measure("mebibytes_per_second", "compaction", "MiB/s", Target(Bound.RATIO_AT_LEAST, 1.0)),
                Measure("produce_slowdown", "produce beside", "times", Target(Bound.VALUE_AT_MOST, 1 / 0.7)),
            ),
            _compaction,
        ),
        *(
            Scenario(
                f"cluster-produce-acks{acks}",
                _CLUSTER_METHOD + f" Java's ProducerPerformance, 100-byte records, {CLUSTER_PARTITIONS} "
                f"partitions, acks={acks}, batch.size=16384 and linger.ms=5 (the defaults), as fast as it "
                "goes: 2 million records after 1 million of warm-up. CPU time is of all three brokers.",
                (Measure("records_per_second", "records", "records/s", AT_LEAST_A_FIFTH_FASTER), _CPU),
                _cluster_produce(acks),
            )
            for acks in ("1", "all")
        ),
        Scenario(
            "cluster-failover",
            _CLUSTER_METHOD + " Kill -9 of the leader of a partition, once where it is not the active "
            "controller and once where it is: from the kill to the next write of acks=all that is "
            "acknowledged (min.insync.replicas=2), asked every 5 ms over plain sockets. "
            "broker.session.timeout.ms=6000, broker.heartbeat.interval.ms=500, the quorum's timeouts are the "
            "defaults. The median of 5 kills of each kind is a run's figure.",
            (
                Measure("leader_seconds", "leader killed", "s", NO_SLOWER),
                Measure("controller_seconds", "leader and controller killed", "s", NO_SLOWER),
            ),
            _cluster_failover,
        ),
        Scenario(
            "cluster-2000-partitions",
            _CLUSTER_METHOD + " One topic of 2,000 partitions: from the request to the acknowledgement of a "
            "write of acks=all to each of them. Then kill -9 of the active controller: to the answer that "
            "another topic is created.",
            (
                Measure("create_seconds", "created and written to", "s", NO_SLOWER),
                Measure("controller_failover_seconds", "controller failover", "s", NO_SLOWER),
            ),
            _cluster_many_partitions,
        ),
        Scenario(
            "memory",
            "VmRSS 5 seconds after the start with no client, and after 2 million 100-byte records were "
            "produced (acks=1, batched) and read back.",
            (
                Measure("idle_mebibytes", "RSS idle", "MiB", Target(Bound.VALUE_AT_MOST, 80)),
                Measure("loaded_mebibytes", "RSS loaded", "MiB"),
            ),
            _memory,
        ),
    )
}
