"""The partitions that this broker holds: opened, followed through the metadata, appended to and read.

Theory of operation. The metadata log says which partitions exist; this module makes the disk agree, never
the other way round. A topic is in the metadata before its directory exists, and gone from it before its
directory is renamed for deletion, so a kill -9 anywhere leaves either a directory to be made at the next
start or one to be removed.

Everything here runs on the event loop; only fsync, deletion of files and checkpoints go to a thread.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.log_cleaner import LogCleaner
from ottla.broker.log_manager import LogManager
from ottla.broker.partition import Partition
from ottla.core.coordination.api import ProducerStamp
from ottla.core.metadata import broker_settings, topic_settings
from ottla.core.metadata.config_layers import TopicConfig
from ottla.core.metadata.image import MetadataDelta, PartitionImage, TopicImage
from ottla.core.replica.leader import PartitionLeader
from ottla.protocol.batch_validation import BatchRules, validate_produced
from ottla.protocol.compression import Codec
from ottla.protocol.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.record_batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
)
from ottla.protocol.schema import Buffer
from ottla.storage.log import LogConfig
from ottla.storage.log_directory import LogDirectory
from ottla.storage.producer_states import Verification

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.supervisor import Supervisor

log = logging.getLogger("ottla.broker")

GROUP_TOPIC = "__consumer_offsets"
#: topic -> the broker's attribute that coordinates what is in it
COORDINATORS = {
    GROUP_TOPIC: "groups",
    "__transaction_state": "transactions",
    "__share_group_state": "share_coordinator",
}
NO_TIMESTAMP = -1


class Appended(NamedTuple):
    """Where a produced batch landed (offsets of the first append, if this one is a duplicate)."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class CheckedBatch(NamedTuple):
    """A produced batch that was checked apart from its append, and when."""

    header: BatchHeader
    batch: memoryview
    now_ms: int


class ReplicaManager:
    """All partitions with a replica on this broker."""

    def __init__(self, broker: Broker, directory: LogDirectory) -> None:
        self._broker = broker
        self._logs = LogManager(broker, directory)
        self.cleaner = LogCleaner(broker, directory, self.partitions)
        self._partitions: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[uuid.UUID, dict[int, Partition]] = {}
        self._rules: dict[str, BatchRules] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._heavy_check = asyncio.Semaphore(1)
        self.fetch_max_bytes = broker.config[broker_settings.FETCH_MAX_BYTES]
        self.verifies_transactions: bool = broker.config[
            broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE
        ]

    # -- look-up ------------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """The partition as its leader. Raises UnknownTopicOrPartition or NotLeaderOrFollower."""
        try:
            return self._partitions[topic][index]
        except KeyError:
            pass
        known = self._broker.image.topics.get(topic)
        if known is None or index not in known.partitions:
            raise UnknownTopicOrPartition()
        raise NotLeaderOrFollower()

    def partition_by_id(self, topic_id: uuid.UUID, index: int) -> Partition:
        """Like `partition`. Raises UnknownTopicId when no topic has that id."""
        try:
            return self._by_id[topic_id][index]
        except KeyError:
            pass
        known = self._broker.image.topics_by_id.get(topic_id)
        if known is None:
            raise UnknownTopicId()
        return self.partition(known.name, index)

    def partitions(self) -> Iterator[Partition]:
        """Every partition held here."""
        for by_index in self._partitions.values():
            yield from by_index.values()

    @staticmethod
    def check_leader_epoch(partition: Partition, leader_epoch: int) -> None:
        """KIP-320. Raises FencedLeaderEpoch or UnknownLeaderEpoch; -1 is not checked."""
        if leader_epoch < 0 or leader_epoch == partition.leader.leader_epoch:
            return
        if leader_epoch < partition.leader.leader_epoch:
            raise FencedLeaderEpoch()
        raise UnknownLeaderEpoch()

    @staticmethod
    def end_offset_for_epoch(partition: Partition, leader_epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `leader_epoch`, its end offset); (-1, -1) when there is none."""
        if leader_epoch == partition.leader.leader_epoch:
            return leader_epoch, partition.log.log_end_offset
        return partition.log.end_offset_for_epoch(leader_epoch)

    # -- append and read ----------------------------------------------------------------------------

    def append_produced(
        self,
        partition: Partition,
        records: Buffer | None,
        *,
        zstd_allowed: bool = True,
        verification: Verification | None = None,
        checked: CheckedBatch | None = None,
    ) -> Appended:
        """Check one produced batch and append it.

        `verification` is the one that the coordinator has confirmed, for a batch that begins a transaction in
        the partition; `checked` is what `check_produced` made of it. Raises KafkaError for what the client
        did wrong, ProtocolError for a corrupt batch, OSError when the disk refuses; HeavyBatch for one that
        `check_produced` should check first.
        """
        now_ms = self._broker.now_ms()
        rules = self._rules[partition.topic]
        if checked is None:
            header, batch = validate_produced(records, rules, now_ms, zstd_allowed=zstd_allowed, on_loop=True)
        else:
            header, batch, now_ms = checked
        if header.producer_id >= 0:
            duplicate = partition.log.producers.check(
                header, verification, must_verify=self.verifies_transactions
            )
            if duplicate is not None:
                return Appended(duplicate.base_offset, duplicate.timestamp, partition.log.log_start_offset)
        result = partition.append(batch, (header,), now_ms)
        if result.rolled or result.flush_due:
            self._logs.flush_soon()
        append_time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
        return Appended(result.base_offset, append_time_ms, partition.log.log_start_offset)

    async def check_produced(
        self, partition: Partition, records: Buffer, *, zstd_allowed: bool
    ) -> CheckedBatch:
        """Check a batch that would hold the event loop for too long in a thread, one at a time.

        `records` must not change meanwhile. Raises as `append_produced`. The order of a connection's batches
        stays: it has one request under way.
        """
        rules = self._rules[partition.topic]
        async with self._heavy_check:
            now_ms = self._broker.now_ms()
            header, batch = await asyncio.to_thread(
                validate_produced, records, rules, now_ms, zstd_allowed=zstd_allowed
            )
        return CheckedBatch(header, batch, now_ms)

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

        Raises UnknownTopicOrPartition, NotLeaderOrFollower, InvalidProducerEpoch,
        TransactionCoordinatorFenced, or OSError when the disk refuses.
        """
        partition = self.partition(topic, index)
        partition.log.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        now_ms = self._broker.now_ms()
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
        result = partition.append(batch, (parse_batch_header(batch),), now_ms)
        if result.rolled or result.flush_due:
            self._logs.flush_soon()
        if topic == GROUP_TOPIC:
            self._broker.groups.on_transaction_end(
                index, result.base_offset, producer_id, producer_epoch, committed
            )
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
        NotLeaderOrFollower, InvalidProducerEpoch, InvalidTxnState, or OSError when the disk refuses.
        """
        partition = self.partition(topic, index)
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
                must_verify=self.verifies_transactions,
            )
        return partition.append(batch, (header,), self._broker.now_ms()).base_offset

    def iterate_batches(self, topic: str, index: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The committed batches of a partition with their records, control batches too."""
        partition = self.partition(topic, index)
        for header, batch in partition.log.iterate_batches(partition.log.log_start_offset):
            if header.base_offset >= partition.high_watermark:
                return
            yield header, decode_records(batch)

    # -- metadata -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open every log that the metadata assigns here; move aside directories that it does not know."""
        image = self._broker.image
        self._logs.set_strays_aside(image)
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                self._follow(topic, partition)

    async def elect_all(self) -> None:
        """Let the coordinators take the partitions of their topics that this broker leads."""
        for topic in COORDINATORS:
            coordinator = self._coordinator_of(topic)
            for index, partition in sorted(self._partitions.get(topic, {}).items()):
                coordinator.on_elected(index, partition.leader.leader_epoch)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Make the partitions follow committed metadata. Called by the controller after each change."""
        image = self._broker.image
        for topic_id, name in delta.deleted_topics:
            self._drop(topic_id, name)
        if delta.deleted_topics:
            self._broker.groups.on_topics_deleted(delta.deleted_topics)
            self._broker.share_coordinator.on_topics_deleted(delta.deleted_topics)
        for topic_id, index in delta.changed_partitions:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                self._follow(topic, topic.partitions[index])
        for name in delta.changed_topic_configs:
            self._configure(name)
        if delta.broker_configs_changed:
            self.fetch_max_bytes = self._broker.config[broker_settings.FETCH_MAX_BYTES]
            self.verifies_transactions = self._broker.config[
                broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE
            ]
            for name in list(self._partitions):
                self._configure(name)

    def _follow(self, topic: TopicImage, image: PartitionImage) -> None:
        """Hold the partition if it has a replica here, and lead it if the metadata says so."""
        if self._broker.node_id not in image.replicas:
            return
        held = self._partitions.get(topic.name, {}).get(image.partition_id)
        if held is not None:
            if held.leader.leader_epoch != image.leader_epoch:
                held.lead(self._lead(held.log.log_end_offset, held.high_watermark, image))
                self._elected(topic.name, image)
            return
        if topic.name not in self._log_configs:
            self._configure(topic.name)
        self.cleaner.before_opening(
            topic.name, image.partition_id, self._logs.path(topic.name, image.partition_id)
        )
        stored = self._logs.open_or_create(topic, image.partition_id, self._log_configs[topic.name])
        end = stored.log_end_offset
        committed = min(end, self._logs.checkpointed_high_watermark(topic.name, image.partition_id))
        partition = Partition(
            self._broker.loop,
            topic.name,
            image.partition_id,
            topic.topic_id,
            stored,
            self._lead(end, committed, image),
        )
        self._partitions.setdefault(topic.name, {})[image.partition_id] = partition
        self._by_id.setdefault(topic.topic_id, {})[image.partition_id] = partition
        self._elected(topic.name, image)

    def _lead(self, log_end_offset: int, high_watermark: int, image: PartitionImage) -> PartitionLeader:
        return PartitionLeader(
            local_id=self._broker.node_id,
            leader_epoch=image.leader_epoch,
            isr=image.isr,
            log_end_offset=log_end_offset,
            high_watermark=high_watermark,
        )

    def _elected(self, topic: str, image: PartitionImage) -> None:
        coordinator = self._coordinator_of(topic)
        if coordinator is not None:  # not there yet while the broker starts, see elect_all
            coordinator.on_elected(image.partition_id, image.leader_epoch)

    def _coordinator_of(self, topic: str) -> Any:
        """Who coordinates what is in the partitions of a coordinator's topic; None for other topics."""
        name = COORDINATORS.get(topic)
        return None if name is None else getattr(self._broker, name, None)

    def _drop(self, topic_id: uuid.UUID, name: str) -> None:
        by_index = self._by_id.pop(topic_id, {})
        self._partitions.pop(name, None)
        self._rules.pop(name, None)
        self._log_configs.pop(name, None)
        for partition in by_index.values():
            if name in COORDINATORS:
                self._coordinator_of(name).on_resigned(partition.index)
            self.cleaner.on_deleted(name, partition.index)
            self._logs.delete(partition.log)
            partition.wake_all()

    def _configure(self, topic: str) -> None:
        """Take over a topic's settings: rules for produced batches, limits of its logs."""
        config = self._broker.config.for_topic(topic, self._broker.image)
        codec, level = _compression(config)
        self._rules[topic] = BatchRules(
            max_message_bytes=config[topic_settings.MAX_MESSAGE_BYTES],
            compacted="compact" in config[topic_settings.CLEANUP_POLICY],
            log_append_time=config[topic_settings.MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime",
            timestamp_before_max_ms=config[topic_settings.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
            timestamp_after_max_ms=config[topic_settings.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
            codec=codec,
            codec_level=level,
        )
        log_config = self._log_configs[topic] = self._logs.log_config(config)
        for partition in self._partitions.get(topic, {}).values():
            partition.log.update_config(log_config)

    # -- background work ----------------------------------------------------------------------------

    def start_background_work(self, supervisor: Supervisor) -> None:
        """Retention, flushing and checkpoints, each as a task of the supervisor."""
        self._logs.start_background_work(
            supervisor, lambda: [(each.log, each.high_watermark) for each in self.partitions()]
        )
        self.cleaner.start(supervisor)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write where every log starts; durable when this returns."""
        await self._logs.checkpoint_offsets()

    async def close(self) -> None:
        """Flush and close every log and write the checkpoints, so that the next start trusts them."""
        committed = {(each.topic, each.index): each.high_watermark for each in self.partitions()}
        await asyncio.to_thread(self._logs.close, committed)


def _compression(config: TopicConfig) -> tuple[Codec | None, int | None]:
    """The codec that a topic insists on with its level; None keeps what the producer sent."""
    match config[topic_settings.COMPRESSION_TYPE]:
        case "uncompressed":
            return Codec.NONE, None
        case "gzip":
            return Codec.GZIP, config[topic_settings.COMPRESSION_GZIP_LEVEL]
        case "snappy":
            return Codec.SNAPPY, None
        case "lz4":
            return Codec.LZ4, config[topic_settings.COMPRESSION_LZ4_LEVEL]
        case "zstd":
            return Codec.ZSTD, config[topic_settings.COMPRESSION_ZSTD_LEVEL]
        case _:
            return None, None
