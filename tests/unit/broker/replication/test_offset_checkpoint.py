"""Offset checkpoints: written in the order they were taken, and silent on topics that are made again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.broker.replication.offset_checkpoint import OffsetCheckpoint
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.record_batch import NewRecord, encode_batch, parse_batch_header
from ottla.storage.checkpoints import TopicPartition, read_offsets
from support.nodes.in_process import create_topic, running_broker

A, B = ("a", 0), ("b", 0)
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class Disk:
    def __init__(self) -> None:
        self.content: dict[TopicPartition, int] = {}

    def write(self, offsets: object) -> None:
        assert isinstance(offsets, dict)
        self.content = dict(offsets)


def test_what_was_taken_earlier_is_not_written_later() -> None:
    disk = Disk()
    checkpoint = OffsetCheckpoint({}, disk.write)
    checkpoint.offsets[A] = 1
    early = checkpoint.take()
    checkpoint.offsets[A] = 2
    late = checkpoint.take()

    checkpoint.write(late)
    checkpoint.write(early)

    assert disk.content == {A: 2}


def test_a_thread_that_comes_late_does_not_bring_back_a_topic_that_was_made_again() -> None:
    disk = Disk()
    checkpoint = OffsetCheckpoint({A: 5, B: 6}, disk.write)
    under_way = checkpoint.take()
    checkpoint.forget(A)  # deleted

    checkpoint.remove(A)  # about to be made again
    checkpoint.write(under_way)

    assert disk.content == {B: 6}
    assert not checkpoint.may_name(A) and checkpoint.may_name(B)


def test_a_topic_that_the_file_does_not_name_costs_no_write() -> None:
    checkpoint = OffsetCheckpoint({A: 5}, lambda _: pytest.fail("written"))

    checkpoint.remove(B)


def test_no_checkpoint_speaks_of_the_old_topic_once_the_new_one_is_there(tmp_path: Path) -> None:
    """A kill -9 right after the topic was made again must find nothing of the old one: with its high
    watermark the new one's records would count as committed, with its start they would be cut."""
    data = tmp_path / "data"

    async def scenario() -> None:
        async with running_broker(data) as broker:
            await filled(broker)
            everything = [(each.log, each.high_watermark) for each in broker.partitions]
            await broker.replication.logs.checkpoint_high_watermarks(everything)
            broker.partitions.partition("t", 0).log.advance_log_start_offset(30)
            await broker.replication.logs.checkpoint_offsets()
            cleaned = broker.replication.cleaner._checkpoint
            cleaned.offsets["t", 0] = 40
            cleaned.write(cleaned.take())
            named = [name for name in CHECKPOINTS if ("t", 0) in read_offsets(data / name)]
            assert named == list(CHECKPOINTS)

            await broker.controller_channel.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            )
            await create_topic(broker, "t")

            for name in CHECKPOINTS:
                assert ("t", 0) not in read_offsets(data / name), name

    asyncio.run(scenario())


async def filled(broker: Broker) -> None:
    """A topic t of fifty records."""
    await create_topic(broker, "t")
    partition = broker.partitions.partition("t", 0)
    for number in range(50):
        batch = memoryview(bytearray(encode_batch([NewRecord(b"k", b"%d" % number, broker.now_ms())])))
        partition.append(batch, [parse_batch_header(batch)], broker.now_ms())
