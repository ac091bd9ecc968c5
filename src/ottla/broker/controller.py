"""The active controller: decides on changes of the metadata, makes them durable, lets everybody follow.

Theory of operation. A change is decided against the metadata that includes everything appended so far
(`_ahead`), its records are appended, and the next sync makes them durable together with what others appended
meanwhile: one sync at a time, in a thread, many changes in each. Only then are the records applied to
`image`, those who follow the metadata are told, and the changes are answered. So nobody ever sees metadata
that a crash could take back, and a change that was answered is there after any crash. A sync that fails ends
the controller: what is on the disk is not known any more, and the next start will find out.

Opening reads; leading is an election (see `metadata_log`) and the registration of this node, one sync
altogether. Between the two the partitions' logs are opened, so that a corrupt one stops a start that has
written nothing yet.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ottla.broker.config import BrokerConfig, ConfigError
from ottla.broker.listeners import Listener
from ottla.broker.metadata_quorum import MetadataQuorum
from ottla.broker.metadata_snapshots import SnapshotId
from ottla.core.metadata import broker_settings, topic_settings
from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.features import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
)
from ottla.core.metadata.image import (
    BROKER_RESOURCE,
    EndpointImage,
    MetadataDelta,
    MetadataImage,
)
from ottla.core.metadata.producer_ids import allocate_producer_ids
from ottla.core.metadata.standalone import (
    elect_after_start,
    register_broker,
    register_controller,
    shut_down_broker,
)
from ottla.core.metadata.snapshot_records import image_records
from ottla.core.metadata.topic_names import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.core.transactions.producer_ids import ProducerIdBlock
from ottla.protocol.errors import (
    ErrorCode,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    NotController,
    TopicDeletionDisabled,
    error_class,
)
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.end_transaction_record import EndTransactionRecord
from ottla.protocol.schema import Message
from ottla.storage.log_directory import LogDirectoryError

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

MetadataListener = Callable[[MetadataDelta], None]
Spawn = Callable[[str, Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]

#: A new cluster's settings are one transaction of this name, as in Kafka.
BOOTSTRAP_TRANSACTION = "Bootstrap records"

#: A topic of many partitions by default must not make the topics of one request too much for one batch.
AUTO_CREATED_AT_ONCE = 100

#: topic -> settings of its partitions, replication factor and segment size.
INTERNAL_TOPIC_SIZES = {
    GROUP_TOPIC: (
        broker_settings.OFFSETS_TOPIC_NUM_PARTITIONS,
        broker_settings.OFFSETS_TOPIC_REPLICATION_FACTOR,
        broker_settings.OFFSETS_TOPIC_SEGMENT_BYTES,
    ),
    TRANSACTION_TOPIC: (
        broker_settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS,
        broker_settings.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
        broker_settings.TRANSACTION_STATE_LOG_SEGMENT_BYTES,
    ),
    SHARE_TOPIC: (
        broker_settings.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
        broker_settings.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        broker_settings.SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES,
    ),
}
INTERNAL_TOPIC_CONFIGS = {
    GROUP_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
}
INTERNAL_TOPIC_MIN_ISR = {
    TRANSACTION_TOPIC: broker_settings.TRANSACTION_STATE_LOG_MIN_ISR,
    SHARE_TOPIC: broker_settings.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
}


class SystemRandomness:
    """Random choices for the core, from the system."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return self._random.randrange(limit)

    def topic_id(self) -> uuid.UUID:
        """A new topic's id; one whose text does not begin with a dash, which command lines mistake."""
        while True:
            candidate = uuid.UUID(int=self._random.getrandbits(128), version=4)
            # The first six bits make the first character: 62 is "-" in Kafka's base64.
            if candidate.int >> 122 != 62:
                return candidate


class Controller:
    """The metadata of the cluster and the only way to change it."""

    def __init__(
        self,
        quorum: MetadataQuorum,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        spawn: Spawn | None,
    ) -> None:
        self._quorum = quorum
        self._directory = quorum.directory
        self._config = config
        self._log = quorum.log
        self._now_ms = now_ms
        self._spawn = spawn
        self._random = SystemRandomness()
        self._listeners: list[MetadataListener] = []
        self._leadership_listeners: list[tuple[Callable[[int], None], Callable[[], None]]] = []
        #: Everything durable and applied.
        self.image = MetadataImage()
        #: Everything appended.
        self._ahead = self.image
        self._pending: list[tuple[int, list[Message]]] = []
        self._syncing: asyncio.Task[Any] | None = None
        self._snapshotting: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self.broker_epoch = -1

    # -- opening and closing --------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        quorum: MetadataQuorum,
        config: BrokerConfig,
        *,
        now_ms: Callable[[], int],
        spawn: Spawn | None = None,
    ) -> Controller:
        """Read what of the metadata is known to be committed: all of it in a quorum of this node alone.

        `spawn` starts the tasks that sync the log; give the supervisor's, so that a failed sync stops the
        broker. Raises LogDirectoryError, ConfigError, LogCorruption or OSError.
        """
        controller = cls(quorum, config, now_ms, spawn)
        controller._replay()
        return controller

    def _replay(self) -> None:
        delta = MetadataDelta()
        image = self.image
        for offset, epoch, record in self._log.replay():
            try:
                image.apply(record, delta)
            except ValueError as error:
                raise LogDirectoryError(
                    f"the metadata log {self._log.directory} makes no sense at offset {offset}: {error}"
                ) from error
            image.last_offset, image.last_epoch = offset, epoch
        self._config.follow(image)
        level = image.features.get(METADATA_VERSION)
        if level is not None and level != LATEST_METADATA_VERSION:
            name = METADATA_VERSION_NAMES.get(level, f"level {level}")
            raise ConfigError(
                f"log directory {self._directory.path} has metadata.version {name}, this ottla serves "
                f"{METADATA_VERSION_NAMES[LATEST_METADATA_VERSION]}: change it with kafka-features first"
            )

    def lead(self, ports: Mapping[str, int]) -> MetadataDelta:
        """Begin an epoch and register this node; returns what that changed.

        `ports` are the bound ones by listener, for those where the configuration says 0. Blocks for one sync:
        nobody is served yet. What can still refuse the start comes before this first write to the log.
        """
        config, now_ms = self._config, self._now_ms()
        self._log.elect(self._directory.directory_id, config.controller_listener, now_ms)
        records: list[Message] = []
        if METADATA_VERSION not in self.image.features:
            records += self._bootstrap_records()
        incarnation_id = uuid.uuid4()
        records.append(
            register_controller(config.node_id, incarnation_id, _endpoint(config.controller_listener, ports))
        )
        self.broker_epoch = self._log.end_offset + len(records)
        records += register_broker(
            config.node_id,
            self.broker_epoch,
            incarnation_id,
            [_endpoint(listener, ports) for listener in config.advertised_listeners],
            config.rack,
            self._directory.directory_id,
        )
        records += elect_after_start(
            self.image, config.node_id, self._directory.directory_id, self._may_elect_uncleanly
        )
        first = self._log.append(records, now_ms)
        self._log.flush()
        delta = MetadataDelta()
        self._apply(self.image, first, records, delta)
        self._ahead = self.image.copy()
        self._config.follow(self.image)
        return delta

    def _may_elect_uncleanly(self, topic: str) -> bool:
        return self._config.for_topic(topic, self.image)[topic_settings.UNCLEAN_LEADER_ELECTION_ENABLE]

    def _bootstrap_records(self) -> list[Message]:
        min_insync_replicas = self._config[broker_settings.MIN_INSYNC_REPLICAS]
        return [
            BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION),
            *self._log.bootstrap_records(),
            # Eligible leader replicas (KIP-966) need one number for the whole cluster.
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name="min.insync.replicas",
                value=str(min_insync_replicas),
            ),
            EndTransactionRecord(),
        ]

    @property
    def recovery_point(self) -> int:
        """Everything of the metadata log below is synced."""
        return self._log.recovery_point

    async def close(self) -> None:
        """Finish what is running, fence this broker, close the log."""
        self._closed = True
        running = [task for task in (self._syncing, self._snapshotting) if task is not None]
        await asyncio.gather(*running, return_exceptions=True)
        if self._failure is None:
            try:
                self._log.append(shut_down_broker(self._ahead, self._config.node_id), self._now_ms())
            except OSError as error:  # no harm: the next start finds the broker as after a kill
                log.warning("broker could not be fenced in the metadata error=%s", error)
        await asyncio.to_thread(self._log.close)

    @property
    def active(self) -> bool:
        """Whether this node is the active controller and may submit."""
        return not self._closed and self._failure is None

    def add_leadership_listener(
        self, on_active: Callable[[int], None], on_inactive: Callable[[], None]
    ) -> None:
        """Call `on_active(epoch)` once this node may submit, at once if it may already, and `on_inactive()`
        when it may not any more. On the event loop.
        """
        self._leadership_listeners.append((on_active, on_inactive))
        if self.active:
            on_active(self.epoch)

    async def wait_until_caught_up(self) -> None:
        """Wait until the high watermark that the leader told is applied: the start of a node among several."""

    async def wait_for(self, offset: int) -> None:
        """Wait until the record at `offset` is applied."""
        while self.image.last_offset < offset:
            await self._settle(offset + 1)

    @property
    def epoch(self) -> int:
        """The epoch that this node leads the metadata log in."""
        return self._log.epoch

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that is durable and applied."""
        return self.image.last_offset + 1

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record of the metadata log gets."""
        return self._log.end_offset

    # -- changes --------------------------------------------------------------------------------------

    def add_listener(self, listener: MetadataListener) -> None:
        """Call `listener` with what changed, after each change of `image`, on the event loop."""
        self._listeners.append(listener)

    async def submit(self, decide: Callable[[MetadataImage], Decision[T]]) -> T:
        """Make a change: its answer, once everything that it is based on is durable and applied.

        `decide` runs at once and must not await. Raises what it raises, NotController when the controller is
        closed or has failed, KafkaStorageError when the disk refuses.
        """
        if self._closed or self._failure is not None:
            raise NotController("the controller has stopped")
        decision = decide(self._ahead)
        if decision.records:
            try:
                first = self._log.append(decision.records, self._now_ms())
            except OSError as error:
                raise KafkaStorageError(f"the metadata log can't be written: {error.strerror}") from error
            self._apply(self._ahead, first, decision.records)
            self._pending.append((first, decision.records))
        await self._settle(self._log.end_offset)
        return decision.response

    # -- requests -------------------------------------------------------------------------------------

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """CreateTopics: errors are in the response, topic by topic."""
        # Imported at the first use, as those below: nobody should wait for them at the start.
        from ottla.core.metadata.topics import TopicDefaults, create_topics

        defaults = TopicDefaults(
            self._config[broker_settings.NUM_PARTITIONS],
            self._config[broker_settings.DEFAULT_REPLICATION_FACTOR],
        )
        return await self.submit(
            lambda image: create_topics(image, request, defaults, self._config.layers, self._random)
        )

    async def delete_topics(self, request: DeleteTopicsRequest, api_version: int) -> DeleteTopicsResponse:
        """DeleteTopics: errors are in the response, topic by topic."""
        refused: KafkaError | None = None
        if not self._config[broker_settings.DELETE_TOPIC_ENABLE]:
            refused = TopicDeletionDisabled() if api_version >= 3 else InvalidRequest()
        from ottla.core.metadata.topics import delete_topics

        return await self.submit(lambda image: delete_topics(image, request, refused))

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        """CreatePartitions: errors are in the response, topic by topic."""
        from ottla.core.metadata.partitions import create_partitions

        return await self.submit(lambda image: create_partitions(image, request, self._random))

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids that nobody else gets."""
        return await self.submit(
            lambda image: allocate_producer_ids(image, self._config.node_id, self.broker_epoch)
        )

    async def auto_create_topic(self, name: str) -> None:
        """A topic with the defaults, unless it exists (by now). Raises KafkaError."""
        failed = await self.auto_create_topics([name])
        for error in failed.values():
            raise error_class(error)()

    async def auto_create_topics(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Topics with the defaults, unless they exist (by now); the errors of those that can't be made."""
        failed: dict[str, ErrorCode] = {}
        for name in INTERNAL_TOPIC_SIZES:
            if name in names:
                await self.create_internal_topic(name)
        wanted = [name for name in dict.fromkeys(names) if name not in INTERNAL_TOPIC_SIZES]
        for first in range(0, len(wanted), AUTO_CREATED_AT_ONCE):
            topics = [
                CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
                for name in wanted[first : first + AUTO_CREATED_AT_ONCE]
            ]
            for result in (await self.create_topics(CreateTopicsRequest(topics=topics))).topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    failed[result.name] = ErrorCode(result.error_code)
        return failed

    async def create_internal_topic(self, name: str) -> None:
        """A coordinator's topic with the sizes of its settings, unless it exists (by now). Raises KafkaError.

        The replication factor is at most the number of brokers: a small cluster works, a grown one can
        be given more replicas later.
        """
        partitions, factor, segment_bytes = INTERNAL_TOPIC_SIZES[name]
        brokers = max(1, len(self.image.brokers))
        configs = {
            **INTERNAL_TOPIC_CONFIGS[name],
            "segment.bytes": str(self._config[segment_bytes]),
        }
        min_isr = INTERNAL_TOPIC_MIN_ISR.get(name)
        if min_isr is not None:
            configs["min.insync.replicas"] = str(min(self._config[min_isr], brokers))
        topic = CreatableTopic(
            name=name,
            num_partitions=self._config[partitions],
            replication_factor=min(self._config[factor], brokers),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        result = (await self.create_topics(CreateTopicsRequest(topics=[topic]))).topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise error_class(result.error_code)(result.error_message or "")

    # -- the way of a change ----------------------------------------------------------------------------

    async def _settle(self, end_offset: int) -> None:
        """Wait until `image` has everything below `end_offset`."""
        while self.image.last_offset < end_offset - 1:
            if self._failure is not None:
                raise NotController("the controller has stopped")
            if self._syncing is None:
                self._syncing = self._start_task("metadata-sync", self._sync())
            # Shielded: a client that goes away must not undo the sync that others wait for.
            await asyncio.wait([self._syncing])

    def _start_task(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        if self._spawn is not None:
            return self._spawn(name, coroutine)
        return asyncio.get_running_loop().create_task(coroutine, name=name)

    async def _sync(self) -> None:
        """Make everything appended durable, then apply it and tell the listeners."""
        try:
            pending, self._pending = self._pending, []
            task = self._log.prepare_flush()
            if task is not None:
                await asyncio.to_thread(task.run)
                self._log.complete_flush(task)
            delta = MetadataDelta()
            for first, records in pending:
                self._apply(self.image, first, records, delta)
            if delta.broker_configs_changed:
                self._config.follow(self.image)
            for listener in self._listeners:
                listener(delta)
            if self._snapshotting is None and not self._closed and self._log.snapshot_due(self._now_ms()):
                self._snapshotting = self._start_task("metadata-snapshot", self._write_snapshot())
        except BaseException as failure:
            self._failure = failure
            raise
        finally:
            self._syncing = None

    async def _write_snapshot(self) -> None:
        """Write a snapshot of everything durable, then drop what it replaces."""
        image, now_ms = self.image.copy(), self._now_ms()
        snapshot = SnapshotId(image.last_offset + 1, image.last_epoch)
        self._log.begin_snapshot(now_ms)
        try:
            await asyncio.to_thread(self._log.write_snapshot, snapshot, image_records(image), now_ms)
            self._log.clean(now_ms)
            log.info("metadata snapshot written file=%s", snapshot.file_name)
        except OSError as error:  # the log has everything: the next snapshot may do better
            log.warning("metadata snapshot failed file=%s error=%s", snapshot.file_name, error)
        finally:
            self._snapshotting = None

    def _apply(
        self, image: MetadataImage, first: int, records: list[Message], delta: MetadataDelta | None = None
    ) -> None:
        delta = delta if delta is not None else MetadataDelta()
        for record in records:
            image.apply(record, delta)
        image.last_offset = first + len(records) - 1
        image.last_epoch = self._log.epoch


def _endpoint(listener: Listener, ports: Mapping[str, int]) -> EndpointImage:
    return EndpointImage(listener.name, listener.host, listener.port or ports.get(listener.name, 0))
