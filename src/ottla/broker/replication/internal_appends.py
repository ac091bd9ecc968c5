"""Appends this broker's own records (coordinators' states, transactions' markers), and reads them back.

A coordinator keeps its state in a partition that this broker leads. Its records count once they are
committed, and it loads committed records only: no new leader can know less than a coordinator has answered
from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.replication.partition import Partition
from ottla.core.coordination.api import ProducerStamp
from ottla.core.decisions.topic_names import GROUP_TOPIC, SHARE_TOPIC
from ottla.core.settings import broker_settings
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, NotEnoughReplicas, NotLeaderOrFollower, RequestTimedOut
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
    patch_log_append_time,
)
from ottla.storage.log import AppendResult

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.replication_settings import ReplicationSettings

LONG_TIMEOUT_MS = 3_600_000
COMMIT_TIMEOUT_OF = {
    GROUP_TOPIC: broker_settings.OFFSETS_COMMIT_TIMEOUT_MS,
    SHARE_TOPIC: broker_settings.SHARE_COORDINATOR_WRITE_TIMEOUT_MS,
}
"""How long a coordinator's records may wait for their replicas; request.timeout.ms for others."""

#: A marker was appended to a partition at an offset: (partition, offset, producer id and epoch, committed).
OnTransactionEnd = Callable[[int, int, int, int, bool], None]


class InternalAppends:
    """Appends and reads of coordinators and transactions. Used on the event loop only."""

    def __init__(
        self,
        config: BrokerConfig,
        partitions: Partitions,
        settings: ReplicationSettings,
        now_ms: Callable[[], int],
        flush_soon: Callable[[], None],
    ) -> None:
        """`flush_soon` has logs synced that are due."""
        self._config = config
        self._partitions = partitions
        self._settings = settings
        self._now_ms = now_ms
        self._flush_soon = flush_soon
        self._on_transaction_end: Mapping[str, OnTransactionEnd] = {}

    def tell_transaction_ends(self, listeners: Mapping[str, OnTransactionEnd]) -> None:
        """Call the listener of a topic for each marker that is appended to the topic's partitions."""
        self._on_transaction_end = listeners

    def append_end_transaction_marker(
        self,
        topic: str,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        *,
        transaction_version: int,
    ) -> int:
        """End a producer's transaction in a partition; returns the marker's offset.

        It counts once the high watermark has passed. Raises UnknownTopicOrPartition, NotLeaderOrFollower,
        NotEnoughReplicas, InvalidProducerEpoch, TransactionCoordinatorFenced, PolicyViolation for a mirror
        topic, or OSError when the disk refuses.
        """
        partition = self._partition_with_enough_replicas(topic, index)
        self._settings.rules_of(topic)
        partition.log.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        now_ms = self._now_ms()
        batch = memoryview(
            bytearray(
                encode_end_transaction_marker(
                    committed=committed,
                    coordinator_epoch=coordinator_epoch,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    timestamp=now_ms,
                )
            )
        )
        result = self._append(partition, batch, parse_batch_header(batch), now_ms)
        tell = self._on_transaction_end.get(topic)
        if tell is not None:
            tell(index, result.base_offset, producer_id, producer_epoch, committed)
        return result.base_offset

    async def append_records(
        self,
        topic: str,
        index: int,
        records: Sequence[NewRecord],
        *,
        codec: Codec = Codec.NONE,
        producer: ProducerStamp | None = None,
    ) -> int:
        """Append records of this broker's own as one batch; returns its base offset once committed.

        With a `producer` they are part of its transaction. Raises UnknownTopicOrPartition,
        NotLeaderOrFollower, NotEnoughReplicas, InvalidProducerEpoch, InvalidTxnState, or OSError when the
        disk refuses: nothing was written then. RequestTimedOut says that the records are in the log and
        not committed in time.
        """
        partition = self._partition_with_enough_replicas(topic, index)
        if producer is None:
            encoded = encode_batch(records, codec=codec)
        else:
            encoded = encode_batch(
                records,
                codec=codec,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
        batch = memoryview(bytearray(encoded))
        header = parse_batch_header(batch)
        if producer is not None:
            producers = partition.log.producers
            producers.check(
                header,
                producers.confirmed_verification(producer.producer_id),
                must_verify=self._settings.verifies_transactions,
            )
        result = self._append(partition, batch, header, self._now_ms())
        if partition.high_watermark <= result.last_offset:
            setting = COMMIT_TIMEOUT_OF.get(topic, broker_settings.REQUEST_TIMEOUT_MS)
            code = await partition.committed(result.last_offset + 1, self._config[setting])
            if code is not ErrorCode.NONE:
                # NOT_LEADER_OR_FOLLOWER would say that nothing was written.
                raise RequestTimedOut(f"not committed in time: {code.name}")
        return result.base_offset

    def _append(
        self, partition: Partition, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> AppendResult:
        """Append a batch that this broker made; it gets the topic's timestamp type, as a producer's does."""
        if self._settings.rules_of(partition.topic).log_append_time:
            header = patch_log_append_time(batch, 0, header, now_ms)
        result = partition.append(batch, (header,), now_ms)
        if result.rolled or result.flush_due:
            self._flush_soon()
        return result

    def _partition_with_enough_replicas(self, topic: str, index: int) -> Partition:
        partition = self._partitions.partition(topic, index)
        if partition.is_replicated and not partition.leader.has_enough_replicas:
            raise NotEnoughReplicas()
        return partition

    async def until_committed(self, topic: str, index: int) -> None:
        """Wait until all that the partition's log holds now is committed.

        A coordinator loads no earlier: the records that it answers from can't be lost to a new leader then.
        Kafka loads uncommitted records too, and keeps its state in versions instead. Raises KafkaError when
        this broker leads the partition no more.
        """
        partition = self._partitions.partition(topic, index)
        end_offset = partition.log.log_end_offset
        while partition.high_watermark < end_offset:
            code = await partition.committed(end_offset, LONG_TIMEOUT_MS)
            if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise NotLeaderOrFollower()

    def iterate_batches(self, topic: str, index: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The committed batches of a partition with their records, control batches too."""
        partition = self._partitions.partition(topic, index)
        for header, batch in partition.log.iterate_batches(partition.log.log_start_offset):
            if header.base_offset >= partition.high_watermark:
                return
            yield header, decode_records(batch)
