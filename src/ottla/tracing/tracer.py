"""Spans, and the way of these to the collector, by OpenTelemetry's SDK (the extra `telemetry`).

The SDK keeps up to MAX_QUEUED_SPANS and sends them from a thread of its own, by OTLP over HTTP; spans that
find no room, or no collector for as long as the SDK tries, are dropped and told in its log, `opentelemetry`.
The thread outlives every failure of a request. Nothing global is set: each service has a tracer of its own.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla import __version__
from ottla.config.telemetry_settings import OtlpTarget, require_package
from ottla.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as SdkSpan
    from opentelemetry.trace import SpanContext

log = logging.getLogger("ottla.tracing")

PATH: Final = "/v1/traces"
MAX_QUEUED_SPANS: Final = 2_048
SPANS_A_REQUEST: Final = 512
SEND_EVERY_MS: Final = 1_000
REQUEST_SECONDS: Final = 10
END_SECONDS: Final = 2.0
"""How long `close` waits for the collector to take the rest."""
LAST_SECONDS: Final = 0.5
"""How long it waits for the SDK to give up."""

Attributes = Mapping[str, str | int | float | bool]


class SpanKind(enum.Enum):
    """The place of a span between a caller and a callee."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CONSUMER = "CONSUMER"


class Span:
    """A span under way. Used by one task or thread at a time."""

    __slots__ = ("_span", "context")

    def __init__(self, span: SdkSpan) -> None:
        self._span = span
        self.context = _context_of(span.get_span_context())

    def rename(self, name: str) -> None:
        """Give the span the name that is known by now."""
        self._span.update_name(name)

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)

    def fail(self, reason: str) -> None:
        """Mark the span as an error."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, reason))

    def end(self, end_ns: int | None = None) -> None:
        """End the span, now or at a time in nanoseconds since 1970."""
        self._span.end(end_ns)


class Tracer:
    """Makes the spans of one service. Its methods may be called from any thread."""

    def __init__(self, service: str, target: OtlpTarget, ratio: float = 1.0) -> None:
        """service: its name in traces. ratio: the part of the traces that begin here which is recorded.

        Raises ConfigError where the packages are missing.
        """
        require_package("opentelemetry.exporter.otlp.proto.http", "traces to a collector")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        self._exporter: SpanExporter = OTLPSpanExporter(
            endpoint=f"{target.endpoint}{PATH}",
            headers=dict(target.headers),
            certificate_file=target.certificate,
            timeout=REQUEST_SECONDS,
        )
        processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=MAX_QUEUED_SPANS,
            max_export_batch_size=SPANS_A_REQUEST,
            schedule_delay_millis=SEND_EVERY_MS,
        )
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=Resource.create({"service.name": service, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("ottla", __version__)

    def begin(
        self,
        name: str,
        kind: SpanKind,
        parent: TraceContext | None,
        attributes: Attributes,
        *,
        links: Iterable[TraceContext] = (),
        begin_ns: int | None = None,
    ) -> Span:
        """Begin a span; without a parent, a trace. begin_ns: nanoseconds since 1970, None for now."""
        from opentelemetry.trace import Link
        from opentelemetry.trace import SpanKind as SdkKind

        return Span(
            self._tracer.start_span(
                name,
                _parent(parent),
                SdkKind[kind.value],
                attributes,
                [Link(_span_context(each)) for each in links],
                begin_ns,
            )
        )

    def close(self) -> None:
        """Send the spans that wait, for END_SECONDS at most, and end; blocks.

        The SDK tries for as long as a request and its repetitions last. The rest of that is left to a thread
        which holds up no end of the process.
        """
        ending = threading.Thread(target=self._provider.shutdown, name="end-of-traces", daemon=True)
        ending.start()
        ending.join(END_SECONDS)
        if ending.is_alive():
            log.warning("spans not sent: the collector did not take them within %g s", END_SECONDS)
            self._exporter.shutdown()
            ending.join(LAST_SECONDS)


def _parent(parent: TraceContext | None) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    empty = Context()
    return empty if parent is None else set_span_in_context(NonRecordingSpan(_span_context(parent)), empty)


def _span_context(context: TraceContext) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state: Any = TraceState.from_header([context.state]) if context.state else None
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(context.flags & 1),
        trace_state=state,
    )


def _context_of(context: SpanContext) -> TraceContext:
    return TraceContext(
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
        int(context.trace_flags),
        context.trace_state.to_header(),
    )
