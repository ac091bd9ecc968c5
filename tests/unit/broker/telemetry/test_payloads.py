"""Pushed metrics, unfolded and parsed: the client's properties, points of every kind, hostile shapes."""

from __future__ import annotations

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from ottla.broker.telemetry.payloads import MAX_POINTS, MAX_RESOURCES, read_payload
from ottla.core.telemetry.client_series import Point
from ottla.protocol.compression import Codec
from ottla.protocol.errors import InvalidRecord
from support.telemetry.collector import texts

MAX_BYTES = 1 << 20
DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def points(data: MetricsData) -> list[Point]:
    read = read_payload(Codec.NONE, data.SerializeToString(), MAX_BYTES, {}, with_points=True)
    return [point for _, point in read.points]


def test_points_of_every_kind_are_read() -> None:
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    gauge = scope.metrics.add(name="gauge").gauge.data_points.add(as_double=1.5)
    gauge.attributes.add(key="topic").value.string_value = "t"
    gauge.attributes.add(key="partition").value.int_value = 3
    delta = scope.metrics.add(name="delta").sum
    delta.aggregation_temporality, delta.is_monotonic = DELTA, True
    delta.data_points.add(as_int=2)
    total = scope.metrics.add(name="total").sum
    total.aggregation_temporality, total.is_monotonic = CUMULATIVE, False
    total.data_points.add(as_double=7)
    histogram = scope.metrics.add(name="times").histogram
    histogram.aggregation_temporality = CUMULATIVE
    histogram.data_points.add(count=4, sum=10.0)
    scope.metrics.add(name="nothing")
    assert points(data) == [
        Point("gauge", (("partition", "3"), ("topic", "t")), 1.5, False, False),
        Point("delta", (), 2.0, True, True),
        Point("total", (), 7.0, False, False),
        Point("times.count", (), 4.0, True, False),
        Point("times.sum", (), 10.0, True, False),
    ]


def test_the_brokers_word_stands_in_place_of_the_clients() -> None:
    data = MetricsData()
    own = data.resource_metrics.add().resource.attributes
    own.add(key="client_id").value.string_value = "another"
    own.add(key="service").value.string_value = "kept"
    payload = read_payload(
        Codec.NONE, data.SerializeToString(), MAX_BYTES, {"client_id": "me"}, with_points=False
    )
    (found,) = MetricsData.FromString(payload.otlp).resource_metrics
    assert [each.key for each in found.resource.attributes] == ["service", "client_id"]
    assert texts(found.resource.attributes) == {"service": "kept", "client_id": "me"}
    assert payload.points == []


def test_a_resource_that_is_repeated_with_each_metric_is_sent_once() -> None:
    # As Java's clients do it.
    data = MetricsData()
    for number in range(300):
        resource = data.resource_metrics.add()
        resource.resource.attributes.add(key="client_rack").value.string_value = f"r{number % 2}"
        resource.scope_metrics.add().metrics.add(name=str(number)).gauge.data_points.add(as_int=number)
    payload = read_payload(Codec.NONE, data.SerializeToString(), MAX_BYTES, {"a": "b"}, with_points=True)
    found = MetricsData.FromString(payload.otlp).resource_metrics
    assert [texts(each.resource.attributes) for each in found] == [
        {"client_rack": "r0", "a": "b"},
        {"client_rack": "r1", "a": "b"},
    ]
    sent = [metric.name for each in found for scope in each.scope_metrics for metric in scope.metrics]
    assert sorted(map(int, sent)) == list(range(300))
    assert [len(each.scope_metrics) for each in found] == [1, 1]
    assert len(payload.points) == 300


def test_a_push_of_many_resources_is_refused_before_each_is_told_its_client() -> None:
    # Two bytes each: a megabyte of them would become a hundred.
    with pytest.raises(InvalidRecord, match="too many resources"):
        read_payload(Codec.NONE, b"\x0a\x00" * (MAX_BYTES // 2), MAX_BYTES, {}, with_points=True)
    data = MetricsData()
    for number in range(MAX_RESOURCES + 1):
        data.resource_metrics.add().resource.attributes.add(key=str(number))
    with pytest.raises(InvalidRecord, match="different resources"):
        read_payload(Codec.NONE, data.SerializeToString(), MAX_BYTES, {}, with_points=True)


def test_no_more_points_are_looked_at_than_may_be() -> None:
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    for _ in range(3 * MAX_POINTS):
        scope.metrics.add(name="empty")
    scope.metrics.add(name="late").gauge.data_points.add(as_double=1)
    assert points(data) == []
    many = MetricsData()
    gauge = many.resource_metrics.add().scope_metrics.add().metrics.add(name="wide").gauge
    for _ in range(3 * MAX_POINTS):
        gauge.data_points.add(as_double=1)
    assert len(points(many)) == MAX_POINTS
