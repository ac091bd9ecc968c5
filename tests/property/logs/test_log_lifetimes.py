"""Topics are created and deleted repeatedly while all kinds of work on their logs go on.

Two brokers in the test's process, two names, and every kind of work on a log: appends, rolls, flushes by
number and by time, retention, searches by time, deletion of records, cleaning (whose process is killed now
and then), checkpoints and moves to the other broker. Threads that work on files hesitate before every
operation, so that the loop goes on in between; the actions are drawn from the seed that is printed.

No broker may end, every request is answered, acknowledged records are there to the last one, and no directory
holds a file of another topic.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.broker import Broker
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.replication import Replication
from ottla.core.image.image import TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch, parse_batch_header
from ottla.storage.checkpoints import read_partition_metadata
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError
from ottla.storage.log import Log, LogConfig
from ottla.storage.segment import LOG_SUFFIX
from support.exploration import examples
from support.nodes.in_process_cluster import BOTH, BROKER, Nodes, nodes

NAMES = ("orders", "payments")
PARTITIONS = 2
ACTIONS = 200
AT_ONCE = 12
HESITATIONS_S = (0.0, 0.0, 0.0, 0.0, 0.001, 0.003)
SETTINGS = {
    "log.cleaner.backoff.ms": "2",
    "log.segment.delete.delay.ms": "0",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "3",
    "log.flush.offset.checkpoint.interval.ms": "5",
    "replica.high.watermark.checkpoint.interval.ms": "5",
}
POLICIES: tuple[dict[str, str], ...] = (
    {"flush.messages": "1"},
    {"flush.ms": "1", "retention.bytes": "2000"},
    {"retention.ms": "3600000"},
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01", "flush.messages": "3"},
)
WORK = ("open", "create", "overwrite", "append", "rename", "remove", "status", "sync", "names", "sync_file")
HOUR_MS = 3_600_000

Key = tuple[UUID, int]


def let_threads_hesitate(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Before each operation on a file outside of the event loop, wait a little, or not."""
    loop_thread = threading.get_ident()
    dice = random.Random(seed)

    def hesitant(operation: Callable[..., Any]) -> Callable[..., Any]:
        def perform(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != loop_thread:
                time.sleep(dice.choice(HESITATIONS_S))
            return operation(*arguments, **options)

        return perform

    for name in WORK:
        monkeypatch.setattr(DirectoryFiles, name, hesitant(getattr(DirectoryFiles, name)))


class Story:
    """The cluster, its acknowledged records, and the random numbers."""

    def __init__(self, cluster: Nodes, dice: random.Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.acknowledged: dict[Key, dict[int, bytes]] = defaultdict(dict)
        self.names: dict[UUID, str] = {}
        self.compacted: set[UUID] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.count = 0

    # -- placement ----------------------------------------------------------------------------------

    @property
    def image(self) -> dict[str, TopicImage]:
        return dict(self.broker(1).image.topics)

    def broker(self, node_id: int) -> Broker:
        return self.cluster.running[node_id]

    def replications(self) -> list[Replication]:
        return [each.replication for each in self.cluster.running.values()]

    def a_partition(self) -> Partition | None:
        """A random partition of one of the topics that has a leader."""
        held = [
            each
            for replication in self.replications()
            for each in replication.partitions
            if each.topic in NAMES and each.is_leader
        ]
        return self.dice.choice(held) if held else None

    # -- actions ------------------------------------------------------------------------------------

    async def create(self) -> None:
        name = self.dice.choice(NAMES)
        configs = self.dice.choice(POLICIES)
        topic = CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        answer: Any = await self.broker(1).controller_channel.ask(request)
        made = answer.topics[0]
        assert made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), made
        if made.error_code == ErrorCode.NONE:
            self.names[made.topic_id] = name
            if "compact" in configs.get("cleanup.policy", ""):
                self.compacted.add(made.topic_id)

    async def delete(self) -> None:
        states = [DeleteTopicState(name=self.dice.choice(NAMES))]
        await self.broker(1).controller_channel.ask(DeleteTopicsRequest(topics=states, timeout_ms=5000))

    async def make_again(self) -> None:
        await self.delete()
        await self.create()

    async def move(self) -> None:
        name, index = self.dice.choice(NAMES), self.dice.randrange(PARTITIONS)
        moved = ReassignablePartition(partition_index=index, replicas=[self.dice.choice((1, 2))])
        topics = [ReassignableTopic(name=name, partitions=[moved])]
        await self.broker(1).controller_channel.ask(
            AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5000)
        )

    async def produce(self) -> None:
        partition = self.a_partition()
        if partition is None:
            return
        now_ms = self.broker(1).now_ms()
        age_ms = self.dice.choice((0, 0, 2 * HOUR_MS))
        self.count += 1
        records = [
            NewRecord(b"%d" % self.dice.randrange(8), b"%d/%d" % (self.count, number), now_ms - age_ms)
            for number in range(self.dice.choice((1, 3, 40)))
        ]
        batch = memoryview(bytearray(encode_batch(records)))
        try:
            result = partition.append(batch, [parse_batch_header(batch)], now_ms)
        except KafkaError:
            return
        if result.rolled or result.flush_due:
            for replication in self.replications():
                replication.logs.flush_soon()
        if await partition.committed(result.last_offset + 1, 5000) is ErrorCode.NONE:
            written = self.acknowledged[partition.topic_id, partition.index]
            for number, record in enumerate(records):
                assert record.value is not None
                offset = result.base_offset + number
                assert offset not in written, f"offset {offset} of {partition.topic} was given twice"
                written[offset] = record.value

    async def roll(self) -> None:
        partition = self.a_partition()
        if partition is not None and not partition.log.is_deleted:
            partition.log.roll(self.broker(1).now_ms())
            for replication in self.replications():
                replication.logs.flush_soon()

    async def search(self) -> None:
        partition = self.a_partition()
        if partition is None:
            return
        when = self.dice.choice((None, 0, self.broker(1).now_ms() - HOUR_MS))
        replication = self.dice.choice(self.replications())
        try:
            found = await replication.timestamps.find(partition, when)
        except KafkaError as error:
            assert error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        assert found is None or 0 <= found.offset <= partition.log.log_end_offset

    async def delete_records(self) -> None:
        partition = self.a_partition()
        if partition is None or partition.log.is_deleted:
            return
        stored = partition.log
        stored.advance_log_start_offset(self.dice.randint(stored.log_start_offset, partition.high_watermark))
        for replication in self.replications():
            await replication.logs.checkpoint_offsets()

    async def kill_the_child(self) -> None:
        for replication in self.replications():
            for process in replication.cleaner._busy.values():
                if process is not None:
                    process.kill()

    async def read(self) -> None:
        partition = self.a_partition()
        if partition is not None and not partition.log.is_deleted:
            self.check(partition)

    async def play(self) -> None:
        """Begin one action after the other, some of them at once."""
        await self.create()
        for action in self.dice.choices(list(WEIGHTS), weights=list(WEIGHTS.values()), k=ACTIONS):
            self.tasks.add(asyncio.ensure_future(action(self)))
            for _ in range(self.dice.choice((0, 1, 1, 3, 20))):
                await asyncio.sleep(0)
            if len(self.tasks) > AT_ONCE:
                done, self.tasks = await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            assert not any(self.cluster.failures.values()), "a part of a broker ended"
        await asyncio.gather(*self.tasks)
        for partition in [each for replication in self.replications() for each in replication.partitions]:
            if partition.topic in NAMES:
                if partition.is_leader:
                    self.check(partition)
                self.check_directory(partition.log)

    # -- invariants ---------------------------------------------------------------------------------

    def check(self, partition: Partition) -> None:
        """Check a leader's log, unless the other broker was elected and this one does not know yet.

        A deposed leader holds records that will be cut, at offsets that the new leader has given to others.
        """
        key = partition.topic_id, partition.index
        epochs = [
            each.leader_epoch
            for replication in self.replications()
            for each in replication.partitions
            if (each.topic_id, each.index) == key
        ]
        if partition.leader_epoch == max(epochs):
            self.check_log(partition.log, key, partition.high_watermark)

    def check_log(self, stored: Log, key: Key, committed: int) -> None:
        """All acknowledged records are there, and only the topic's own, each offset once."""
        written = self.acknowledged[key]
        found: dict[int, bytes | None] = {}
        last_of_key: dict[bytes | None, int] = {}
        for header, batch in stored.iterate_batches(stored.log_start_offset):
            if header.is_control:
                continue
            for record in decode_records(batch):
                assert not found or record.offset > max(found), "offsets go back"
                found[record.offset] = record.value
                last_of_key[record.key] = record.offset
        for offset, value in found.items():
            assert written.get(offset, value) == value, f"offset {offset} holds another record"
        missing = {offset for offset in written if offset >= stored.log_start_offset and offset not in found}
        if key[0] not in self.compacted:
            assert not missing, f"acknowledged and gone: {sorted(missing)}"
        elif written:
            newest = max(written)
            assert newest < stored.log_start_offset or newest in found or newest >= committed

    def check_directory(self, stored: Log) -> None:
        bases = {f"{base:020d}{LOG_SUFFIX}" for base in stored.segment_base_offsets}
        there = {path.name for path in stored.directory.iterdir() if path.name.endswith(LOG_SUFFIX)}
        assert there == bases, f"{stored.directory} has {there}, its log {bases}"


WEIGHTS: dict[Callable[[Story], Awaitable[None]], int] = {
    Story.produce: 12,
    Story.roll: 6,
    Story.search: 5,
    Story.make_again: 3,
    Story.create: 3,
    Story.delete: 1,
    Story.move: 2,
    Story.delete_records: 2,
    Story.kill_the_child: 1,
    Story.read: 3,
}


@pytest.mark.parametrize("number", range(examples(4)))
def test_work_on_a_log_ends_with_the_log(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    let_threads_hesitate(monkeypatch, seed)

    async def scenario() -> Story:
        async with nodes(tmp_path, {1: BOTH, 2: BROKER}, SETTINGS) as cluster:
            await cluster.start(1, 2)
            story = Story(cluster, dice)
            try:
                await story.play()
            finally:
                for each in story.tasks:
                    each.cancel()
                await asyncio.gather(*story.tasks, return_exceptions=True)
            return story

    story = asyncio.run(scenario())

    for directory in sorted(tmp_path.glob("*/*-[01]")):  # after a clean stop
        topic_id = read_partition_metadata(directory)
        if topic_id in story.names:
            stored = open_again(directory)
            story.check_directory(stored)
            assert directory.name.rpartition("-")[0] == story.names[topic_id]


def open_again(directory: Path) -> Log:
    try:
        return Log.open(directory, LogConfig(), now_ms=0, clean_shutdown=True)
    except StorageError as problem:
        pytest.fail(f"the log does not open again: {problem}")
