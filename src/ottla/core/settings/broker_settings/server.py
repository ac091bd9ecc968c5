"""Settings of the node itself: roles, listeners, directories, sockets, threads, metrics."""

from __future__ import annotations

from ottla.config.setting import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MAX_INT,
    MAX_LONG,
    PER_BROKER,
    boolean,
    integer,
    long,
    string,
    string_list,
)
from ottla.config.validators import ListOf, OneOf, Rule, at_least


def parse_connection_overrides(text: str) -> list[tuple[str, int]]:
    """(address, limit) of each pair of max.connections.per.ip.overrides. Raises ValueError."""
    pairs = []
    for pair in filter(None, (each.strip() for each in text.split(","))):
        host, separator, limit = pair.rpartition(":")
        host = host.strip().strip("[]")
        if not separator or not host or not limit.strip().isdecimal() or int(limit) > MAX_INT:
            raise ValueError(f"{pair!r} is not address:limit")
        pairs.append((host, int(limit)))
    return pairs


def _connection_overrides(value: str) -> str | None:
    try:
        parse_connection_overrides(value)
    except ValueError as problem:
        return str(problem)
    return None


PROCESS_ROLES = string_list(
    "process.roles",
    ("broker", "controller"),
    "The roles of this node: broker, controller, or both.",
    ListOf(("broker", "controller"), empty=False),
    importance=HIGH,
)
NODE_ID = integer(
    "node.id", 1, "The id of this node, one of its own in the cluster.", at_least(0), importance=HIGH
)
BROKER_ID = integer(
    "broker.id", -1, "The id of this broker; node.id is its newer name and wins.", importance=HIGH
)
BROKER_RACK = string.optional(
    "broker.rack", "The rack, host or zone of this broker; replicas are spread over different ones."
)
LISTENERS = string_list(
    "listeners",
    ("PLAINTEXT://:9092",),
    "Where this node listens: NAME://host:port, with commas between; an empty host is every interface.",
    ListOf(empty=False),
    importance=HIGH,
    update=PER_BROKER,
)
ADVERTISED_LISTENERS = string_list.optional(
    "advertised.listeners",
    "The addresses that clients are told to use; by default those of `listeners`.",
    ListOf(empty=False),
    importance=HIGH,
)
LISTENER_SECURITY_PROTOCOL_MAP = string(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "Which security protocol each listener name speaks, as NAME:PROTOCOL pairs.",
    importance=LOW,
    update=PER_BROKER,
)
INTER_BROKER_LISTENER_NAME = string.optional(
    "inter.broker.listener.name", "The listener that brokers use among themselves."
)
SECURITY_INTER_BROKER_PROTOCOL = string(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    "The security protocol among brokers; give this or inter.broker.listener.name, not both.",
    OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
)
CONTROLLER_LISTENER_NAMES = string_list(
    "controller.listener.names",
    ("CONTROLLER",),
    "The listeners of the controller; the first is the one that brokers use.",
    ListOf(empty=False),
    importance=HIGH,
)
EARLY_START_LISTENERS = string_list.optional(
    "early.start.listeners", "Listeners that open before the authorizer is ready.", ListOf(), importance=HIGH
)
LOG_DIR = string_list(
    "log.dir",
    ("ottla-data",),
    "The directory of the data, used when log.dirs is not given.",
    ListOf(empty=False),
    importance=HIGH,
)
LOG_DIRS = string_list.optional(
    "log.dirs", "The directories of the data.", ListOf(empty=False), importance=HIGH
)
CORDONED_LOG_DIRS = string_list(
    "cordoned.log.dirs", (), "Data directories that get no new partitions.", ListOf(), update=PER_BROKER
)
METADATA_LOG_DIR = string.optional(
    "metadata.log.dir",
    "The directory of the metadata log; by default the first of log.dirs.",
    importance=HIGH,
)
NUM_NETWORK_THREADS = integer(
    "num.network.threads",
    3,
    "Threads that read and write sockets.",
    at_least(1),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
NUM_IO_THREADS = integer(
    "num.io.threads", 8, "Threads that handle requests.", at_least(1), importance=HIGH, update=CLUSTER_WIDE
)
BACKGROUND_THREADS = integer(
    "background.threads",
    10,
    "Threads for background work.",
    at_least(1),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = integer(
    "num.recovery.threads.per.data.dir",
    2,
    "Threads that sync and close logs at the end, for each data directory. The start reads them in one.",
    at_least(1),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
NUM_REPLICA_ALTER_LOG_DIRS_THREADS = integer.optional(
    "num.replica.alter.log.dirs.threads",
    "Threads that move replicas between data directories.",
    importance=HIGH,
)
QUEUED_MAX_REQUESTS = integer(
    "queued.max.requests",
    500,
    "Requests that may wait for a handler before sockets are no longer read. Requests wait for none here: "
    "each is handled as it is read.",
    at_least(1),
    importance=HIGH,
)
QUEUED_MAX_REQUEST_BYTES = long(
    "queued.max.request.bytes",
    -1,
    "Bytes of requests that have arrived in part or wait for their turn, of all connections; -1 is no limit.",
)
REQUEST_TIMEOUT_MS = integer(
    "request.timeout.ms",
    30_000,
    "How long this node waits for the answer to a request of its own.",
    importance=HIGH,
)
SOCKET_SEND_BUFFER_BYTES = integer(
    "socket.send.buffer.bytes",
    102_400,
    "The send buffer of each socket, if it is given and not -1.",
    importance=HIGH,
)
SOCKET_RECEIVE_BUFFER_BYTES = integer(
    "socket.receive.buffer.bytes",
    102_400,
    "The receive buffer of each socket, if it is given and not -1.",
    importance=HIGH,
)
SOCKET_REQUEST_MAX_BYTES = integer(
    "socket.request.max.bytes", 104_857_600, "The largest request that is read.", at_least(1), importance=HIGH
)
SOCKET_LISTEN_BACKLOG_SIZE = integer(
    "socket.listen.backlog.size", 50, "Connections that may wait to be accepted.", at_least(1)
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS = long(
    "socket.connection.setup.timeout.ms",
    10_000,
    "How long a connection of this node may take to be set up at the first attempt.",
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = long(
    "socket.connection.setup.timeout.max.ms",
    30_000,
    "How long setting up a connection may take after many attempts.",
)
MAX_CONNECTIONS = integer(
    "max.connections", MAX_INT, "Connections that this broker takes in all.", at_least(0), update=CLUSTER_WIDE
)
MAX_CONNECTIONS_PER_IP = integer(
    "max.connections.per.ip",
    MAX_INT,
    "Connections that this broker takes from one address.",
    at_least(0),
    update=CLUSTER_WIDE,
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = string(
    "max.connections.per.ip.overrides",
    "",
    "Other limits for single addresses, as address:limit pairs.",
    Rule("address:limit pairs", _connection_overrides),
    update=CLUSTER_WIDE,
)
MAX_CONNECTION_CREATION_RATE = integer(
    "max.connection.creation.rate",
    MAX_INT,
    "New connections a second that this broker takes.",
    at_least(0),
    update=CLUSTER_WIDE,
)
CONNECTIONS_MAX_IDLE_MS = long(
    "connections.max.idle.ms", 600_000, "An idle connection is closed after this time."
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = integer(
    "connection.failed.authentication.delay.ms",
    100,
    "How long the answer to a failed authentication is held back.",
    at_least(0),
    importance=LOW,
)
CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable", True, "Whether a broker hands over its partitions before it stops."
)
SERVER_MAX_STARTUP_TIME_MS = long(
    "server.max.startup.time.ms",
    MAX_LONG,
    "How long the start may take before it is given up.",
    at_least(0),
    internal=True,
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = integer(
    "max.request.partition.size.limit",
    2000,
    "Partitions in one answer to a DescribeTopicPartitions request.",
    at_least(1),
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = integer(
    "max.incremental.fetch.session.cache.slots",
    1000,
    "Incremental fetch sessions that are kept.",
    at_least(0),
)
FETCH_MAX_BYTES = integer(
    "fetch.max.bytes",
    57_671_680,
    "The most bytes that one fetch answer holds (a first larger batch still goes out).",
    at_least(1024),
)
FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = integer(
    "fetch.purgatory.purge.interval.requests",
    1000,
    "Finished waiting fetches that may pile up before they are removed.",
)
PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = integer(
    "producer.purgatory.purge.interval.requests",
    1000,
    "Finished waiting produces that may pile up before they are removed.",
)
DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = integer(
    "delete.records.purgatory.purge.interval.requests",
    1,
    "Finished waiting DeleteRecords that may pile up before they are removed.",
)
SHARE_FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = integer(
    "share.fetch.purgatory.purge.interval.requests",
    1000,
    "Finished waiting share fetches that may pile up before they are removed.",
)
CONFIG_PROVIDERS = string_list(
    "config.providers",
    (),
    "Names of the providers that fill in variables in settings.",
    ListOf(),
    importance=LOW,
    update=CLUSTER_WIDE,
)
TELEMETRY_MAX_BYTES = integer(
    "telemetry.max.bytes",
    1_048_576,
    "The largest push of a client's metrics that is taken (KIP-714), compressed and unfolded.",
    at_least(1),
    importance=LOW,
)
METRIC_REPORTERS = string_list(
    "metric.reporters",
    ("org.apache.kafka.common.metrics.JmxReporter",),
    "Classes that report metrics.",
    ListOf(),
    importance=LOW,
    update=CLUSTER_WIDE,
)
METRICS_NUM_SAMPLES = integer(
    "metrics.num.samples", 2, "Samples that a metric is computed from.", at_least(1), importance=LOW
)
METRICS_SAMPLE_WINDOW_MS = long(
    "metrics.sample.window.ms", 30_000, "The time that one sample covers.", at_least(1), importance=LOW
)
METRICS_RECORDING_LEVEL = string(
    "metrics.recording.level", "INFO", "The finest level of metrics that is recorded.", importance=LOW
)
KAFKA_METRICS_REPORTERS = string_list(
    "kafka.metrics.reporters", (), "Classes that report the older kind of metrics.", ListOf(), importance=LOW
)
KAFKA_METRICS_POLLING_INTERVAL_SECS = integer(
    "kafka.metrics.polling.interval.secs",
    10,
    "How often the older kind of metrics is polled, in seconds.",
    at_least(1),
    importance=LOW,
)
UNSTABLE_API_VERSIONS_ENABLE = boolean(
    "unstable.api.versions.enable",
    False,
    "Whether versions of requests that are still being designed are served.",
    importance=HIGH,
    internal=True,
)
UNSTABLE_FEATURE_VERSIONS_ENABLE = boolean(
    "unstable.feature.versions.enable",
    False,
    "Whether feature levels that are still being designed may be used.",
    importance=HIGH,
    internal=True,
)
