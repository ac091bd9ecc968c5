"""The sessions' records: a compacted topic, each of whose partitions (a shard) has one writer at a time.

Theory of operation. The key of a record is the client's identifier, which decides its partition as Kafka's
clients do; its value is the state (core/session_state.py), or none for a session that is over. Each shard
has a transactional id, which fences the copy that had it before: `own` fences, and reads what is there then.
So nothing is missed that the other copy was told is stored, and nothing of it comes later. Writes wait for
each other: what comes while a transaction is under way is the next one, and of several states of a session
the last counts. A write that fails, by a fence or a cluster that is away, loses the shard: `on_lost` is
called, and all that was known of its sessions has to be read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClusterError
from ottla.client.reading import read
from ottla.client.records.partitioner import partition_of_key

clients_log = logging.getLogger("ottla.client.mqtt")
log = logging.getLogger("ottla.mqtt")

CLUSTER_SECONDS: Final = 15.0
"""How long each step may wait for the cluster."""
AGAIN_SECONDS: Final = 1.0
TRANSACTION_TIMEOUT_MS: Final = 20_000
CLOSE_SECONDS: Final = 5.0
_SETTINGS: Final[dict[str, Any]] = {
    "linger.ms": 0,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "message.max.bytes": 32 << 20,
    "allow.auto.create.topics": False,
}
_TOPIC_CONFIG: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}

State = bytes | None
"""A session's state; None: it is over."""


class Unstored(Exception):
    """The shard can't be written or read now; what became of the last write is not known."""


class SessionLog:
    """Of one service. shards: of a topic that is not there yet. on_lost: told of a shard that is lost."""

    def __init__(
        self, access: ClusterAccess, topic: str, shards: int, on_lost: Callable[[int], None]
    ) -> None:
        self._access = access
        self._topic = topic
        self._new_shards = shards
        self._on_lost = on_lost
        self._shards: list[_Shard] | None = None
        self._looking = asyncio.Lock()
        self._attempts = _Attempts()

    async def find(self, *, make: bool) -> bool:
        """Find the topic, or make it; whether it is there. Raises Unstored."""
        async with self._looking:
            if self._shards is None:
                count = await self._attempts.of(self._partitions, make)
                if count:
                    self._shards = [
                        _Shard(self._access, self._topic, number, partial(self._on_lost, number))
                        for number in range(count)
                    ]
        return self._shards is not None

    @property
    def shards(self) -> int:
        """How many there are; 0 before they were found."""
        return len(self._shards or ())

    def shard_of(self, client_id: str) -> int:
        """That of a client."""
        return partition_of_key(client_id.encode(), self.shards)

    def owns(self, shard: int) -> bool:
        """Whether the shard is this copy's, as far as is known."""
        assert self._shards is not None, "they were found"
        return self._shards[shard].is_owned

    async def own(self, shard: int) -> Mapping[str, bytes]:
        """Take the shard over; the states that are in it. Raises Unstored."""
        assert self._shards is not None, "they were found"
        return await self._shards[shard].own()

    async def release(self, shard: int) -> None:
        """Store what is to be stored of a shard, and let go of it."""
        assert self._shards is not None, "they were found"
        await self._shards[shard].stop()

    def put(self, client_id: str, state: State) -> None:
        """Store a state, soon."""
        assert self._shards is not None, "they were found"
        self._shards[self.shard_of(client_id)].put(client_id, state)

    async def save(self, client_id: str, state: State) -> None:
        """Store a state. Raises Unstored."""
        assert self._shards is not None, "they were found"
        shard = self._shards[self.shard_of(client_id)]
        shard.put(client_id, state)
        await shard.stored()

    async def stop(self) -> None:
        """Store what is to be stored, and let go of all."""
        await asyncio.gather(*(each.stop() for each in self._shards or ()))

    def _partitions(self, make: bool) -> int:
        """How many partitions the topic has; 0: it is not there. Raises KafkaException."""
        admin = AdminClient(self._access.librdkafka(), logger=clients_log)
        found = admin.list_topics(self._topic, CLUSTER_SECONDS).topics[self._topic]
        if found.partitions:
            return len(found.partitions)
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(found.error)
        if not make:
            return 0
        wanted = NewTopic(self._topic, self._new_shards, -1, config=_TOPIC_CONFIG)
        made = admin.create_topics([wanted], operation_timeout=CLUSTER_SECONDS)[self._topic]
        try:
            made.result(CLUSTER_SECONDS)
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return len(admin.list_topics(self._topic, CLUSTER_SECONDS).topics[self._topic].partitions)


class _Attempts:
    """Tries things that clients wait for in a row: what has just failed fails at once for those behind."""

    def __init__(self) -> None:
        self._failed_at = 0.0
        self._problem: str | None = None

    async def of(self, call: Callable[..., Any], *given: Any) -> Any:
        """See `_in_thread`."""
        loop = asyncio.get_running_loop()
        if self._problem is not None and loop.time() - self._failed_at < AGAIN_SECONDS:
            raise Unstored(self._problem)
        try:
            found = await _in_thread(call, *given)
        except Unstored as problem:
            self._failed_at, self._problem = loop.time(), str(problem)
            raise
        self._problem = None
        return found


class _Shard:
    def __init__(self, access: ClusterAccess, topic: str, number: int, on_lost: Callable[[], None]) -> None:
        self._access = access
        self._topic = topic
        self._number = number
        self._on_lost = on_lost
        self._producer: Producer | None = None
        self._pending: dict[str, State] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._owning = asyncio.Lock()
        self._attempts = _Attempts()

    @property
    def is_owned(self) -> bool:
        return self._producer is not None

    async def own(self) -> Mapping[str, bytes]:
        async with self._owning:
            assert self._producer is None, "it is owned"
            producer = await self._attempts.of(self._fence)
            try:
                states: Mapping[str, bytes] = await self._attempts.of(self._read)
            except BaseException:
                await asyncio.to_thread(producer.close)
                raise
            self._producer = producer
            return states

    def put(self, client_id: str, state: State) -> None:
        if self._producer is None:
            return  # it is lost, and its sessions with it
        self._pending[client_id] = state
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="writing sessions")

    async def stored(self) -> None:
        """Wait for what was put. Raises Unstored."""
        if self._task is None:
            if self._producer is None:
                raise Unstored("another copy has taken the sessions over")
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    async def stop(self) -> None:
        producer, self._producer = self._producer, None
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        if producer is not None:
            await asyncio.to_thread(producer.close)

    async def _write_all(self) -> None:
        producer = self._producer
        assert producer is not None, "it is owned"
        waiting: list[asyncio.Future[None]] = []
        try:
            while self._pending:
                states, self._pending = self._pending, {}
                waiting, self._waiting = self._waiting, []
                await _in_thread(self._write, producer, states)
                for each in waiting:
                    if not each.done():
                        each.set_result(None)
            self._task = None
        except Unstored as problem:
            log.warning("shard %d of %s is lost: %s", self._number, self._topic, problem)
            self._task = None
            if self._producer is producer:
                self._producer = None
            self._pending = {}
            waiting += self._waiting
            self._waiting = []
            for each in waiting:
                if not each.done():
                    each.set_exception(Unstored(str(problem)))
            self._on_lost()
            producer.purge()
            await asyncio.to_thread(producer.close)

    # -- in threads -----------------------------------------------------------------------------------------

    def _fence(self) -> Producer:
        transactional_id = f"{self._topic}-{self._number}"
        producer = Producer(
            self._access.librdkafka({**_SETTINGS, "transactional.id": transactional_id}), logger=clients_log
        )
        producer.init_transactions(CLUSTER_SECONDS)
        return producer

    def _read(self) -> Mapping[str, bytes]:
        consumer = Consumer(
            self._access.librdkafka({"group.id": "ottla-mqtt", "enable.auto.commit": False}),
            logger=clients_log,
        )
        try:
            place = TopicPartition(self._topic, self._number)
            begin, end = consumer.get_watermark_offsets(place, CLUSTER_SECONDS)
        finally:
            consumer.close()
        found: dict[str, bytes] = {}
        for message in read(self._access, self._topic, {self._number: begin}, {self._number: end}):
            key, value = message.key(), message.value()
            name = bytes(key or b"").decode("utf-8", "replace")
            if value is None:
                found.pop(name, None)
            else:
                found[name] = bytes(value)
        return found

    def _write(self, producer: Producer, states: Mapping[str, State]) -> None:
        producer.begin_transaction()
        for client_id, state in states.items():
            producer.produce(self._topic, state, client_id.encode(), partition=self._number)
        producer.commit_transaction(CLUSTER_SECONDS)


async def _in_thread(call: Callable[..., Any], *given: Any) -> Any:
    """What a call of the client returns. Raises Unstored in place of its exceptions."""
    try:
        return await asyncio.to_thread(call, *given)
    except KafkaException as problem:
        raise Unstored(problem.args[0].str()) from problem
    except (ClusterError, BufferError) as problem:
        raise Unstored(str(problem)) from problem
