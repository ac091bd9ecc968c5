"""Clients that push their metrics (KIP-714): their number, their series, the way to a collector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.metric import Kind, Metric
from ottla.metrics.tables import telemetry as table

if TYPE_CHECKING:
    from ottla.broker.telemetry.client_telemetry import ClientTelemetry
    from ottla.broker.telemetry.otlp_sender import OtlpSender
    from ottla.core.telemetry.client_series import ClientSeries

_HELP: Final = "A metric that clients push to this broker (KIP-714)."


class TelemetryNode(Protocol):
    """The members of a node that are read."""

    @property
    def telemetry(self) -> ClientTelemetry:
        """The metrics that clients push."""
        ...


class TelemetryMetrics:
    """The source of the metrics of client telemetry."""

    def __init__(self, node: TelemetryNode) -> None:
        self._node = node

    def read(self) -> Iterator[Family | None]:
        """The families, with those of the clients last."""
        telemetry = self._node.telemetry
        if not telemetry.has_receivers:
            return
        instances = telemetry.instances
        yield single(table.INSTANCES, len(instances))
        yield single(table.UNKNOWN_SUBSCRIPTIONS, instances.counts.unknown_subscription_requests)
        yield single(table.THROTTLED, instances.counts.throttled_requests)
        yield single(table.PUSHES, instances.counts.pushes)
        yield single(table.REFUSED, instances.counts.refused_payloads)
        if telemetry.sender is not None:
            yield from _sender(telemetry.sender)
        if telemetry.series is not None:
            yield single(table.SERIES, len(telemetry.series))
            yield single(table.DROPPED_POINTS, telemetry.series.dropped_points)
            yield from _clients(telemetry.series)


def _sender(sender: OtlpSender) -> Iterator[Family]:
    counts = sender.counts
    yield single(table.SENT, counts.sent_pushes)
    yield single(table.SENT_BYTES, counts.sent_bytes)
    yield single(table.QUEUED_BYTES, sender.queued_bytes)
    yield single(table.FAILED_REQUESTS, counts.failed_requests)
    yield by_label(
        table.LOST,
        {
            "full": counts.dropped_when_full,
            "refused": counts.dropped_as_refused,
            "too_old": counts.dropped_as_too_old,
        },
    )
    yield single(table.REJECTED_POINTS, counts.rejected_points)


def _clients(series: ClientSeries) -> Iterator[Family | None]:
    for found in series.exposed():
        if found is None:
            yield None
            continue
        kind = Kind.COUNTER if found.is_counter else Kind.GAUGE
        yield Family(Metric(found.name, kind, _HELP, found.labels), found.samples)
