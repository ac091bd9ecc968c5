"""A broker's life in the cluster: registers, sends heartbeats, hands its leadership over before it stops.

    STARTING -> RECOVERY               registered: the broker has its epoch, and is fenced
    RECOVERY -> RUNNING                it has applied its registration and serves: the controller unfences it
    RUNNING  -> CONTROLLED_SHUTDOWN    its heartbeats ask to be let go, and its partitions get other leaders
    any      -> STOPPED                no heartbeat is sent any more

A broker that can't reach a controller goes on serving the partitions that it leads: it may be fenced
meanwhile, and others lead then with a higher epoch, which its followers and the in-sync sets know. A
controller that does not know the registration any more (the broker was unregistered, or another one has taken
its id) is asked to register it anew; when it refuses, the broker stops with one line that says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import uuid
from typing import TYPE_CHECKING, Final

from ottla.core.decisions.directories import wanted_assignment
from ottla.core.image.features import REGISTERED_FEATURES
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.controller.node import LifecycleNode
    from ottla.core.image.image import EndpointImage, MetadataDelta

log = logging.getLogger("ottla.broker")

RETRY_SECONDS: Final = 0.1
LAST_RETRY_SECONDS: Final = 1.0
#: While a broker stops it asks this often whether its partitions have other leaders.
FIRST_SHUTDOWN_PAUSE_SECONDS: Final = 0.01
LAST_SHUTDOWN_PAUSE_SECONDS: Final = 0.5
#: The longest waits of a broker that stops: for others to take over its partitions, and for a controller.
SHUTDOWN_LIMIT_SECONDS: Final = 60.0
SILENCE_LIMIT_SECONDS: Final = 5.0
TELL_SECONDS: Final = 5.0

#: Errors that say that the controller does not have this registration: it is made anew.
_UNKNOWN = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})
#: Errors of a registration that no later attempt would escape.
_FINAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
    }
)


class RegistrationRefused(Exception):
    """The cluster does not take this broker; the message is one line that says why."""


class BrokerState(enum.Enum):
    """How far a broker has come."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    STOPPED = "stopped"


class BrokerLifecycle:
    """Tells the active controller of this broker and keeps its answers."""

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self._incarnation_id = uuid.uuid4()
        self._endpoints: Sequence[EndpointImage] = ()
        self._heartbeats: asyncio.Task[None] | None = None
        self._beat_now = asyncio.Event()
        self._reachable = True
        self.state = BrokerState.STARTING
        self.broker_epoch = -1
        """This registration's epoch; -1 before there is one."""
        self.fenced = True
        """Whether the broker was fenced by the last heartbeat's answer."""

    @property
    def wanted_shutdown(self) -> bool:
        """Whether this broker asks to be let go."""
        return self.state is BrokerState.CONTROLLED_SHUTDOWN

    # -- coming ---------------------------------------------------------------------------------------

    async def register(self, endpoints: Sequence[EndpointImage]) -> None:
        """Register this start of the broker. Raises RegistrationRefused.

        Tries for initial.broker.registration.timeout.ms once a controller is there: the run before this one
        may count as alive until its session has ended.
        """
        self._endpoints = endpoints
        await self._register()
        self.state = BrokerState.RECOVERY

    async def _register(self) -> None:
        """Register, and wait until this node has applied it: the metadata means this run from then on."""
        await self._until_registered()
        await self._node.controller.wait_for(self.broker_epoch)
        self._node.roles.take_roles()

    async def _until_registered(self) -> None:
        node = self._node
        limit = node.config[broker_settings.INITIAL_BROKER_REGISTRATION_TIMEOUT_MS] / 1000
        deadline = node.loop.time() + limit
        pause, tell = RETRY_SECONDS, node.loop.time()
        while True:
            problem = await self._try_to_register()
            if problem is None:
                return
            now = node.loop.time()
            if now >= deadline:
                raise RegistrationRefused(problem)
            if now >= tell:
                log.warning("broker not registered yet reason=%s", problem)
                tell = now + TELL_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_RETRY_SECONDS)

    async def _try_to_register(self) -> str | None:
        """None when registered, else the reason why not yet.

        Raises RegistrationRefused when no attempt will help.
        """
        node = self._node
        try:
            answer = await node.controller_channel.ask(self._registration())
        except KafkaError as error:
            return f"no controller has answered: {error}"
        assert isinstance(answer, BrokerRegistrationResponse)
        error_code = ErrorCode(answer.error_code)
        if error_code is ErrorCode.NONE:
            self.broker_epoch = answer.broker_epoch
            return None
        problem = self._explained(error_code)
        if error_code in _FINAL:
            raise RegistrationRefused(problem)
        return problem

    def _registration(self) -> BrokerRegistrationRequest:
        node = self._node
        directory = node.log_directory
        return BrokerRegistrationRequest(
            broker_id=node.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in self._endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=smallest, max_supported_version=largest)
                for name, (smallest, largest) in REGISTERED_FEATURES.items()
            ],
            rack=node.config.rack,
            log_dirs=[directory.directory_id],
            # Only a run that ended cleanly proves that nothing acknowledged was lost (KIP-966).
            previous_broker_epoch=directory.broker_epoch if self.broker_epoch < 0 else self.broker_epoch,
        )

    def _explained(self, error: ErrorCode) -> str:
        node = self._node
        match error:
            case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                return (
                    f"another broker with node.id={node.node_id} is alive in the cluster: give each node a "
                    "number of its own (after a kill the cluster waits for broker.session.timeout.ms)"
                )
            case ErrorCode.INCONSISTENT_CLUSTER_ID:
                return (
                    f"log directory {node.log_directory.path} belongs to cluster {node.cluster_id}, the "
                    "controllers to another one: name another directory, or the right controllers"
                )
            case ErrorCode.UNSUPPORTED_VERSION:
                return "the cluster has finalized features that this version of ottla does not support"
            case _:
                return f"the active controller refuses this broker: {error.name}: {error.message}"

    async def unfence(self) -> None:
        """Say that this broker serves, until the controller has unfenced it; heartbeats go on from then on.

        Raises RegistrationRefused when the registration is lost meanwhile and not given again.
        """
        pause = RETRY_SECONDS
        while True:
            await self._tell_where_replicas_lie()
            await self._beat()
            if not self.fenced:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_RETRY_SECONDS)
        self.state = BrokerState.RUNNING
        self._heartbeats = self._node.supervisor.spawn("broker-heartbeats", self._beat_for_ever())

    async def _tell_where_replicas_lie(self) -> None:
        """Tell of the replicas that the metadata has in another directory, because this one is new (KIP-858).

        They can't lead before that.
        """
        node = self._node
        if node.node_id not in node.image.brokers:
            return
        request = wanted_assignment(node.image, node.node_id, node.log_directory.directory_id)
        if request is not None:
            try:
                await node.controller_channel.ask(request)
            except KafkaError as error:  # the next round tells it again
                log.warning("no controller was told where replicas lie reason=%s", error)

    # -- living ---------------------------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Beat at once when another broker stops: it may go once all brokers know that it leads no more."""
        brokers = self._node.image.brokers
        for broker_id in delta.changed_brokers:
            changed = brokers.get(broker_id)
            if changed is not None and changed.in_controlled_shutdown and not changed.fenced:
                self._beat_now.set()

    async def _beat_for_ever(self) -> None:
        node = self._node
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds()):
                    await self._beat_now.wait()
            self._beat_now.clear()
            try:
                await self._beat()
            except RegistrationRefused as refused:
                node.fail(str(refused))
                return

    def _interval_seconds(self) -> float:
        return self._node.config[broker_settings.BROKER_HEARTBEAT_INTERVAL_MS] / 1000

    async def _beat(self) -> BrokerHeartbeatResponse | None:
        """Send one heartbeat. Returns its answer, None when there is none. Raises RegistrationRefused."""
        node = self._node
        request = BrokerHeartbeatRequest(
            broker_id=node.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=node.image.last_offset,
            want_shut_down=self.wanted_shutdown,
        )
        # A heartbeat that takes longer has missed its purpose: the next one says more.
        timeout_ms = node.config[broker_settings.BROKER_SESSION_TIMEOUT_MS] // 2
        try:
            answer = await node.controller_channel.ask(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            if self._reachable:
                log.warning("no controller answers heartbeats, this broker goes on serving reason=%s", error)
            self._reachable = False
            return None
        assert isinstance(answer, BrokerHeartbeatResponse)
        if not self._reachable:
            log.warning("a controller answers heartbeats again")
        self._reachable = True
        error_code = ErrorCode(answer.error_code)
        if error_code in _UNKNOWN and not self.wanted_shutdown:
            log.warning("broker registers again reason=%s", error_code.name)
            self.fenced = True
            await self._register()
            return None
        if error_code is not ErrorCode.NONE:
            log.warning("heartbeat refused error=%s", error_code.name)
            return None
        if answer.is_fenced and not self.fenced and not self.wanted_shutdown:
            log.warning("this broker was fenced by the controller, it asks to be unfenced")
        self.fenced = answer.is_fenced
        return answer

    # -- going ----------------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Ask the controller to give this broker's leaderships to others, until it says that the broker may
        go.

        Ends in any case: after SILENCE_LIMIT_SECONDS without a controller, SHUTDOWN_LIMIT_SECONDS at most.
        """
        await self._end_heartbeats()
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.CONTROLLED_SHUTDOWN
            if self._node.config[broker_settings.CONTROLLED_SHUTDOWN_ENABLE]:
                await self._ask_to_go()
        self.state = BrokerState.STOPPED

    async def _ask_to_go(self) -> None:
        loop = self._node.loop
        heard = loop.time()
        deadline = heard + SHUTDOWN_LIMIT_SECONDS
        pause = FIRST_SHUTDOWN_PAUSE_SECONDS
        while loop.time() < min(deadline, heard + SILENCE_LIMIT_SECONDS):
            answer = None
            with contextlib.suppress(TimeoutError, RegistrationRefused):
                async with asyncio.timeout_at(min(deadline, heard + SILENCE_LIMIT_SECONDS)):
                    answer = await self._beat()
            if answer is not None:
                heard = loop.time()
                if answer.should_shut_down:
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_SHUTDOWN_PAUSE_SECONDS)
        log.warning("the controller has not let this broker go, it stops nevertheless")

    async def _end_heartbeats(self) -> None:
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
