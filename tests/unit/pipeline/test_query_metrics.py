"""Progress as Spark reports it, in metrics and on the terminal."""

from __future__ import annotations

import datetime
import io
import json
import ssl
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from ottla.config.errors import ConfigError
from ottla.metrics.endpoint import EndpointError
from ottla.pipeline.query.failures import Failure
from ottla.pipeline.query.live_view import LiveView, queries_table, query_line
from ottla.pipeline.query.metrics import QueryMetrics
from ottla.pipeline.query.query import PipelineQuery, QueryRunner, QueryState
from ottla.pipeline.query.query_progress import QueryProgress, parse_progress
from ottla.security.making_certificates import Authority
from ottla.streams import StreamsSettings
from support.metrics.samples import by_labels, sample


def progress(batch_id: int = 4, **changes: Any) -> QueryProgress:
    raw = {
        "id": "an-id",
        "runId": "a-run",
        "name": "orders",
        "timestamp": "2026-01-31T12:00:00.250Z",
        "batchId": batch_id,
        "numInputRows": 30,
        "inputRowsPerSecond": 15.5,
        "processedRowsPerSecond": 1250.4,
        "durationMs": {"triggerExecution": 1234, "addBatch": 1000},
        "eventTime": {"watermark": "2026-01-31T11:59:00.000Z"},
        "stateOperators": [
            {"numRowsTotal": 70, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 30, "memoryUsedBytes": 500, "numRowsDroppedByWatermark": 1},
        ],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[a]]",
                "numInputRows": 30,
                "startOffset": {"a": {"0": 10, "1": 0}},
                "endOffset": {"a": {"0": 30, "1": 10}},
                "latestOffset": {"a": {"0": 35, "1": 10}},
            }
        ],
        "observedMetrics": {
            "ottla_dead_letters": {"dead_letters": 2, "records": 30},
            "ottla_dead_letters_2": {"dead_letters": 1, "records": 30},
            "ottla_windows": {"late": 4, "dropped": 5},
            "the user's own": {"dead_letters": 1000, "late": None},
        },
    }
    return parse_progress(json.dumps(raw | changes))


def test_progress_is_read_from_sparks_json() -> None:
    parsed = progress()
    assert (parsed.name, parsed.batch_id, parsed.input_rows, parsed.batch_ms) == ("orders", 4, 30, 1234)
    assert parsed.timestamp_ms == 1769860800250
    assert parsed.watermark_ms == 1769860740000
    assert (parsed.state_rows, parsed.state_memory_bytes) == (100, 1500)
    assert (parsed.late_rows, parsed.dropped_rows) == (7, 5)
    assert parsed.lag == 5
    assert parsed.sources[0].read == {"a": {0: 20, 1: 10}}
    assert parsed.dead_letters == 3
    assert parsed.is_batch


def test_progress_with_nothing_in_it_is_zeros() -> None:
    parsed = parse_progress("{}")
    assert (parsed.batch_id, parsed.lag, parsed.dead_letters, parsed.watermark_ms) == (-1, 0, 0, None)
    assert not parsed.is_batch


@pytest.mark.parametrize("rate", ["NaN", "Infinity", float("nan"), float("inf"), None, -1])
def test_a_rate_over_no_time_is_zero(rate: object) -> None:
    assert progress(processedRowsPerSecond=rate).processed_rows_per_second == 0


def test_a_new_query_has_no_watermark_yet() -> None:
    assert progress(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}).watermark_ms is None


def test_metrics_count_batches_and_show_the_last_one() -> None:
    metrics = QueryMetrics()
    metrics.started("orders")
    metrics.observe(progress(4))
    metrics.observe(progress(5, processedRowsPerSecond=10.0))
    # A look that found nothing repeats the last batch's number and figures, and counts for nothing.
    metrics.observe(progress(5, durationMs={"triggerExecution": 1}, numInputRows=0))

    def value(name: str, **labels: str) -> float | None:
        return sample(metrics.exposition.text(), name, query="orders", **labels)

    assert value("ottla_query_running") == 1
    assert value("ottla_query_batches_total") == 2
    assert value("ottla_query_input_rows_total") == 60
    assert value("ottla_query_dead_letters_total") == 6
    assert value("ottla_query_late_rows_total") == 14
    assert value("ottla_query_dropped_rows_total") == 10
    assert value("ottla_query_last_batch_id") == 5
    assert value("ottla_query_batch_duration_seconds") == 1.234
    assert value("ottla_query_phase_duration_seconds", phase="addBatch") == 1
    assert value("ottla_query_state_rows") == 100
    assert value("ottla_query_state_memory_bytes") == 1500
    assert value("ottla_query_watermark_timestamp_seconds") == 1769860740
    assert value("ottla_query_offset", topic="a", partition="0") == 30
    assert value("ottla_query_offsets_behind_latest", topic="a", partition="0") == 5
    assert value("ottla_query_offsets_behind_latest", topic="a", partition="1") == 0
    assert value("ottla_query_offsets_read_total", topic="a", partition="0") == 40
    assert value("ottla_query_failures_total") == 0

    metrics.ended("orders", failed=True)
    assert value("ottla_query_running") == 0
    assert value("ottla_query_failures_total") == 1


def written(records: int, *times_ms: float) -> dict[str, Any]:
    """The observation of a batch that wrote so many records; their earliest, average and latest timestamp."""
    names = ("earliest_us", "average_us", "latest_us")
    times = {name: time_ms * 1_000 for name, time_ms in zip(names, times_ms, strict=True)}
    return {"observedMetrics": {"ottla_written": {"records": records, **times}}}


def test_latency_is_from_a_record_s_timestamp_to_the_end_of_its_commit() -> None:
    now = 1_000.0
    metrics = QueryMetrics("app", clock=lambda: now)
    durations = {"triggerExecution": 1_000, "addBatch": 700, "commitOffsets": 100}
    begun_ms = 1769860800250
    committed_ms = begun_ms + 900

    def latency() -> dict[tuple[str, ...], float]:
        return by_labels(metrics.exposition.text(), "ottla_query_record_e2e_latency_seconds", "stat")

    metrics.observe(progress(1, durationMs=durations))
    assert latency() == {}, "a batch that wrote nothing has none"
    times = written(4, committed_ms - 8_000, committed_ms - 3_000, committed_ms - 1_000)
    metrics.observe(progress(2, durationMs=durations, **times))
    assert latency() == {("min",): 1.0, ("avg",): 3.0, ("max",): 8.0}
    ahead = written(1, *[committed_ms + 5] * 3)
    metrics.observe(progress(3, durationMs=durations, **ahead))
    assert latency() == {("min",): 0.0, ("avg",): 2.4, ("max",): 8.0}, "never negative, though clocks differ"
    now += 61
    late = written(1, *[committed_ms - 500] * 3)
    metrics.observe(progress(4, durationMs=durations, **late))
    assert latency() == {("min",): 0.5, ("avg",): 0.5, ("max",): 0.5}, "those of the last minute"
    now += 61
    assert latency() == {("min",): 0.5, ("avg",): 0.5, ("max",): 0.5}, "an idle query's last batch stays"
    text = metrics.exposition.text()
    assert sample(text, "ottla_query_records_written_total", query="orders") == 6
    assert sample(text, "ottla_query_record_e2e_latency_seconds_total", query="orders") == 12.5
    name = "kafka_streams_stream_processor_node_metrics_record_e2e_latency_avg"
    assert sample(text, name, client_id="app", task_id="orders") == 500


def test_times_of_all_batches_are_summed_by_part() -> None:
    metrics = QueryMetrics()
    for batch_id in range(3):
        metrics.observe(progress(batch_id))
    text = metrics.exposition.text()
    assert by_labels(text, "ottla_query_phase_seconds_total", "phase") == {
        ("triggerExecution",): pytest.approx(3.702),
        ("addBatch",): pytest.approx(3.0),
    }
    assert sample(text, "ottla_query_batch_seconds_count", query="orders") == 3
    assert sample(text, "ottla_query_batch_seconds_sum", query="orders") == pytest.approx(3.702)


def test_a_query_that_is_started_again_by_itself_counts_that() -> None:
    metrics = QueryMetrics()
    metrics.started("orders")
    metrics.restarted("orders")
    assert sample(metrics.exposition.text(), "ottla_query_restarts_total", query="orders") == 1


def test_metrics_are_served_while_the_block_runs() -> None:
    metrics = QueryMetrics()
    metrics.started("orders")
    with metrics.serve(0) as server:
        assert server.host == "127.0.0.1"
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
            assert sample(answer.read().decode(), "ottla_query_running", query="orders") == 1
        with pytest.raises(EndpointError, match=f"can't serve its metrics at http://127.0.0.1:{server.port}"):
            metrics.serve(server.port).__enter__()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{server.url}/metrics", timeout=10)


def test_an_application_serves_its_metrics_by_https_where_its_settings_say_so(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("trial", now, 2)
    key, trust, config = (tmp_path / name for name in ("key.pem", "trust.pem", "metrics.properties"))
    key.write_bytes(authority.issue("app", now, 2, hosts=["127.0.0.1"]).pem())
    trust.write_bytes(authority.certificate_pem())
    config.write_text(
        f"ottla.metrics.listen=https://127.0.0.1:0\nssl.keystore.location={key}\n"
        f"ssl.truststore.location={trust}\nssl.client.authentication=REQUIRED\n"
    )
    watching = StreamsSettings(metrics_config=config).watching
    context = ssl.create_default_context(cafile=str(trust))
    with QueryMetrics().serve(options=watching.metrics, tls=watching.metrics_tls) as server:
        with pytest.raises(OSError):
            urllib.request.urlopen(f"{server.url}/metrics", timeout=10, context=context)
        context.load_cert_chain(str(key))
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=10, context=context) as answer:
            assert answer.status == 200
    config.write_text("ottla.metrics.listen=https://127.0.0.1:0\n")
    watching = StreamsSettings(metrics_config=config).watching
    with pytest.raises(ConfigError, match=r"https: TLS needs ssl\.keystore\.location"):
        QueryMetrics().serve(options=watching.metrics, tls=watching.metrics_tls).__enter__()


def shown(state: QueryState = QueryState.RUNNING, failure: Failure | None = None) -> PipelineQuery:
    """A query with two looks behind it, as the view sees it."""
    seen = [progress(4), progress(4, durationMs={"triggerExecution": 1}, processedRowsPerSecond=0.0)]
    query = SimpleNamespace(
        name="orders", state=state, failure=failure, recent_progress=seen, progress=seen[-1], dead_letters=3
    )
    return cast(PipelineQuery, query)


def test_a_query_as_a_line() -> None:
    assert query_line(shown()).plain() == (
        "orders: running, 0 rows/s, lag 5, batch 4 in 1,234 ms, watermark 2026-01-31 11:59:00, "
        "state 100 rows, dead letters 3"
    )
    failed = shown(QueryState.FAILED, Failure("No space left on device"))
    assert query_line(failed).plain() == "orders: failed: No space left on device"


def test_queries_as_a_table() -> None:
    output = io.StringIO()
    Console(file=output, width=140).print(queries_table([query_line(shown())]))
    header, row = output.getvalue().splitlines()
    assert header.split("  ")[0] == "query"
    assert row.split() == [
        "orders", "running", "0", "5", "4", "in", "1,234", "ms", "2026-01-31", "11:59:00", "100", "rows", "3",
    ]  # fmt: skip


def test_without_a_terminal_only_changes_are_printed() -> None:
    output = io.StringIO()
    runner = cast(QueryRunner, SimpleNamespace(queries=[shown()]))
    view = LiveView(runner, Console(file=output, width=60), seconds=60)

    with view:
        view.print_changes()
        view.print_changes()

    assert output.getvalue().count("\n") == 1
    assert output.getvalue().startswith("orders: running, 0 rows/s, lag 5")


def test_a_batch_s_figures_are_those_of_its_sources_where_spark_connect_leaves_them_out() -> None:
    sources = [
        {"numInputRows": 3, "inputRowsPerSecond": 1.5, "processedRowsPerSecond": "NaN"},
        {"numInputRows": 4, "inputRowsPerSecond": 2.0, "processedRowsPerSecond": 8.0},
    ]
    progress = parse_progress({"batchId": 1, "numInputRows": None, "sources": sources})
    assert progress.input_rows == 7
    assert (progress.input_rows_per_second, progress.processed_rows_per_second) == (3.5, 8.0)
    assert parse_progress({"batchId": 1, "numInputRows": 0, "sources": sources}).input_rows == 0
