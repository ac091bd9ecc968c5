"""A broker's life beside a scripted controller: registration, heartbeats, fencing, controlled shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker.controller.lifecycle import BrokerLifecycle, BrokerState, RegistrationRefused
from ottla.broker.supervisor import Supervisor
from ottla.core.image.image import EndpointImage, MetadataDelta, MetadataImage
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode, RequestTimedOut
from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ottla.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.schema import Message
from support.core.metadata import create, image_with_brokers, topic

ENDPOINTS = [EndpointImage("PLAINTEXT", "here", 9092)]
LAST_RUN = 17

Outcome = Message | Exception


def registered(epoch: int) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=0, broker_epoch=epoch)


def refused(error: ErrorCode) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error)


def beat(*, fenced: bool = False, may_go: bool = False, error: int = 0) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        error_code=error, is_caught_up=True, is_fenced=fenced, should_shut_down=may_go
    )


class FakeNode:
    """What a lifecycle needs of its broker. The last outcome is given again and again."""

    def __init__(self, *outcomes: Outcome, settings: dict[Any, Any] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.node_id = 3
        self.cluster_id = "a-cluster"
        self.config = Settings(settings or {})
        self.log_directory = SimpleNamespace(
            directory_id=UUID(int=1234), broker_epoch=LAST_RUN, path=Path("/data")
        )
        self.image = MetadataImage(last_offset=99)
        self.controller = SimpleNamespace(wait_for=self._wait_for)
        self.roles = SimpleNamespace(take_roles=self._take_roles)
        self.controller_channel = SimpleNamespace(ask=self._ask)
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(str(failure)))
        self.outcomes = list(outcomes)
        self.asked: list[Message] = []
        self.events: list[str] = []
        self.failures: list[str] = []
        self.lifecycle = BrokerLifecycle(cast(Any, self))

    async def _ask(self, request: Message, *, timeout_ms: int | None = None) -> Message:
        self.asked.append(request)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _wait_for(self, offset: int) -> None:
        self.events.append(f"applied {offset}")

    def _take_roles(self) -> None:
        self.events.append("roles")

    def fail(self, reason: str) -> None:
        self.failures.append(reason)

    def heartbeats(self) -> list[BrokerHeartbeatRequest]:
        return [each for each in self.asked if isinstance(each, BrokerHeartbeatRequest)]

    def registrations(self) -> list[BrokerRegistrationRequest]:
        return [each for each in self.asked if isinstance(each, BrokerRegistrationRequest)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


class Settings(dict[Any, Any]):
    """Quick ones unless a test says otherwise."""

    rack = "east"

    def __init__(self, given: dict[Any, Any]) -> None:
        super().__init__(
            {
                broker_settings.BROKER_HEARTBEAT_INTERVAL_MS: 1,
                broker_settings.BROKER_SESSION_TIMEOUT_MS: 100,
                broker_settings.INITIAL_BROKER_REGISTRATION_TIMEOUT_MS: 10_000,
                broker_settings.CONTROLLED_SHUTDOWN_ENABLE: True,
            }
            | given
        )


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


def test_replicas_of_another_directory_are_told_of_before_it_serves() -> None:
    async def scenario() -> None:
        node = FakeNode(
            RequestTimedOut(), beat(fenced=True), AssignReplicasToDirsResponse(), beat(), beat(may_go=True)
        )
        node.image = image_with_brokers([3])
        create(node.image, topic("orders", 1, 1))
        await node.lifecycle.unfence()
        await node.lifecycle.shut_down()
        assert [type(each) for each in node.asked[:4]] == [
            AssignReplicasToDirsRequest,
            BrokerHeartbeatRequest,
            AssignReplicasToDirsRequest,  # the first one was not answered
            BrokerHeartbeatRequest,
        ]
        told = cast(AssignReplicasToDirsRequest, node.asked[2]).directories[0]
        assert (told.id, told.topics[0].partitions[0].partition_index) == (UUID(int=1234), 0)

    run(scenario)


def test_a_start_registers_applies_that_and_is_unfenced() -> None:
    async def scenario() -> None:
        node = FakeNode(registered(42), beat(fenced=True), beat())
        await node.lifecycle.register(ENDPOINTS)
        assert node.events == ["applied 42", "roles"]
        assert (node.lifecycle.broker_epoch, node.lifecycle.state) == (42, BrokerState.RECOVERY)
        (request,) = node.registrations()
        assert (request.broker_id, request.cluster_id, request.rack) == (3, "a-cluster", "east")
        assert (request.log_dirs, request.previous_broker_epoch) == ([UUID(int=1234)], LAST_RUN)
        assert [(each.name, each.host, each.port) for each in request.listeners] == [
            ("PLAINTEXT", "here", 9092)
        ]
        await node.lifecycle.unfence()
        assert not node.lifecycle.fenced
        assert node.lifecycle.state is BrokerState.RUNNING
        assert {(each.broker_epoch, each.current_metadata_offset) for each in node.heartbeats()} == {(42, 99)}
        await node.supervisor.stop()

    run(scenario)


@pytest.mark.parametrize(
    "before", [RequestTimedOut("nobody"), refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)]
)
def test_a_registration_is_tried_until_it_is_taken(before: Outcome) -> None:
    async def scenario() -> None:
        node = FakeNode(before, before, registered(42))
        await node.lifecycle.register(ENDPOINTS)
        assert len(node.registrations()) == 3
        assert len({each.incarnation_id for each in node.registrations()}) == 1

    run(scenario)


def test_a_live_broker_with_the_same_id_ends_the_start() -> None:
    async def scenario() -> None:
        soon = {broker_settings.INITIAL_BROKER_REGISTRATION_TIMEOUT_MS: 150}
        node = FakeNode(refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION), settings=soon)
        with pytest.raises(RegistrationRefused, match=r"another broker with node\.id=3 is alive"):
            await node.lifecycle.register(ENDPOINTS)

    run(scenario)


def test_another_clusters_directory_ends_the_start_at_once() -> None:
    async def scenario() -> None:
        node = FakeNode(refused(ErrorCode.INCONSISTENT_CLUSTER_ID))
        with pytest.raises(RegistrationRefused, match="/data belongs to cluster a-cluster"):
            await node.lifecycle.register(ENDPOINTS)
        assert len(node.asked) == 1

    run(scenario)


def test_heartbeats_go_on_without_a_controller() -> None:
    async def scenario() -> None:
        node = FakeNode(registered(42), beat(), RequestTimedOut("nobody"))
        await node.lifecycle.register(ENDPOINTS)
        await node.lifecycle.unfence()
        await node.until(lambda: len(node.heartbeats()) > 3)
        assert node.lifecycle.state is BrokerState.RUNNING
        assert not node.failures
        await node.supervisor.stop()

    run(scenario)


def test_a_registration_that_the_controller_does_not_know_is_made_anew() -> None:
    async def scenario() -> None:
        unknown = beat(error=ErrorCode.STALE_BROKER_EPOCH)
        node = FakeNode(registered(42), beat(), unknown, registered(77), beat())
        await node.lifecycle.register(ENDPOINTS)
        await node.lifecycle.unfence()
        await node.until(lambda: node.heartbeats()[-1].broker_epoch == 77)
        assert node.registrations()[1].previous_broker_epoch == 42
        assert node.events == ["applied 42", "roles", "applied 77", "roles"]
        await node.supervisor.stop()

    run(scenario)


def test_a_broker_whose_id_was_taken_stops() -> None:
    async def scenario() -> None:
        unknown = beat(error=ErrorCode.STALE_BROKER_EPOCH)
        soon = {broker_settings.INITIAL_BROKER_REGISTRATION_TIMEOUT_MS: 10}
        taken = refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        node = FakeNode(registered(42), beat(), unknown, taken, settings=soon)
        await node.lifecycle.register(ENDPOINTS)
        await node.lifecycle.unfence()
        await node.until(lambda: bool(node.failures))
        assert "another broker with node.id=3 is alive" in node.failures[0]
        await node.supervisor.stop()

    run(scenario)


def test_a_stop_asks_until_the_broker_may_go() -> None:
    async def scenario() -> None:
        node = FakeNode(registered(42), beat(), beat(), beat(), beat(fenced=True, may_go=True))
        node.config[broker_settings.BROKER_HEARTBEAT_INTERVAL_MS] = 3_600_000
        await node.lifecycle.register(ENDPOINTS)
        await node.lifecycle.unfence()
        await node.lifecycle.shut_down()
        assert [each.want_shut_down for each in node.heartbeats()] == [False, True, True, True]
        assert node.lifecycle.state is BrokerState.STOPPED
        await node.supervisor.stop()

    run(scenario)


def test_a_stop_does_not_wait_for_a_controller_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("ottla.broker.controller.lifecycle.SILENCE_LIMIT_SECONDS", 0.05)
        node = FakeNode(registered(42), beat(), RequestTimedOut("nobody"))
        await node.lifecycle.register(ENDPOINTS)
        await node.lifecycle.unfence()
        await node.lifecycle.shut_down()
        assert node.lifecycle.state is BrokerState.STOPPED
        await node.supervisor.stop()

    run(scenario)


def test_a_start_that_failed_asks_nobody_when_it_stops() -> None:
    async def scenario() -> None:
        node = FakeNode(registered(42))
        await node.lifecycle.shut_down()
        assert not node.asked

    run(scenario)


def test_another_broker_that_stops_is_not_kept_waiting() -> None:
    async def scenario() -> None:
        node = FakeNode(registered(42), beat())
        node.config[broker_settings.BROKER_HEARTBEAT_INTERVAL_MS] = 3_600_000
        node.image = image_with_brokers([3, 4])
        await node.lifecycle.register(ENDPOINTS)
        await node.lifecycle.unfence()
        node.lifecycle.on_metadata(MetadataDelta(changed_brokers={4: None}))
        await asyncio.sleep(0.01)
        assert len(node.heartbeats()) == 1
        # when
        node.image.brokers[4] = node.image.brokers[4]._replace(in_controlled_shutdown=True)
        node.lifecycle.on_metadata(MetadataDelta(changed_brokers={4: None}))
        # then
        await node.until(lambda: len(node.heartbeats()) == 2)
        await node.supervisor.stop()

    run(scenario)
