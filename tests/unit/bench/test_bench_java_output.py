"""What Kafka 4.3.1's performance tools print, read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from bench.errors import BenchError
from bench.java_output import (
    parse_consumer_performance,
    parse_end_to_end_latency,
    parse_producer_performance,
)

PRODUCER = """\
Warmup first 20000 records. Steady state results will print after the complete test summary.
In steady state.
2000 records sent, 400.0 records/sec (0.04 MB/sec), 4822.9 ms avg latency, 4964.0 ms max latency.
79235 records sent, 15847.0 records/sec (1.51 MB/sec), 7398.2 ms avg latency, 9050.0 ms max latency.
120000 records sent, 9998.333611 records/sec (0.95 MB/sec), 7027.77 ms avg latency, 9819.00 ms max latency, \
7456 ms 50th, 9609 ms 95th, 9766 ms 99th, 9814 ms 99.9th.
100000 steady state records sent, 9000.090001 records/sec (0.86 MB/sec), 7731.77 ms avg latency, \
9819.00 ms max latency, 7882 ms 50th, 9633 ms 95th, 9775 ms 99th, 9815 ms 99.9th.

Metric Name                                                                            Value
producer-metrics:records-per-request-avg:{client-id=perf-producer-client}            : 1.000
producer-metrics:request-total:{client-id=perf-producer-client}                      : 120003.000
producer-topic-metrics:record-send-total:{client-id=perf-producer-client, topic=a}   : 120000.000
"""
LATENCY = """\
0\t159.162993
9000\t0.440077
Avg latency: 1.3916 ms
Percentiles: 50th = 0, 99th = 9, 99.9th = 55
"""
CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-21 09:26:15:555+0100, 2026-11-21 09:26:21:025+0100, 476.8811, 87.1812, 5000461, 914161.0603, 3484, \
1986, 240.1214, 2517855.4884
"""


def test_the_steady_state_of_a_producer_is_read_not_the_whole():
    summary = parse_producer_performance(PRODUCER, records=120_000, warmup_records=20_000)
    assert summary.records == 100_000
    assert summary.records_per_second == 9000.090001
    assert summary.records_per_request == 1.0


def test_without_warm_up_the_whole_is_read():
    whole = "\n".join(line for line in PRODUCER.splitlines() if "steady state records" not in line)
    summary = parse_producer_performance(whole, records=120_000, warmup_records=0)
    assert (summary.records, summary.records_per_second) == (120_000, 9998.333611)


@pytest.mark.parametrize(("records", "warmup_records"), [(120_001, 20_000), (120_000, 20_001)])
def test_a_producer_that_lost_records_is_an_error(records, warmup_records):
    with pytest.raises(BenchError, match="lost records"):
        parse_producer_performance(PRODUCER, records=records, warmup_records=warmup_records)


@pytest.mark.parametrize("output", ["", "Exception in thread main", PRODUCER.partition("120000 records")[0]])
def test_a_producer_without_a_summary_is_an_error_that_shows_its_last_words(output):
    with pytest.raises(BenchError, match="no summary") as caught:
        parse_producer_performance(output, records=120_000, warmup_records=20_000)
    assert output.rstrip()[-20:] in str(caught.value)


def test_the_mean_latency_has_fractions_of_a_millisecond():
    summary = parse_end_to_end_latency(LATENCY)
    assert summary.mean_ms == 1.3916
    assert (summary.p50_ms, summary.p99_ms, summary.p999_ms) == (0, 9, 55)


@pytest.mark.parametrize(
    "output", ["", LATENCY.replace("Percentiles", "Percent"), LATENCY.replace("Avg", "")]
)
def test_a_latency_tool_without_a_summary_is_an_error(output):
    with pytest.raises(BenchError, match="EndToEndLatency"):
        parse_end_to_end_latency(output)


def test_a_consumer_tells_its_rate_with_and_without_joining():
    summary = parse_consumer_performance(CONSUMER, records=5_000_000)
    assert summary.records == 5_000_461
    assert summary.records_per_second == 914161.0603
    assert summary.fetch_records_per_second == 2517855.4884


def test_a_consumer_tells_when_it_fetched_whatever_its_zone():
    summary = parse_consumer_performance(CONSUMER, records=5_000_000)
    assert summary.ended_at == datetime(2026, 11, 21, 8, 26, 21, 25_000, tzinfo=UTC).timestamp()
    assert summary.ended_at - summary.fetching_since == pytest.approx(1.986)


@pytest.mark.parametrize(
    ("output", "records"),
    [
        ("", 1),
        (CONSUMER, 5_000_462),
        (CONSUMER.replace("5000461", "many"), 1),
        (CONSUMER.replace("+0100", ""), 1),
        (CONSUMER.splitlines()[1], 1),
    ],
)
def test_a_consumer_without_all_records_is_an_error(output, records):
    with pytest.raises(BenchError, match="ConsumerPerformance"):
        parse_consumer_performance(output, records=records)
