"""The settings of a worker of `ottla connect`, by the names that Kafka Connect's workers give them.

Settings that begin with `producer.`, `consumer.` and `admin.` go to the Kafka clients of connectors;
`security.protocol`, `sasl.` and `ssl.` to those and to the worker's own.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.client.connect_api import URL_VARIABLE
from ottla.client.java_names import without_listeners_tls
from ottla.config.setting import (
    HIGH,
    LOW,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    class_name,
    integer,
    long,
    short,
    string,
    string_list,
    text_or_none,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import OneOf, at_least, between, not_empty
from ottla.connect.core.restarts import RestartPolicy
from ottla.connect.java import settings as java_settings
from ottla.connect.plugins.definition_validation import WorkerView
from ottla.connect.plugins.overrides import OverridePolicy, Policy
from ottla.connect.spark import host_settings as spark_settings
from ottla.web import http_settings
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name

DEFAULT_LISTEN: Final = "127.0.0.1:8083"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"


class SourceSupport(enum.StrEnum):
    """exactly.once.source.support: whether records of sources are written exactly once."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers",
    DEFAULT_BOOTSTRAP,
    "The cluster of the records, and of the worker's own topics.",
    not_empty,
)
GROUP_ID: Final = string(
    "group.id",
    "connect-cluster",
    "The group of the workers that share connectors.",
    not_empty,
    importance=HIGH,
)
KEY_CONVERTER: Final = class_name(
    "key.converter", JSON_CONVERTER, "The converter of keys, where a connector names none.", importance=HIGH
)
VALUE_CONVERTER: Final = class_name(
    "value.converter",
    JSON_CONVERTER,
    "The converter of values, where a connector names none.",
    importance=HIGH,
)
HEADER_CONVERTER: Final = class_name(
    "header.converter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "The converter of headers, where a connector names none.",
    importance=LOW,
)
CONFIG_TOPIC: Final = string(
    "config.storage.topic",
    "connect-configs",
    "The topic of configurations: compacted, of one partition.",
    not_empty,
    importance=HIGH,
)
OFFSET_TOPIC: Final = string(
    "offset.storage.topic",
    "connect-offsets",
    "The topic of the offsets of sources.",
    not_empty,
    importance=HIGH,
)
STATUS_TOPIC: Final = string(
    "status.storage.topic", "connect-status", "The topic of statuses.", not_empty, importance=HIGH
)
CONFIG_REPLICAS: Final = short(
    "config.storage.replication.factor",
    3,
    "The replicas that this topic is made with, or as many as there are brokers; -1: so many.",
    between(-1, 32_767),
    importance=LOW,
)
OFFSET_REPLICAS: Final = short(
    "offset.storage.replication.factor",
    3,
    "As config.storage.replication.factor.",
    between(-1, 32_767),
    importance=LOW,
)
STATUS_REPLICAS: Final = short(
    "status.storage.replication.factor",
    3,
    "As config.storage.replication.factor.",
    between(-1, 32_767),
    importance=LOW,
)
OFFSET_PARTITIONS: Final = integer(
    "offset.storage.partitions",
    25,
    "The partitions that this topic is made with.",
    at_least(1),
    importance=LOW,
)
STATUS_PARTITIONS: Final = integer(
    "status.storage.partitions",
    5,
    "The partitions that this topic is made with.",
    at_least(1),
    importance=LOW,
)
OFFSET_FILE: Final = text_or_none(
    "offset.storage.file.filename", None, "The file of the offsets of a standalone worker.", importance=HIGH
)
SESSION_TIMEOUT_MS: Final = integer(
    "session.timeout.ms",
    10_000,
    "A worker that is silent for this time counts as dead.",
    at_least(100),
    importance=HIGH,
)
HEARTBEAT_INTERVAL_MS: Final = integer(
    "heartbeat.interval.ms", 3_000, "The time between two heartbeats of a worker to the group.", at_least(10)
)
REBALANCE_TIMEOUT_MS: Final = integer(
    "rebalance.timeout.ms", 60_000, "How long the workers may take to join their group again.", at_least(100)
)
MAX_DELAY_MS: Final = integer(
    "scheduled.rebalance.max.delay.ms",
    0,
    "How long the tasks of a worker that has gone are kept back for it. Kafka's default is 300000: for five "
    "minutes its tasks run nowhere.",
    at_least(0),
    importance=LOW,
)
SYNC_TIMEOUT_MS: Final = integer(
    "worker.sync.timeout.ms",
    3_000,
    "How long a worker may take to read what another one has read.",
    at_least(1),
)
PROTOCOL: Final = string(
    "connect.protocol",
    "sessioned",
    "The protocol of the workers' group: incremental, with requests that are signed.",
    OneOf(("sessioned",)),
    importance=LOW,
)
KEY_TTL_MS: Final = integer(
    "inter.worker.key.ttl.ms",
    3_600_000,
    "How long workers sign requests to each other with the same key.",
    at_least(1),
    importance=LOW,
)
EXACTLY_ONCE: Final = choice(SourceSupport)(
    "exactly.once.source.support",
    SourceSupport.DISABLED,
    "Whether records of sources and their offsets are written in transactions, exactly once (KIP-618).",
    importance=HIGH,
)
OVERRIDE_POLICY: Final = choice(Policy)(
    "connector.client.config.override.policy",
    Policy.ALL,
    "Which properties of its Kafka clients a connector may set (producer.override.… and so on).",
)
OVERRIDE_ALLOWLIST: Final = string_list(
    "connector.client.config.override.allowlist", (), "The properties that the policy Allowlist lets through."
)
CONFIG_PROVIDERS: Final = string_list(
    "config.providers",
    ("file", "dir", "env"),
    "The names of the config providers, for ${name:path:key} in configurations of connectors. Those of the "
    "default are there without further settings; others have a class in config.providers.NAME.class.",
    importance=LOW,
)
GRACEFUL_MS: Final = long(
    "task.shutdown.graceful.timeout.ms",
    5_000,
    "How long a task may take to stop. Then the process that runs it is killed.",
    at_least(1),
    importance=LOW,
)
FLUSH_INTERVAL_MS: Final = long(
    "offset.flush.interval.ms", 60_000, "How often tasks commit their offsets.", at_least(1), importance=LOW
)
FLUSH_TIMEOUT_MS: Final = long(
    "offset.flush.timeout.ms",
    5_000,
    "How long records may take to be acknowledged.",
    at_least(1),
    importance=LOW,
)
TOPIC_CREATION: Final = boolean(
    "topic.creation.enable", True, "Whether sources create topics by settings of their own.", importance=LOW
)
TOPIC_TRACKING: Final = boolean(
    "topic.tracking.enable", True, "Whether the topics that connectors use are kept.", importance=LOW
)
TOPIC_TRACKING_RESET: Final = boolean(
    "topic.tracking.allow.reset", True, "Whether users may forget them.", importance=LOW
)
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)
PORT: Final = http_settings.PORT
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
ADVERTISED_HOST: Final = text_or_none(
    "rest.advertised.host.name",
    None,
    "The host at which other workers reach this one; by default where it listens.",
)
ADVERTISED_PORT: Final[Setting[int | None]] = integer.optional(
    "rest.advertised.port",
    "The port at which other workers reach this one; by default that of the first listener.",
    between(1, 65_535),
)
ADVERTISED_LISTENER: Final = text_or_none(
    "rest.advertised.listener",
    None,
    "http or https: how other workers reach this one; checked against listeners.",
)
IDENTIFICATION: Final = text_or_none(
    "ssl.endpoint.identification.algorithm",
    "https",
    "Whether certificates of brokers and workers must name their hosts (https), or not (empty).",
    importance=LOW,
)
PLUGIN_PATH: Final = java_settings.PLUGIN_PATH
SPARK_DIRECTORY: Final = spark_settings.DIRECTORY
SPARK_MASTER: Final = spark_settings.MASTER
SPARK_DRIVER_MEMORY: Final = spark_settings.DRIVER_MEMORY
SPARK_JARS: Final = spark_settings.JARS
RESTART_MAX: Final = integer(
    "ottla.task.restart.max",
    10,
    "How often in an hour a connector or task that fails is started again by itself; 0: it stays FAILED, as "
    "with Kafka's workers.",
    at_least(0),
)
RESTART_FIRST_MS: Final = long(
    "ottla.task.restart.backoff.ms",
    1_000,
    "The pause before the first such start; it doubles each time.",
    at_least(1),
)
RESTART_LONGEST_MS: Final = long(
    "ottla.task.restart.backoff.max.ms", 300_000, "The longest such pause.", at_least(1)
)
LOG_DIRECTORY: Final = text_or_none(
    "ottla.connector.log.directory",
    None,
    "Where the logs of connectors are kept, a file for each; none: the last lines are kept in memory.",
)
AUDIT_TIER: Final = text_or_none(
    "ottla.audit.tier",
    None,
    "The tier of the audit to which source tasks report the records that they send; without one they do not.",
    importance=LOW,
)

CLIENT_NAMES: Final = ("security.protocol",)
CLIENT_PREFIXES: Final = ("sasl.", "ssl.")
PREFIXES: Final = (
    *CLIENT_PREFIXES,
    "producer.",
    "consumer.",
    "admin.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "ottla.java.",
    spark_settings.PREFIX,
    "security.protocol",
    "client.id",
    "client.dns.lookup",
)

_NO_PLUGINS: Final = "classes of plugins can't be loaded, so whatever it protects would be open: leave it out"

UNSUPPORTED: Final = merged(
    (
        {
            name: each
            for name, each in http_settings.UNSUPPORTED.items()
            if name not in ("ssl.", "ssl.protocol")
        },
        refusing(_NO_PLUGINS, "rest.extension.classes"),
        refusing("all paths are at the listeners: leave it out", "admin.listeners"),
        harmless("the plugins are those of Python packages", "plugin.discovery"),
        harmless("TLS is OpenSSL's, of HTTP/1.1", "ssl.protocol"),
        harmless(
            "requests between workers are signed with HmacSHA256",
            "inter.worker.key.generation.algorithm",
            "inter.worker.key.size",
            "inter.worker.signature.algorithm",
            "inter.worker.verification.algorithms",
            nothing=("hmacsha256",),
        ),
        harmless("the group is joined in another way", "worker.unsync.backoff.ms", "metadata.max.age.ms"),
        harmless(
            "of Java's clients",
            "retry.backoff.ms",
            "retry.backoff.max.ms",
            "reconnect.backoff.ms",
            "reconnect.backoff.max.ms",
            "connections.max.idle.ms",
            "send.buffer.bytes",
            "receive.buffer.bytes",
            "metadata.recovery.strategy",
            "metadata.recovery.rebootstrap.trigger.ms",
            "auto.include.jmx.reporter",
        ),
    )
)
"""Settings of Kafka Connect's workers that have no effect here."""

TABLE: Final = Table(
    title="ottla connect",
    settings=by_name((*globals().values(), *FRONT_SETTINGS)),
    prefixes=PREFIXES,
    variables="OTTLA_CONNECT_",
    other_variables=(URL_VARIABLE,),
    base_name=base_name,
    unsupported=UNSUPPORTED,
)

_TOLD_TO_HOSTS: Final[tuple[Setting[Any], ...]] = (
    BOOTSTRAP_SERVERS,
    GROUP_ID,
    KEY_CONVERTER,
    VALUE_CONVERTER,
    HEADER_CONVERTER,
    OFFSET_TOPIC,
    OFFSET_PARTITIONS,
    OFFSET_REPLICAS,
    EXACTLY_ONCE,
    FLUSH_INTERVAL_MS,
    FLUSH_TIMEOUT_MS,
    TOPIC_CREATION,
)
_FOR_HOSTS: Final = ("ottla.spark.", "ottla.audit.")
_NOT_FOR_HOSTS: Final = ("authentication.", "access.control.", "listener", "rest.", "ottla.", "oauthbearer.")


def host_properties(settings: Settings, *, standalone: bool) -> dict[str, str]:
    """The worker's properties as runs get them: all that were given, and the defaults that they need."""
    given = {
        name: text
        for name, text in settings.texts().items()
        if name.startswith(_FOR_HOSTS) or not name.startswith(_NOT_FOR_HOSTS)
    }
    for setting in _TOLD_TO_HOSTS:
        given[setting.name] = setting.format(settings[setting]) or ""
    if standalone:
        for name in (GROUP_ID.name, OFFSET_TOPIC.name, OFFSET_PARTITIONS.name, OFFSET_REPLICAS.name):
            given.pop(name, None)
        given[EXACTLY_ONCE.name] = SourceSupport.DISABLED
    return given


def client_properties(settings: Settings) -> dict[str, str]:
    """The properties of the worker's own Kafka clients, in Java's names."""
    return without_listeners_tls(
        {
            name: text
            for name, text in settings.texts().items()
            if name in CLIENT_NAMES or name.startswith(CLIENT_PREFIXES)
        }
    )


def topic_settings(settings: Settings, prefix: str) -> dict[str, str]:
    """The settings that one of the worker's topics is made with: config.storage.NAME and so on."""
    known = {"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}
    return {name: text for name, text in settings.with_prefix(prefix).items() if name not in known}


def replicas(factor: int) -> int:
    """A replication factor; -1: as many as there are brokers, of which no cluster has more."""
    return 3 if factor < 1 else factor


def restart_policy(settings: Settings) -> RestartPolicy:
    """When failed runs are started again."""
    return RestartPolicy(settings[RESTART_MAX], settings[RESTART_FIRST_MS], settings[RESTART_LONGEST_MS])


def worker_view(settings: Settings, providers: frozenset[str], *, standalone: bool) -> WorkerView:
    """What these settings say of configurations of connectors. providers: names of config providers."""
    converters: tuple[Setting[str], ...] = (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
    allowed: tuple[str, ...] = settings[OVERRIDE_ALLOWLIST]
    policy = OverridePolicy(settings[OVERRIDE_POLICY], frozenset(allowed))
    return WorkerView(
        {setting.name: settings[setting] for setting in converters},
        None if standalone else settings[GROUP_ID],
        not standalone and settings[EXACTLY_ONCE] is SourceSupport.ENABLED,
        policy,
        lambda text: any(f"${{{name}:" in text for name in providers),
    )


def require_offset_file(settings: Settings) -> str:
    """The file of a standalone worker's offsets. Raises ConfigError where none is given."""
    path = settings[OFFSET_FILE]
    if path is None:
        raise settings.refusal(OFFSET_FILE.name, "a standalone worker needs a file for its offsets")
    return path
