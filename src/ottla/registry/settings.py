"""The settings of `ottla registry`, by the names that Confluent's Schema Registry gives them."""

from __future__ import annotations

from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.schemas.model import CompatibilityLevel
from ottla.web.settings import Setting, boolean, integer, one_of, optional_text, text

BOOTSTRAP_SERVERS: Final = Setting(
    "kafkastore.bootstrap.servers", text, DEFAULT_BOOTSTRAP, "the cluster that keeps the schemas"
)
TOPIC: Final = Setting("kafkastore.topic", text, "_schemas", "the compacted topic of one partition")
TOPIC_REPLICATION_FACTOR: Final = Setting(
    "kafkastore.topic.replication.factor", integer(1, 32_767), 3, "or as many brokers as there are"
)
INIT_TIMEOUT_MS: Final = Setting(
    "kafkastore.init.timeout.ms", integer(1), 60_000, "to read the topic to its end when starting"
)
TIMEOUT_MS: Final = Setting(
    "kafkastore.timeout.ms", integer(1), 10_000, "for a write to be stored and read back"
)
GROUP_ID: Final = Setting(
    "schema.registry.group.id", text, "schema-registry", "the Kafka group that elects the primary"
)
SESSION_TIMEOUT_MS: Final = Setting(
    "kafkagroup.session.timeout.ms",
    integer(100),
    10_000,
    "of silence, after which an instance counts as dead",
)
HEARTBEAT_INTERVAL_MS: Final = Setting(
    "kafkagroup.heartbeat.interval.ms", integer(10), 3_000, "between two signs of life to the group"
)
LEADER_ELIGIBILITY: Final = Setting(
    "leader.eligibility", boolean, True, "whether this instance may become the primary"
)
HOST_NAME: Final = Setting(
    "host.name", optional_text, None, "where other instances reach this one (else where it listens)"
)
COMPATIBILITY_LEVEL: Final = Setting(
    "schema.compatibility.level",
    lambda value: CompatibilityLevel(one_of(*CompatibilityLevel)(value)),
    CompatibilityLevel.BACKWARD,
    "where neither a subject nor the registry has a level",
)
VALIDATE_DEFAULTS: Final = Setting(
    "schema.providers.avro.validate.defaults",
    boolean,
    False,
    "whether the defaults of a new Avro schema must fit their types",
)
MODE_MUTABILITY: Final = Setting("mode.mutability", boolean, True, "whether modes may be changed")
SEARCH_DEFAULT_LIMIT: Final = Setting(
    "schema.search.default.limit", integer(1), 1_000, "schemas of one listing that names no limit"
)
SEARCH_MAX_LIMIT: Final = Setting("schema.search.max.limit", integer(1), 1_000, "schemas of one listing")
MAX_SCHEMA_BYTES: Final = Setting(
    "ottla.max.schema.bytes", integer(1_024, 64 << 20), 1 << 20, "the size of a request's body"
)

SETTINGS: Final = (
    BOOTSTRAP_SERVERS,
    TOPIC,
    TOPIC_REPLICATION_FACTOR,
    INIT_TIMEOUT_MS,
    TIMEOUT_MS,
    GROUP_ID,
    SESSION_TIMEOUT_MS,
    HEARTBEAT_INTERVAL_MS,
    LEADER_ELIGIBILITY,
    HOST_NAME,
    COMPATIBILITY_LEVEL,
    VALIDATE_DEFAULTS,
    MODE_MUTABILITY,
    SEARCH_DEFAULT_LIMIT,
    SEARCH_MAX_LIMIT,
    MAX_SCHEMA_BYTES,
)
