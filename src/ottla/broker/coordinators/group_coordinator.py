"""Which groups this broker coordinates, and the way to each one's shard (coordinator_routing.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
from ottla.broker.network.context import RequestContext
from ottla.core.settings import broker_settings
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.broker.coordinators.coordinator_shard import ShardFamily
    from ottla.broker.coordinators.group_inputs import GroupInputs
    from ottla.broker.coordinators.node import GroupsNode
    from ottla.core.image.image import MetadataDelta

GROUP_TOPIC = Coordinator.GROUP.value


class GroupCoordinator:
    """All groups whose partition this broker leads. Used on the event loop only."""

    def __init__(self, node: GroupsNode) -> None:
        self._inputs: GroupInputs | None = None
        """Made with the first shard."""

        def import_family() -> Callable[[], ShardFamily]:
            from ottla.broker.coordinators.group_inputs import GroupInputs
            from ottla.broker.coordinators.group_shard import group_family

            def family() -> ShardFamily:
                if self._inputs is None:
                    self._inputs = GroupInputs(node.config, node.image)
                return group_family(node, self._inputs)

            return family

        self.shards = CoordinatorRouting(
            node,
            Coordinator.GROUP,
            broker_settings.OFFSETS_TOPIC_NUM_PARTITIONS,
            import_family,
            broker_settings.OFFSETS_COMMIT_TIMEOUT_MS,
        )

    # -- told by the roles of replicas --------------------------------------------------------------

    def prepare(self) -> None:
        """This broker has a replica of a partition, so it may be elected."""
        self.shards.prepare()

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: load its groups in the background."""
        self.shards.on_elected(partition, leader_epoch)

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        self.shards.on_resigned(partition)

    def on_transaction_end(
        self, partition: int, offset: int, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """A transaction marker was appended to the partition, at `offset`: its offsets count, or never do."""
        self.shards.on_transaction_end(partition, offset, producer_id, producer_epoch, committed)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Tell the shards of topics and settings that changed."""
        if self._inputs is not None:
            for make_event in self._inputs.changes(delta, has_shards=bool(self.shards.partitions())):
                self.shards.tell_all(make_event)

    def on_topics_deleted(self, topics: Iterable[tuple[UUID, str]]) -> None:
        """Drop the offsets committed for these topics."""
        found = [(topic_id, name) for topic_id, name in topics if name != GROUP_TOPIC]
        if found and self.shards.partitions():
            from ottla.core.groups.api import DeletedTopic, TopicsDeleted

            deleted = tuple(DeletedTopic(name, topic_id) for topic_id, name in found)
            self.shards.tell_all(lambda at: TopicsDeleted(at, deleted))

    async def stop(self) -> None:
        """Answer all requests that wait."""
        self.shards.stop()

    # -- requests -----------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds a group."""
        return self.shards.partition_for(group_id)

    def partitions(self) -> list[int]:
        """The partitions whose groups this broker coordinates."""
        return self.shards.partitions()

    def request(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | Awaitable[Message]:
        """Ask the shard of `group_id`; `request` must be about groups of that shard only.

        Waits for a shard that loads, up to offsets.commit.timeout.ms. Errors come in the response:
        NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and the shard's own.
        """
        return self.shards.request(group_id, request, context)

    def request_of_partition(
        self, partition: int, request: Message, context: RequestContext
    ) -> Message | Awaitable[Message]:
        """Ask the shard of a partition, see `request`."""
        return self.shards.request_of_partition(partition, request, context)
