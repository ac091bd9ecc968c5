"""Which share partitions' states this broker coordinates, and the way to each one's shard (KIP-932).

The state of a share partition lives in the partition of `__share_group_state` that its name hashes to
(coordinator_routing.py runs the shards of those that this broker leads, core/share/coordinator.py decides). A
request may name many share partitions of a group; each goes to its own shard, and the answers are put
together again. Errors come in the answers, for each share partition.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.broker.controller.topic_creation import create_internal_topic
from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
from ottla.core.decisions.topic_names import SHARE_TOPIC
from ottla.core.settings import broker_settings
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.framing import Coordinator

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_shard import ShardFamily, ShardRunner
    from ottla.broker.coordinators.node import ShareCoordinatorNode
    from ottla.core.share.keys import SharePartitionKey
    from ottla.core.share.responses import StateRequest
    from ottla.protocol.schema import Message

log = logging.getLogger("ottla.broker.coordinators")


class ShareCoordinator:
    """All share states whose partition this broker leads. Used on the event loop only."""

    def __init__(self, node: ShareCoordinatorNode) -> None:
        self._node = node
        self.shards = CoordinatorRouting(
            node,
            Coordinator.SHARE,
            broker_settings.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
            self._import_family,
        )

    # -- told by the roles of replicas --------------------------------------------------------------

    def prepare(self) -> None:
        """This broker has a replica of a partition, so it may be elected."""
        self.shards.prepare()

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: load its states in the background."""
        self.shards.on_elected(partition, leader_epoch)

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        self.shards.on_resigned(partition)

    def on_topics_deleted(self, topics: Iterable[tuple[UUID, str]]) -> None:
        """Forget the states of these topics' share partitions."""
        topic_ids = frozenset(topic_id for topic_id, name in topics if name != SHARE_TOPIC)
        if topic_ids and self.shards.partitions():
            from ottla.core.share.coordinator import TopicIdsDeleted

            self.shards.tell_all(lambda at: TopicIdsDeleted(at, topic_ids))

    async def stop(self) -> None:
        """Answer all requests that wait."""
        self.shards.stop()

    # -- requests -----------------------------------------------------------------------------------

    def partition_for(self, key: SharePartitionKey) -> int:
        """The partition of `__share_group_state` that holds a share partition's state."""
        return self.shards.partition_for(key.coordinator_key)

    async def make_topic(self) -> None:
        """Create `__share_group_state` unless it is there. Raises KafkaError."""
        if SHARE_TOPIC not in self._node.image.topics:
            await create_internal_topic(self._node, SHARE_TOPIC)

    async def request(self, request: StateRequest) -> Message:
        """Answer a request for any of the five APIs; all of its share partitions are in the answer."""
        from ottla.core.share.responses import merge, split

        return merge(request, (await self.ask(list(split(request)))).values())

    async def ask(
        self, parts: Sequence[tuple[SharePartitionKey, StateRequest]]
    ) -> dict[SharePartitionKey, Message]:
        """The answers to requests of one share partition each; asked at once, so they share appends."""
        from ottla.core.coordination.api import Client

        nobody = Client("", "", 0)
        asked = [(key, self.shards.ask(self.partition_for(key), part, nobody)) for key, part in parts]
        return {key: await answer if inspect.isawaitable(answer) else answer for key, answer in asked}

    # -- for the runner of the shards ---------------------------------------------------------------

    def _import_family(self) -> Callable[[], ShardFamily]:
        from ottla.broker.coordinators.coordinator_shard import ShardFamily
        from ottla.core.share.coordinator import ShareCoordinatorSettings, ShareCoordinatorShard
        from ottla.core.share.responses import refusal
        from ottla.protocol.compression import Codec

        def family() -> ShardFamily:
            config = self._node.config

            def settings() -> ShareCoordinatorSettings:
                return ShareCoordinatorSettings(
                    updates_per_snapshot=config[
                        broker_settings.SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT
                    ],
                    write_timeout_ms=config[broker_settings.SHARE_COORDINATOR_WRITE_TIMEOUT_MS],
                    cold_snapshot_interval_ms=config[
                        broker_settings.SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS
                    ],
                    prune_interval_ms=config[broker_settings.SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS],
                )

            return ShardFamily(
                coordinator=Coordinator.SHARE,
                name="share-states",
                codec=Codec(config[broker_settings.SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC]),
                make=lambda now: ShareCoordinatorShard(settings(), self._partition_count),
                refuse=refusal,
                perform=self._prune,
            )

        return family

    def _partition_count(self, topic_id: UUID) -> int:
        topic = self._node.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _prune(self, runner: ShardRunner, effect: Any) -> None:
        """Delete the records before the offset that is still needed."""
        if runner.strays:
            return  # the shard does not know of them, and they have not moved yet
        self._node.supervisor.spawn(
            f"prune-share-states-{runner.partition}", self._delete_records(runner.partition, effect.offset)
        )

    async def _delete_records(self, index: int, offset: int) -> None:
        try:
            partition = self._node.partitions.partition(SHARE_TOPIC, index)
        except KafkaError:
            return  # led by another broker, or gone: this broker prunes it no more
        if offset > partition.high_watermark or not partition.log.advance_log_start_offset(offset):
            return
        await self._node.replication.logs.checkpoint_offsets()
        log.info("share states pruned partition=%d offset=%d", index, offset)
