"""A broker's life beside its clients: start, recovery, compaction, memory."""

from __future__ import annotations

import time

from bench import clients, compaction
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import (
    BATCHED,
    BYTES_PER_GIBIBYTE,
    BYTES_PER_MEBIBYTE,
    NO_SLOWER,
    RECORD_BYTES,
    Scenario,
    Turn,
)
from bench.servers import Ending, Server, prepare, run

IDLE_SETTLE_SECONDS = 5.0
RECOVERY_TIMEOUT_SECONDS = 600.0


def _recovery(turn: Turn) -> dict[str, float]:
    # Without checkpoints of what was synced the whole log is to be checked, on both sides alike.
    settings = {
        "log.initial.task.delay.ms": "86400000",
        "log.flush.offset.checkpoint.interval.ms": "86400000",
    }
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


SCENARIOS: tuple[Scenario, ...] = (
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
