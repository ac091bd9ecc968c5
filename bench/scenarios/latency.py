"""From produce() to the record's return from poll(), one record at a time."""

from __future__ import annotations

from bench import clients
from bench.figures import Measure
from bench.scenarios.scenario import AT_MOST_FOUR_FIFTHS, RECORD_BYTES, Scenario, Turn

LATENCY_RECORDS = 20_000
LATENCY_WARMUP_RECORDS = 20_000


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


def _latency(name: str, title: str, history: str | None = None) -> Measure:
    return Measure(name, title, "ms", AT_MOST_FOUR_FIFTHS, history=history)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "end-to-end-latency",
        "confluent-kafka in one process: produce() one 100-byte record (acks=1, no linger), poll() "
        "until it comes back, then the next; 20,000 records after 20,000 of warm-up.",
        (
            _latency("p50_ms", "p50", "end-to-end latency, median: 2 ms"),
            _latency("p99_ms", "p99", "end-to-end latency, 99th percentile: 3 ms"),
            _latency("p999_ms", "p99.9", "end-to-end latency, 99.9th percentile: 14 ms"),
        ),
        _latency_confluent,
    ),
    Scenario(
        "end-to-end-latency-java",
        "Java's EndToEndLatency with acks=1 (send, wait for the acknowledgement, poll), 20,000 records "
        "after a run of 20,000 as warm-up. Its percentiles are whole milliseconds, so the mean is told.",
        (_latency("mean_ms", "mean"),),
        _latency_java,
    ),
)
