"""The settings of `ottla registry`, by the names that Confluent's Schema Registry gives them.

Other settings that begin with `kafkastore.` go, without that prefix, to the Kafka clients, in librdkafka's
names.
"""

from __future__ import annotations

from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.config.setting import (
    HIGH,
    LOW,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    string,
    string_list,
    text_or_none,
)
from ottla.config.validators import ListOf, at_least, between, not_empty
from ottla.schemas.model import CompatibilityLevel

DEFAULT_LISTEN: Final = "127.0.0.1:8081"

BOOTSTRAP_SERVERS: Final = string(
    "kafkastore.bootstrap.servers", DEFAULT_BOOTSTRAP, "The cluster that keeps the schemas.", not_empty
)
TOPIC: Final = string(
    "kafkastore.topic",
    "_schemas",
    "The topic that keeps the schemas: compacted, of one partition.",
    not_empty,
    importance=HIGH,
)
TOPIC_REPLICATION_FACTOR: Final = integer(
    "kafkastore.topic.replication.factor",
    3,
    "The replicas that the topic is made with, or as many as there are brokers.",
    between(1, 32_767),
    importance=HIGH,
)
INIT_TIMEOUT_MS: Final = long(
    "kafkastore.init.timeout.ms",
    60_000,
    "How long a start may take to read the topic to its end.",
    at_least(1),
)
TIMEOUT_MS: Final = long(
    "kafkastore.timeout.ms", 10_000, "How long a write may take to be stored and read back.", at_least(1)
)
GROUP_ID: Final = string(
    "schema.registry.group.id",
    "schema-registry",
    "The Kafka group of all instances, which elects the primary.",
    not_empty,
)
SESSION_TIMEOUT_MS: Final = long(
    "kafkagroup.session.timeout.ms",
    10_000,
    "An instance that is silent for this time counts as dead.",
    at_least(100),
)
HEARTBEAT_INTERVAL_MS: Final = long(
    "kafkagroup.heartbeat.interval.ms",
    3_000,
    "The time between two heartbeats of an instance to the group.",
    at_least(10),
)
LEADER_ELIGIBILITY: Final = boolean(
    "leader.eligibility", True, "Whether this instance may become the primary."
)
LISTENERS: Final[Setting[tuple[str, ...]]] = string_list(
    "listeners",
    (DEFAULT_LISTEN,),
    "Where HTTP clients connect, as host:port or http://host:port; the first counts.",
    ListOf(empty=False),
    importance=HIGH,
)
HOST_NAME: Final = text_or_none(
    "host.name",
    None,
    "The host at which other instances reach this one; by default where it listens.",
    importance=HIGH,
)
COMPATIBILITY_LEVEL: Final = choice(CompatibilityLevel)(
    "schema.compatibility.level",
    CompatibilityLevel.BACKWARD,
    "The compatibility level where neither a subject nor the registry has one.",
    importance=HIGH,
)
VALIDATE_DEFAULTS: Final = boolean(
    "schema.providers.avro.validate.defaults",
    False,
    "Whether the defaults of a new Avro schema must fit their types.",
    importance=LOW,
)
MODE_MUTABILITY: Final = boolean("mode.mutability", True, "Whether modes may be changed.", importance=LOW)
SEARCH_DEFAULT_LIMIT: Final = long(
    "schema.search.default.limit",
    1_000,
    "The schemas of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
SEARCH_MAX_LIMIT: Final = long(
    "schema.search.max.limit", 1_000, "The most schemas of one listing.", at_least(1), importance=LOW
)
MAX_SCHEMA_BYTES: Final = integer(
    "ottla.max.schema.bytes",
    1 << 20,
    "The largest body of a request.",
    between(1_024, 64 << 20),
    importance=LOW,
)

CLIENT_PREFIX: Final = "kafkastore."

TABLE: Final = Table(
    title="ottla registry",
    settings=by_name(globals().values()),
    prefixes=(CLIENT_PREFIX,),
    variables="OTTLA_REGISTRY_",
)
