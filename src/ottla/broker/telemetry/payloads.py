"""Pushed metrics, from a request's bytes to OTLP for a collector and to points for series.

Needs the package opentelemetry-proto, of the extra `telemetry`. Unfolding is bounded before the codec runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)

from ottla.core.telemetry.client_series import Point, SeriesKey, series_key
from ottla.protocol.compression import Codec, UnfoldsTooFar, decompress
from ottla.protocol.errors import CorruptBatch, InvalidRecord, TelemetryTooLarge

MAX_POINTS: Final = 10_000
"""The most metrics of one push, and the most points, that are looked at for series; clients have hundreds."""
MAX_RESOURCES: Final = 64
"""The most different resources of one push: each gets the client's attributes. A client has one."""
LEAST_BYTES: Final = 32
"""Of a resource's metrics. Java's clients repeat the resource with each metric."""


class Payload(NamedTuple):
    """The metrics of one push. otlp: an ExportMetricsServiceRequest. points: each with its series."""

    otlp: bytes
    points: list[tuple[SeriesKey | None, Point]]


def read_payload(
    codec: Codec, data: bytes, max_bytes: int, attributes: Mapping[str, str], *, with_points: bool
) -> Payload:
    """Unfold and parse the metrics of a push, and add `attributes` to their resources.

    Raises InvalidRecord for bytes that are no metrics, TelemetryTooLarge for more than `max_bytes` of them.
    """
    try:
        unfolded = decompress(codec, data, max_bytes)
        metrics = MetricsData.FromString(unfolded)
    except UnfoldsTooFar:
        raise TelemetryTooLarge(f"The metrics unfold to more than {max_bytes} bytes.") from None
    except (CorruptBatch, DecodeError) as problem:
        raise InvalidRecord(f"The metrics can't be read: {problem}") from None
    if len(metrics.resource_metrics) > max(MAX_RESOURCES, max_bytes // LEAST_BYTES):
        raise InvalidRecord("The metrics are of too many resources.")
    joined = _joined(metrics)
    points: list[tuple[SeriesKey | None, Point]] = []
    if with_points:
        points = [(series_key(point), point) for point in itertools.islice(_points(joined), MAX_POINTS)]
    for resource_metrics in joined.resource_metrics:
        own = resource_metrics.resource.attributes
        kept = [each for each in own if each.key not in attributes]
        if len(kept) < len(own):  # a client must not pass itself off as another one
            del own[:]
            own.extend(kept)
        for key, value in attributes.items():
            own.add(key=key).value.string_value = value
    return Payload(joined.SerializeToString(), points)


def _joined(metrics: MetricsData) -> MetricsData:
    """The same metrics with each resource, and each scope of it, once. Raises InvalidRecord."""
    joined = MetricsData()
    resources: dict[bytes, tuple[ResourceMetrics, dict[bytes, ScopeMetrics]]] = {}
    for each in metrics.resource_metrics:
        name = each.resource.SerializeToString() + each.schema_url.encode()
        found = resources.get(name)
        if found is None:
            if len(resources) >= MAX_RESOURCES:
                raise InvalidRecord(f"The metrics are of more than {MAX_RESOURCES} different resources.")
            resource = joined.resource_metrics.add(resource=each.resource, schema_url=each.schema_url)
            found = resources[name] = (resource, {})
        resource, scopes = found
        for scope_metrics in each.scope_metrics:
            scope_name = scope_metrics.scope.SerializeToString() + scope_metrics.schema_url.encode()
            scope = scopes.get(scope_name)
            if scope is None:
                scope = scopes[scope_name] = resource.scope_metrics.add(
                    scope=scope_metrics.scope, schema_url=scope_metrics.schema_url
                )
            scope.metrics.extend(scope_metrics.metrics)
    return joined


def _points(metrics: MetricsData) -> Iterator[Point]:
    found = (
        metric
        for resource_metrics in metrics.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    )
    for metric in itertools.islice(found, MAX_POINTS):
        yield from _points_of(metric)


def _points_of(metric: Metric) -> Iterator[Point]:
    """The points of gauges and sums, and the counts and sums of histograms."""
    match metric.WhichOneof("data"):
        case "gauge":
            for each in metric.gauge.data_points:
                yield Point(metric.name, _attributes(each.attributes), _number(each), False, False)
        case "sum":
            is_delta = metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
            for each in metric.sum.data_points:
                own = _attributes(each.attributes)
                yield Point(metric.name, own, _number(each), metric.sum.is_monotonic, is_delta)
        case "histogram":
            is_delta = metric.histogram.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
            for distribution in metric.histogram.data_points:
                own = _attributes(distribution.attributes)
                yield Point(f"{metric.name}.count", own, float(distribution.count), True, is_delta)
                yield Point(f"{metric.name}.sum", own, distribution.sum, True, is_delta)


def _number(point: Any) -> float:
    return float(point.as_int if point.WhichOneof("value") == "as_int" else point.as_double)


def _attributes(attributes: Iterable[KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((each.key, _text(each)) for each in attributes))


def _text(attribute: KeyValue) -> str:
    value = attribute.value
    match value.WhichOneof("value"):
        case "string_value":
            return str(value.string_value)
        case "int_value":
            return str(value.int_value)
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "double_value":
            return repr(value.double_value)
        case _:
            return ""
