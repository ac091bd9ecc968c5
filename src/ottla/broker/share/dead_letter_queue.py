"""Writes the dead letters of share partitions to their groups' topics for them (KIP-1191).

Theory of operation. The leader of a share partition hands over dead letters when their ARCHIVING state is
durable, and makes them ARCHIVED when they come back. In between they are written in batches as large as the
topic takes, with acks=all, one batch of a share partition at a time. All letters of a partition go to one
partition of the queue, which this broker may lead, or another one, which then gets a produce request.

The settings are looked at anew before each batch and each try. If they forbid the topic, or if it refuses a
record (without a key, for a compacted one), the letters come back unwritten, and the log tells: as in Kafka,
a mistake of the configuration does not hold the group up. A refused batch is divided, so that a record is
never lost for another one's sake. A failure that passes (no leader, too few replicas in sync, a full disk, a
broker that is not reached) is tried again until it has passed: Kafka gives up after five tries. Meanwhile the
group gets other records, up to its limit of records in flight.

A try may be repeated although it has succeeded, and so may all tries of a leader that ended: each record
gets to the queue at least once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.broker.controller.topic_creation import create_topics
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.replication.own_batches import append_committed
from ottla.broker.replication.produced_appends import ACKS_ALL
from ottla.core.settings import broker_settings, group_settings, topic_settings
from ottla.core.share.dead_letters import (
    NEW_TOPIC_CONFIGS,
    DeadLetter,
    LetterBatch,
    LetterHeaders,
    QueueRules,
    queue_partition,
    queue_problem,
)
from ottla.protocol.errors import CorruptBatch, ErrorCode, KafkaError, ProtocolError
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    iterate_headers,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.broker.replication.partition import Partition
    from ottla.broker.share.counters import ShareCounters
    from ottla.broker.share.node import DeadLetterNode
    from ottla.core.share.keys import SharePartitionKey

log = logging.getLogger("ottla.broker.share")

T = TypeVar("T")

PURPOSE = "dead-letters"
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 30.0
MAX_RECORDS_A_BATCH = 500
"""More would hold the event loop for too long."""
READ_BYTES = 128 * 1024
"""Bytes of the source that are read at once; a larger batch is read alone."""
MAX_DECOMPRESSED_BYTES = 16 * 1024 * 1024
"""The largest batch whose records are copied, if the queue's max.message.bytes is not larger."""


class _Undeliverable(Exception):
    """Dead letters can't be written; the message says why."""


class _Refused(Exception):
    """The queue's leader refuses a batch for good."""


class _TryAgain(Exception):
    """A batch could not be written now."""


class _Queue(NamedTuple):
    """A group's topic for its dead letters, and the place in it for those of a share partition."""

    topic: str
    topic_id: UUID
    partition: int
    leader_id: int
    max_message_bytes: int
    copies_records: bool


class DeadLetterQueue:
    """Writes the dead letters of the share partitions led here. Used on the event loop only."""

    def __init__(self, node: DeadLetterNode, counters: ShareCounters) -> None:
        self._node = node
        self._counters = counters
        self._one_decoding = asyncio.Semaphore(1)

    async def write(
        self, key: SharePartitionKey, source: Partition, letters: Sequence[DeadLetter]
    ) -> AsyncIterator[list[DeadLetter]]:
        """Write the letters of a share partition; gives back, batch by batch, those that are done with.

        It lasts until every failure has passed: the caller cancels it when it does not lead any more.
        """
        headers = LetterHeaders(key.group_id, source.topic, key.partition)
        reader = _SourceReader(source, self._one_decoding)
        left = deque(letters)
        offset = left[0].first_offset if left else 0
        while left:
            done: list[DeadLetter] = []
            written = offset - left[0].first_offset
            try:
                queue = await self._until_it_passes(key, lambda: self._find_or_create(key))
                batch = LetterBatch(headers, self._node.now_ms(), queue.max_message_bytes)
                while left and len(batch.records) < MAX_RECORDS_A_BATCH:
                    copied = None
                    if queue.copies_records:
                        copied = await reader.record_at(offset, queue.max_message_bytes)
                    if not batch.add(offset, left[0], copied):
                        break
                    offset += 1
                    if offset > left[0].last_offset:
                        done.append(left.popleft())
                        offset = left[0].first_offset if left else 0
                await self._produce(key, batch.records)
            except _Undeliverable as problem:
                done += left
                left.clear()
                count = sum(last - first + 1 for first, last, *_ in done)
                self._lose(key, count - written, str(problem))
            yield done
            await asyncio.sleep(0)  # nothing else may have waited: other requests get their turn of the loop

    def _lose(self, key: SharePartitionKey, count: int, problem: str) -> None:
        self._counters.lost_dead_letters += count
        topic = self._node.image.topics_by_id.get(key.topic_id)
        name = topic.name if topic is not None else str(key.topic_id)
        self._node.server.flood_log.warn(
            "dead letters lost",
            f"{count} dead letters of group={key.group_id} topic={name} partition={key.partition} "
            f"were not written: {problem}",
        )

    async def _until_it_passes(self, key: SharePartitionKey, attempt: Callable[[], Awaitable[T]]) -> T:
        """The outcome of the first try that does not fail in passing."""
        delay_seconds = FIRST_RETRY_SECONDS
        while True:
            try:
                return await attempt()
            except _TryAgain as problem:
                text = f"dead letters wait group={key.group_id} partition={key.partition} reason={problem}"
                self._node.server.flood_log.warn("dead letters wait", text)
            await asyncio.sleep(delay_seconds)
            delay_seconds = min(2 * delay_seconds, LAST_RETRY_SECONDS)

    # -- the topic ----------------------------------------------------------------------------------

    async def _find_or_create(self, key: SharePartitionKey) -> _Queue:
        queue = self._find(key)
        if queue is None:
            await self._create(key)
            queue = self._find(key)
        if queue is None:
            raise _TryAgain("the new topic is not known yet")
        return queue

    def _find(self, key: SharePartitionKey) -> _Queue | None:
        """The group's queue as its settings and the metadata have it now; None if it has to be created.

        Raises _Undeliverable, or _TryAgain while the queue has no leader.
        """
        node = self._node
        group = node.config.for_group(key.group_id, node.image)
        name = group[group_settings.ERRORS_DEADLETTERQUEUE_TOPIC_NAME]
        rules = QueueRules(
            name,
            node.config[broker_settings.ERRORS_DEADLETTERQUEUE_TOPIC_NAME_PREFIX],
            node.config[broker_settings.ERRORS_DEADLETTERQUEUE_AUTO_CREATE_TOPICS_ENABLE],
        )
        topic = node.image.topics.get(name)
        settings = node.config.for_topic(name, node.image)
        problem = queue_problem(
            rules,
            exists=topic is not None,
            is_enabled=settings[topic_settings.ERRORS_DEADLETTERQUEUE_GROUP_ENABLE],
        )
        if problem is not None:
            raise _Undeliverable(problem)
        if topic is None:
            return None
        index = queue_partition(key.partition, len(topic.partitions))
        leader_id = topic.partitions[index].leader
        if leader_id < 0:
            raise _TryAgain(f"{name}-{index} has no leader")
        return _Queue(
            name,
            topic.topic_id,
            index,
            leader_id,
            settings[topic_settings.MAX_MESSAGE_BYTES],
            group[group_settings.ERRORS_DEADLETTERQUEUE_COPY_RECORD_ENABLE],
        )

    async def _create(self, key: SharePartitionKey) -> None:
        """Create the group's topic for dead letters, with the cluster's defaults."""
        group = self._node.config.for_group(key.group_id, self._node.image)
        topic = CreatableTopic(
            name=group[group_settings.ERRORS_DEADLETTERQUEUE_TOPIC_NAME],
            num_partitions=-1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in NEW_TOPIC_CONFIGS],
        )
        try:
            result = (await create_topics(self._node, [topic])).topics[0]
        except KafkaError as failure:
            code, text = failure.code, str(failure)
        else:
            code, text = ErrorCode(result.error_code), result.error_message or ""
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        problem = f"{topic.name} could not be created: {code.name} {text}"
        raise _TryAgain(problem) if code.retriable else _Undeliverable(problem)

    # -- producing ----------------------------------------------------------------------------------

    async def _produce(self, key: SharePartitionKey, records: Sequence[NewRecord]) -> None:
        """Write one batch. Records that the topic refuses by themselves are lost, the others are not."""
        try:
            await self._until_it_passes(key, lambda: self._produce_once(key, records))
        except _Refused as problem:
            if len(records) == 1:
                self._lose(key, 1, str(problem))
                return
            half = len(records) // 2
            await self._produce(key, records[:half])
            await self._produce(key, records[half:])
        else:
            self._counters.dead_letters += len(records)

    async def _produce_once(self, key: SharePartitionKey, records: Sequence[NewRecord]) -> None:
        queue = await self._find_or_create(key)
        batch = encode_batch(records)
        if queue.leader_id == self._node.node_id:
            code, text = await self._append_here(queue, batch)
        else:
            code, text = await self._append_there(queue, batch)
        if code is ErrorCode.NONE:
            return
        problem = f"{queue.topic}-{queue.partition}: {code.name} {text}"
        # CORRUPT_MESSAGE would be this broker's own mistake, and come again.
        passes = code.retriable and code is not ErrorCode.CORRUPT_MESSAGE
        raise _TryAgain(problem) if passes else _Refused(problem)

    async def _append_here(self, queue: _Queue, batch: bytes) -> tuple[ErrorCode, str]:
        node = self._node
        timeout_ms = node.config[broker_settings.REQUEST_TIMEOUT_MS]
        try:
            await append_committed(node, queue.topic_id, queue.partition, batch, timeout_ms)
        except KafkaError as error:
            return error.code, str(error)
        except ProtocolError as error:
            return ErrorCode.CORRUPT_MESSAGE, str(error)
        except OSError as problem:
            return ErrorCode.KAFKA_STORAGE_ERROR, str(problem)
        return ErrorCode.NONE, ""

    async def _append_there(self, queue: _Queue, batch: bytes) -> tuple[ErrorCode, str]:
        node = self._node
        timeout_ms = node.config[broker_settings.REQUEST_TIMEOUT_MS]
        data = PartitionProduceData(index=queue.partition, records=batch)
        topic = TopicProduceData(name=queue.topic, topic_id=queue.topic_id, partition_data=[data])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=timeout_ms, topic_data=[topic])
        try:
            # The other broker may take the whole time for its replicas.
            answer = await node.broker_requests.ask(
                PURPOSE, queue.leader_id, request, timeout_ms=2 * timeout_ms
            )
        except PeerUnreachable as problem:
            return ErrorCode.NETWORK_EXCEPTION, str(problem)
        assert isinstance(answer, ProduceResponse)
        for each in answer.responses:
            for outcome in each.partition_responses:
                if outcome.index == queue.partition:
                    return ErrorCode(outcome.error_code), outcome.error_message or ""
        return ErrorCode.UNKNOWN_SERVER_ERROR, "the answer lacks the partition"


class _SourceReader:
    """Reads the records of one partition that become dead letters.

    A record that is gone, or can't be read, is None: its letter is written without a copy.
    """

    __slots__ = ("_batches", "_found", "_one_decoding", "_partition", "_read_from", "_read_to")

    def __init__(self, partition: Partition, one_decoding: asyncio.Semaphore) -> None:
        """`one_decoding` is held while a thread decodes a batch, which may unfold."""
        self._partition = partition
        self._one_decoding = one_decoding
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter(())
        # The records of the last decoded batch, which are all that there are in this range of offsets.
        self._found: dict[int, Record] = {}
        self._read_from = self._read_to = 0

    async def record_at(self, offset: int, max_message_bytes: int) -> Record | None:
        """The record at an offset; None for a control record, and where there is no record."""
        if not self._read_from <= offset < self._read_to:
            await self._read(offset, max(max_message_bytes, MAX_DECOMPRESSED_BYTES))
        return self._found.get(offset)

    async def _read(self, offset: int, max_bytes: int) -> None:
        """Decode the batch that has the offset, or the next one if none has it."""
        if offset < self._read_to:
            self._batches = iter(())
        self._found = {}
        self._read_from, self._read_to = offset, offset + 1
        try:
            found = self._batch_at(offset)
            if found is None:
                return
            header, batch = found
            self._read_to = header.next_offset
            if not header.is_control:
                async with self._one_decoding:
                    records = await asyncio.to_thread(decode_records, batch, max_bytes=max_bytes)
                self._found = {each.offset: each for each in records}
        except (OSError, StorageError, CorruptBatch) as problem:
            partition = self._partition
            log.warning(
                "dead letters are written without copies topic=%s partition=%d offset=%d reason=%s",
                partition.topic, partition.index, offset, problem,
            )  # fmt: skip

    def _batch_at(self, offset: int) -> tuple[BatchHeader, memoryview] | None:
        for header, batch in self._batches:
            if header.last_offset >= offset:
                return header, batch
        partition = self._partition
        if not partition.log.log_start_offset <= offset < partition.high_watermark:
            return None
        piece = partition.log.read(
            offset, READ_BYTES, upper_offset=partition.high_watermark, at_least_one_batch=True
        )
        data = memoryview(piece.read())
        self._batches = (
            (header, data[position : position + header.size_bytes])
            for position, header in iterate_headers(data)
        )
        return next(self._batches, None)
