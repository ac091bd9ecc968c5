"""The one partition of the audit log, whether this broker leads it or another one does.

Its leader is looked up anew for each call. Calls raise KafkaError, ProtocolError, PeerUnreachable,
StorageError or OSError for failures, all of which may pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.config import AUDIT_LOG_REPLICATION_FACTOR
from ottla.broker.controller.topic_creation import create_internal_topic
from ottla.broker.peers.broker_requests import address_of_broker
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.peers.remote_log import EARLIEST, LATEST, RemoteLog
from ottla.broker.replication.own_batches import append_committed
from ottla.broker.replication.produced_appends import ACKS_ALL
from ottla.core.decisions.topic_names import ADMIN_CLIENT_ID, AUDIT_TOPIC
from ottla.core.settings import broker_settings
from ottla.protocol.errors import LeaderNotAvailable, UnknownServerError, error_class
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.protocol.record_batch import BatchHeader, Record, decode_records

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.broker.audit.node import AuditNode
    from ottla.protocol.schema import Message

PARTITION: Final = 0
PURPOSE: Final = "audit-log"
SETTLING_SECONDS: Final = 10.0
"""A node that starts waits so long for as many brokers as the topic has replicas."""
_ANY_TIMEOUT_MS: Final = 1_000


class _Led(NamedTuple):
    """The topic as the metadata has it, and its leader."""

    topic_id: UUID
    leader_id: int
    is_here: bool


class AuditPartition:
    """See the module's text. Used on the event loop only."""

    def __init__(self, node: AuditNode) -> None:
        self._node = node
        self._made_at = node.loop.time()

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id, None while there is none."""
        topic = self._node.image.topics.get(AUDIT_TOPIC)
        return None if topic is None else topic.topic_id

    async def make_topic(self) -> None:
        """Create the topic unless it is there.

        Raises LeaderNotAvailable while brokers that may get a replica are still starting: the topic would
        stay with too few.
        """
        node = self._node
        wanted = node.config[AUDIT_LOG_REPLICATION_FACTOR] if node.config.reaches_nodes else 1
        there = sum(not each.fenced for each in node.image.brokers.values())
        if there < wanted and node.loop.time() < self._made_at + SETTLING_SECONDS:
            raise LeaderNotAvailable(f"{there} of {wanted} brokers are there for the topic's replicas")
        await create_internal_topic(node, AUDIT_TOPIC)

    async def produce(self, batch: bytes) -> int:
        """The base offset of a batch once it is committed. One that comes again is appended once."""
        node, led = self._node, self._led()
        timeout_ms = node.config[broker_settings.REQUEST_TIMEOUT_MS]
        if led.is_here:
            return await append_committed(node, led.topic_id, PARTITION, batch, timeout_ms)
        data = PartitionProduceData(index=PARTITION, records=batch)
        topic = TopicProduceData(name=AUDIT_TOPIC, topic_id=led.topic_id, partition_data=[data])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=timeout_ms, topic_data=[topic])
        # The other broker may take the whole time for its replicas.
        answer = await self._ask(led.leader_id, request, 2 * timeout_ms)
        assert isinstance(answer, ProduceResponse)
        for each in answer.responses:
            for outcome in each.partition_responses:
                if outcome.error_code:
                    raise error_class(outcome.error_code)(outcome.error_message or "")
                return outcome.base_offset
        raise UnknownServerError("the leader's answer lacks the partition")

    async def new_producer_id(self) -> int:
        """A producer id that no producer has."""
        node, led = self._node, self._led()
        if node.config.is_broker:
            return await node.producer_ids.next_id()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_ANY_TIMEOUT_MS)
        timeout_ms = node.config[broker_settings.REQUEST_TIMEOUT_MS]
        answer = await self._ask(led.leader_id, request, timeout_ms)
        assert isinstance(answer, InitProducerIdResponse)
        if answer.error_code:
            raise error_class(answer.error_code)()
        return answer.producer_id

    async def offsets(self) -> tuple[int, int]:
        """The partition's start, and the end of what is committed."""
        node, led = self._node, self._led()
        if led.is_here:
            await node.internal_appends.until_committed(AUDIT_TOPIC, PARTITION)
            partition = node.partitions.partition(AUDIT_TOPIC, PARTITION)
            return partition.log.log_start_offset, partition.high_watermark
        remote = RemoteLog(node, PURPOSE, led.leader_id, AUDIT_TOPIC, PARTITION)
        end_offset = await remote.offset_at(LATEST)
        return await remote.offset_at(EARLIEST), end_offset

    async def batches(
        self, start_offset: int, end_offset: int
    ) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """The batches with these committed offsets; the first may begin earlier, the last end later."""
        node, led = self._node, self._led()
        if not led.is_here:
            remote = RemoteLog(node, PURPOSE, led.leader_id, AUDIT_TOPIC, PARTITION)
            async for header, records in remote.batches(start_offset, end_offset):
                yield header, records
            return
        partition = node.partitions.partition(AUDIT_TOPIC, PARTITION)
        for header, batch in partition.log.iterate_batches(start_offset):
            if header.base_offset >= end_offset:
                return
            yield header, decode_records(batch)
            await asyncio.sleep(0)  # a long log must not hold others up

    def _led(self) -> _Led:
        node = self._node
        topic = node.image.topics.get(AUDIT_TOPIC)
        if topic is None:
            raise LeaderNotAvailable(f"topic {AUDIT_TOPIC} does not exist")
        leader_id = topic.partitions[PARTITION].leader
        if leader_id < 0:
            raise LeaderNotAvailable(f"{AUDIT_TOPIC}-{PARTITION} has no leader")
        return _Led(topic.topic_id, leader_id, node.config.is_broker and leader_id == node.node_id)

    async def _ask(self, leader_id: int, request: Message, timeout_ms: int) -> Message:
        address = address_of_broker(self._node, leader_id)
        if address is None:
            raise PeerUnreachable(f"broker {leader_id} is not there")
        return await self._node.peers.ask(
            f"{PURPOSE}-writing", address, request, timeout_ms=timeout_ms, client_id=ADMIN_CLIENT_ID
        )
