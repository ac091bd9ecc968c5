"""Which groups this broker coordinates, and the way to each one's shard.

Every partition of `__consumer_offsets` that this broker leads has a `ShardRunner` (group_shard.py), made
when the partition is won and ended when it is lost. That module and the state machine behind it are
imported at the first such partition: a broker without groups starts without them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.core.coordination.partitioning import partition_for
from ottla.core.metadata import broker_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.group_shard import ShardRunner

log = logging.getLogger("ottla.broker.groups")

GROUP_TOPIC = "__consumer_offsets"


class GroupCoordinator:
    """All groups whose partition this broker leads. Used on the event loop only."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._runners: dict[int, ShardRunner] = {}

    # -- leadership, told by the replica manager ----------------------------------------------------

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: load its groups in the background."""
        from ottla.broker.group_shard import ShardRunner

        self.on_resigned(partition)
        runner = ShardRunner(self._broker, partition, leader_epoch, self._reload)
        self._runners[partition] = runner
        self._broker.supervisor.spawn(f"load-groups-{partition}", runner.load())

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        runner = self._runners.pop(partition, None)
        if runner is not None:
            runner.resign()

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Drop the offsets committed for these topics."""
        names = [name for name in topics if name != GROUP_TOPIC]
        for runner in self._runners.values():
            runner.topics_deleted(names)

    async def stop(self) -> None:
        """Answer everybody who waits."""
        for partition in list(self._runners):
            self.on_resigned(partition)

    def _reload(self, runner: ShardRunner) -> None:
        """The runner's state may differ from the log: start again from there."""
        if self._runners.get(runner.partition) is runner:
            self.on_elected(runner.partition, runner.leader_epoch)

    # -- requests -----------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds a group."""
        topic = self._broker.image.topics.get(GROUP_TOPIC)
        if topic is not None:
            return partition_for(group_id, len(topic.partitions))
        return partition_for(group_id, self._broker.config[broker_settings.OFFSETS_TOPIC_NUM_PARTITIONS])

    def partitions(self) -> list[int]:
        """The partitions whose groups this broker coordinates."""
        return list(self._runners)

    def request(
        self, group_id: str, request: Message, context: RequestContext
    ) -> Message | Awaitable[Message]:
        """Ask the shard of `group_id`; `request` must be about groups of that shard only.

        Errors come in the response: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and the shard's own.
        """
        return self.request_of_partition(self.partition_for(group_id), request, context)

    def request_of_partition(
        self, partition: int, request: Message, context: RequestContext
    ) -> Message | Awaitable[Message]:
        """Ask the shard of a partition, see `request`."""
        from ottla.core.groups.responses import coordinator_error

        runner = self._runners.get(partition)
        if runner is None:
            return coordinator_error(request, ErrorCode.NOT_COORDINATOR)
        if runner.loading:
            return coordinator_error(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return runner.request(request, context)
