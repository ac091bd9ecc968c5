"""A small OpenTelemetry collector for tests: it keeps the metrics and traces that come by OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import Span

T = TypeVar("T")
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class TakenSpan:
    """A span, and the service that sent it."""

    service: str
    span: Span

    @property
    def trace_id(self) -> str:
        return self.span.trace_id.hex()

    @property
    def attributes(self) -> dict[str, str]:
        return texts(self.span.attributes)


def texts(attributes: object) -> dict[str, str]:
    """Attributes by key, the values as texts."""
    found = {}
    for each in attributes:  # type: ignore[attr-defined]
        assert isinstance(each, KeyValue)
        kind = each.value.WhichOneof("value")
        found[each.key] = str(getattr(each.value, kind)) if kind else ""
    return found


@dataclass(slots=True)
class Collector:
    """What has come so far. `statuses` are the answers to the next requests, then all are 200."""

    port: int = 0
    metrics: list[ResourceMetrics] = field(default_factory=list)
    spans: list[TakenSpan] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    """The headers of each, in lower case, with its `path`."""
    statuses: list[int] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, found: Callable[[], T]) -> T:
        """The first true value of `found`, which is asked again with every request."""
        with self._news:
            value: list[T] = []
            assert self._news.wait_for(lambda: value.append(found()) or value[-1], PATIENCE_S), (
                f"{len(self.metrics)} metrics, {[(each.service, each.span.name) for each in self.spans]}"
            )
            return value[-1]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._news:
            self.requests.append({**headers, "path": path})
            status = self.statuses.pop(0) if self.statuses else 200
            if status == 200 and path.endswith("/v1/metrics"):
                self.metrics.extend(ExportMetricsServiceRequest.FromString(body).resource_metrics)
            elif status == 200 and path.endswith("/v1/traces"):
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    service = texts(resource.resource.attributes).get("service.name", "")
                    for scope in resource.scope_spans:
                        self.spans.extend(TakenSpan(service, span) for span in scope.spans)
            self._news.notify_all()
            return status


@contextmanager
def running_collector(port: int = 0) -> Iterator[Collector]:
    """A collector for the length of the block."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(collector.take(self.path, headers, body))
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
