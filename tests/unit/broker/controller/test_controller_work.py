"""The active controller's own duties, beside a node that is made of stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker.controller.controller_work import ControllerWork
from ottla.broker.supervisor import Supervisor
from ottla.core.decisions.decision import Decision
from ottla.core.image.image import BrokerImage, MetadataDelta, MetadataImage
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.errors import KafkaStorageError, NotController
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest

SESSION_MS = 100
SETTINGS = {
    broker_settings.BROKER_SESSION_TIMEOUT_MS: SESSION_MS,
    broker_settings.BROKER_HEARTBEAT_INTERVAL_MS: 3_600_000,
    broker_settings.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: 3_600,
    broker_settings.UNCLEAN_LEADER_ELECTION_INTERVAL_MS: 3_600_000,
    broker_settings.AUTO_LEADER_REBALANCE_ENABLE: True,
    broker_settings.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS: 3_600_000,
}


class Config(dict[Any, Any]):
    layers = BrokerLayers({})


class FakeController:
    """Takes decisions over at once."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.decisions = 0
        self.refusals: list[Exception] = []

    def add_leadership_listener(
        self, on_active: Callable[[int], None], on_inactive: Callable[[], None]
    ) -> None:
        self.on_active, self.on_inactive = on_active, on_inactive

    def add_listener(self, listener: Callable[[MetadataDelta], None]) -> None:
        self.on_metadata = listener

    async def submit(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
        self.decisions += 1
        if self.refusals:
            raise self.refusals.pop(0)
        decision = decide(self.image)
        for record in decision.records:
            self.image.apply(record, MetadataDelta())
            self.image.last_offset += 1
        return decision.response


class FakeNode:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.node_id = 1
        self.config = Config(SETTINGS)
        self.image = MetadataImage()
        self.image.last_offset = 9
        self.image.brokers[2] = BrokerImage(2, 7, UUID(int=5), (), fenced=False, log_dirs=(UUID(int=6),))
        self.controller = FakeController(self.image)
        self.failures: list[BaseException] = []
        self.controller_supervisor = Supervisor(lambda name, failure: self.failures.append(failure))
        self.work = ControllerWork(cast(Any, self))
        self.work.start()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - what it waits for has no event of its own
                await asyncio.sleep(0.001)


def run(scenario: Callable[[FakeNode], Awaitable[None]]) -> None:
    async def bounded() -> None:
        node = FakeNode()
        async with asyncio.timeout(20):
            await scenario(node)
        await node.controller_supervisor.stop()
        assert not node.failures

    asyncio.run(bounded())


def test_a_silent_broker_is_fenced() -> None:
    async def scenario(node: FakeNode) -> None:
        node.controller.on_active(4)
        assert node.work.is_alive(node.image, 2)
        await node.until(lambda: node.image.brokers[2].fenced)

    run(scenario)


def test_a_decision_that_the_disk_refuses_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: FakeNode) -> None:
        monkeypatch.setattr("ottla.broker.controller.controller_work.PUT_OFF_SECONDS", 0.01)
        node.controller.refusals = [KafkaStorageError("disk full")]
        node.controller.on_active(4)
        await node.until(lambda: node.image.brokers[2].fenced)

    run(scenario)


def test_nothing_is_done_by_a_node_that_is_not_the_active_controller() -> None:
    async def scenario(node: FakeNode) -> None:
        with pytest.raises(NotController):
            _ = node.work.heartbeats
        node.controller.on_active(4)
        node.controller.on_inactive()
        with pytest.raises(NotController):
            _ = node.work.heartbeats
        await asyncio.sleep(2 * SESSION_MS / 1000)
        assert not node.image.brokers[2].fenced

    run(scenario)


def test_a_controller_that_is_replaced_while_it_decides_ends_its_duty_without_a_word() -> None:
    async def scenario(node: FakeNode) -> None:
        node.controller.refusals = [NotController()]
        node.controller.on_active(4)
        await node.until(lambda: node.controller.decisions == 1)

    run(scenario)


def test_a_broker_that_hung_up_is_not_alive_though_its_session_lasts() -> None:
    async def scenario(node: FakeNode) -> None:
        node.controller.on_active(4)
        request = BrokerHeartbeatRequest(broker_id=2, broker_epoch=7, current_metadata_offset=9)
        await node.controller.submit(
            lambda image: node.work.heartbeats.on_broker_heartbeat(
                image, request, node.work.now_ms() + 1_000_000, node.work.rules(image)
            )
        )
        connection = SimpleNamespace(closed=False)
        node.work.heard(2, cast(Any, connection))
        assert node.work.is_alive(node.image, 2)
        connection.closed = True
        assert not node.work.is_alive(node.image, 2)

    run(scenario)


def test_a_broker_that_a_new_controller_has_not_heard_is_not_alive_for_long() -> None:
    async def scenario(node: FakeNode) -> None:
        node.controller.on_active(4)
        assert node.work.is_alive(node.image, 2)
        node.config[broker_settings.BROKER_HEARTBEAT_INTERVAL_MS] = -1
        assert not node.work.is_alive(node.image, 2)
        # this node's own broker was heard, in process
        node.work.heard(2, None)
        assert node.work.is_alive(node.image, 2)

    run(scenario)


def test_topics_that_begin_to_allow_it_are_looked_at_for_unclean_elections_at_once() -> None:
    async def scenario(node: FakeNode) -> None:
        node.controller.on_active(4)
        await asyncio.sleep(0)
        before = node.controller.decisions
        node.controller.on_metadata(MetadataDelta(changed_topic_configs={"t": None}))
        await node.until(lambda: node.controller.decisions > before)

    run(scenario)
