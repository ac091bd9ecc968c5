"""Read what Kafka's Java performance tools print. Anything that is not as expected is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from bench.errors import BenchError, tail

_NUMBER = r"(\d+(?:\.\d+)?)"
_PRODUCER_SUMMARY = re.compile(
    rf"^(\d+) (steady state )?records sent, {_NUMBER} records/sec \({_NUMBER} MB/sec\), "
    rf"{_NUMBER} ms avg latency, {_NUMBER} ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.$",
    re.MULTILINE,
)
_RECORDS_PER_REQUEST = re.compile(
    rf"^producer-metrics:records-per-request-avg:\S+\s*: {_NUMBER}$", re.MULTILINE
)
_AVERAGE_LATENCY = re.compile(rf"^Avg latency: {_NUMBER} ms$", re.MULTILINE)
_PERCENTILES = re.compile(r"^Percentiles: 50th = (\d+), 99th = (\d+), 99\.9th = (\d+)$", re.MULTILINE)
_CONSUMER_FIELDS = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
# Asked of ConsumerPerformance, and how Python reads it: with the zone, whatever the zone of either is.
CONSUMER_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSSZ"
_CONSUMER_DATE = "%Y-%m-%d %H:%M:%S:%f%z"
# What ProducerPerformance says when all that it counts is acknowledged.
PRODUCER_COUNTED = " steady state records sent, "


@dataclass(frozen=True, slots=True)
class ProducerSummary:
    """The last line of ProducerPerformance: the steady state, that is without the warm-up records."""

    records: int
    records_per_second: float
    records_per_request: float | None


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """EndToEndLatency's end: the mean has fractions of a millisecond, the percentiles are whole ones."""

    mean_ms: float
    p50_ms: int
    p99_ms: int
    p999_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerSummary:
    """ConsumerPerformance's line; the fetch figures leave the time of joining the group out.

    fetching_since, ended_at: Unix time, seconds.
    """

    records: int
    records_per_second: float
    fetch_records_per_second: float
    fetching_since: float
    ended_at: float


def parse_producer_performance(output: str, *, records: int, warmup_records: int) -> ProducerSummary:
    """The steady-state line of a run of `records` in all, the first `warmup_records` of them not counted.

    Raises BenchError when the line is missing or records are: the tool counts only the acknowledged ones.
    """
    summaries = {bool(match[2]): match for match in _PRODUCER_SUMMARY.finditer(output)}
    steady = summaries.get(warmup_records > 0)
    whole = summaries.get(False)
    if steady is None or whole is None:
        raise BenchError(f"ProducerPerformance printed no summary:\n{tail(output)}")
    if int(whole[1]) != records or int(steady[1]) != records - warmup_records:
        raise BenchError(f"ProducerPerformance lost records of {records}:\n{tail(output)}")
    per_request = _RECORDS_PER_REQUEST.search(output)
    return ProducerSummary(int(steady[1]), float(steady[3]), float(per_request[1]) if per_request else None)


def parse_end_to_end_latency(output: str) -> LatencySummary:
    mean, percentiles = _AVERAGE_LATENCY.search(output), _PERCENTILES.search(output)
    if mean is None or percentiles is None:
        raise BenchError(f"EndToEndLatency printed no summary:\n{tail(output)}")
    p50_ms, p99_ms, p999_ms = (int(group) for group in percentiles.groups())
    return LatencySummary(float(mean[1]), p50_ms, p99_ms, p999_ms)


def parse_consumer_performance(output: str, *, records: int) -> ConsumerSummary:
    """Raises BenchError when fewer than `records` came; the tool may read up to a poll's worth more."""
    lines = output.strip().splitlines()
    if len(lines) < 2 or lines[-2].strip() != _CONSUMER_FIELDS:
        raise BenchError(f"ConsumerPerformance printed no summary:\n{tail(output)}")
    values = dict(zip(_CONSUMER_FIELDS.split(", "), lines[-1].split(", "), strict=False))
    try:
        ended_at = datetime.strptime(values["end.time"], _CONSUMER_DATE).astimezone().timestamp()
        summary = ConsumerSummary(
            int(values["data.consumed.in.nMsg"]),
            float(values["nMsg.sec"]),
            float(values["fetch.nMsg.sec"]),
            fetching_since=ended_at - int(values["fetch.time.ms"]) / 1000,
            ended_at=ended_at,
        )
    except (KeyError, ValueError) as error:
        raise BenchError(f"ConsumerPerformance printed no figures:\n{tail(output)}") from error
    if summary.records < records:
        raise BenchError(f"ConsumerPerformance read {summary.records} of {records} records")
    return summary
