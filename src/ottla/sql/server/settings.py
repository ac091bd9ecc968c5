"""The settings of `ottla sql server`, by the names that ksqlDB gives them.

Settings that begin with `ksql.streams.` go, without that prefix, to the Kafka clients (in the names of Java's
clients or librdkafka's), and so do `security.protocol` and those that begin with `sasl.`; those that begin
with `ottla.sql.spark.conf.` go, without that prefix, to Spark.
"""

from __future__ import annotations

from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.config.setting import (
    HIGH,
    LOW,
    Password,
    Setting,
    Table,
    boolean,
    by_name,
    integer,
    long,
    password,
    string,
    text_or_none,
)
from ottla.config.unsupported import harmless, merged
from ottla.config.validators import at_least, between, not_empty
from ottla.web import http_settings
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name

DEFAULT_LISTEN: Final = "127.0.0.1:8088"

BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers",
    DEFAULT_BOOTSTRAP,
    "The cluster with the streams and tables.",
    not_empty,
    importance=HIGH,
)
SERVICE_ID: Final = string(
    "ksql.service.id",
    "default_",
    "The service that this server is one of: servers of one id have the same streams, tables and queries.",
    not_empty,
    importance=HIGH,
)
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
PORT: Final = http_settings.PORT
ADVERTISED_LISTENER: Final = text_or_none(
    "ksql.advertised.listener",
    None,
    "The URL at which the other servers of the service reach this one; by default the first listener's.",
    importance=HIGH,
)
REGISTRY_URL: Final = text_or_none(
    "ksql.schema.registry.url",
    None,
    "The Schema Registry of the formats AVRO, JSON_SR and PROTOBUF: URLs, with commas between.",
    importance=HIGH,
)
REGISTRY_USER_INFO: Final[Setting[Password | None]] = password.optional(
    "ksql.schema.registry.basic.auth.user.info", "The server's user at the registry, as name:password."
)
CONNECT_URL: Final = string(
    "ksql.connect.url", "http://127.0.0.1:8083", "The Connect worker that CREATE CONNECTOR asks."
)
STATE_DIRECTORY: Final = string(
    "ksql.streams.state.dir",
    "ottla-sql",
    "The directory of the queries' checkpoints and state, and of local views. The servers of a service have "
    "to share it, so that each can go on with the queries of another.",
    not_empty,
    importance=HIGH,
)
AUTO_OFFSET_RESET: Final = string(
    "ksql.streams.auto.offset.reset",
    "latest",
    "Where queries begin to read streams: earliest or latest.",
)
QUERIES_FILE: Final = text_or_none(
    "ksql.queries.file",
    None,
    "A file of statements that are carried out at the start, once each. The server takes no others then.",
)
INTERNAL_REPLICAS: Final = integer(
    "ksql.internal.topic.replicas",
    3,
    "The replicas of the topic of commands, or as many as there are brokers.",
    between(1, 32_767),
)
OUTPUT_PREFIX: Final = string(
    "ksql.output.topic.name.prefix", "", "Stands before the names of topics that queries write."
)
PROCESSING_LOG_TOPIC: Final = text_or_none(
    "ksql.logging.processing.topic.name",
    None,
    "The topic of records that queries can't read; by default the service's id and ksql_processing_log.",
)
PROCESSING_LOG: Final = boolean(
    "ksql.logging.processing.topic.auto.create",
    True,
    "Whether queries skip records that they can't read and write them to the processing log. If not, such a "
    "record ends its query.",
)
RETRY_FIRST_MS: Final = long(
    "ksql.query.retry.backoff.initial.ms",
    15_000,
    "The pause before a failed query is started again; it is doubled after each failure.",
    at_least(1),
)
RETRY_LONGEST_MS: Final = long(
    "ksql.query.retry.backoff.max.ms", 900_000, "The longest of these pauses.", at_least(1)
)
PULL_ENABLE: Final = boolean("ksql.pull.queries.enable", True, "Whether pull queries are answered.")
SPARK_MASTER: Final = text_or_none(
    "ottla.sql.spark.master", None, "The Spark that runs queries: a master's URL; by default this machine."
)
WARM: Final = boolean(
    "ottla.sql.spark.warm",
    True,
    "Whether Spark starts with the server, so that the first query need not wait for it.",
)
DRIVER_MEMORY: Final = string(
    "ottla.sql.spark.driver.memory", "1g", "The memory of the process that runs queries."
)
PARTITIONS: Final = integer(
    "ottla.sql.partitions",
    2,
    "How many parts the state of a query has, and partitions its internal topics: fixed by its first start.",
    between(1, 10_000),
)
BATCH_RECORDS: Final = integer(
    "ottla.sql.batch.records",
    1_000_000,
    "The most records of a topic that a query takes at once.",
    at_least(1),
)
FUNCTIONS: Final = text_or_none(
    "ottla.sql.functions",
    None,
    "Your own functions: the module and attribute of an ottla.sql.functions.registry.Functions, as "
    "module:attribute.",
)
POSTGRES_LISTEN: Final = text_or_none(
    "ottla.sql.postgres.listen",
    None,
    "Where clients of PostgreSQL's protocol connect, as HOST:PORT. They are known as those of the first "
    "listener are: by TLS if that has it, and by name and password where clients are asked for them.",
)
COMMAND_TIMEOUT_MS: Final = long(
    "ottla.sql.command.timeout.ms", 20_000, "How long a statement may take to be stored.", at_least(1)
)
SESSION_TIMEOUT_MS: Final = long(
    "ottla.sql.session.timeout.ms",
    10_000,
    "A server that is silent for this time counts as dead: another one runs its queries.",
    at_least(100),
)
HEARTBEAT_INTERVAL_MS: Final = long(
    "ottla.sql.heartbeat.interval.ms",
    3_000,
    "The time between two heartbeats of a server to its group.",
    at_least(10),
    importance=LOW,
)

STREAMS_PREFIX: Final = "ksql.streams."
SASL_PREFIX: Final = "sasl."
SPARK_PREFIX: Final = "ottla.sql.spark.conf."
SECURITY_PROTOCOL: Final = text_or_none(
    "security.protocol", None, "How the clients of the cluster are secured, as in Java's clients."
)
NOT_OF_CLIENTS: Final = frozenset(
    {
        "auto.offset.reset",
        "state.dir",
        "num.stream.threads",
        "num.standby.replicas",
        "replication.factor",
        "commit.interval.ms",
        "cache.max.bytes.buffering",
        "statestore.cache.max.bytes",
        "processing.guarantee",
        "default.deserialization.exception.handler",
        "default.production.exception.handler",
        "producer.delivery.timeout.ms",
        "max.task.idle.ms",
        "task.timeout.ms",
    }
)
"""Settings of Java's Streams that have no meaning here: queries run on Spark, each exactly once."""

_OF_STREAMS: Final = sorted(NOT_OF_CLIENTS - {"auto.offset.reset", "state.dir"})
UNSUPPORTED: Final = merged(
    [
        http_settings.UNSUPPORTED,
        harmless("Java's Streams alone has it", *(f"{STREAMS_PREFIX}{name}" for name in _OF_STREAMS)),
        harmless(
            "it is of the machine of ksqlDB",
            "ksql.extension.dir",
            "ksql.sink.partitions",
            "ksql.sink.replicas",
            "ksql.persistence.default.format.key",
            "ksql.persistence.default.format.value",
            "ksql.query.pull.max.allowed.offset.lag",
            "ksql.heartbeat.enable",
            "ksql.lag.reporting.enable",
            "confluent.support.metrics.enable",
        ),
    ]
)

TABLE: Final = Table(
    title="ottla sql server",
    settings=by_name((*globals().values(), *FRONT_SETTINGS)),
    prefixes=(STREAMS_PREFIX, SASL_PREFIX, SPARK_PREFIX),
    variables="OTTLA_SQL_",
    base_name=base_name,
    unsupported=UNSUPPORTED,
)
