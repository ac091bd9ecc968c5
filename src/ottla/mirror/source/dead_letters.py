"""Records that the target does not take: a topic of their own, with Connect's headers that tell why.

The topic takes larger records than others, as far as its brokers allow that. A letter is part of the
transaction that passes over its record.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.admin.topics import CreatedTopic, NewTopic, create_topics, settled
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.batches import Gathering, OutgoingBatch
from ottla.connect.host.dead_letters import PREFIX
from ottla.connect.host.errors import CONNECT_EXCEPTION, SOURCE_TASK
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import NewRecord, Record

MAX_MESSAGE_BYTES: Final = 100 << 20
ENVELOPE_BYTES: Final = 4 << 10

_log = logging.getLogger("ottla.mirror")


class DeadLetters:
    """Makes letters for one topic on the target, which is made when it is first needed."""

    def __init__(self, topic: str, replicas: int, admin: ClusterAccess, connector: str, task: int) -> None:
        self.topic: Final = topic
        self._replicas = replicas
        self._admin = admin
        self._connector = connector
        self._task = task
        self._is_there = False

    async def letter(self, origin: TopicPartition, record: Record, problem: ClusterError) -> OutgoingBatch:
        """The letter for a record, to be added to the records' own transaction. Raises ClusterError."""
        await self._ensure()
        texts = {
            "topic": origin.topic,
            "partition": str(origin.partition),
            "offset": str(record.offset),
            "connector.name": self._connector,
            "task.id": str(self._task),
            "stage": "KAFKA_PRODUCE",
            "class.name": SOURCE_TASK,
            "exception.class.name": CONNECT_EXCEPTION,
            "exception.message": str(problem),
        }
        headers = [*record.headers, *((f"{PREFIX}{name}", text.encode()) for name, text in texts.items())]
        gathering = Gathering(TopicPartition(self.topic, 0))
        gathering.add(NewRecord(record.key, record.value, record.timestamp, tuple(headers)), record.offset)
        _log.warning(
            "the record at offset %d of %s goes to the dead letters in %s: %s",
            record.offset,
            origin,
            self.topic,
            problem,
        )
        return gathering.close()

    async def _ensure(self) -> None:
        if self._is_there:
            return
        cluster = ClusterRequests(self._admin)
        try:
            new = NewTopic(
                self.topic, 1, self._replicas, configs={"max.message.bytes": str(MAX_MESSAGE_BYTES)}
            )
            made = (await create_topics(cluster, [new]))[self.topic]
            if isinstance(made, CreatedTopic):
                await settled(cluster, {self.topic: 1})
            elif made.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise made
            self._is_there = True
        finally:
            await cluster.close()
