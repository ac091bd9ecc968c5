"""A broker's configuration: its static settings, and the dynamic ones that change while it runs.

Kafka's names throughout. A key that the table does not have is named in one warning and kept, for Kafka's
DescribeConfigs shows such keys. A value that is not allowed stops the start with one line that says where it
stands, what it is and what is allowed. Dynamic values come from the metadata log and are layered over the
static ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ottla.broker.listeners import (
    BROKER,
    CONTROLLER,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    Listener,
    Listeners,
    brokers_listener,
    read_listeners,
)
from ottla.broker.quorum_addresses import read_quorum_addresses
from ottla.config.setting import LOW, Setting, Table, boolean, by_name, integer, password, short, string
from ottla.config.settings import Settings
from ottla.config.sources import Given, from_mapping, texts
from ottla.config.telemetry_settings import OTLP_SETTINGS
from ottla.config.validators import at_least
from ottla.core.image.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from ottla.core.quorum.api import Address
from ottla.core.settings import broker_settings
from ottla.core.settings.broker_settings import (
    BROKER_SETTINGS,
    DYNAMIC_ONLY,
    LISTENER_PREFIX,
    without_listener,
)
from ottla.core.settings.config_layers import BrokerLayers, GroupConfig, TopicConfig
from ottla.core.settings.schema_validation_settings import SCHEMA_VALIDATION_BROKER_SETTINGS
from ottla.metrics.settings import METRICS_SETTINGS
from ottla.protocol.schema import Message

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

REPLICA_SELECTORS: Final = frozenset({"org.apache.kafka.common.replica.RackAwareReplicaSelector"})
"""The class of Kafka that is known here; without a class, consumers read from leaders."""

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's authorizer by ACLs in the metadata, which is the one that is served."""
# Kafka's authorizer reads these two, which are in no table of Kafka's broker.
SUPER_USERS: Final = string(
    "super.users", "", "Principals that may do everything, as `User:alice;User:bob`: semicolons, not commas."
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND: Final = boolean(
    "allow.everyone.if.no.acl.found",
    False,
    "Whether everyone may do everything where there is no ACL.",
)

ADD_SCRAM: Final = password.optional(
    "ottla.format.add.scram",
    "The first users of a new cluster, as `kafka-storage format --add-scram` takes them: "
    "`SCRAM-SHA-256=[name=alice,password=secret]`, a semicolon between two. Every controller needs the same.",
)

SSL_PRINCIPAL_SPIFFE: Final = boolean(
    "ottla.ssl.principal.spiffe",
    False,
    "Whether a client certificate's SPIFFE id, where it has one, is the name of its principal.",
    importance=LOW,
)

AUDIT_LOG_ENABLE: Final = boolean(
    "ottla.audit.log.enable",
    False,
    "Whether this node records logins, refusals and administrative changes in the topic __ottla_audit_log.",
)
AUDIT_LOG_KEY_FILE: Final = string.optional(
    "ottla.audit.log.key.file",
    "A file with the secret key, of 16 bytes at least, by which this node signs its audit records.",
)
AUDIT_LOG_REPLICATION_FACTOR: Final = short(
    "ottla.audit.log.topic.replication.factor",
    3,
    "The replication factor of the audit log's topic when it is created.",
    at_least(1),
)
MOST_SERIES_OF_A_CLIENT: Final = integer(
    "ottla.telemetry.client.series.max",
    0,
    "How many series each client may have on the metrics endpoint, of the metrics that it pushes (KIP-714). "
    "0: none.",
    at_least(0),
)

BROKER_TABLE: Final = Table(
    title="ottla broker",
    settings={
        **{name: setting for name, setting in BROKER_SETTINGS.items() if name not in DYNAMIC_ONLY},
        **SCHEMA_VALIDATION_BROKER_SETTINGS,
        **by_name(
            (
                SUPER_USERS,
                ALLOW_EVERYONE_IF_NO_ACL_FOUND,
                ADD_SCRAM,
                SSL_PRINCIPAL_SPIFFE,
                AUDIT_LOG_ENABLE,
                AUDIT_LOG_KEY_FILE,
                AUDIT_LOG_REPLICATION_FACTOR,
                MOST_SERIES_OF_A_CLIENT,
                *OTLP_SETTINGS,
            )
        ),
        **{each.name: each for each in METRICS_SETTINGS},
    },
    # Java's system properties of OAUTHBEARER are settings here (oauthbearer_settings.py).
    prefixes=(
        LISTENER_PREFIX,
        "config.providers.",
        "rsm.config.",
        "rlmm.config.",
        "org.apache.kafka.sasl.oauthbearer.",
    ),
    variables="OTTLA_BROKER_",
    base_name=without_listener,
)
"""The settings of a `server.properties`."""
OWN_SETTINGS: Final = {
    name: setting for name, setting in BROKER_TABLE.settings.items() if name.startswith("ottla.")
}
"""The settings of a broker that Apache Kafka lacks, by name."""


class BrokerConfig:
    """The configuration of this node: `config[broker_settings.NUM_PARTITIONS]`, or the properties below."""

    def __init__(self, given: Mapping[str, Given]) -> None:
        """Raises ConfigError for values that the node can't start with."""
        settings = Settings(BROKER_TABLE, given)
        settings.warn_of_unknown(log)
        for check in _CHECKS:
            found = check(settings)
            if found is not None:
                raise settings.refusal(*found)
        self.node_id = _node_id(settings)
        # Both names stand for it, whichever was given.
        self._static = texts(given) | dict.fromkeys(("node.id", "broker.id"), str(self.node_id))
        self.layers = BrokerLayers(self._static)
        roles: tuple[str, ...] = settings[broker_settings.PROCESS_ROLES]
        self.roles = frozenset(roles)
        self._listeners: Listeners = read_listeners(settings, self.roles)
        if settings[AUDIT_LOG_ENABLE] and not self.is_broker:
            self._listeners = self._listeners._replace(inter_broker=brokers_listener(settings))
        quorum = read_quorum_addresses(settings, self.node_id, self.roles, self._listeners)
        self.quorum_voters: Mapping[int, Address] = quorum.voters
        self.quorum_bootstrap_servers = quorum.bootstrap_servers
        self.quorum_alone = quorum.alone
        self._require_sasl_settings(settings)
        _require_tls_settings(settings, self.layers, (*self._listeners.all, *self.peer_listeners))
        self.log_directory = _log_directory(settings)
        self.authorizer = _read_authorizer(settings)
        """The rules of the authorizer; None without one."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, str]) -> BrokerConfig:
        """The configuration of these static values alone. Raises ConfigError."""
        return cls(from_mapping(values))

    def __getitem__(self, setting: Setting[T]) -> T:
        """The value that holds now."""
        return self.layers[setting]

    # -- values derived from several settings ---------------------------------------------------------

    @property
    def is_broker(self) -> bool:
        """Whether this node holds partitions and serves clients."""
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether this node may vote and lead the metadata."""
        return CONTROLLER in self.roles

    @property
    def listener(self) -> Listener:
        """The first of the broker's listeners; of the controller's on a node without the broker role."""
        return (*self._listeners.broker, *self._listeners.controllers)[0]

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The broker's listeners; those of the controller are not among them."""
        return self._listeners.broker

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the broker and of the controller."""
        return self._listeners.all

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The addresses that clients are given; a port of 0 stands for the one that was bound."""
        return self._listeners.advertised

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The controller's listeners; empty on a pure broker, and on a single node that was given none."""
        return self._listeners.controllers

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """The controller's addresses for other nodes, the preferred first; port 0 as for brokers."""
        return self._listeners.advertised_controllers

    @property
    def controller_listener(self) -> Listener:
        """The first of these; a single node without one has an address here that no node uses."""
        return self._listeners.controller

    @property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves."""
        return self._listeners.inter_broker.name

    @property
    def peer_listeners(self) -> tuple[Listener, ...]:
        """The listeners by which this node reaches other nodes: the brokers' own, and the controllers'."""
        if self.is_broker or self[AUDIT_LOG_ENABLE]:
            return self._listeners.inter_broker, self._listeners.controller
        return (self._listeners.controller,)

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol of that listener."""
        return self._listeners.inter_broker.security_protocol

    @property
    def reaches_nodes(self) -> bool:
        """Whether there are, or may come, other nodes that this one has to reach."""
        return not self.quorum_alone or bool(self.controller_listeners)

    @property
    def rack(self) -> str | None:
        """The broker's rack, for placing replicas."""
        return self[broker_settings.BROKER_RACK]

    @property
    def static(self) -> Mapping[str, str]:
        """The static values as given."""
        return self._static

    def first_users(self) -> Sequence[Message]:
        """The users of a cluster that is formatted now (ottla.format.add.scram), with salts of their own."""
        text = self[ADD_SCRAM]
        if text is None:
            return ()
        import secrets

        from ottla.core.decisions.first_users import first_users

        return first_users(text.value, secrets.token_bytes)

    def for_topic(self, topic: str, image: MetadataImage) -> TopicConfig:
        """The settings that hold for a topic now."""
        return TopicConfig(self.layers, image.configs.get((TOPIC_RESOURCE, topic), {}))

    def for_group(self, group_id: str, image: MetadataImage) -> GroupConfig:
        """The settings that hold for a group now."""
        return GroupConfig(self.layers, image.configs.get((GROUP_RESOURCE, group_id), {}))

    def _require_sasl_settings(self, settings: Settings) -> None:
        """Check the settings of listeners with SASL, and of logins at other nodes. Raises ConfigError."""
        own = (*self.listeners, *self.controller_listeners)
        used = [*own, *self.peer_listeners] if self.reaches_nodes else own
        if all(listener.security_protocol not in SASL_PROTOCOLS for listener in used):
            return
        # Imported where it is used: a start without SASL does not pay for it.
        from ottla.broker.sasl_settings import node_login_problem, sasl_problem

        for listener in own:
            if listener.security_protocol in SASL_PROTOCOLS:
                problem = sasl_problem(self.layers, listener.name)
                if problem is not None:
                    raise settings.refusal(*problem)
        if not self.reaches_nodes:
            return
        own_names = {listener.name for listener in own}
        for name, protocol, mechanism in (
            (
                self.inter_broker_listener_name,
                self.inter_broker_protocol,
                broker_settings.SASL_MECHANISM_INTER_BROKER_PROTOCOL,
            ),
            (
                self.controller_listener.name,
                self.controller_listener.security_protocol,
                broker_settings.SASL_MECHANISM_CONTROLLER_PROTOCOL,
            ),
        ):
            if protocol in SASL_PROTOCOLS:
                problem = node_login_problem(self.layers, name, mechanism, listens=name in own_names)
                if problem is not None:
                    raise settings.refusal(*problem)

    def follow(self, image: MetadataImage) -> None:
        """Take over the dynamic values of the metadata."""
        self.layers = BrokerLayers(
            self._static,
            image.configs.get((BROKER_RESOURCE, ""), {}),
            image.configs.get((BROKER_RESOURCE, str(self.node_id)), {}),
        )


class AuthorizerRules(NamedTuple):
    """The rules of the authorizer beside the ACLs."""

    super_users: frozenset[str]
    allow_if_no_acl: bool


# -- reading ----------------------------------------------------------------------------------------


def _read_authorizer(settings: Settings) -> AuthorizerRules | None:
    if not settings[broker_settings.AUTHORIZER_CLASS_NAME]:
        return None
    return AuthorizerRules(_super_users(settings[SUPER_USERS]), settings[ALLOW_EVERYONE_IF_NO_ACL_FOUND])


def _node_id(settings: Settings) -> int:
    node_id, broker_id = settings[broker_settings.NODE_ID], settings[broker_settings.BROKER_ID]
    if not settings.is_given("broker.id") or broker_id < 0:
        return node_id
    if settings.is_given("node.id") and broker_id != node_id:
        raise settings.refusal("broker.id", f"it must be the same as node.id={node_id}, or be left out")
    return broker_id


def _super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`. Raises ValueError for one that is none."""
    principals = [each.strip() for each in text.split(";")]
    wrong = next((each for each in principals if each and ":" not in each), None)
    if wrong is not None:
        raise ValueError(f"`{wrong}` is not a principal: write its type before a colon, as in User:{wrong}")
    return frozenset(filter(None, principals))


def _require_tls_settings(settings: Settings, layers: BrokerLayers, listeners: Iterable[Listener]) -> None:
    """Check the settings of TLS, not the files that they name. Raises ConfigError."""
    for listener in listeners:
        if listener.security_protocol in TLS_PROTOCOLS:
            from ottla.broker.tls_settings import tls_problem

            problem = tls_problem(layers, listener)
            if problem is not None:
                raise settings.refusal(*problem)


def _log_directory(settings: Settings) -> Path:
    several = settings[broker_settings.LOG_DIRS]
    name = "log.dirs" if several is not None else "log.dir"
    directories = several if several is not None else settings[broker_settings.LOG_DIR]
    if len(directories) != 1:
        raise settings.refusal(name, "one data directory is served, not several")
    metadata = settings[broker_settings.METADATA_LOG_DIR]
    if metadata is not None and Path(metadata) != Path(directories[0]):
        raise settings.refusal("metadata.log.dir", f"the metadata log lives in {name}: leave it out")
    return Path(directories[0])


# -- combinations and values that are not allowed ---------------------------------------------------

_Problem = tuple[str, str]
"""The name of a setting, and the problem with its value."""


def _fetch_wait(settings: Settings) -> _Problem | None:
    name = "replica.fetch.wait.max.ms"
    wait_ms = settings[broker_settings.REPLICA_FETCH_WAIT_MAX_MS]
    for limit in (broker_settings.REPLICA_SOCKET_TIMEOUT_MS, broker_settings.REPLICA_LAG_TIME_MAX_MS):
        if wait_ms > settings[limit]:
            given = name if settings.is_given(name) else limit.name
            return given, f"{name}={wait_ms} must be at most {limit.name}={settings[limit]}"
    return None


def _replica_selector(settings: Settings) -> _Problem | None:
    setting = broker_settings.REPLICA_SELECTOR_CLASS
    if not settings[setting] or settings[setting] in REPLICA_SELECTORS:
        return None
    return setting.name, f"it is not one of {', '.join(sorted(REPLICA_SELECTORS))}: leave it out"


def _request_memory(settings: Settings) -> _Problem | None:
    limit, largest = broker_settings.QUEUED_MAX_REQUEST_BYTES, broker_settings.SOCKET_REQUEST_MAX_BYTES
    if not 0 < settings[limit] < settings[largest]:
        return None
    return limit.name, f"it must be at least {largest.name}={settings[largest]}, or -1"


def _authorizer(settings: Settings) -> _Problem | None:
    setting = broker_settings.AUTHORIZER_CLASS_NAME
    if settings[setting] not in ("", STANDARD_AUTHORIZER):
        return setting.name, f"it is served with {STANDARD_AUTHORIZER} alone; other classes can't be loaded"
    try:
        _super_users(settings[SUPER_USERS])
    except ValueError as problem:
        return SUPER_USERS.name, str(problem)
    return None


def _first_users(settings: Settings) -> _Problem | None:
    text = settings[ADD_SCRAM]
    if text is None:
        return None
    from ottla.core.decisions.first_users import UnusableUser, first_users

    try:
        first_users(text.value, bytes)
    except UnusableUser as problem:
        return ADD_SCRAM.name, str(problem)
    return None


def _principal_builder(settings: Settings) -> _Problem | None:
    setting = broker_settings.PRINCIPAL_BUILDER_CLASS
    if settings[setting] == setting.default:
        return None
    return setting.name, f"classes can't be loaded, principals are those of {setting.default}: leave it out"


def _protecting_classes(settings: Settings) -> _Problem | None:
    """Classes that refuse requests, bound clients or look up secrets: without them the node would be open."""
    classes: tuple[Setting[Any], ...] = (
        broker_settings.CREATE_TOPIC_POLICY_CLASS_NAME,
        broker_settings.ALTER_CONFIG_POLICY_CLASS_NAME,
        broker_settings.CLIENT_QUOTA_CALLBACK_CLASS,
        broker_settings.CONFIG_PROVIDERS,
    )
    for setting in classes:
        if settings[setting]:
            return setting.name, "classes can't be loaded, so what it protects would be open: leave it out"
    return None


_CHECKS: Final[tuple[Callable[[Settings], _Problem | None], ...]] = (
    _fetch_wait,
    _replica_selector,
    _request_memory,
    _authorizer,
    _principal_builder,
    _protecting_classes,
    _first_users,
)
