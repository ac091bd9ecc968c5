"""The way to the shards of one coordinator: which partitions this broker leads, and which shard gets a
request.

Every partition of a coordinator's topic that this broker leads has a `ShardRunner` (coordinator_shard.py),
made when the partition is won and ended when it is lost. The three coordinators each have one of these.
Runner, state machine and messages are imported when the broker gets a first replica of such a partition: a
broker without groups or transactions starts without them. A follower imports them in a thread, because it
may be elected at any moment: the import takes longer than clients repeat a commit, and the broker would
answer no request meanwhile, nor fetch the records that other new coordinators wait for.

A coordinator loads committed records only, so its load takes as long as the in-sync replicas need to fetch
from the new leader. Kafka's takes commits at once and has these wait for their replicas; here a client's
request waits for the load, for as long as a commit may wait. librdkafka repeats a commit that is answered
COORDINATOR_LOAD_IN_PROGRESS twice within 300 ms, and gives up.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.network.context import RequestContext
from ottla.config.setting import Setting
from ottla.core.coordination.partitioning import counterpart_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_shard import Home, ShardFamily, ShardRunner
    from ottla.broker.coordinators.node import RoutingNode
    from ottla.core.coordination.api import Client, Moment, TopicPermits


async def answer_of(answer: Message | Awaitable[Message]) -> Message:
    """A coordinator's answer to a request, given now or later."""
    return await answer if inspect.isawaitable(answer) else answer


class Loads:
    """The loads of a coordinator's partitions that have ended since the start."""

    __slots__ = ("count", "longest_seconds", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.longest_seconds = 0.0

    def ended(self, seconds: float) -> None:
        """A load has ended."""
        self.count += 1
        self.seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)


class CoordinatorRouting:
    """All shards of one coordinator on this broker. Used on the event loop only."""

    def __init__(
        self,
        node: RoutingNode,
        coordinator: Coordinator,
        partition_count: Setting[int],
        import_family: Callable[[], Callable[[], ShardFamily]],
        load_timeout_ms: Setting[int] | None = None,
    ) -> None:
        """`import_family` imports what the shards need, in any thread, and returns the maker of their family.

        `load_timeout_ms`: how long after its election a shard that loads is waited for; None to refuse every
        request until it has.
        """
        self.topic = coordinator.value
        self._node = node
        self._partition_count = partition_count
        self._import_family = import_family
        self._load_timeout_ms = load_timeout_ms
        self._made_family: ShardFamily | None = None
        self._prepared = False
        self._runners: dict[int, ShardRunner] = {}
        self.loads = Loads()

    @property
    def runners(self) -> list[ShardRunner]:
        """The runners of all partitions led here."""
        return list(self._runners.values())

    @property
    def rebalances(self) -> dict[str, int]:
        """The rebalances since the start, by kind of group."""
        return {} if self._made_family is None else dict(self._made_family.rebalances)

    @property
    def _family(self) -> ShardFamily:
        if self._made_family is None:
            self._made_family = self._import_family()()
        return self._made_family

    # -- leadership, told by the roles of replicas --------------------------------------------------

    def prepare(self) -> None:
        """This broker has a replica, so it may be elected: import in the background for that."""
        if not self._prepared:
            self._prepared = True
            self._node.supervisor.spawn(f"import-{self.topic}", asyncio.to_thread(self._import))

    def _import(self) -> None:
        import ottla.broker.coordinators.coordinator_shard  # noqa: F401

        self._import_family()

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: load its shard in the background."""
        from ottla.broker.coordinators.coordinator_shard import ShardRunner

        self.on_resigned(partition)
        family = self._family
        runner = ShardRunner(
            self._node,
            family,
            partition,
            leader_epoch,
            self._reload,
            self._home_of(partition),
            self.loads.ended,
        )
        self._runners[partition] = runner
        self._node.supervisor.spawn(f"load-{family.name}-{partition}", runner.load())

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        runner = self._runners.pop(partition, None)
        if runner is not None:
            runner.resign()

    def on_transaction_end(
        self, partition: int, offset: int, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """A transaction marker was appended to a partition of this coordinator's topic, at `offset`."""
        runner = self._runners.get(partition)
        if runner is not None:
            from ottla.broker.coordinators.coordinator_shard import TransactionEnd

            runner.on_transaction_end(TransactionEnd(offset, producer_id, producer_epoch, committed))

    def tell_all(self, make_event: Callable[[Moment], Any]) -> None:
        """Feed every shard an event."""
        for runner in list(self._runners.values()):
            runner.tell(make_event)

    def stop(self) -> None:
        """Answer all requests that wait."""
        for partition in list(self._runners):
            self.on_resigned(partition)

    def _reload(self, runner: ShardRunner) -> None:
        """The runner's state may differ from the log: start again from there."""
        if self._runners.get(runner.partition) is runner:
            self.on_elected(runner.partition, runner.leader_epoch)

    def reload_all(self) -> None:
        """Load every shard anew: names live in other partitions now (coordinator_partitions.py)."""
        for runner in list(self._runners.values()):
            self._reload(runner)

    # -- what an older ottla has left elsewhere -----------------------------------------------------

    def runner(self, partition: int) -> ShardRunner | None:
        """The runner of a partition's shard; None if this broker does not lead it."""
        return self._runners.get(partition)

    def _home_of(self, partition: int) -> Home | None:
        """The way in which a runner gets its counterpart's strays; None where there can be none."""
        from ottla.broker.coordinators.coordinator_shard import Home

        topic = self._node.image.topics.get(self.topic)
        if topic is None or not self._node.coordinator_partitions.agreed:
            return None
        count = len(topic.partitions)
        away = counterpart_of(partition, count)
        if away == partition:
            return None

        async def bring(runner: ShardRunner) -> None:
            other = self._runners.get(away)
            if other is not None:  # led here: it has been read, and mostly there is nothing
                await other.replayed.wait()
                if not other.resigned and not other.strays:
                    return
            from ottla.broker.coordinators.stray_homing import bring_home

            await bring_home(self._node, self._family, self, runner, away, count)

        return Home(count, bring)

    # -- requests -----------------------------------------------------------------------------------

    def partition_for(self, name: str) -> int:
        """The partition of the coordinator's topic that holds `name`."""
        topic = self._node.image.topics.get(self.topic)
        count = len(topic.partitions) if topic is not None else self._node.config[self._partition_count]
        return self._node.coordinator_partitions.partition_for(name, count)

    def leader_of(self, partition: int) -> int | None:
        """The node id of the broker whose shard it is; None without one, or without such a partition."""
        image = self._node.image
        topic = image.topics.get(self.topic)
        known = topic.partitions.get(partition) if topic is not None else None
        return known.leader if known is not None and known.leader in image.brokers else None

    def partitions(self) -> list[int]:
        """The partitions whose shards are here."""
        return list(self._runners)

    def request(self, name: str, request: Message, context: RequestContext) -> Message | Awaitable[Message]:
        """Ask the shard of `name`; `request` must be about names of that shard only.

        Waits for a shard that loads, up to the load's timeout. Errors come in the response: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS and the shard's own.
        """
        return self.request_of_partition(self.partition_for(name), request, context)

    def request_of_partition(
        self, partition: int, request: Message, context: RequestContext
    ) -> Message | Awaitable[Message]:
        """Ask the shard of a partition, see `request`."""
        from ottla.broker.coordinators.coordinator_shard import random_bits
        from ottla.core.coordination.api import Client

        authorization = self._node.authorization
        permits: TopicPermits | None = None
        if authorization.enforced:
            from ottla.broker.security.topic_permits import TopicsOfClient

            permits = TopicsOfClient(authorization, context)
        client = Client(
            context.client_id or "", f"/{context.session.client_host}", context.api_version, permits
        )
        bits = random_bits(self._family, context.api_key)
        runner = self._runners.get(partition)
        if runner is None or runner.serving or self._load_timeout_ms is None:
            return self.ask(partition, request, client, bits)
        deadline = runner.load_began + self._node.config[self._load_timeout_ms] / 1000
        return self._ask_after_load(runner, deadline, request, client, bits)

    async def _ask_after_load(
        self, runner: ShardRunner, deadline: float, request: Message, client: Client, bits: int
    ) -> Message:
        """The answer of a shard that loads, or a refusal at `deadline` of the loop's time."""
        try:
            async with asyncio.timeout_at(deadline):
                await runner.load_ended.wait()
        except TimeoutError:
            pass  # it is refused as every request that comes after it
        if self._runners.get(runner.partition) is not runner:
            # Another broker leads, or names live in other partitions now: the client has to look again.
            return self._family.refuse(request, ErrorCode.NOT_COORDINATOR)
        return await answer_of(self.ask(runner.partition, request, client, bits))

    def ask(
        self, partition: int, request: Message, client: Client, bits: int = 0
    ) -> Message | Awaitable[Message]:
        """Ask the shard of a partition on behalf of a part of this broker."""
        runner = self._runners.get(partition)
        if runner is None:
            return self._family.refuse(request, ErrorCode.NOT_COORDINATOR)
        if not runner.serving:
            return self._family.refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return runner.request(request, client, bits)
