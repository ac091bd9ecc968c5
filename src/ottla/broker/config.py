"""A broker's configuration: `server.properties`, overrides, and what is changed while it runs.

Kafka's names throughout. A key that nobody knows is named in one warning and kept (DescribeConfigs shows it,
as Kafka does); a value that is not allowed stops the start with one line that says where it stands, what it
is and what is allowed. Dynamic values come from the metadata log and are layered over the static ones.

A node is alone when neither controller.quorum.voters nor controller.quorum.bootstrap.servers names another
one. Any other node must have a node.id that was given, and a controller listener if it is a controller.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ottla.broker.listeners import (
    BROKER,
    CONTROLLER,
    META_ADDRESSES,
    Listener,
    Listeners,
    parse_address,
    read_listeners,
)
from ottla.config.java_properties import MalformedProperties, parse_properties
from ottla.config.settings import InvalidValue, Setting
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

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

MAX_PROPERTIES_BYTES = 16 << 20
MAX_NODE_ID = 2**31 - 1
REPLICA_SELECTORS = frozenset({"org.apache.kafka.common.replica.RackAwareReplicaSelector"})
"""Kafka's own; without one consumers read from leaders."""
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_FOREIGN_PREFIXES = (LISTENER_PREFIX, "config.providers.", "rsm.config.", "rlmm.config.")


class ConfigError(Exception):
    """A configuration that the broker can't start with; one line that says what to do."""


class _Given(NamedTuple):
    """A static value and where it stands, for messages."""

    text: str
    where: str


class BrokerConfig:
    """The configuration of this node: `config[broker_settings.NUM_PARTITIONS]`, or the properties below."""

    def __init__(self, given: Mapping[str, _Given]) -> None:
        self._given = given
        self._static = {name: value.text for name, value in given.items()}
        self.layers = BrokerLayers(self._static)
        self._validate_values()
        self.node_id = self._read_node_id()
        # Both names stand for it, whichever was given.
        self._static["node.id"] = self._static["broker.id"] = str(self.node_id)
        roles: tuple[str, ...] = self[broker_settings.PROCESS_ROLES]
        self.roles = frozenset(roles)
        self._listeners: Listeners = read_listeners(self, self.roles, self._static.__contains__, self._refuse)
        self.quorum_voters: Mapping[int, Address] = self._read_voters()
        self.quorum_bootstrap_servers = self._read_bootstrap_servers()
        self.quorum_alone = self._is_alone()
        self._validate_quorum()
        self.log_directory = self._read_log_directory()
        self._validate_replication()
        self._validate_memory()
        self._validate_security()

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        overrides: Sequence[str] = (),
        defaults: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Read a properties file, if there is one, and `key=value` overrides, of which later ones win.

        `defaults` are for keys that neither has. Raises ConfigError.
        """
        given = {name: _Given(text, "") for name, text in (defaults or {}).items()}
        if path is not None:
            given.update(_read_file(path))
        for override in overrides:
            name, separator, value = override.partition("=")
            if not separator or not name.strip():
                raise ConfigError(f"--set {override}: write it as key=value")
            given[name.strip()] = _Given(value.strip(), "--set ")
        return cls(given)

    @classmethod
    def from_mapping(cls, values: Mapping[str, str]) -> BrokerConfig:
        """The configuration of these static values alone. Raises ConfigError."""
        return cls({name: _Given(text, "") for name, text in values.items()})

    def __getitem__(self, setting: Setting[T]) -> T:
        """The value that holds now."""
        return self.layers[setting]

    # -- what is derived from several settings --------------------------------------------------------

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
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """What clients are told to connect to; a port of 0 stands for the one that was bound."""
        return self._listeners.advertised

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """Where the controller listens: none on a broker, and none on a single node that has none."""
        return self._listeners.controllers

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """Where other nodes find this controller, the preferred first; port 0 as for brokers."""
        return self._listeners.advertised_controllers

    @property
    def controller_listener(self) -> Listener:
        """The first of them; a single node without one is known by an address that nobody uses."""
        return self._listeners.controller

    @property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves."""
        return self._listeners.inter_broker_name

    @property
    def rack(self) -> str | None:
        """Where the broker stands, for placing replicas."""
        return self[broker_settings.BROKER_RACK]

    @property
    def static(self) -> Mapping[str, str]:
        """The static values as given."""
        return self._static

    def for_topic(self, topic: str, image: MetadataImage) -> TopicConfig:
        """The settings that hold for a topic now."""
        return TopicConfig(self.layers, image.configs.get((TOPIC_RESOURCE, topic), {}))

    def for_group(self, group_id: str, image: MetadataImage) -> GroupConfig:
        """The settings that hold for a group now."""
        return GroupConfig(self.layers, image.configs.get((GROUP_RESOURCE, group_id), {}))

    def follow(self, image: MetadataImage) -> None:
        """Take over the dynamic values of the metadata."""
        self.layers = BrokerLayers(
            self._static,
            image.configs.get((BROKER_RESOURCE, ""), {}),
            image.configs.get((BROKER_RESOURCE, str(self.node_id)), {}),
        )

    # -- reading --------------------------------------------------------------------------------------

    def _refuse(self, name: str, problem: str) -> ConfigError:
        given = self._given.get(name)
        if given is None:
            return ConfigError(f"{name}: {problem}")
        return ConfigError(f"{given.where}{name}={given.text}: {problem}")

    def _validate_values(self) -> None:
        unknown = []
        for name, text in self._static.items():
            setting = BROKER_SETTINGS.get(without_listener(name)) or SCHEMA_VALIDATION_BROKER_SETTINGS.get(
                name
            )
            if setting is None or name in DYNAMIC_ONLY:
                if not name.startswith(_FOREIGN_PREFIXES):
                    unknown.append(name)
                continue
            try:
                setting.parse(text)
            except InvalidValue as invalid:
                raise self._refuse(name, invalid.problem) from None
        if unknown:
            log.warning("unknown settings are ignored keys=%s", ",".join(sorted(unknown)))

    def _read_node_id(self) -> int:
        node_id, broker_id = self[broker_settings.NODE_ID], self[broker_settings.BROKER_ID]
        if "broker.id" not in self._static or broker_id < 0:
            return node_id
        if "node.id" in self._static and broker_id != node_id:
            raise self._refuse("broker.id", f"it must be the same as node.id={node_id}, or be left out")
        return broker_id

    def _read_voters(self) -> dict[int, Address]:
        name = "controller.quorum.voters"
        voters: dict[int, Address] = {}
        for voter in self[broker_settings.CONTROLLER_QUORUM_VOTERS]:
            text, separator, address = voter.partition("@")
            parsed = parse_address(address)
            if not separator or not text.isdecimal() or len(text) > 10 or parsed is None:
                raise self._refuse(name, f"{voter!r} is not id@host:port")
            if int(text) > MAX_NODE_ID:
                raise self._refuse(name, f"{text} is too large for a node id")
            if parsed[0] in META_ADDRESSES:
                raise self._refuse(name, f"nobody can connect to {voter}: give the address of the node")
            if int(text) in voters:
                raise self._refuse(name, f"node {int(text)} is given twice")
            voters[int(text)] = Address(*parsed)
        return voters

    def _read_bootstrap_servers(self) -> tuple[Address, ...]:
        servers = []
        for server in self[broker_settings.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]:
            address = parse_address(server)
            if address is None:
                raise self._refuse("controller.quorum.bootstrap.servers", f"{server!r} is not host:port")
            servers.append(Address(*address))
        return tuple(servers)

    def _is_alone(self) -> bool:
        return (
            self.is_controller
            and not self.quorum_voters.keys() - {self.node_id}
            and all(self._is_own_controller(server) for server in self.quorum_bootstrap_servers)
        )

    def _is_own_controller(self, address: Address) -> bool:
        """Whether a bootstrap server is this node itself, as far as names tell."""
        here = LOOPBACK_HOSTS | {socket.gethostname().lower()}
        every = META_ADDRESSES | {""}
        for listener in (*self.controller_listeners, self.controller_listener):
            host = listener.host.lower()
            same = address.host.lower() == host or (
                address.host.lower() in here and (host in here or host in every)
            )
            if same and address.port == listener.port:
                return True
        return False

    def _validate_quorum(self) -> None:
        name = "controller.quorum.voters"
        voters = self.quorum_voters
        if voters and self.is_controller and self.node_id not in voters:
            raise self._refuse(
                name, f"node.id={self.node_id} is a controller by process.roles, so it must be one of them"
            )
        if self.node_id in voters and not self.is_controller:
            raise self._refuse(
                name, f"node.id={self.node_id} is no controller by process.roles, so it can't be one of them"
            )
        if not self.is_controller and not voters and not self.quorum_bootstrap_servers:
            raise self._refuse(
                "process.roles",
                "a node without the controller role has to know the controllers: give "
                "controller.quorum.bootstrap.servers (or controller.quorum.voters)",
            )
        if self.quorum_alone:
            return
        if self.is_controller and not self.controller_listeners:
            names: tuple[str, ...] = self[broker_settings.CONTROLLER_LISTENER_NAMES]
            raise self._refuse(
                "listeners",
                "a controller among several needs a listener that controller.listener.names names: "
                f"add {names[0]}://host:port",
            )
        if not {"node.id", "broker.id"} & self._given.keys():
            raise self._refuse("node.id", "give each node of a cluster a number of its own")

    def _read_log_directory(self) -> Path:
        several = self[broker_settings.LOG_DIRS]
        name = "log.dirs" if several is not None else "log.dir"
        directories = several if several is not None else self[broker_settings.LOG_DIR]
        if len(directories) != 1:
            raise self._refuse(name, "one data directory is served, not several")
        metadata = self[broker_settings.METADATA_LOG_DIR]
        if metadata is not None and Path(metadata) != Path(directories[0]):
            raise self._refuse("metadata.log.dir", f"the metadata log lives in {name}: leave it out")
        return Path(directories[0])

    def _validate_replication(self) -> None:
        name = "replica.fetch.wait.max.ms"
        wait_ms = self[broker_settings.REPLICA_FETCH_WAIT_MAX_MS]
        for limit in (broker_settings.REPLICA_SOCKET_TIMEOUT_MS, broker_settings.REPLICA_LAG_TIME_MAX_MS):
            if wait_ms > self[limit]:
                given = name if name in self._static else limit.name
                raise self._refuse(given, f"{name}={wait_ms} must be at most {limit.name}={self[limit]}")
        selector = self[broker_settings.REPLICA_SELECTOR_CLASS]
        if selector and selector not in REPLICA_SELECTORS:
            raise self._refuse(
                "replica.selector.class",
                f"it is not one of {', '.join(sorted(REPLICA_SELECTORS))}: leave it out",
            )

    def _validate_memory(self) -> None:
        name = "queued.max.request.bytes"
        limit, largest = (
            self[broker_settings.QUEUED_MAX_REQUEST_BYTES],
            broker_settings.SOCKET_REQUEST_MAX_BYTES,
        )
        if 0 < limit < self[largest]:
            raise self._refuse(name, f"it must be at least {largest.name}={self[largest]}, or -1")

    def _validate_security(self) -> None:
        if self[broker_settings.AUTHORIZER_CLASS_NAME]:
            raise self._refuse("authorizer.class.name", "authorization is not served: leave it out")


def _read_file(path: Path) -> dict[str, _Given]:
    try:
        if path.stat().st_size > MAX_PROPERTIES_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_PROPERTIES_BYTES} bytes, is this a properties file?")
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ConfigError(f"{path}: can't read it: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not a text in UTF-8") from None
    try:
        properties = parse_properties(text)
    except MalformedProperties as malformed:
        raise ConfigError(f"{path}:{malformed.line}: {malformed.problem}") from None
    return {name: _Given(value, f"{path}:{line}: ") for name, (value, line) in properties.items()}
