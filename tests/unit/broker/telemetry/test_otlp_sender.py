"""The way to a collector: joined requests, retries, refusals, a bounded queue, all losses counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from ottla.broker.telemetry import otlp_sender
from ottla.broker.telemetry.otlp_sender import OtlpSender
from ottla.config.telemetry_settings import OtlpTarget
from support.nodes.in_process import until
from support.servers.cluster import free_port
from support.telemetry.collector import Collector, running_collector


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_sender, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(otlp_sender, "LONGEST_PAUSE_SECONDS", 0.02)


def request(name: str = "a") -> bytes:
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    return data.SerializeToString()


@asynccontextmanager
async def sending(target: OtlpTarget) -> AsyncIterator[OtlpSender]:
    sender = OtlpSender(target)
    task = asyncio.get_running_loop().create_task(sender.run())
    try:
        yield sender
        assert not task.done()
    finally:
        task.cancel()


def names(collector: Collector) -> list[str]:
    return [each.scope_metrics[0].metrics[0].name for each in collector.metrics]


def test_waiting_requests_leave_together_with_the_headers() -> None:
    async def run(collector: Collector) -> None:
        target = OtlpTarget(f"{collector.url}/base", {"authorization": "Bearer x"})
        async with sending(target) as sender:
            for number in range(50):
                sender.put(request(str(number)))
            await until(lambda: sender.counts.sent_pushes == 50)
        assert names(collector) == [str(number) for number in range(50)]
        (head,) = collector.requests
        assert head["path"] == "/base/v1/metrics"
        assert head["authorization"] == "Bearer x"
        assert head["content-type"] == "application/x-protobuf"

    with running_collector() as collector:
        asyncio.run(run(collector))


def test_a_collector_that_says_to_come_back_is_asked_again() -> None:
    async def run(collector: Collector) -> None:
        collector.statuses[:] = [503, 429, 502]
        async with sending(OtlpTarget(collector.url)) as sender:
            sender.put(request())
            await until(lambda: sender.counts.sent_pushes == 1)
            assert sender.counts.failed_requests == 3
        assert names(collector) == ["a"]

    with running_collector() as collector:
        asyncio.run(run(collector))


def test_a_refused_request_is_not_sent_again_and_counted() -> None:
    async def run(collector: Collector) -> None:
        collector.statuses[:] = [400]
        async with sending(OtlpTarget(collector.url)) as sender:
            sender.put(request("refused"))
            await until(lambda: sender.counts.dropped_as_refused == 1)
            sender.put(request("fine"))
            await until(lambda: sender.counts.sent_pushes == 1)
        assert names(collector) == ["fine"]

    with running_collector() as collector:
        asyncio.run(run(collector))


def test_metrics_wait_for_a_collector_that_starts_later() -> None:
    async def run() -> None:
        port = free_port()
        async with sending(OtlpTarget(f"http://127.0.0.1:{port}")) as sender:
            sender.put(request())
            await until(lambda: sender.counts.failed_requests > 2)
            with running_collector(port) as collector:
                await until(lambda: sender.counts.sent_pushes == 1)
                assert names(collector) == ["a"]

    asyncio.run(run())


def test_the_queue_of_a_collector_that_is_down_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_sender, "MAX_QUEUED_BYTES", 10 * len(request("00")))
    monkeypatch.setattr(otlp_sender, "RETRY_SECONDS", 0.2)

    async def run() -> None:
        sender = OtlpSender(OtlpTarget(f"http://127.0.0.1:{free_port()}"))
        for number in range(10, 99):
            sender.put(request(str(number)))
        assert sender.counts.dropped_when_full == 79
        assert sender.queued_bytes == 10 * len(request("00"))
        task = asyncio.get_running_loop().create_task(sender.run())
        await until(lambda: sender.counts.dropped_as_too_old == 10)
        task.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"x" * 40_000])
def test_an_answer_that_is_no_http_is_no_answer(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_sender, "RETRY_SECONDS", 0.1)

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answered, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with sending(OtlpTarget(f"http://127.0.0.1:{port}")) as sender:
            sender.put(request())
            await until(lambda: sender.counts.dropped_as_too_old == 1)
        server.close()

    asyncio.run(run())
