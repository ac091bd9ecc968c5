"""The topic `_schemas`: made or checked at start, read from its beginning, written by the primary alone.

Theory of operation. Whoever becomes the primary opens a transactional producer under an id that all instances
of the registry share. That fences the primary before it, whatever it still believes: its transaction is
aborted, and no later write of it is accepted. Then the new one writes a NOOP and reads until it sees it. Now
its image holds every record there is, and only it can add more: decisions made from the image (the next id
above all) are safe. The records of a decision are one transaction, so a kill between any two writes leaves
all of them or none; and as readers read committed records alone, nobody sees the half. A write whose end is
not known (no answer in time) closes the producer: the next write begins by fencing and reading again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ottla.services.kafka_access import KafkaAccess
from ottla.services.registry.records import Record, noop
from ottla.services.registry.writer import Writer, append_noop
from ottla.services.web.errors import ServiceError

log = logging.getLogger("ottla.registry")

ADMIN_SECONDS: Final = 30
POLL_MS: Final = 1_000
POLL_RECORDS: Final = 1_000
"""Replayed in one go on the event loop: some milliseconds."""


class SchemasTopic:
    """The topic on a cluster. `on_record` gets key, value and timestamp (ms) of each record, in order."""

    def __init__(
        self,
        access: KafkaAccess,
        topic: str,
        writers_id: str,
        timeout_ms: int,
        on_record: Callable[[bytes, bytes | None, int], None],
    ) -> None:
        self._access = access
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._writers_id = writers_id
        self._timeout_ms = timeout_ms
        self._on_record = on_record
        self._applied_offset = -1
        self._moved = asyncio.Condition()
        self.standstill = asyncio.Lock()
        """Held while the image is read in a thread: nothing is replayed meanwhile."""
        self._writer: Writer | None = None

    @property
    def applied_offset(self) -> int:
        """The offset of the last record that was read."""
        return self._applied_offset

    # -- at start -------------------------------------------------------------------------------------

    async def prepare(self, replication_factor: int) -> str:
        """Make the topic or check it; returns the cluster's id. Raises ServiceError."""
        admin = AdminClient(self._access.confluent({"client.id": "ottla-registry", "log_level": 2}))
        try:
            cluster = await asyncio.wrap_future(admin.describe_cluster(request_timeout=ADMIN_SECONDS))
            if await self._create(admin, min(replication_factor, len(cluster.nodes))):
                return str(cluster.cluster_id)
            await self._check(admin)
            return str(cluster.cluster_id)
        except KafkaException as problem:
            raise ServiceError(f"topic {self._topic} at {self._access.bootstrap}: {_told(problem)}") from None

    async def _create(self, admin: AdminClient, replication_factor: int) -> bool:
        """Whether it was this call that made it."""
        wanted = NewTopic(self._topic, 1, replication_factor, config={"cleanup.policy": "compact"})
        future = admin.create_topics([wanted], request_timeout=ADMIN_SECONDS)[self._topic]
        try:
            await asyncio.wrap_future(future)
        except KafkaException as problem:
            if problem.args[0].name() == "TOPIC_ALREADY_EXISTS":
                return False
            raise
        log.info("made topic %s with %d replicas", self._topic, replication_factor)
        return True

    async def _check(self, admin: AdminClient) -> None:
        metadata = await asyncio.to_thread(admin.list_topics, self._topic, ADMIN_SECONDS)
        partitions = len(metadata.topics[self._topic].partitions)
        if partitions != 1:
            raise ServiceError(
                f"topic {self._topic} has {partitions} partitions: schemas need the order of a single one"
            )
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        configs = await asyncio.wrap_future(
            admin.describe_configs([resource], request_timeout=ADMIN_SECONDS)[resource]
        )
        policy = configs["cleanup.policy"].value
        if policy != "compact":
            raise ServiceError(
                f"topic {self._topic} has cleanup.policy={policy}, which loses schemas: set it to compact"
            )

    # -- reading --------------------------------------------------------------------------------------

    async def read(self) -> None:
        """Read for ever. Raises KafkaError when that can't go on."""
        consumer = AIOKafkaConsumer(
            **self._access.aiokafka(),
            client_id="ottla-registry",
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_wait_ms=POLL_MS,
        )
        await consumer.start()
        try:
            consumer.assign([self._partition])
            await consumer.seek_to_beginning(self._partition)
            while True:
                found = await consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
                await self._apply(found.get(self._partition, ()))
        finally:
            await consumer.stop()

    async def _apply(self, records: Sequence[Any]) -> None:
        if not records:
            return
        async with self.standstill:
            self._replay(records)
        async with self._moved:
            self._moved.notify_all()

    def _replay(self, records: Sequence[Any]) -> None:
        for record in records:
            self._on_record(record.key or b"", record.value, record.timestamp)
        self._applied_offset = records[-1].offset

    async def wait_until_applied(self, offset: int) -> None:
        """Wait until the record at `offset` was read."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._applied_offset >= offset)

    async def read_to_end(self) -> None:
        """Add a NOOP, as an instance that is not the primary may, and read it. Raises Unstored."""
        offset = await asyncio.to_thread(append_noop, self._access, self._topic, self._timeout_ms)
        await self.wait_until_applied(offset)

    # -- writing, on the primary ------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether `take_over` was done and no write has failed since."""
        return self._writer is not None

    async def take_over(self) -> None:
        """Fence who wrote before, and read all that it wrote. Raises Fenced, Unstored."""
        self._writer = None
        self._writer = await asyncio.to_thread(
            Writer, self._access, self._topic, self._writers_id, self._timeout_ms
        )
        await self.append([noop()])

    async def append(self, records: Sequence[Record]) -> None:
        """Store records, all or none, and wait until they were read. Raises Fenced, TooLarge, Unstored.

        Where it raises, or is cancelled, whether they were stored may not be known: `take_over` comes next. A
        thread that still waits for the cluster then is fenced by it, or was in time to be read.
        """
        writer, self._writer = self._writer, None
        assert writer is not None, "take_over comes first"
        offset = await asyncio.to_thread(writer.append, records, self._timeout_ms)
        await self.wait_until_applied(offset)
        self._writer = writer


def _told(problem: KafkaException) -> str:
    error = problem.args[0]
    return str(error.str() if hasattr(error, "str") else error)
