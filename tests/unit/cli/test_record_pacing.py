"""The rate of `ottla produce --rate`: records go out when they are due, and not before."""

from __future__ import annotations

import asyncio
import time

import pytest

from ottla.cli.records.formats import encode_bytes
from ottla.cli.records.inputs import Chunk
from ottla.cli.records.producing import Defaults, Producing
from ottla.client.cluster_requests import TopicPartition
from ottla.client.records.batches import OutgoingBatch


class Leaders:
    """One topic of one partition."""

    async def learn(self, topics: list[str]) -> dict[str, Exception]:
        return {}

    def partition_count(self, topic: str) -> int:
        return 1

    def available(self, topic: str) -> list[int]:
        return [0]


class Writer:
    """Notes when each batch came."""

    def __init__(self) -> None:
        self.leaders = Leaders()
        self.written: list[tuple[float, OutgoingBatch]] = []

    async def add(self, batch: OutgoingBatch) -> None:
        self.written.append((time.monotonic(), batch))


def test_records_go_out_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0

    async def sleep(seconds: float) -> None:
        nonlocal clock
        clock += seconds

    monkeypatch.setattr(time, "monotonic", lambda: clock)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    writer = Writer()
    producing = Producing(
        writer,  # type: ignore[arg-type]
        Defaults("t"),
        encode_bytes,
        encode_bytes,
        formats_are_plain=True,
        batch_bytes=1 << 20,
        rate=100.0,
    )
    values = [b"%d" % number for number in range(1_000)]
    asyncio.run(producing.add(Chunk(None, values, range(1, 1_001)), is_live=False))
    sent = [value for _, batch in writer.written for value in batch.values or ()]
    assert sent == values
    assert {batch.partition for _, batch in writer.written} == {TopicPartition("t", 0)}
    before = 0
    for moment, batch in writer.written:
        assert moment >= 100.0 + before / 100.0 - 1e-6
        before += batch.count
    assert clock >= 100.0 + 9.9
