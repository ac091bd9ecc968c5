"""The active controller's own duties: fences silent brokers, balances leaders, removes expired tokens.

The duties begin when this node becomes the active controller and end when it is so no more; brokers'
heartbeats are forgotten with them, and the next controller begins by believing every broker alive. Each
change is a decision like any other, so a controller that has lost its epoch changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.core.decisions.balance import balance_leaders, elect_missing_leaders
from ottla.core.decisions.decision import Decision
from ottla.core.decisions.heartbeats import BrokerHeartbeats
from ottla.core.decisions.partition_changes import TopicRules, topic_rules
from ottla.core.image.image import MetadataDelta, MetadataImage
from ottla.core.settings import broker_settings
from ottla.protocol.errors import KafkaError, NotController

if TYPE_CHECKING:
    from ottla.broker.controller.node import WorkNode
    from ottla.broker.network.context import Connection

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

#: How long the duty sleeps while there is no broker that could be overdue.
IDLE_SECONDS: Final = 1.0
#: A controller that was itself held up for this long has heartbeats waiting in its sockets: it reads them
#: first.
HELD_UP_SECONDS: Final = 0.5
#: This many heartbeats in a row don't get lost: a broker that should have sent them is not there.
SILENT_INTERVALS: Final = 2
#: The pause after a decision that the disk refused.
PUT_OFF_SECONDS: Final = 1.0


class ControllerWork:
    """The duties of this node while it is the active controller. Used on the event loop only."""

    def __init__(self, node: WorkNode) -> None:
        self._node = node
        self._tasks: list[asyncio.Task[Any]] = []
        self._heartbeats: BrokerHeartbeats | None = None
        #: Where each broker's last heartbeat to this controller came from; None: from this node itself.
        self._connections: dict[int, Connection | None] = {}
        self._active_since_ms = 0
        self._look_for_leaders = asyncio.Event()

    def start(self) -> None:
        """Follow this node's becoming and ending as the active controller."""
        controller = self._node.controller
        controller.add_leadership_listener(self._on_active, self._on_inactive)
        controller.add_listener(self._on_metadata)

    # -- for the handlers of requests -----------------------------------------------------------------

    @property
    def heartbeats(self) -> BrokerHeartbeats:
        """The heartbeats of all brokers. Raises NotController."""
        if self._heartbeats is None:
            raise NotController("this node is not the active controller")
        return self._heartbeats

    def rules(self, image: MetadataImage) -> TopicRules:
        """The rules for elections by the topics' settings in `image`."""
        return topic_rules(image, self._node.config.layers, self._node.node_id)

    def now_ms(self) -> int:
        """The time of the steady clock that heartbeats are measured by."""
        return int(self._node.loop.time() * 1000)

    def is_alive(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether the broker's last start may still run, so that another one with its id has to wait.

        It does if its heartbeats came in time and it has not hung up since. A new controller believes every
        broker alive, but a live one is heard within two of its intervals.
        """
        now_ms = self.now_ms()
        if broker_id in self._connections:
            connection = self._connections[broker_id]
            if connection is not None and connection.closed:
                return False
        else:
            interval_ms = self._node.config[broker_settings.BROKER_HEARTBEAT_INTERVAL_MS]
            if now_ms - self._active_since_ms > SILENT_INTERVALS * interval_ms:
                return False
        return self.heartbeats.is_alive(image, broker_id, now_ms)

    def heard(self, broker_id: int, connection: Connection | None) -> None:
        """A heartbeat came over `connection`. A process that ends closes it, also when it is killed."""
        self._connections[broker_id] = connection

    # -- duties ---------------------------------------------------------------------------------------

    def _on_active(self, epoch: int) -> None:
        node = self._node
        session_ms = node.config[broker_settings.BROKER_SESSION_TIMEOUT_MS]
        self._heartbeats = BrokerHeartbeats.of_new_controller(node.image, session_ms, self.now_ms())
        self._connections = {}
        self._active_since_ms = self.now_ms()
        log.info("node is the active controller node=%d epoch=%d", node.node_id, epoch)
        self._spawn("fence-brokers", self._fence_for_ever)
        self._spawn("balance-leaders", self._balance_for_ever)
        self._look_for_leaders.set()  # the controller before this one may have ended in the middle of that
        self._spawn("elect-missing-leaders", self._elect_missing_leaders_for_ever)
        self._spawn("remove-expired-tokens", self._remove_expired_tokens_for_ever)

    def _on_inactive(self) -> None:
        self._heartbeats = None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()

    def _on_metadata(self, delta: MetadataDelta) -> None:
        if delta.changed_topic_configs or delta.broker_configs_changed:
            self._look_for_leaders.set()

    def _spawn(self, name: str, duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(self._node.controller_supervisor.spawn(name, _while_active(duty)))

    async def _fence_for_ever(self) -> None:
        node, heartbeats = self._node, self.heartbeats
        while True:
            wake_ms = heartbeats.next_wake_ms(node.image)
            now_ms = self.now_ms()
            pause = IDLE_SECONDS if wake_ms is None else max(0.0, (wake_ms - now_ms) / 1000) + 0.001
            await asyncio.sleep(pause)
            if self.now_ms() - now_ms > (pause + HELD_UP_SECONDS) * 1000:
                await asyncio.sleep(HELD_UP_SECONDS)
            while heartbeats.expired(node.image, self.now_ms()) is not None:
                fenced = await self._decide(
                    lambda image: heartbeats.fence_expired(image, self.now_ms(), self.rules(image))
                )
                if fenced is None:
                    break
                log.warning("broker fenced, it was silent for too long broker=%d", fenced)

    async def _balance_for_ever(self) -> None:
        config = self._node.config
        while True:
            await asyncio.sleep(config[broker_settings.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS])
            if config[broker_settings.AUTO_LEADER_REBALANCE_ENABLE]:
                await self._until_done(lambda image: balance_leaders(image, self.rules(image)))

    async def _elect_missing_leaders_for_ever(self) -> None:
        config = self._node.config
        while True:
            seconds = config[broker_settings.UNCLEAN_LEADER_ELECTION_INTERVAL_MS] / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._look_for_leaders.wait()
            self._look_for_leaders.clear()
            await self._until_done(lambda image: elect_missing_leaders(image, self.rules(image)))

    async def _remove_expired_tokens_for_ever(self) -> None:
        node = self._node
        while True:
            await asyncio.sleep(node.config[broker_settings.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS] / 1000)
            if not node.image.delegation_tokens:
                continue
            # Imported where it is used: a cluster without tokens does not pay for it.
            from ottla.core.decisions.delegation_tokens import remove_expired_tokens

            while removed := await self._decide(lambda image: remove_expired_tokens(image, node.now_ms())):
                log.info("expired delegation tokens removed tokens=%d", removed)

    async def _until_done(self, decide: Callable[[MetadataImage], Decision[bool]]) -> None:
        """One round of elections after the other, so that requests come in between."""
        while await self._decide(decide):
            pass

    async def _decide(self, decide: Callable[[MetadataImage], Decision[T]]) -> T | None:
        """The answer of the decision, None when the disk refused it this time. Raises NotController."""
        try:
            return await self._node.controller.submit(decide)
        except NotController:
            raise
        except KafkaError as error:
            log.warning("a duty of the controller is put off reason=%s", error)
            await asyncio.sleep(PUT_OFF_SECONDS)
            return None


async def _while_active(duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A duty ends without a word when this node is the active controller no more."""
    with contextlib.suppress(NotController):
        await duty()
