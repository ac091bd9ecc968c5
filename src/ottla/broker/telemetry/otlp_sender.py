"""Sends clients' metrics to an OpenTelemetry collector: OTLP over HTTP, in protobuf.

Requests wait in a queue of MAX_QUEUED_BYTES, and the oldest goes when it is full: a collector that is down
costs memory up to there and nothing else. Waiting requests leave together, because OTLP's messages may be
joined. One without an answer, or with one that says to come back, is tried again with growing pauses for
RETRY_SECONDS; one that is refused is not. All that is lost is counted. Nothing survives the process.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ottla import __version__
from ottla.config.errors import ConfigError
from ottla.config.telemetry_settings import OTLP_CERTIFICATE, OtlpTarget

log = logging.getLogger("ottla.broker")

PATH: Final = "/v1/metrics"
MAX_QUEUED_BYTES: Final = 16 << 20
MAX_REQUEST_BYTES: Final = 1 << 20
"""The most bytes that leave together; a single push may be larger."""
RETRY_SECONDS: Final = 120.0
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 10.0
END_SECONDS: Final = 2.0
"""How long a stop waits for the collector to take the rest."""
TELL_SECONDS: Final = 60.0
MAX_HEAD_BYTES: Final = 16 << 10
MAX_ANSWER_BYTES: Final = 64 << 10
_COME_BACK: Final = frozenset({429, 502, 503, 504})
_NO_ANSWER: Final = (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError)


@dataclass(slots=True)
class SenderCounts:
    """The sender's figures since the start; pushes are those of clients."""

    sent_pushes: int = 0
    sent_bytes: int = 0
    failed_requests: int = 0
    """Requests without an answer, or with one that says to come back."""
    dropped_when_full: int = 0
    dropped_as_refused: int = 0
    dropped_as_too_old: int = 0
    rejected_points: int = 0
    """Points of requests that were taken, which the collector says it did not want."""


class _Answer(NamedTuple):
    status: int
    retry_after_seconds: float | None
    body: bytes


class OtlpSender:
    """The way to one collector. Used on the event loop only; `run` is a background task of the node."""

    def __init__(self, target: OtlpTarget) -> None:
        """Raises ConfigError for a certificate file that can't be read."""
        self.counts = SenderCounts()
        parts = urlsplit(target.endpoint)
        assert parts.hostname is not None, "the setting is checked"
        self._host, self._is_tls = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._context = _context(target) if self._is_tls else None
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [
            f"POST {parts.path.rstrip('/')}{PATH} HTTP/1.1",
            f"Host: {host}:{self._port}",
            "Content-Type: application/x-protobuf",
            "Connection: close",
        ]
        own = {"user-agent": f"ottla/{__version__}", **target.headers}
        lines += [f"{name}: {value}" for name, value in own.items()]
        self._head = "\r\n".join(lines).encode("ascii")
        self._shown = f"{parts.scheme}://{host}:{self._port}{parts.path.rstrip('/')}{PATH}"
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_ending = False
        self._tell_at = 0.0
        self._is_failing = False

    def put(self, request: bytes) -> None:
        """Send the metrics of a push, an ExportMetricsServiceRequest, when it is their turn."""
        self._queue.append(request)
        self._queued_bytes += len(request)
        while self._queued_bytes > MAX_QUEUED_BYTES:
            self._queued_bytes -= len(self._queue.popleft())
            self.counts.dropped_when_full += 1
        self._work.set()
        self._idle.clear()

    @property
    def queued_bytes(self) -> int:
        """The bytes that wait, without those on their way."""
        return self._queued_bytes

    async def run(self) -> None:
        """Send the requests that are put, without end."""
        while True:
            await self._work.wait()
            batch = self._take()
            if batch:
                await self._deliver(b"".join(batch), len(batch))
            if not self._queue:
                self._work.clear()
                self._idle.set()

    async def end(self) -> None:
        """Wait a while until all is sent."""
        self._is_ending = True
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.warning("client telemetry not sent to=%s bytes=%d", self._shown, self._queued_bytes)

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._queue and (not batch or size + len(self._queue[0]) <= MAX_REQUEST_BYTES):
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        self._queued_bytes -= size
        return batch

    async def _deliver(self, body: bytes, pushes: int) -> None:
        """Send joined requests, or count them as dropped."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RETRY_SECONDS
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            wait_seconds = pause_seconds * random.uniform(0.5, 1.0)
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    answer = await self._post(body)
            except _NO_ANSWER as problem:
                reason = str(problem) or type(problem).__name__
            else:
                if 200 <= answer.status < 300:
                    self._delivered(body, pushes, answer)
                    return
                reason = f"status {answer.status}"
                if answer.status not in _COME_BACK:
                    self.counts.dropped_as_refused += pushes
                    self._tell("client telemetry refused", reason)
                    return
                if answer.retry_after_seconds is not None:
                    wait_seconds = min(answer.retry_after_seconds, LONGEST_PAUSE_SECONDS)
            self.counts.failed_requests += 1
            self._is_failing = True
            self._tell("client telemetry not sent yet", reason)
            if self._is_ending or loop.time() + wait_seconds >= give_up_at:
                self.counts.dropped_as_too_old += pushes
                return
            await asyncio.sleep(wait_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    def _delivered(self, body: bytes, pushes: int, answer: _Answer) -> None:
        self.counts.sent_pushes += pushes
        self.counts.sent_bytes += len(body)
        self.counts.rejected_points += _rejected_points(answer.body)
        if self._is_failing:
            self._is_failing = False
            self._tell_at = 0.0
            log.info("client telemetry is sent again to=%s", self._shown)

    def _tell(self, event: str, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            log.warning("%s to=%s reason=%s", event, self._shown, reason)

    async def _post(self, body: bytes) -> _Answer:
        """One request. Raises one of _NO_ANSWER."""
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, limit=MAX_HEAD_BYTES
        )
        try:
            writer.write(b"%b\r\nContent-Length: %d\r\n\r\n" % (self._head, len(body)))
            writer.write(body)
            await writer.drain()
            return await _read_answer(reader)
        finally:
            writer.transport.abort()


async def _read_answer(reader: asyncio.StreamReader) -> _Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise ValueError("the answer is not HTTP")
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    after = fields.get("retry-after", "")
    length = fields.get("content-length", "0")
    body = b""
    if length.isdecimal() and int(length) <= MAX_ANSWER_BYTES:
        body = await reader.readexactly(int(length))
    return _Answer(int(rest[:3]), float(after) if after.isdecimal() else None, body)


def _rejected_points(body: bytes) -> int:
    """The points that an answer says were not wanted."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    try:
        return int(ExportMetricsServiceResponse.FromString(body).partial_success.rejected_data_points)
    except DecodeError:
        return 0


def _context(target: OtlpTarget) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=target.certificate)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"{OTLP_CERTIFICATE.name}={target.certificate}: {problem}") from None
