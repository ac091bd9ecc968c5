"""Writes batches to the leaders of their partitions: in order, each exactly once, and bounded in memory.

Theory of operation. Every partition has one task, its batches a queue. The task sends up to MAX_IN_FLIGHT
batches before it waits for the answer to the oldest; the first goes alone. Sequence numbers are given when a
batch is first sent and never changed, so a broker that has a batch already says so, and one that lacks an
earlier batch refuses the later ones (KIP-98). After a failure that may pass (the leader has moved, the
connection broke) the task waits for all answers that are under way, and sends the unacknowledged batches
again, one at a time and in order; then it goes on as before. A batch that is refused for good ends the
writer: nothing is sent any more, and `flush` raises the refusal, which names the record where the broker
does.

What waits or is under way is bounded in bytes: `add` returns when there is room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.access import Address, ClusterAccess
from ottla.client.cluster_requests import Broker, ClusterRequests, TopicPartition
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser, connect_problem
from ottla.client.errors import ClusterError
from ottla.client.records.batches import Batch, ProducerIdentity
from ottla.client.records.leaders import PartitionLeaders
from ottla.client.records.transaction import LOST, Transaction, idempotent_identity
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.protocol.record_batch import NO_SEQUENCE, increment_sequence

NEWEST_PRODUCE_VERSION: Final = 11
"""Version 12 includes partitions in a transaction by itself (KIP-890), 13 names topics by id."""
MAX_IN_FLIGHT: Final = 5
"""Of one partition; a broker remembers the last five batches of a producer."""
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class RecordRefused(ClusterError):
    """A record that the cluster does not take. source: where it came from, as its batch remembers."""

    def __init__(self, message: str, code: int | None, source: int, partition: TopicPartition) -> None:
        super().__init__(message, code)
        self.source = source
        self.partition = partition


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How to write. acks: -1 (all in-sync replicas), 1 or 0. delivery_timeout_ms: for one batch, all
    tries.
    """

    acks: int = -1
    codec: Codec = Codec.NONE
    level: int | None = None
    idempotent: bool = True
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    buffer_bytes: int = 32 << 20


@dataclass(slots=True)
class PartitionTally:
    """What was acknowledged of one partition; the first offset is None where the broker did not say it."""

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


class _NotNow(Exception):
    """The batch was not acknowledged for a reason that may pass."""

    def __init__(self, problem: ClusterError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _TooLarge(_NotNow):
    """The broker takes no batch so large; in two it may."""


class RecordWriter:
    """Writes batches of any partitions. All calls but `add` and `flush` return at once.

    transaction: the writer's batches are part of it; the caller ends it after `flush`.
    """

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        settings: WriteSettings | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        self.settings = settings or WriteSettings()
        self.leaders = PartitionLeaders(cluster)
        self.tallies: dict[TopicPartition, PartitionTally] = {}
        self.on_written: Callable[[Batch], None] | None = None
        """Told of each batch when it is acknowledged."""
        self.on_placed: Callable[[Batch, int], None] | None = None
        """Told besides at which offset its first record is, -1 where the broker does not say."""
        self._cluster = cluster
        self._access = access
        self._transaction = transaction
        self._identity: ProducerIdentity | None = None
        self._partitions: dict[TopicPartition, _PartitionWriter] = {}
        self._connections: dict[Broker, NodeConnection] = {}
        self._connecting = asyncio.Lock()
        self._learning = asyncio.Lock()
        self._bytes = 0
        self._change = asyncio.Event()
        self._failure: ClusterError | None = None

    async def start(self) -> None:
        """Become a producer. Raises ClusterError."""
        if self._transaction is not None:
            self._identity = await self._transaction.begin()
        elif self.settings.idempotent:
            self._identity = await idempotent_identity(self._cluster)

    def adopt(self, identity: ProducerIdentity) -> None:
        """Write as the producer that a transaction of the caller's has become, in place of `start`."""
        self._identity = identity

    @property
    def written(self) -> int:
        """The number of acknowledged records."""
        return sum(tally.records for tally in self.tallies.values())

    async def add(self, batch: Batch) -> None:
        """Give a batch to be written; returns when there is room for another. Raises ClusterError."""
        self.check()
        writer = self._partitions.get(batch.partition)
        if writer is None:
            writer = self._partitions[batch.partition] = _PartitionWriter(self, batch.partition)
        self._bytes += batch.size_bytes
        writer.add(batch)
        while self._bytes > self.settings.buffer_bytes and self._failure is None:
            self._change.clear()
            await self._change.wait()
        self.check()

    async def flush(self) -> None:
        """Return when everything that was given is acknowledged. Raises ClusterError."""
        while self._failure is None and any(writer.is_busy for writer in self._partitions.values()):
            self._change.clear()
            await self._change.wait()
        self.check()

    async def settle(self) -> None:
        """Return when no batch is under way any more: all are acknowledged, or the writer has failed."""
        while any(writer.is_running for writer in self._partitions.values()):
            self._change.clear()
            await self._change.wait()

    def check(self) -> None:
        """Raises the ClusterError for which a batch was refused."""
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Stop, and close the connections; unacknowledged batches are given up."""
        tasks = [task for writer in self._partitions.values() for task in writer.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.hang_up()

    # -- for the partitions' tasks ---------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether a batch was refused for good."""
        return self._failure is not None

    def fail(self, problem: ClusterError) -> None:
        """Send nothing any more, and tell the caller."""
        self._failure = self._failure or problem
        for writer in self._partitions.values():
            writer.wake()
        self._change.set()

    def acknowledged(self, batch: Batch, base_offset: int) -> None:
        """Count a batch as written."""
        tally = self.tallies.setdefault(batch.partition, PartitionTally())
        tally.records += batch.count
        if self.on_written is not None:
            self.on_written(batch)
        if self.on_placed is not None:
            self.on_placed(batch, base_offset)
        if base_offset >= 0:
            tally.first_offset = base_offset if tally.first_offset is None else tally.first_offset
            tally.last_offset = base_offset + batch.count - 1
        self.release(batch)

    def release(self, batch: Batch) -> None:
        """Free the room of a batch."""
        self._bytes -= batch.size_bytes
        self._change.set()

    def changed(self) -> None:
        """Wake the caller's waiting."""
        self._change.set()

    @property
    def identity(self) -> ProducerIdentity | None:
        """The producer's id; None for one that is not idempotent."""
        return self._identity

    @property
    def transactional_id(self) -> str | None:
        """The transactional id; None outside of a transaction."""
        return None if self._transaction is None else self._transaction.transactional_id

    async def prepare(self, partition: TopicPartition) -> None:
        """Make the partition part of the transaction, if there is one."""
        if self._transaction is not None:
            await self._transaction.include(partition)

    def lost_transaction(self, code: ErrorCode) -> ClusterError | None:
        """The error for a code that says so; None for other codes, and without a transaction."""
        if self._transaction is None or code not in LOST:
            return None
        return self._transaction.lost(code)

    async def connection(self, partition: TopicPartition, *, anew: bool) -> NodeConnection:
        """A connection to the partition's leader. anew: ask for the leader first. Raises _NotNow."""
        try:
            leader = None if anew else self.leaders.leader(partition)
            if leader is None:
                async with self._learning:
                    problems = await self.leaders.learn([partition.topic])
                leader = self.leaders.leader(partition)
                problem = problems.get(partition.topic)
                if problem is not None and problem.code is not None and not ErrorCode(problem.code).retriable:
                    raise problem
                if leader is None:
                    raise _NotNow(problem or ClusterError(f"{partition} has no leader"))
            async with self._connecting:
                connection = self._connections.get(leader)
                if connection is None or not connection.open:
                    async with asyncio.timeout(self._cluster.timeout_seconds):
                        connection = await NodeConnection.to(
                            Address(leader.host, leader.port), self._access.connection()
                        )
                    self._connections[leader] = connection
                return connection
        except NodeRefusesUser as problem:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            raise ClusterError(f"the leader of {partition} refuses the user: {problem}", code) from None
        except (ConnectionLost, OSError, ProtocolError, TimeoutError) as problem:
            reason = "no answer in time" if isinstance(problem, TimeoutError) else connect_problem(problem)
            lost = ClusterError(f"the leader of {partition} can't be reached: {reason}")
            raise _NotNow(lost) from None
        except ClusterError as problem:
            if problem.code is None:  # the cluster is silent
                raise _NotNow(problem) from None
            raise


class _PartitionWriter:
    """The task of one partition."""

    def __init__(self, writer: RecordWriter, partition: TopicPartition) -> None:
        self._writer = writer
        self._partition = partition
        self._queue: deque[Batch] = deque()
        self._wake = asyncio.Event()
        self._next_sequence = 0
        # The first batch goes alone: a broker that knows nothing of the producer takes any sequence number,
        # and would take the second batch where it refused the first.
        self._most_in_flight = MAX_IN_FLIGHT if writer.identity is None else 1
        self._under_way: deque[tuple[Batch, asyncio.Task[int]]] = deque()
        self._again: deque[Batch] = deque()
        self._learn_anew = False
        self._connection: NodeConnection | None = None
        """The connection of the batches under way."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_busy(self) -> bool:
        """Whether batches are not acknowledged."""
        return bool(self._queue or self._under_way or self._again)

    @property
    def is_running(self) -> bool:
        """Whether a batch may still come to be acknowledged."""
        return not self.task.done() and self.is_busy and not (self._writer.failed and not self._under_way)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The partition's task, and those that wait for answers."""
        return [self.task, *(sending for _, sending in self._under_way)]

    def add(self, batch: Batch) -> None:
        """Queue a batch."""
        self._queue.append(batch)
        self._wake.set()

    def wake(self) -> None:
        """Let the task look again."""
        self._wake.set()

    async def _run(self) -> None:
        writer = self._writer
        try:
            while True:
                if writer.failed:
                    await self._await_all()
                    writer.changed()
                    return
                if self._again:
                    await self._send_again()
                elif self._queue and len(self._under_way) < self._most_in_flight:
                    await self._begin(self._queue[0])
                elif self._under_way:
                    await self._await_oldest()
                else:
                    self._wake.clear()
                    await self._wake.wait()
        except ClusterError as problem:
            writer.fail(problem)
            await self._await_all()
            writer.changed()
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # a fault of ours must not leave the caller waiting
            writer.fail(ClusterError(f"writing to {self._partition} failed: {problem!r}"))
            raise

    # -- the ordinary way --------------------------------------------------------------------------------

    async def _begin(self, batch: Batch) -> None:
        """Send the first batch of the queue, and don't wait for its answer.

        Nothing is sent while a batch before it may be missing: if those under way have failed, or went over
        another connection, their answers come first.
        """
        try:
            await self._writer.prepare(self._partition)
            payload = await self._compressed(batch)
            connection = await self._writer.connection(self._partition, anew=False)
        except _NotNow:
            await self._recover()
            self._again.append(self._queue.popleft())
            return
        if self._under_way and (connection is not self._connection or self._has_failure()):
            await self._recover()
            return
        self._connection = connection
        self._queue.popleft()
        self._give_sequence(batch)
        sending = self._sent(connection, batch, payload)
        self._under_way.append((batch, asyncio.get_running_loop().create_task(sending)))
        # The task writes its request before it waits: the next one's comes after it.
        await asyncio.sleep(0)

    def _has_failure(self) -> bool:
        """Whether a batch under way has an answer that is not good."""
        return any(sending.done() and sending.exception() is not None for _, sending in self._under_way)

    async def _await_oldest(self) -> None:
        batch, sending = self._under_way[0]
        try:
            base_offset = await sending
        except _NotNow:
            await self._recover()
            return
        except ClusterError:
            self._under_way.popleft()
            self._writer.release(batch)
            raise
        self._under_way.popleft()
        self._acknowledged(batch, base_offset)

    def _acknowledged(self, batch: Batch, base_offset: int) -> None:
        self._most_in_flight = MAX_IN_FLIGHT
        self._writer.acknowledged(batch, base_offset)

    async def _recover(self) -> None:
        """Wait for all answers under way; the batches without a good one have to be sent again."""
        while self._under_way:
            batch, sending = self._under_way[0]
            try:
                base_offset = await sending
            except (_NotNow, ClusterError):
                # Behind a batch that is missing the broker refuses for that reason alone: all are sent again.
                self._again.append(batch)
            else:
                self._acknowledged(batch, base_offset)
            self._under_way.popleft()
        self._learn_anew = True

    # -- after a failure ---------------------------------------------------------------------------------

    async def _send_again(self) -> None:
        """Send the first batch that was not acknowledged, until it is; then the task goes on with the
        next.
        """
        batch = self._again[0]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._writer.settings.delivery_timeout_ms / 1_000
        pause = FIRST_PAUSE_SECONDS
        while not self._writer.failed:
            try:
                await self._writer.prepare(self._partition)
                payload = await self._compressed(batch)
                connection = await self._writer.connection(self._partition, anew=self._learn_anew)
                self._learn_anew = False
                self._give_sequence(batch)
                base_offset = await self._sent(connection, batch, payload)
            except _TooLarge:
                self._again.popleft()
                self._again.extendleft(reversed(batch.halves()))
                return
            except _NotNow as passing:
                self._learn_anew = True
                if loop.time() + pause > deadline:
                    raise ClusterError(
                        f"{self._partition}: not written within "
                        f"{self._writer.settings.delivery_timeout_ms} ms: {passing}",
                        passing.problem.code,
                    ) from None
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                self._again.popleft()
                self._acknowledged(batch, base_offset)
                return

    async def _await_all(self) -> None:
        """Wait for the answers under way, and count those that are good: they are written."""
        while self._under_way:
            batch, sending = self._under_way.popleft()
            try:
                self._writer.acknowledged(batch, await sending)
            except (_NotNow, ClusterError):
                self._writer.release(batch)

    # -- one batch ---------------------------------------------------------------------------------------

    def _give_sequence(self, batch: Batch) -> None:
        if self._writer.identity is not None and batch.base_sequence == NO_SEQUENCE:
            batch.base_sequence = self._next_sequence
            self._next_sequence = increment_sequence(self._next_sequence, batch.count)

    async def _compressed(self, batch: Batch) -> bytes:
        codec, level = self._writer.settings.codec, self._writer.settings.level
        if codec is Codec.NONE:
            return batch.compressed(codec)
        # the codecs let other threads run
        return await asyncio.to_thread(batch.compressed, codec, level)

    async def _sent(self, connection: NodeConnection, batch: Batch, payload: bytes) -> int:
        """Send a batch; its first offset, -1 if the broker does not say. Raises _NotNow, _TooLarge,
        ClusterError.
        """
        writer = self._writer
        settings = writer.settings
        records = batch.encoded(payload, settings.codec, writer.identity)
        request = ProduceRequest(
            transactional_id=writer.transactional_id,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self._partition.topic,
                    partition_data=[PartitionProduceData(index=self._partition.partition, records=records)],
                )
            ],
        )
        version = min(connection.versions.get(ApiKey.PRODUCE, (0, 0))[1], NEWEST_PRODUCE_VERSION)
        try:
            if settings.acks == 0:
                connection.tell(ApiKey.PRODUCE, version, request)
                await connection.drained()
                return -1
            async with asyncio.timeout(settings.request_timeout_ms / 1_000):
                response: ProduceResponse = await connection.ask(ApiKey.PRODUCE, version, request)
        except TimeoutError:
            connection.hang_up()
            raise _NotNow(ClusterError(f"the leader of {self._partition} does not answer in time")) from None
        except (ConnectionLost, OSError, ProtocolError) as problem:
            raise _NotNow(ClusterError(f"the leader of {self._partition} is gone: {problem}")) from None
        answer = response.responses[0].partition_responses[0]
        return self._judged(batch, answer)

    def _judged(self, batch: Batch, answer: PartitionProduceResponse) -> int:
        code = ErrorCode(answer.error_code)
        if code in _WRITTEN:
            return answer.base_offset if code is ErrorCode.NONE else -1
        lost = self._writer.lost_transaction(code)
        if lost is not None:
            raise lost
        if code in _TOO_LARGE and batch.count > 1:
            raise _TooLarge(ClusterError("the batch is too large", code))
        if code.retriable:
            raise _NotNow(ClusterError(f"{self._partition}: {code.message} ({code.name})", code))
        at = answer.record_errors[0].batch_index if answer.record_errors else 0
        told = answer.record_errors[0].batch_index_error_message if answer.record_errors else None
        reason = told or answer.error_message or code.message
        source = batch.sources[at] if at < batch.count else batch.sources[0]
        raise RecordRefused(f"{self._partition}: {reason} ({code.name})", code, source, self._partition)
