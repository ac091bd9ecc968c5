"""Figures of `ottla bench`, in the lines of Kafka's own tools: latencies by their shares, rates, sizes. No
I/O.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

MEBIBYTE: Final = 1 << 20
SHARES: Final = (0.5, 0.95, 0.99, 0.999)
MOST_SAMPLES: Final = 500_000
"""As in Kafka's ProducerPerformance; beyond, every other sample is left out, again and again."""


class Latencies:
    """Latencies in ms of many records, each sample for a number of records."""

    def __init__(self) -> None:
        self.records = 0
        self.most_ms = 0.0
        self._sum_ms = 0.0
        self._samples: list[tuple[float, int]] = []
        self._stride = 1
        self._skipped = 0

    def add(self, latency_ms: float, records: int = 1) -> None:
        """Add a sample."""
        self.records += records
        self._sum_ms += latency_ms * records
        self.most_ms = max(self.most_ms, latency_ms)
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._samples.append((latency_ms, records))
        if len(self._samples) > MOST_SAMPLES:
            self._samples = self._samples[::2]
            self._stride *= 2

    @property
    def mean_ms(self) -> float:
        """The mean of all records."""
        return self._sum_ms / self.records if self.records else 0.0

    def percentiles(self, shares: Iterable[float] = SHARES) -> list[float]:
        """The latency in ms that each share of the records did not exceed."""
        ordered = sorted(self._samples)
        total = sum(records for _, records in ordered)
        found = []
        for share in shares:
            seen = 0
            reached = 0.0
            for latency_ms, records in ordered:
                reached = latency_ms
                seen += records
                if seen > share * total:
                    break
            found.append(reached)
        return found


def producer_window(records: int, size_bytes: int, seconds: float, latencies: Latencies) -> str:
    """ProducerPerformance's line of an interval."""
    rate, megabytes = _rates(records, size_bytes, seconds)
    return (
        f"{records} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec), "
        f"{latencies.mean_ms:.1f} ms avg latency, {latencies.most_ms:.1f} ms max latency."
    )


def producer_total(size_bytes: int, seconds: float, latencies: Latencies) -> str:
    """ProducerPerformance's last line."""
    rate, megabytes = _rates(latencies.records, size_bytes, seconds)
    half, most, nearly, all_but = (round(each) for each in latencies.percentiles())
    return (
        f"{latencies.records} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec), "
        f"{latencies.mean_ms:.2f} ms avg latency, {latencies.most_ms:.2f} ms max latency, "
        f"{half} ms 50th, {most} ms 95th, {nearly} ms 99th, {all_but} ms 99.9th."
    )


def producer_json(size_bytes: int, seconds: float, latencies: Latencies) -> dict[str, Any]:
    """The same as an object."""
    rate, megabytes = _rates(latencies.records, size_bytes, seconds)
    half, most, nearly, all_but = latencies.percentiles()
    return {
        "records": latencies.records,
        "seconds": round(seconds, 3),
        "records_per_second": round(rate, 1),
        "mb_per_second": round(megabytes, 2),
        "latency_avg_ms": round(latencies.mean_ms, 3),
        "latency_max_ms": round(latencies.most_ms, 3),
        "latency_p50_ms": round(half, 3),
        "latency_p95_ms": round(most, 3),
        "latency_p99_ms": round(nearly, 3),
        "latency_p99_9_ms": round(all_but, 3),
    }


CONSUMER_HEADER: Final = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def consumer_line(
    records: int, size_bytes: int, began_ms: int, seconds: float, rebalance_seconds: float
) -> str:
    """ConsumerPerformance's line under CONSUMER_HEADER. seconds: with the rebalance."""
    rate, megabytes = _rates(records, size_bytes, seconds)
    fetching = max(seconds - rebalance_seconds, 1e-9)
    fetch_rate, fetch_megabytes = _rates(records, size_bytes, fetching)
    return (
        f"{_moment(began_ms)}, {_moment(began_ms + round(seconds * 1_000))}, {size_bytes / MEBIBYTE:.4f}, "
        f"{megabytes:.4f}, {records}, {rate:.4f}, {round(rebalance_seconds * 1_000)}, "
        f"{round(fetching * 1_000)}, {fetch_megabytes:.4f}, {fetch_rate:.4f}"
    )


def consumer_json(records: int, size_bytes: int, seconds: float, rebalance_seconds: float) -> dict[str, Any]:
    """The same as an object."""
    rate, megabytes = _rates(records, size_bytes, seconds)
    return {
        "records": records,
        "mb": round(size_bytes / MEBIBYTE, 4),
        "seconds": round(seconds, 3),
        "records_per_second": round(rate, 1),
        "mb_per_second": round(megabytes, 2),
        "rebalance_ms": round(rebalance_seconds * 1_000),
    }


def latency_lines(latencies: Latencies) -> Sequence[str]:
    """EndToEndLatency's last lines, with fractions of ms."""
    half, nearly, all_but = latencies.percentiles((0.5, 0.99, 0.999))
    return (
        f"Avg latency: {latencies.mean_ms:.4f} ms",
        f"Percentiles: 50th = {half:.3f}, 99th = {nearly:.3f}, 99.9th = {all_but:.3f}",
    )


def latency_json(latencies: Latencies) -> dict[str, Any]:
    """The same as an object."""
    half, nearly, all_but = latencies.percentiles((0.5, 0.99, 0.999))
    return {
        "records": latencies.records,
        "latency_avg_ms": round(latencies.mean_ms, 4),
        "latency_max_ms": round(latencies.most_ms, 3),
        "latency_p50_ms": round(half, 3),
        "latency_p99_ms": round(nearly, 3),
        "latency_p99_9_ms": round(all_but, 3),
    }


def _rates(records: int, size_bytes: int, seconds: float) -> tuple[float, float]:
    """Records and mebibytes a second."""
    seconds = max(seconds, 1e-9)
    return records / seconds, size_bytes / MEBIBYTE / seconds


def _moment(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1_000)) + f":{at_ms % 1_000:03}"
