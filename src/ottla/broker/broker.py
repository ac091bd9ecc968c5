"""One node: starts its parts in order, holds them together, stops them in the reverse order.

A node is a broker, a controller or both (process.roles). Every node follows the metadata; a broker holds
partitions and serves clients, a controller votes, and leads the metadata when it is elected.

Order of the start, so that nothing is written before the directory is known to be ours and sound: bind the
sockets (a port in use is found first), lock and check the data directory, open the metadata log. A node that
is the quorum alone has all of the metadata then: it opens the partitions' logs (recovering after a kill)
before it writes the first record, an election. One of several nodes joins the quorum, waits for a majority
and until it has all of the leader's records, then opens the partitions' logs. Then the broker registers,
listens, is unfenced, and says ready.

The stop goes the other way round: the broker asks the controller to give its partitions to others while it
still serves, hangs up on clients, lets the coordinators go, closes the partitions' logs; last the metadata,
because in a node with both roles it carries all of the above. Then the mark of a clean stop is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.authorization import Authorization, OpenAuthorization
from ottla.broker.config import AUDIT_LOG_ENABLE, AuthorizerRules, BrokerConfig
from ottla.broker.controller.controller import Controller
from ottla.broker.controller.controller_channel import ControllerChannel
from ottla.broker.controller.controller_registration import register_controller
from ottla.broker.controller.controller_work import ControllerWork
from ottla.broker.controller.lifecycle import BrokerLifecycle, RegistrationRefused
from ottla.broker.controller.metadata_formatting import bootstrap_records
from ottla.broker.controller.metadata_quorum import MetadataQuorum
from ottla.broker.coordinators.coordinator_partitions import CoordinatorPartitions
from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.coordinators.producer_ids import ProducerIdSource
from ottla.broker.coordinators.share_coordinator import ShareCoordinator
from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
from ottla.broker.handlers.table import broker_table, controller_table
from ottla.broker.links.gate import LinksGate, StatusTopicGate
from ottla.broker.listeners import PLAINTEXT, PROTOCOLS, SASL_PROTOCOLS, TLS_PROTOCOLS, Listener
from ottla.broker.network.connection import Dispatch
from ottla.broker.network.context import ANONYMOUS, RequestContext
from ottla.broker.network.dispatch import Dispatcher, Handlers
from ottla.broker.network.server import ListenError, Server, bind
from ottla.broker.peers.broker_requests import BrokerRequests
from ottla.broker.peers.peers import PeerAddress, PeerConnections
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.replication.internal_appends import InternalAppends
from ottla.broker.replication.partitions import Partitions
from ottla.broker.replication.produced_appends import ProducedAppends
from ottla.broker.replication.replica_roles import ReplicaRoles
from ottla.broker.replication.replication import Replication
from ottla.broker.share.share_persister import ShareStatePersister
from ottla.broker.supervisor import Supervisor
from ottla.broker.telemetry.client_telemetry import ClientTelemetry
from ottla.config.errors import ConfigError, UserError
from ottla.config.setting import Setting
from ottla.core.decisions.topic_names import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.core.image.image import EndpointImage, MetadataDelta, MetadataImage
from ottla.core.links.definition import LINK_TOPIC
from ottla.core.replica.fetch_sessions import FetchSessionCache
from ottla.core.settings import broker_settings
from ottla.metrics.settings import LISTEN as METRICS_LISTEN
from ottla.protocol.schema import Message
from ottla.storage.errors import StorageError
from ottla.storage.log_directory import META_PROPERTIES, LogDirectory

if TYPE_CHECKING:
    import ssl

    from ottla.broker.audit.audit_log import AuditLog
    from ottla.broker.handlers.node import Node
    from ottla.broker.metrics.node_metrics import NodeMetrics
    from ottla.broker.network.tls_connection import ListenerTls
    from ottla.broker.peers.login import NodeLogin
    from ottla.broker.quotas.address_quotas import AddressQuotas
    from ottla.broker.security.node_tls import NodeTls
    from ottla.broker.share.share_partitions import SharePartitions

log = logging.getLogger("ottla.broker")

#: How often a start that waits for other nodes says so.
TELL_SECONDS: Final = 5.0
#: How long a start goes on looking for its cluster when it has met a node of another one.
STRANGER_SECONDS: Final = 2.0


class StartError(UserError):
    """The node can't start; the message is one line that says what to do."""


class Broker:
    """A running node. Made by `Broker.start`, ended by `stop`."""

    def __init__(self, config: BrokerConfig, on_failure: Callable[[], None]) -> None:
        self.config = config
        self.node_id = config.node_id
        self.loop = asyncio.get_running_loop()
        self.failed = False
        self._on_failure = on_failure
        self.tls: NodeTls | None = None
        """The TLS of the listeners and towards other nodes; None where all is plaintext."""
        self.peers = PeerConnections(
            f"ottla-{config.node_id}",
            self._login_at(
                config.inter_broker_listener_name,
                config.inter_broker_protocol,
                broker_settings.SASL_MECHANISM_INTER_BROKER_PROTOCOL,
            ),
            lambda: self._tls_towards(config.inter_broker_listener_name),
        )
        """Connections to other brokers."""
        self.controller_peers = PeerConnections(
            f"ottla-{config.node_id}",
            self._login_at(
                config.controller_listener.name,
                config.controller_listener.security_protocol,
                broker_settings.SASL_MECHANISM_CONTROLLER_PROTOCOL,
            ),
            lambda: self._tls_towards(config.controller_listener.name),
        )
        """Connections to controllers."""
        self.broker_requests = BrokerRequests(self, self.peers)
        self.supervisor = Supervisor(self._task_died)
        """Owns the background tasks of the broker."""
        self.controller_supervisor = Supervisor(self._task_died)
        """Owns the background tasks of the metadata, which ends later."""
        self.audit: AuditLog | None = None
        """This node's part of the audit log; None without one."""
        for_clients: Handlers[Node] = broker_table()
        for_controllers: Handlers[Node] = controller_table()
        if config[AUDIT_LOG_ENABLE]:
            # Imported where it is used: a start without an audit log does not pay for it.
            from ottla.broker.audit.audit_log import AuditLog
            from ottla.broker.handlers.audited import audited_broker, audited_controller

            self.audit = AuditLog(self)
            for_clients = audited_broker(broker_table(), self.audit)
            for_controllers = audited_controller(controller_table(), self.audit)
        self.metrics: NodeMetrics | None = None
        """The metrics endpoint; None without one."""
        if config[METRICS_LISTEN] is not None:
            # Imported where it is used: a start without metrics does not pay for it.
            from ottla.broker.metrics.node_metrics import NodeMetrics
            from ottla.metrics.settings import EndpointOptions

            options = EndpointOptions.of(config)
            assert options is not None
            self.metrics = NodeMetrics(self, options)
            for_clients = self.metrics.metered(for_clients)
            for_controllers = self.metrics.metered(for_controllers)
        self._clients_requests = Dispatcher(self, for_clients)
        self._controllers_requests = Dispatcher(self, for_controllers)
        self.controller_channel = ControllerChannel(self, self.answer_as_controller)
        self.controller_work = ControllerWork(self)
        self.lifecycle = BrokerLifecycle(self)
        self.server = Server(config, self._task_died)
        self.server.audit = self.audit
        self.client_quotas = ClientQuotas(config, self.loop)
        self._address_quotas: AddressQuotas | None = None
        self.authorization: Authorization = OpenAuthorization()
        """Decides what clients may do."""
        self._acls_are_read: Callable[[], None] = lambda: None
        self.fetch_sessions = FetchSessionCache(
            config[broker_settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], min_eviction_ms=120_000
        )
        self._stopping = False
        self._sockets: dict[str, socket.socket] = {}
        self.ports: dict[str, int] = {}
        """The bound ports by listener."""
        self.telemetry: ClientTelemetry
        """The metrics that clients push; set before any request can come, as are the following."""
        self.log_directory: LogDirectory
        self.quorum: MetadataQuorum
        self.controller: Controller
        # The parts of a broker; a controller alone has none of them.
        self.replication: Replication
        self.partitions: Partitions
        self.roles: ReplicaRoles
        self.produced_appends: ProducedAppends
        self.internal_appends: InternalAppends
        self.coordinator_partitions: CoordinatorPartitions
        self.groups: GroupCoordinator
        self.transactions: TransactionCoordinator
        self.share_coordinator: ShareCoordinator
        self.share_state: ShareStatePersister
        self._share_partitions: SharePartitions | None = None
        self.producer_ids: ProducerIdSource
        self.links: LinksGate

    @classmethod
    async def start(
        cls, config: BrokerConfig, on_failure: Callable[[], None], *, cluster_id: str | None = None
    ) -> Broker:
        """Start and listen. Raises StartError with one line that says what to do.

        An empty directory becomes one of `cluster_id`, or of the cluster that the configuration means. May
        wait for other nodes without end; cancelled, it leaves everything as a stop would.
        """
        broker = cls._made(config, on_failure)
        try:
            broker._read_keys()
            broker._bind()
            if broker.metrics is not None:  # it tells what the start waits for
                await broker.metrics.start()
            await broker._open(cluster_id)
            await broker._join()
        except (ListenError, StorageError, UserError, OSError, RegistrationRefused) as problem:
            await broker._abandon()
            raise StartError(str(problem)) from problem
        except BaseException:
            await broker._abandon()
            if broker.failed:  # the caller of `on_failure` has cancelled the start
                raise StartError("the node failed while it started, see the lines above") from None
            raise
        broker._start_background_work()
        return broker

    @classmethod
    def _made(cls, config: BrokerConfig, on_failure: Callable[[], None]) -> Broker:
        """The node before its start. Raises StartError."""
        try:
            return cls(config, on_failure)
        except ConfigError as problem:
            raise StartError(str(problem)) from problem

    # -- what the parts use of the node -----------------------------------------------------------------

    @property
    def port(self) -> int:
        """The bound port of the first listener."""
        return self.ports[self.config.listener.name]

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata as of the last committed record that is applied here."""
        return self.controller.image

    @property
    def share_partitions(self) -> SharePartitions:
        """The share partitions that this broker leads; made for the first share consumer."""
        if self._share_partitions is None:
            from ottla.broker.share.share_partitions import SharePartitions

            self._share_partitions = SharePartitions(self)
        return self._share_partitions

    @property
    def loaded_share_partitions(self) -> SharePartitions | None:
        """The share partitions that this broker leads; None before the first share consumer."""
        return self._share_partitions

    @property
    def controller_leader_id(self) -> int:
        """The active controller's node id, -1 when it is not known."""
        return self.quorum.leader_id

    def controller_address(self) -> PeerAddress | None:
        """Where the active controller listens; None while no leader is known, or when it is this node."""
        address = self.quorum.leader_address()
        return None if address is None or self.quorum.is_leader else PeerAddress(*address)

    @property
    def cluster_id(self) -> str:
        """The cluster's id as clients see it."""
        return self.log_directory.cluster_id

    @staticmethod
    def now_ms() -> int:
        """Wall-clock time, for timestamps and retention."""
        return time.time_ns() // 1_000_000

    def answer_as_controller(self, context: RequestContext, request: Message) -> Message | Awaitable[Message]:
        """The answer of this node's own controller. Raises KafkaError."""
        return self._controllers_requests.answer(context, request)

    def ready_line(self) -> str:
        """The line that `ottla broker` prints once clients can connect."""
        host = self.config.listener.host or "0.0.0.0"
        kind = "broker" if self.config.is_broker else "controller"
        return (
            f"ottla {kind} ready: listening on {host}:{self.port}, node {self.node_id}, "
            f"cluster {self.cluster_id}, data in {self.log_directory.path}"
        )

    def fail(self, reason: str) -> None:
        """The node can't go on: say why in one line and stop it."""
        log.error("%s", reason)
        self.failed = True
        self._on_failure()

    # -- start ------------------------------------------------------------------------------------------

    def _read_keys(self) -> None:
        """Read the files that settings name: without keys nothing may be written, and nobody connects."""
        listening, connecting = self.config.all_listeners, self.config.peer_listeners
        if any(each.security_protocol in TLS_PROTOCOLS for each in (*listening, *connecting)):
            # Imported where it is used: a start without TLS does not pay for it.
            from ottla.broker.security.node_tls import NodeTls

            self.tls = NodeTls(self.config, listening, connecting)
        if self.audit is not None:
            self.audit.read_key()
        self.telemetry = ClientTelemetry(self)

    def _tls_towards(self, listener_name: str) -> ssl.SSLContext | None:
        found = None if self.tls is None else self.tls.of_listener(listener_name)
        return None if found is None else found.client_context

    def _bind(self) -> None:
        config = self.config
        if self.metrics is not None:
            log.info("metrics address=%s", self.metrics.bind().url)
        for listener in (*config.listeners, *config.controller_listeners):
            bound = bind(listener.name, listener.host, listener.port)
            self._sockets[listener.name] = bound
            self.ports[listener.name] = bound.getsockname()[1]

    async def _open(self, cluster_id: str | None) -> None:
        """Open the data directory and the metadata as this node's own log has it.

        Writes nothing but a format.
        """
        config = self.config
        if cluster_id is None and not (
            config.quorum_alone or (config.log_directory / META_PROPERTIES).exists()
        ):
            from ottla.broker.controller.cluster_identity import identify_cluster

            cluster_id = await identify_cluster(config, self.controller_peers)
        self.log_directory = LogDirectory.open(
            config.log_directory, node_id=config.node_id, cluster_id=cluster_id
        )
        spawn = self.controller_supervisor.spawn
        self.quorum = MetadataQuorum.open(
            self.log_directory, config, self.controller_peers, now_ms=self.now_ms, spawn=spawn
        )
        self.controller = await Controller.open(self.quorum, config, now_ms=self.now_ms, spawn=spawn)
        self._take_quotas()
        self._measure_requests()
        self.controller.add_listener(self._follow_quotas)
        if self.tls is not None:
            self.controller.add_listener(self._follow_tls)
            self.controller_supervisor.spawn("follow-tls-keys", self.tls.run())
        if self.metrics is not None:
            self.metrics.metadata_opened()
        if config.authorizer is not None:
            self._authorize(config.authorizer)
        if config.is_controller:
            self.controller_work.start()

    def _authorize(self, rules: AuthorizerRules) -> None:
        """Decide by the metadata's ACLs once this node has all of it; until then only super users may."""
        # Imported where it is used: a start without an authorizer does not pay for it.
        from ottla.broker.security.acl_authorization import AclAuthorization

        authorization = AclAuthorization(
            rules.super_users,
            allow_if_no_acl=rules.allow_if_no_acl,
            image=self.image,
            flood_log=self.server.flood_log,
            audit=self.audit,
        )
        self.authorization = authorization
        self._acls_are_read = authorization.begin
        self.controller.add_listener(authorization.follow)
        if self.quorum.alone:
            authorization.begin()
            return
        if not self.config.is_broker:  # a broker's start waits for the metadata anyway
            self.controller_supervisor.spawn("read-acls", self._until_acls_are_read())
        protocols = (self.config.inter_broker_protocol, self.config.controller_listener.security_protocol)
        if ANONYMOUS not in rules.super_users and PLAINTEXT in protocols:
            log.warning(
                "nodes reach each other without a login, as %s, which is not in super.users: unless ACLs let "
                "it in, other nodes refuse this one",
                ANONYMOUS,
            )

    async def _until_acls_are_read(self) -> None:
        await self.controller.wait_until_caught_up()
        self._acls_are_read()

    async def _join(self) -> None:
        """Take part in the quorum, then in the cluster."""
        if self.quorum.alone:
            if self.config.is_broker:
                self._open_partitions()
            self.quorum.start(self.ports)
            await self._listen(self.config.controller_listeners, for_controller=True)
        else:
            await self._listen(self.config.controller_listeners, for_controller=True)
            self.quorum.start(self.ports)
            if self.config.is_broker:
                async with self._telling("waiting for the leader of the metadata quorum"):
                    await self._until_caught_up()
                self._open_partitions()
        if self.config.is_controller:
            self._register_controller()
            self.controller.add_listener(self._stay_registered)
        if self.config.is_broker:
            await self._become_broker()

    def _register_controller(self) -> None:
        listeners = self.config.advertised_controller_listeners or (self.config.controller_listener,)
        self.controller_supervisor.spawn(
            "register-controller",
            register_controller(self.node_id, self.controller_channel, self._endpoints(listeners)),
        )

    def _stay_registered(self, delta: MetadataDelta) -> None:
        """A controller that was unregistered although it runs registers again, as Kafka's does."""
        is_gone = self.node_id in delta.changed_controllers and self.node_id not in self.image.controllers
        if is_gone and not self._stopping:
            self._register_controller()

    async def _until_caught_up(self) -> None:
        """Wait for the metadata. Raises ConfigError when the controllers belong to another cluster."""
        caught_up = asyncio.ensure_future(self.controller.wait_until_caught_up())
        met_stranger = asyncio.ensure_future(self.quorum.met_stranger.wait())
        try:
            await asyncio.wait([caught_up, met_stranger], return_when=asyncio.FIRST_COMPLETED)
            if not caught_up.done():  # the other controllers may let it in, where only one is a stranger
                await asyncio.wait([caught_up], timeout=STRANGER_SECONDS)
            if not caught_up.done():
                host, port = self.quorum.stranger or ("", 0)
                raise ConfigError(
                    f"log directory {self.log_directory.path} belongs to cluster {self.cluster_id}, the "
                    f"controller at {host}:{port} to another one: name another directory, or the right "
                    "controllers"
                )
            await caught_up
            self._acls_are_read()
        finally:
            caught_up.cancel()
            met_stranger.cancel()

    def _open_partitions(self) -> None:
        replication = self.replication = Replication(self, self.log_directory)
        self.partitions, self.roles = replication.partitions, replication.roles
        self.produced_appends = replication.produced_appends
        self.internal_appends = replication.internal_appends
        self.roles.open()
        self.links = LinksGate(self)
        self.roles.tell_links(self.links)
        self.links.begin()
        self.producer_ids = ProducerIdSource(self)
        self.coordinator_partitions = CoordinatorPartitions(
            self, self.log_directory.path, self._reload_coordinators
        )
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.share_coordinator = ShareCoordinator(self)
        self.share_state = ShareStatePersister(self.node_id, self.share_coordinator, self.broker_requests)
        replication.coordinate(
            {
                GROUP_TOPIC: self.groups,
                TRANSACTION_TOPIC: self.transactions,
                SHARE_TOPIC: self.share_coordinator,
                LINK_TOPIC: StatusTopicGate(self.links),
            },
            on_transaction_end={GROUP_TOPIC: self.groups.on_transaction_end},
            on_topics_deleted=(self.groups.on_topics_deleted, self.share_coordinator.on_topics_deleted),
        )
        self.controller.add_listener(self._follow)
        if self.metrics is not None:
            self.metrics.partitions_opened()

    def _follow(self, delta: MetadataDelta) -> None:
        if self._stopping:  # the logs are being closed: nothing may be opened or removed any more
            return
        self.coordinator_partitions.on_metadata(delta)
        # Groups first: a shard hears of a topic's end before it hears that its offsets go.
        self.groups.on_metadata(delta)
        self.roles.on_metadata(delta)
        self.links.on_metadata(delta)
        self.producer_ids.on_metadata(delta)
        self.transactions.on_metadata(delta)
        self.telemetry.on_metadata(delta)
        self.lifecycle.on_metadata(delta)

    def _follow_tls(self, delta: MetadataDelta) -> None:
        if delta.broker_configs_changed and self.tls is not None:
            self.tls.settings_changed()

    def _follow_quotas(self, delta: MetadataDelta) -> None:
        if delta.quotas_changed:
            self._take_quotas()
            self._measure_requests()

    def _take_quotas(self) -> None:
        quotas = self.image.client_quotas
        self.client_quotas.take_limits(self.image)
        if self._address_quotas is None and any("ip" in dict(entity) for entity in quotas):
            from ottla.broker.quotas.address_quotas import AddressQuotas

            self._address_quotas = AddressQuotas(self.config, self.server, self.controller_supervisor.spawn)
        if self._address_quotas is not None:
            self._address_quotas.take_limits(self.image)

    def _measure_requests(self) -> None:
        """Measure the requests of clients while a quota asks for that."""
        if not self.client_quotas.limits_request_time:
            self.server.wrap_dispatch(None)
            return
        from ottla.broker.quotas.request_time import MeasuredDispatch

        self.server.wrap_dispatch(lambda dispatch: MeasuredDispatch(dispatch, self.client_quotas))

    def _reload_coordinators(self) -> None:
        for coordinator in (self.groups, self.transactions, self.share_coordinator):
            coordinator.shards.reload_all()

    async def _become_broker(self) -> None:
        await self.coordinator_partitions.settle()
        async with self._telling("waiting for the active controller to register this broker"):
            await self.lifecycle.register(self._endpoints(self.config.advertised_listeners))
        self.roles.take_first_roles()
        # Others connect as soon as the controller has told them of this broker.
        await self._listen(self.config.listeners, for_controller=False)
        async with self._telling("waiting for the active controller to unfence this broker"):
            await self.lifecycle.unfence()

    async def _listen(self, listeners: Iterable[Listener], *, for_controller: bool) -> None:
        dispatcher = self._controllers_requests if for_controller else self._clients_requests
        if self.tls is not None:  # the metadata may have newer settings than the file
            await asyncio.to_thread(self.tls.refresh)
        for listener in listeners:
            bound = self._sockets[listener.name]
            tls = None if self.tls is None else self.tls.of_listener(listener.name)
            if listener.security_protocol in SASL_PROTOCOLS:
                await self._listen_with_sasl(listener, bound, dispatcher, tls)
            else:
                await self.server.listen(listener.name, bound, dispatcher, tls=tls)

    async def _listen_with_sasl(
        self, listener: Listener, bound: socket.socket, dispatch: Dispatch, tls: ListenerTls | None
    ) -> None:
        # Imported where it is used: a start without SASL does not pay for it.
        from ottla.broker.sasl_settings import enabled_mechanisms
        from ottla.broker.security.credentials import MetadataCredentials
        from ottla.broker.security.sasl_listener import SaslListener
        from ottla.core.security.sasl.oauthbearer import OAUTHBEARER

        validator = None
        if OAUTHBEARER in enabled_mechanisms(self.config.layers, listener.name):
            from ottla.broker.security.bearer_validators import bearer_validator

            validator = bearer_validator(self.config.layers, listener.name)
            self.controller_supervisor.spawn(f"keys-of-{listener.name}", validator.run())
        sasl = SaslListener(
            listener.name,
            dispatch,
            self.config,
            MetadataCredentials(self, lambda: bootstrap_records(self.log_directory.path)),
            self.now_ms,
            self.server.flood_log,
            validator,
            self.audit,
        )
        limit_bytes = self.config.layers.for_listener(
            listener.name, broker_settings.SASL_SERVER_MAX_RECEIVE_SIZE
        )
        await self.server.listen(listener.name, bound, sasl, limit_bytes, tls)

    def _login_at(self, listener_name: str, protocol: str, mechanism: Setting[str]) -> NodeLogin | None:
        """The login of this node at others' listener of this name; None where the listener asks for none."""
        if protocol not in SASL_PROTOCOLS or not self.config.reaches_nodes:
            return None
        from ottla.broker.security.node_logins import node_login

        return node_login(self.config, listener_name, self.config[mechanism])

    def _endpoints(self, listeners: Iterable[Listener]) -> list[EndpointImage]:
        return [
            EndpointImage(
                each.name,
                each.host,
                each.port or self.ports.get(each.name, 0),
                PROTOCOLS.index(each.security_protocol),
            )
            for each in listeners
        ]

    @contextlib.asynccontextmanager
    async def _telling(self, reason: str) -> AsyncIterator[None]:
        """Log every few seconds the reason why the start waits."""

        async def tell() -> None:
            while True:
                await asyncio.sleep(TELL_SECONDS)
                log.warning(
                    "%s node=%d voters=%s leader=%d",
                    reason,
                    self.node_id,
                    ",".join(map(str, self.quorum.voters.node_ids)),
                    self.quorum.leader_id,
                )

        task = self.controller_supervisor.spawn("tell-what-is-waited-for", tell())
        try:
            yield
        finally:
            task.cancel()

    def _start_background_work(self) -> None:
        config = self.config
        if config.is_broker:
            self.replication.start_background_work(self.supervisor)
            self.telemetry.start()
        if self.audit is not None:
            self.audit.start()
        self.supervisor.every("tend-connections", self.server.tend_interval_ms, self.server.tend)
        log.info("node started node=%d port=%d", config.node_id, self.port)

    async def _abandon(self) -> None:
        """The start failed: let go of what was opened, write nothing more."""
        if self.metrics is not None:
            await self.metrics.stop()
        quorum = getattr(self, "quorum", None)
        if quorum is not None:
            # Its timer would start a task after the supervisor's end.
            quorum.abandon()
        await self.supervisor.stop()
        await self.controller_supervisor.stop()
        await self.server.stop()
        self.peers.close()
        self.controller_peers.close()
        for bound in self._sockets.values():
            bound.close()
        directory = getattr(self, "log_directory", None)
        if directory is not None:
            directory.close(clean=False)

    # -- stop -------------------------------------------------------------------------------------------

    async def stop(self, before_quorum: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop cleanly, see the module's text.

        `before_quorum` is awaited when the broker has left and the controller has not: several nodes that
        stop together can wait there for each other, because brokers leave with the help of the quorum.
        """
        if self.audit is not None:
            await self.audit.write_end()
        if self.config.is_broker:
            await self._stop_broker()
        if self.audit is not None:
            await self.audit.stop()
        await self.supervisor.stop()
        if self.config.is_broker:
            self._stopping = True
            await self._closed(self.replication.close())
        if before_quorum is not None:
            await before_quorum()
        await self.controller.close()
        await self._closed(self.quorum.close())
        await self.server.stop()
        if self.metrics is not None:
            await self.metrics.stop()
        await self.controller_supervisor.stop()
        self.peers.close()
        self.controller_peers.close()
        if self.audit is not None:
            self.audit.close()
        try:
            self.log_directory.close(clean=not self.failed, broker_epoch=self.lifecycle.broker_epoch)
        except OSError as problem:
            self._not_closed(problem)
            self.log_directory.close(clean=False)

    async def _closed(self, closing: Awaitable[None]) -> None:
        """Await the end of a part. A disk that refuses leaves the directory as a kill would."""
        try:
            await closing
        except OSError as problem:
            self._not_closed(problem)

    def _not_closed(self, problem: OSError) -> None:
        self.failed = True
        log.error("not closed cleanly, the next start recovers: %s", problem)

    async def _stop_broker(self) -> None:
        await self.lifecycle.shut_down()
        if self._share_partitions is not None:
            self._share_partitions.stop()
        self.links.stop()
        await self.server.stop({listener.name for listener in self.config.listeners})
        await self.telemetry.stop()
        await self.groups.stop()
        await self.transactions.stop()
        await self.share_coordinator.stop()

    def _task_died(self, name: str, failure: BaseException) -> None:
        self.failed = True
        self._on_failure()
