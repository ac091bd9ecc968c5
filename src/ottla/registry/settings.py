"""The settings of `ottla registry`, by the names that Confluent's Schema Registry gives them.

Other settings that begin with `kafkastore.` go, without that prefix, to the Kafka clients, in the names of
Java's clients or librdkafka's.
"""

from __future__ import annotations

import enum
from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.client.java_names import unsupported_properties
from ottla.config.setting import (
    HIGH,
    LOW,
    MAX_INT,
    Password,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    password,
    string,
    text_or_none,
)
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import at_least, between, not_empty
from ottla.schemas.model import CompatibilityLevel
from ottla.web import http_settings
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name


class Scheme(enum.StrEnum):
    """How instances reach each other."""

    HTTP = "http"
    HTTPS = "https"


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
REBALANCE_TIMEOUT_MS: Final[Setting[int | None]] = long.optional(
    "kafkagroup.rebalance.timeout.ms",
    "How long the instances may take to join their group again; by default as long as a session.",
    at_least(100),
    importance=LOW,
)
LEADER_ELIGIBILITY: Final = boolean(
    "leader.eligibility", True, "Whether this instance may become the primary."
)
MASTER_ELIGIBILITY: Final[Setting[bool | None]] = boolean.optional(
    "master.eligibility",
    "The former name of leader.eligibility; it counts where both are given.",
    importance=LOW,
)
INTER_INSTANCE_PROTOCOL: Final[Setting[Scheme | None]] = choice(Scheme).optional(
    "inter.instance.protocol",
    "How other instances pass requests on to this one: as its first listener says, which is checked. With "
    "https they trust the authorities of ssl.truststore.*, and show the certificate of ssl.keystore.*.",
    importance=LOW,
)
INTER_INSTANCE_IDENTIFICATION: Final = text_or_none(
    "ssl.endpoint.identification.algorithm",
    "https",
    "Whether the primary's certificate must name its host (https), or not (empty).",
    importance=LOW,
)
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
PORT: Final = http_settings.PORT
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)
HOST_NAME: Final = text_or_none(
    "host.name",
    None,
    "The host at which other instances reach this one; by default where it listens.",
    importance=HIGH,
)
HOST_PORT: Final[Setting[int | None]] = integer.optional(
    "host.port",
    "The port at which other instances reach this one; by default that of the first listener.",
    between(1, 65_535),
    importance=LOW,
)
COMPATIBILITY_LEVEL: Final = choice(CompatibilityLevel)(
    "schema.compatibility.level",
    CompatibilityLevel.BACKWARD,
    "The compatibility level where neither a subject nor the registry has one.",
    importance=HIGH,
)
AVRO_COMPATIBILITY_LEVEL: Final[Setting[CompatibilityLevel | None]] = choice(CompatibilityLevel).optional(
    "avro.compatibility.level",
    "The former name of schema.compatibility.level, which counts where both are given.",
    importance=LOW,
)
VALIDATE_FIELDS: Final = boolean(
    "schema.validate.fields",
    False,
    "Whether names that metadata reserve are refused, where no subject's configuration says so.",
    importance=LOW,
)
VALIDATE_NEW_SCHEMAS: Final = boolean(
    "schema.validate.new.schemas",
    False,
    "Whether the defaults of a new Avro schema must fit their types.",
    importance=LOW,
)
VALIDATE_DEFAULTS: Final = boolean(
    "schema.providers.avro.validate.defaults",
    False,
    "The former name of schema.validate.new.schemas; either is enough.",
    importance=LOW,
)
MODE_MUTABILITY: Final = boolean("mode.mutability", True, "Whether modes may be changed.", importance=LOW)
ASSOCIATIONS_ENABLE: Final = boolean(
    "associations.enable",
    True,
    "Whether subjects may be associated with topics, at /associations.",
    importance=LOW,
)
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
SUBJECT_DEFAULT_LIMIT: Final = integer(
    "subject.search.default.limit",
    MAX_INT,
    "The subjects of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
SUBJECT_MAX_LIMIT: Final = integer(
    "subject.search.max.limit", MAX_INT, "The most subjects of one listing.", at_least(1), importance=LOW
)
SUBJECT_VERSION_DEFAULT_LIMIT: Final = integer(
    "subject.version.search.default.limit",
    MAX_INT,
    "The versions of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
SUBJECT_VERSION_MAX_LIMIT: Final = integer(
    "subject.version.search.max.limit",
    MAX_INT,
    "The most versions of one listing.",
    at_least(1),
    importance=LOW,
)
CONTEXT_DEFAULT_LIMIT: Final = integer(
    "context.search.default.limit",
    MAX_INT,
    "The contexts of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
CONTEXT_MAX_LIMIT: Final = integer(
    "context.search.max.limit", MAX_INT, "The most contexts of one listing.", at_least(1), importance=LOW
)
KEYS_TOPIC: Final = string(
    "dek.registry.topic",
    "_dek_registry_keys",
    "The topic that keeps the keys of encrypted fields, wrapped: compacted, of one partition. The first "
    "request about keys makes it.",
    not_empty,
)
MAX_KEYS: Final = integer(
    "dek.registry.max.keys",
    20_000,
    "The most keys of key services, and the most versions of keys that they wrap.",
    at_least(0),
    importance=LOW,
)
LOCAL_SECRET: Final[Setting[Password | None]] = password.optional(
    "ottla.local.kms.secret",
    "The secret of the key service local-kms, by which the registry wraps the keys of shared key encryption "
    "keys; by default the variable LOCAL_SECRET of the environment.",
)
KEK_DEFAULT_LIMIT: Final = integer(
    "kek.search.default.limit",
    MAX_INT,
    "The key encryption keys of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
KEK_MAX_LIMIT: Final = integer(
    "kek.search.max.limit",
    MAX_INT,
    "The highest limit that counts for a listing of key encryption keys.",
    at_least(1),
    importance=LOW,
)
DEK_SUBJECT_DEFAULT_LIMIT: Final = integer(
    "dek.subject.search.default.limit",
    MAX_INT,
    "The subjects with data encryption keys of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
DEK_SUBJECT_MAX_LIMIT: Final = integer(
    "dek.subject.search.max.limit",
    MAX_INT,
    "The highest limit that counts for a listing of subjects with data encryption keys.",
    at_least(1),
    importance=LOW,
)
DEK_VERSION_DEFAULT_LIMIT: Final = integer(
    "dek.version.search.default.limit",
    MAX_INT,
    "The versions of a data encryption key of one listing that names no limit.",
    at_least(1),
    importance=LOW,
)
DEK_VERSION_MAX_LIMIT: Final = integer(
    "dek.version.search.max.limit",
    MAX_INT,
    "The highest limit that counts for a listing of versions of a data encryption key.",
    at_least(1),
    importance=LOW,
)
MAX_SCHEMA_BYTES: Final = integer(
    "ottla.max.schema.bytes",
    1 << 20,
    "The largest body of a request.",
    between(1_024, 64 << 20),
    importance=LOW,
)

CLIENT_PREFIX: Final = "kafkastore."

_NO_PLUGINS: Final = "classes of plugins can't be loaded, so whatever it protects would be open: leave it out"
_NO_ENCRYPTION: Final = "metadata is not encrypted in the topic: leave it out"
_NO_AUTHORIZATION: Final = "who may do what is said by ottla.access.rules: leave this out"

UNSUPPORTED: Final = merged(
    (
        http_settings.UNSUPPORTED,
        unsupported_properties((CLIENT_PREFIX,)),
        refusing(
            _NO_PLUGINS,
            "resource.extension.class",
            "schema.registry.resource.extension.class",
            # In the file that Confluent ships: the keys of encrypted fields, which are always there.
            nothing=("io.confluent.dekregistry.dekregistryresourceextension",),
        ),
        refusing(
            _NO_PLUGINS,
            "init.resource.extension.class",
            "schema.providers",
            "kafkastore.update.handlers",
            "dek.registry.update.handlers",
        ),
        refusing(
            "its name is inter.instance.protocol",
            "schema.registry.inter.instance.protocol",
            nothing=("http",),
        ),
        refusing(
            _NO_AUTHORIZATION,
            "confluent.schema.registry.authorizer.",
            "confluent.schema.registry.auth.",
            "confluent.schema.registry.acl.",
            "confluent.schema.registry.anonymous.",
        ),
        # The file that Confluent ships has this text, which protects nothing.
        refusing(
            _NO_ENCRYPTION,
            "metadata.encoder.secret",
            "metadata.encoder.old.secret",
            told=("replace_me_with_high_entropy_string",),
        ),
        refusing(_NO_ENCRYPTION, "metadata.encoder.secret.strict.validation", nothing=("false",)),
        harmless("metadata is not encrypted in the topic", "metadata.encoder.topic"),
        refusing(
            "the versions of references are not compared: leave it out",
            "schema.providers.reference.versions.strict",
            nothing=("false",),
        ),
        refusing(
            "a subject may have an empty name: leave it out",
            "schema.reject.empty.subject",
            nothing=("false",),
        ),
        harmless(
            "references to other servers are never followed",
            "schema.providers.json.fetch.remote.schemas",
            nothing=("false",),
        ),
        harmless("ZooKeeper is not asked", "kafkastore.connection.url", "schema.registry.zk.namespace"),
        harmless(
            "the body of a request is bounded by ottla.max.schema.bytes",
            "size.limit.filter.enabled",
            "size.limit.filter.max.request.body.size",
            nothing=("false",),
        ),
        harmless(
            "the topic is read and written in another way than by Confluent's registry",
            "kafkastore.group.id",
            "kafkastore.write.max.retries",
            "kafkastore.write.retry.backoff.ms",
            "kafkastore.checkpoint.dir",
            "kafkastore.checkpoint.version",
            "kafkastore.init.wait.for.reader",
            "kafkastore.topic.skip.validation",
            "enable.store.health.check",
            nothing=("false",),
        ),
        harmless(
            "the primary is chosen and reached in another way than by Confluent's registry",
            "leader.connect.timeout.ms",
            "leader.read.timeout.ms",
            "leader.election.delay",
            "leader.election.sticky",
            "inter.instance.headers.whitelist",
            "inter.instance.listener.name",
            nothing=("false",),
        ),
        harmless(
            "schemas are kept in memory as they were registered",
            "schema.cache.",
            "schema.canonicalize.on.consume",
        ),
    )
)
"""Settings of Confluent's Schema Registry that have no effect here."""

TABLE: Final = Table(
    title="ottla registry",
    settings=by_name((*globals().values(), *FRONT_SETTINGS)),
    prefixes=(CLIENT_PREFIX,),
    variables="OTTLA_REGISTRY_",
    base_name=base_name,
    unsupported=UNSUPPORTED,
)
