"""The partitions that this broker holds: opened, led or followed as the metadata says, appended to and read.

Theory of operation. The metadata log says which partitions exist, where their replicas are and who leads;
this module makes the disk agree, never the other way round. A topic is in the metadata before its directory
exists, and gone from it before its directory is renamed for deletion, so a kill -9 anywhere leaves either a
directory to be made at the next start or one to be removed.

A broker takes roles only once this life of it is registered (`take_roles`): what the metadata said of an
earlier life, which may have lost its unsynced tails, does not count. A new leader notes its epoch at the end
of its log before it appends anything, so that epochs tell any two logs apart. A follower's tail is compared
with the leader's before anything is appended to it (core/replica). The high watermark is kept on disk every
few seconds; one that is too low costs nothing but time, one that is too high is prevented where logs are cut.

Everything here runs on the event loop; only fsync, deletion of files and checkpoints go to a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.replication.file_work import FileWork
from ottla.broker.replication.in_sync_updates import InSyncUpdates
from ottla.broker.replication.log_cleaner import LogCleaner
from ottla.broker.replication.log_manager import LogManager
from ottla.broker.replication.partition import NO_LEADER, Partition
from ottla.broker.replication.replica_fetcher import ReplicaFetchers
from ottla.broker.replication.replication_quota import ReplicationQuotas
from ottla.broker.replication.schema_validation import SchemaValidation
from ottla.core.coordination.api import ProducerStamp
from ottla.core.image.image import MetadataDelta, PartitionImage, TopicImage
from ottla.core.replica import reading
from ottla.core.replica.follower import PartitionFollower
from ottla.core.replica.leader import FetcherTimes, InSyncUpdate, PartitionLeader
from ottla.core.settings import broker_settings, topic_settings
from ottla.core.settings.config_layers import TopicConfig
from ottla.protocol.batch_validation import BatchRules, HeavyBatch, validate_produced
from ottla.protocol.compression import Codec
from ottla.protocol.errors import (
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
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
    patch_log_append_time,
)
from ottla.protocol.schema import Buffer
from ottla.storage.errors import PartitionDeleted
from ottla.storage.log import AppendResult, LogConfig
from ottla.storage.log_directory import LogDirectory
from ottla.storage.producer_states import Verification
from ottla.storage.timestamp_search import TimestampedOffset

if TYPE_CHECKING:
    from ottla.broker.replication.node import ReplicasNode
    from ottla.broker.supervisor import Supervisor

log = logging.getLogger("ottla.broker")

GROUP_TOPIC = "__consumer_offsets"
SEARCHES = 2
"""Searches by timestamp at a time: each may hold a batch of 128 MiB."""
NO_TIMESTAMP = -1
ACKS_ALL = -1
RACK_AWARE_SELECTOR = "RackAwareReplicaSelector"
LONG_TIMEOUT_MS = 3_600_000
COMMIT_TIMEOUT_OF = {
    GROUP_TOPIC: broker_settings.OFFSETS_COMMIT_TIMEOUT_MS,
    "__share_group_state": broker_settings.SHARE_COORDINATOR_WRITE_TIMEOUT_MS,
}
"""How long a coordinator's records may wait for their replicas; request.timeout.ms for others."""


class Appended(NamedTuple):
    """Where a produced batch landed (offsets of the first append, if this one is a duplicate)."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Uncommitted(NamedTuple):
    """A produced batch that is not on all replicas that it has to be on."""

    appended: Appended
    partition: Partition
    end_offset: int


class CheckedBatch(NamedTuple):
    """A produced batch that was checked apart from its append, and when."""

    header: BatchHeader
    batch: memoryview
    now_ms: int


class PartitionCoordinator(Protocol):
    """Coordinates what is in the partitions of its topic that are led here."""

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now."""
        ...

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        ...


#: A marker was appended to a partition at an offset: (partition, offset, producer id and epoch, committed).
OnTransactionEnd = Callable[[int, int, int, int, bool], None]
#: Topics are gone: their ids and names.
OnTopicsDeleted = Callable[[Sequence[tuple[uuid.UUID, str]]], None]


class ReplicaManager:
    """All partitions with a replica on this broker."""

    def __init__(self, node: ReplicasNode, directory: LogDirectory) -> None:
        self._node = node
        self._file_work = FileWork()
        self._logs = LogManager(node, directory, self._file_work)
        self.cleaner = LogCleaner(node, directory, self.partitions, self._file_work)
        self.quotas = ReplicationQuotas(node)
        self._fetchers = ReplicaFetchers(node, self._logs, self.cleaner, self.quotas)
        self._updates = InSyncUpdates(node)
        self._partitions: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[uuid.UUID, dict[int, Partition]] = {}
        # What of them is led here, for the look-up of every produce and fetch.
        self._led: dict[str, dict[int, Partition]] = {}
        self._led_by_id: dict[uuid.UUID, dict[int, Partition]] = {}
        self._coordinators: Mapping[str, PartitionCoordinator] = {}
        self._on_transaction_end: Mapping[str, OnTransactionEnd] = {}
        self._on_topics_deleted: Sequence[OnTopicsDeleted] = ()
        self._has_roles = False
        # The one class of Kafka's own that does more than name the leader.
        selector = node.config[broker_settings.REPLICA_SELECTOR_CLASS]
        self._selects_by_rack = (selector or "").rpartition(".")[2] == RACK_AWARE_SELECTOR
        self._rules: dict[str, BatchRules] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._min_insync_replicas: dict[str, int] = {}
        self._heavy_check = asyncio.Semaphore(1)
        self._schemas = SchemaValidation(node.config, self._heavy_check)
        # What topics ask of schemas, for the look-up of every produce: empty where none does.
        self._schema_rules = self._schemas.rules
        self._searches = asyncio.Semaphore(SEARCHES)
        self.fetch_max_bytes = node.config[broker_settings.FETCH_MAX_BYTES]
        self.verifies_transactions: bool = node.config[
            broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE
        ]

    # -- look-up ------------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """The partition as its leader. Raises UnknownTopicOrPartition or NotLeaderOrFollower."""
        try:
            return self._led[topic][index]
        except KeyError:
            pass
        known = self._node.image.topics.get(topic)
        if known is None or index not in known.partitions:
            raise UnknownTopicOrPartition()
        raise NotLeaderOrFollower()

    def partition_by_id(self, topic_id: uuid.UUID, index: int) -> Partition:
        """Like `partition`. Raises UnknownTopicId when no topic has that id."""
        try:
            return self._led_by_id[topic_id][index]
        except KeyError:
            pass
        known = self._node.image.topics_by_id.get(topic_id)
        if known is None:
            raise UnknownTopicId()
        return self.partition(known.name, index)

    def replica(self, topic: str | uuid.UUID, index: int) -> Partition:
        """The partition, led or followed here (KIP-392). Raises as `partition` and `partition_by_id`."""
        by_index = (self._by_id if isinstance(topic, uuid.UUID) else self._partitions).get(topic)  # type: ignore[arg-type]
        held = None if by_index is None else by_index.get(index)
        if held is not None and self._has_roles:
            return held
        if isinstance(topic, uuid.UUID):
            return self.partition_by_id(topic, index)
        return self.partition(topic, index)

    def partitions(self) -> Iterator[Partition]:
        """Every partition held here."""
        for by_index in self._partitions.values():
            yield from by_index.values()

    @staticmethod
    def check_leader_epoch(partition: Partition, leader_epoch: int) -> None:
        """KIP-320. Raises FencedLeaderEpoch or UnknownLeaderEpoch; -1 is not checked."""
        if leader_epoch >= 0:
            reading.check_leader_epoch(partition.leader_epoch, leader_epoch)

    @staticmethod
    def end_offset_for_epoch(partition: Partition, leader_epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `leader_epoch`, its end offset); (-1, -1) when there is none."""
        if partition.is_leader and leader_epoch == partition.leader_epoch:
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
        acks: int = 1,
    ) -> Appended | Uncommitted:
        """Check one produced batch and append it.

        `verification` is the one that the coordinator has confirmed, for a batch that begins a transaction in
        the partition; `checked` is what `check_produced` made of it. Raises KafkaError for what the client
        did wrong, ProtocolError for a corrupt batch, OSError when the disk refuses; HeavyBatch for one that
        `check_produced` should check first.
        """
        if acks == ACKS_ALL and partition.is_replicated and not partition.leader.has_enough_replicas:
            raise NotEnoughReplicas()
        now_ms = self._node.now_ms()
        rules = self._rules[partition.topic]
        if checked is None:
            if self._schema_rules and records and partition.topic in self._schema_rules:
                raise HeavyBatch
            header, batch = validate_produced(records, rules, now_ms, zstd_allowed=zstd_allowed, on_loop=True)
        else:
            header, batch, now_ms = checked
        if header.producer_id >= 0:
            duplicate = partition.log.producers.check(
                header, verification, must_verify=self.verifies_transactions
            )
            if duplicate is not None:
                first = Appended(duplicate.base_offset, duplicate.timestamp, partition.log.log_start_offset)
                if duplicate.last_offset < partition.high_watermark:
                    return first
                return Uncommitted(first, partition, duplicate.last_offset + 1)
        result = self._append(partition, batch, header, now_ms)
        append_time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
        appended = Appended(result.base_offset, append_time_ms, partition.log.log_start_offset)
        if partition.is_replicated and partition.high_watermark <= result.last_offset:
            return Uncommitted(appended, partition, result.last_offset + 1)
        return appended

    async def check_produced(
        self, partition: Partition, records: Buffer, *, zstd_allowed: bool
    ) -> CheckedBatch:
        """Check a batch that would hold the event loop for too long in a thread, one at a time, and one whose
        topic asks for schemas against their registry.

        `records` must not change meanwhile. Raises as `append_produced`. The order of a connection's batches
        stays: it has one request under way.
        """
        rules = self._rules[partition.topic]
        schemas = self._schema_rules.get(partition.topic)
        now_ms = self._node.now_ms()
        checked = None
        if schemas is not None:  # then it need not be heavy
            with contextlib.suppress(HeavyBatch):
                checked = validate_produced(records, rules, now_ms, zstd_allowed=zstd_allowed, on_loop=True)
        if checked is None:
            async with self._heavy_check:
                now_ms = self._node.now_ms()
                checked = await asyncio.to_thread(
                    validate_produced, records, rules, now_ms, zstd_allowed=zstd_allowed
                )
        header, batch = checked
        if schemas is not None:
            await self._schemas.check_batch(header, batch, schemas)
        return CheckedBatch(header, batch, now_ms)

    async def find_by_timestamp(
        self, partition: Partition, timestamp_ms: int | None
    ) -> TimestampedOffset | None:
        """The first record that is not older than `timestamp_ms`; with None, that has the largest timestamp.

        It may lie in a batch that unfolds to 128 MiB, so this is done in a thread, a few at a time. Raises
        UnknownTopicOrPartition or NotLeaderOrFollower when the partition went meanwhile, OSError,
        LogCorruption.
        """
        searched = partition.log
        try:
            async with self._searches:
                if timestamp_ms is None:
                    found = await self._file_work.run(searched.find_max_timestamp)
                else:
                    found = await self._file_work.run(
                        partial(searched.find_offset_by_timestamp, timestamp_ms)
                    )
        except PartitionDeleted:
            pass
        if searched.is_deleted:
            known = self._node.image.topics_by_id.get(partition.topic_id)
            raise UnknownTopicOrPartition() if known is None else NotLeaderOrFollower()
        return found

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
        NotEnoughReplicas, InvalidProducerEpoch, TransactionCoordinatorFenced, or OSError when the disk
        refuses.
        """
        partition = self._partition_with_enough_replicas(topic, index)
        partition.log.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        now_ms = self._node.now_ms()
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
        result = self._append_own(partition, batch, parse_batch_header(batch), now_ms)
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
                must_verify=self.verifies_transactions,
            )
        result = self._append_own(partition, batch, header, self._node.now_ms())
        if partition.high_watermark <= result.last_offset:
            setting = COMMIT_TIMEOUT_OF.get(topic, broker_settings.REQUEST_TIMEOUT_MS)
            code = await partition.committed(result.last_offset + 1, self._node.config[setting])
            if code is not ErrorCode.NONE:
                # NOT_LEADER_OR_FOLLOWER would say that nothing was written.
                raise RequestTimedOut(f"not committed in time: {code.name}")
        return result.base_offset

    def _append_own(
        self, partition: Partition, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> AppendResult:
        """Append a batch that this broker made; it gets the topic's timestamp type, as a producer's does."""
        if self._rules[partition.topic].log_append_time:
            header = patch_log_append_time(batch, 0, header, now_ms)
        return self._append(partition, batch, header, now_ms)

    def _append(
        self, partition: Partition, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> AppendResult:
        """Append a batch that was checked, and let what is due be flushed."""
        result = partition.append(batch, (header,), now_ms)
        if result.rolled or result.flush_due:
            self._logs.flush_soon()
        return result

    def _partition_with_enough_replicas(self, topic: str, index: int) -> Partition:
        partition = self.partition(topic, index)
        if partition.is_replicated and not partition.leader.has_enough_replicas:
            raise NotEnoughReplicas()
        return partition

    async def until_committed(self, topic: str, index: int) -> None:
        """Wait until all that the partition's log holds now is committed.

        A coordinator loads no earlier: what it answers from can't be lost to a new leader then. Kafka loads
        what is not committed too, and keeps its state in versions instead. Raises KafkaError when this broker
        leads the partition no more.
        """
        partition = self.partition(topic, index)
        end_offset = partition.log.log_end_offset
        while partition.high_watermark < end_offset:
            code = await partition.committed(end_offset, LONG_TIMEOUT_MS)
            if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise NotLeaderOrFollower()

    def iterate_batches(self, topic: str, index: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The committed batches of a partition with their records, control batches too."""
        partition = self.partition(topic, index)
        for header, batch in partition.log.iterate_batches(partition.log.log_start_offset):
            if header.base_offset >= partition.high_watermark:
                return
            yield header, decode_records(batch)

    # -- metadata -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open every log that the metadata assigns here; move aside directories that it does not know.

        Nothing is led or copied before `take_roles`.
        """
        image = self._node.image
        self._logs.set_strays_aside(image)
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                self._follow(topic, partition)

    def coordinate(
        self,
        coordinators: Mapping[str, PartitionCoordinator],
        on_transaction_end: Mapping[str, OnTransactionEnd],
        on_topics_deleted: Sequence[OnTopicsDeleted],
    ) -> None:
        """From now on tell the coordinators, by their topics, of what becomes of their partitions.

        Before `take_roles`: no partition of a coordinator is led without it.
        """
        self._coordinators = coordinators
        self._on_transaction_end = on_transaction_end
        self._on_topics_deleted = on_topics_deleted

    def take_roles(self) -> None:
        """This broker is registered: lead and follow what the metadata says.

        Called when the registration's records are applied; further calls, after another registration, look
        at every partition again.
        """
        if not self._is_registered:
            return
        self._has_roles = True
        for topic in self._node.image.topics.values():
            for partition in topic.partitions.values():
                self._follow(topic, partition)

    async def elect_all(self) -> None:
        """The coordinators are there, and this broker is registered: take roles, unless that was done."""
        if not self._has_roles:
            self.take_roles()

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Make the partitions follow committed metadata. Called by the controller after each change."""
        image = self._node.image
        for topic_id, name in delta.deleted_topics:
            self._drop(topic_id, name)
        if delta.deleted_topics:
            for tell in self._on_topics_deleted:
                tell(delta.deleted_topics)
        for topic_id, index in delta.changed_partitions:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                self._follow(topic, topic.partitions[index])
        for name in delta.changed_topic_configs:
            self._configure(name)
        if delta.broker_configs_changed:
            self._configure_all()
        if delta.changed_brokers:
            self._look_for_joiners()
        if not self._has_roles and self._node.node_id in delta.changed_brokers:
            self.take_roles()

    def _configure_all(self) -> None:
        config = self._node.config
        self.fetch_max_bytes = config[broker_settings.FETCH_MAX_BYTES]
        self.verifies_transactions = config[broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        self.quotas.configure()
        for name in list(self._log_configs):
            self._configure(name)
        self._fetchers.configure(self.partitions)

    @property
    def _is_registered(self) -> bool:
        """Whether the metadata knows this life of the broker."""
        registered = self._node.image.brokers.get(self._node.node_id)
        return registered is not None and registered.broker_epoch == self._node.lifecycle.broker_epoch

    def _follow(self, topic: TopicImage, image: PartitionImage) -> None:
        """Hold the partition if it has a replica here, and lead or follow as the metadata says."""
        held = self._partitions.get(topic.name, {}).get(image.partition_id)
        if self._node.node_id not in image.replicas:
            if held is not None:
                self._remove(held)
            return
        if held is None:
            held = self._open(topic, image)
        if not self._has_roles:
            return
        if image.leader == self._node.node_id:
            self._lead(held, image)
        else:
            follower = held.follower
            if (
                follower is None
                or follower.leader_epoch != image.leader_epoch
                or follower.leader_id != image.leader
            ):
                self._become_follower(held, image)

    def _open(self, topic: TopicImage, image: PartitionImage) -> Partition:
        """Open or make the log; nobody leads it yet."""
        index = image.partition_id
        if topic.name not in self._log_configs:
            self._configure(topic.name)
        was_cleaned = self.cleaner.before_opening(topic.name, index, self._logs.path(topic.name, index))
        stored = self._logs.open_or_create(
            topic, index, self._log_configs[topic.name], was_cleaned=was_cleaned
        )
        committed = self._logs.checkpointed_high_watermark(topic.name, index)
        role = PartitionFollower(
            leader_id=NO_LEADER, leader_epoch=NO_LEADER, log=stored, high_watermark=committed
        )
        partition = Partition(self._node.loop, topic.name, index, topic.topic_id, stored, role)
        self._partitions.setdefault(topic.name, {})[index] = partition
        self._by_id.setdefault(topic.topic_id, {})[index] = partition
        return partition

    def _lead(self, held: Partition, image: PartitionImage) -> None:
        """Lead the partition in the metadata's leader epoch, or take over what else changed."""
        if held.is_leader and held.leader_epoch == image.leader_epoch:
            leader = held.leader
            leader.on_metadata(partition_epoch=image.partition_epoch, isr=image.isr, replicas=image.replicas)
            held.is_replicated = leader.has_followers
            held.on_progress()
            self._ask_for(held, leader.expansion())
            return
        self._fetchers.leave(held)
        stored = held.log
        stored.assign_epoch(image.leader_epoch)
        leader = PartitionLeader(
            local_id=self._node.node_id,
            leader_epoch=image.leader_epoch,
            isr=image.isr,
            log_end_offset=stored.log_end_offset,
            high_watermark=min(held.high_watermark, stored.log_end_offset),
            replicas=image.replicas,
            partition_epoch=image.partition_epoch,
            min_insync_replicas=self._min_insync_replicas[held.topic],
            lag_time_max_ms=self._node.config[broker_settings.REPLICA_LAG_TIME_MAX_MS],
            eligible=self._eligible_epoch,
            now_ms=self._steady_ms(),
        )
        held.lead(leader)
        self._led.setdefault(held.topic, {})[held.index] = held
        self._led_by_id.setdefault(held.topic_id, {})[held.index] = held
        coordinator = self._coordinators.get(held.topic)
        if coordinator is not None:
            coordinator.on_elected(held.index, image.leader_epoch)

    def _become_follower(self, held: Partition, image: PartitionImage) -> None:
        """Another broker leads, or nobody."""
        self._resign(held)
        held.follow(
            PartitionFollower(
                leader_id=image.leader,
                leader_epoch=image.leader_epoch,
                log=held.log,
                high_watermark=held.high_watermark,
            )
        )
        self._fetchers.follow(held)

    def _resign(self, held: Partition) -> None:
        """Lead the partition no more, if this broker did."""
        if not held.is_leader:
            return
        self._led.get(held.topic, {}).pop(held.index, None)
        self._led_by_id.get(held.topic_id, {}).pop(held.index, None)
        coordinator = self._coordinators.get(held.topic)
        if coordinator is not None:
            coordinator.on_resigned(held.index)

    def _remove(self, held: Partition) -> None:
        """The partition has no replica here any more: let go of it and delete its directory."""
        self._fetchers.leave(held)
        self._resign(held)
        self._partitions.get(held.topic, {}).pop(held.index, None)
        self._by_id.get(held.topic_id, {}).pop(held.index, None)
        self.cleaner.on_deleted(held.topic, held.index)
        self._logs.delete(held.log)
        held.let_go()

    def _eligible_epoch(self, node_id: int) -> int | None:
        known = self._node.image.brokers.get(node_id)
        return known.broker_epoch if known is not None and known.active else None

    def _steady_ms(self) -> int:
        return int(self._node.loop.time() * 1000)

    # -- consumers that would rather read from a follower -------------------------------------------

    @property
    def selects_by_rack(self) -> bool:
        """Whether consumers are sent to replicas in their rack (KIP-392)."""
        return self._selects_by_rack

    def preferred_replica(self, partition: Partition, rack: str, fetch_offset: int) -> int | None:
        """Whom a consumer in `rack` should read from instead of this broker; None to read here."""
        if not partition.is_replicated:
            return None
        leader = partition.leader
        brokers = self._node.image.brokers
        listener = self._node.config.inter_broker_listener_name
        others = []
        for node_id in leader.isr:
            state, known = leader.follower(node_id), brokers.get(node_id)
            if state is not None and known is not None and not known.fenced and known.endpoint(listener):
                others.append(
                    reading.ReadableReplica(
                        node_id,
                        known.rack,
                        state.log_start_offset,
                        state.log_end_offset,
                        state.last_caught_up_ms,
                    )
                )
        return reading.preferred_replica(
            rack, fetch_offset, self._node.node_id, self._node.config.rack, others
        )

    # -- followers of what is led here --------------------------------------------------------------

    def on_follower_fetch(
        self,
        partition: Partition,
        node_id: int,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        fetcher: FetcherTimes,
    ) -> None:
        """A follower's fetch, its epochs compared: what lies below its offset is there."""
        update = partition.leader.on_follower_fetch(
            node_id, fetch_offset, log_start_offset, broker_epoch, fetcher.last_fetch_ms, fetcher
        )
        partition.on_progress()
        partition.on_followers_fetch()
        self._ask_for(partition, update)

    def low_watermark(self, partition: Partition) -> int:
        """The offset below which no replica that is there has records. Raises NotLeaderOrFollower."""
        return partition.leader.low_watermark(partition.log.log_start_offset, self._is_there)

    async def until_deleted(self, partition: Partition, offset: int, deadline: float) -> None:
        """Wait until every replica that is there has deleted what is below `offset`.

        Raises RequestTimedOut at `deadline` of the loop's clock, NotLeaderOrFollower.
        """
        fetched = asyncio.Event()
        partition.add_fetch_waiter(fetched.set)
        try:
            async with asyncio.timeout_at(deadline):
                while self.low_watermark(partition) < offset:
                    fetched.clear()
                    await fetched.wait()
        except TimeoutError:
            raise RequestTimedOut() from None
        finally:
            partition.remove_waiter(fetched.set)

    def _is_there(self, node_id: int) -> bool:
        known = self._node.image.brokers.get(node_id)
        return known is not None and not known.fenced

    async def _look_for_laggards(self) -> None:
        """Take followers that lag out of their in-sync sets."""
        now_ms = self._steady_ms()
        for by_index in list(self._led.values()):
            for partition in list(by_index.values()):
                if partition.is_replicated and partition.is_leader:
                    update = partition.leader.on_tick(now_ms)
                    partition.on_progress()
                    partition.wake_followers()
                    self._ask_for(partition, update)
            await asyncio.sleep(0)

    def _look_for_joiners(self) -> None:
        """Brokers have become active: their replicas may join though their fetches say nothing new."""
        for by_index in self._led.values():
            for partition in by_index.values():
                if partition.is_replicated:
                    self._ask_for(partition, partition.leader.expansion())

    def _ask_for(self, partition: Partition, update: InSyncUpdate | None) -> None:
        if update is not None:
            self._updates.ask(partition, update)

    def _drop(self, topic_id: uuid.UUID, name: str) -> None:
        for partition in list(self._by_id.get(topic_id, {}).values()):
            self._remove(partition)
        for by_id in (self._by_id, self._led_by_id):
            by_id.pop(topic_id, None)
        for by_name in (self._partitions, self._led):
            by_name.pop(name, None)
        self._rules.pop(name, None)
        self._log_configs.pop(name, None)
        self._min_insync_replicas.pop(name, None)
        self._schemas.forget(name)
        self.quotas.forget_topic(name)

    def _configure(self, topic: str) -> None:
        """Take over a topic's settings: rules for produced batches, limits of its logs."""
        config = self._node.config.for_topic(topic, self._node.image)
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
        enough = self._min_insync_replicas[topic] = config[topic_settings.MIN_INSYNC_REPLICAS]
        lag_time_max_ms = self._node.config[broker_settings.REPLICA_LAG_TIME_MAX_MS]
        self.quotas.configure_topic(topic, config)
        self._schemas.configure(topic, config)
        for partition in self._partitions.get(topic, {}).values():
            partition.log.update_config(log_config)
            if partition.is_leader:
                partition.leader.on_settings(min_insync_replicas=enough, lag_time_max_ms=lag_time_max_ms)
                partition.on_progress()

    # -- background work ----------------------------------------------------------------------------

    def start_background_work(self, supervisor: Supervisor) -> None:
        """Retention, flushing, checkpoints and in-sync sets, each as a task of the supervisor."""
        self._logs.start_background_work(
            supervisor, lambda: [(each.log, each.high_watermark) for each in self.partitions()]
        )
        self.cleaner.start(supervisor)
        config = self._node.config
        supervisor.spawn("in-sync-updates", self._updates.run())
        supervisor.every(
            "look-for-laggards",
            lambda: max(1, config[broker_settings.REPLICA_LAG_TIME_MAX_MS] // 2),
            self._look_for_laggards,
        )

    async def checkpoint_log_start_offsets(self) -> None:
        """Write where every log starts; durable when this returns."""
        await self._logs.checkpoint_offsets()

    async def close(self) -> None:
        """Flush and close every log and write the checkpoints, so that the next start trusts them."""
        self._schemas.close()
        await self._file_work.settle()
        committed = {(each.topic, each.index): each.high_watermark for each in self.partitions()}
        await self._file_work.run(partial(self._logs.close, committed))


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
