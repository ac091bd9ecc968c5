"""Appends a batch that this broker has made to a partition that it leads, by the rules for producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.replication.produced_appends import ACKS_ALL, Uncommitted
from ottla.protocol.batch_validation import HeavyBatch
from ottla.protocol.errors import ErrorCode, error_class

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.produced_appends import ProducedAppends


class OwnBatchesNode(Protocol):
    """The members of a node that appends of its own batches use."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def produced_appends(self) -> ProducedAppends:
        """Appends of producers' batches."""
        ...


async def append_committed(
    node: OwnBatchesNode, topic_id: UUID, index: int, batch: bytes, timeout_ms: int
) -> int:
    """The batch's base offset once it is committed. Raises KafkaError, ProtocolError, or OSError."""
    records = memoryview(bytearray(batch))
    partition = node.partitions.partition_by_id(topic_id, index)
    try:
        appended = node.produced_appends.append_produced(partition, records, acks=ACKS_ALL)
    except HeavyBatch:
        checked = await node.produced_appends.check_produced(partition, records, zstd_allowed=True)
        partition = node.partitions.partition_by_id(topic_id, index)
        appended = node.produced_appends.append_produced(partition, records, acks=ACKS_ALL, checked=checked)
    if isinstance(appended, Uncommitted):
        code = await appended.partition.committed(appended.end_offset, timeout_ms)
        if code is not ErrorCode.NONE:
            raise error_class(code)()
        appended = appended.appended
    return appended.base_offset
