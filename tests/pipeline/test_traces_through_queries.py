"""A trace on its way: from a caller of the REST Proxy through record headers and a query to its output."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from ottla.config.telemetry_settings import OtlpTarget
from ottla.pipeline.query.traces import SAMPLED
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import Streams, StreamsSettings
from ottla.streams.run.application import start
from support.rest.rest_api import RestApi
from support.servers.cluster import Cluster
from support.telemetry.collector import Collector, TakenSpan, running_collector

pytestmark = pytest.mark.spark

TRACES = [f"{number:032x}" for number in range(1, 31)]
CALLER = "00f067aa0ba902b7"
FIRST = TRACES[0]


def produced(bootstrap: str, directory: Path, collector: Collector, topic: str) -> None:
    """A record a trace, but for the last, which belongs to none; and one with a context of its own making."""
    settings = {"ottla.telemetry.otlp.endpoint": collector.url}
    with RestApi.start(bootstrap, directory, settings) as rest:
        for trace in TRACES:
            answer = rest.call(
                "POST",
                f"/topics/{topic}/records",
                {"value": {"type": "BINARY", "data": base64.b64encode(trace.encode()).decode()}},
                headers={"traceparent": f"00-{trace}-{CALLER}-01"},
            )
            assert answer.json()["error_code"] == 200, answer.text


def test_a_trace_goes_on_from_a_request_through_headers_and_a_query(
    cluster: Cluster, spark_session: SparkPipelineSession, unique_name: str, tmp_path: Path
) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    source, sink = f"{unique_name}-in", f"{unique_name}-out"
    kafka.ensure_topics([Topic(source, 2), Topic(sink, 2)])
    with running_collector() as collector:
        # given
        produced(cluster.bootstrap, tmp_path, collector, source)
        requests = {
            trace: collector.wait_for(lambda trace=trace: spans_of(collector, trace))[0]  # type: ignore[misc]
            for trace in TRACES
        }
        for span in requests.values():
            assert (span.service, span.span.parent_span_id.hex()) == ("ottla-rest", CALLER)
        # when
        app = Streams(unique_name)
        app.stream(source, value=str).map_values(lambda r: r.value).to(sink, value=str)
        settings = StreamsSettings(
            cluster.bootstrap,
            tmp_path / "state",
            partitions=2,
            until_caught_up=True,
            traces=OtlpTarget(collector.url),
        )
        with start(app.topology(), settings, session=spark_session) as running:
            assert running.await_end(0)
        # then a batch is a span, linked with a bounded number of its records' requests
        batches = [each for each in collector.spans if each.span.name.startswith("batch ")]
        linked = {link.trace_id.hex(): link.span_id.hex() for each in batches for link in each.span.links}
        assert 1 < len(linked) <= SAMPLED * len(batches)
        for trace, span_id in linked.items():
            assert span_id == requests[trace].span.span_id.hex()
            # and each of these traces goes on in the query
            (process,) = [each for each in spans_of(collector, trace) if each.service == unique_name]
            assert process.span.parent_span_id.hex() == span_id
            assert process.span.links[0].trace_id.hex() in {each.trace_id for each in batches}
        assert sum(int(each.attributes["messaging.batch.message_count"]) for each in batches) == len(TRACES)
        # and the output's records carry the contexts of the input's
        carried = {
            (message.value() or b"").decode(): dict(message.headers() or ())  # type: ignore[arg-type]
            for message in kafka.read(sink)
        }
        assert set(carried) == set(TRACES)
        for trace, headers in carried.items():
            assert headers["traceparent"] == requests_context(requests[trace])


def spans_of(collector: Collector, trace: str) -> list[TakenSpan]:
    return [each for each in list(collector.spans) if each.trace_id == trace]


def requests_context(span: TakenSpan) -> bytes:
    return f"00-{span.trace_id}-{span.span.span_id.hex()}-01".encode()
