"""Settings of the controllers' quorum and the metadata log."""

from __future__ import annotations

from ottla.config.setting import HIGH, LOW, boolean, integer, long, string_list
from ottla.config.validators import at_least

CONTROLLER_QUORUM_VOTERS = string_list(
    "controller.quorum.voters", (), "The voters of a fixed quorum, as id@host:port.", importance=HIGH
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = string_list(
    "controller.quorum.bootstrap.servers", (), "Addresses through which the quorum is found.", importance=HIGH
)
CONTROLLER_QUORUM_AUTO_JOIN_ENABLE = boolean(
    "controller.quorum.auto.join.enable",
    False,
    "Whether a controller joins the voters by itself.",
    importance=LOW,
)
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = integer(
    "controller.quorum.election.timeout.ms",
    1000,
    "A candidate that has not won after this time starts a new election.",
    at_least(0),
    importance=HIGH,
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = integer(
    "controller.quorum.election.backoff.max.ms",
    1000,
    "The longest random wait before a new election.",
    at_least(0),
    importance=HIGH,
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = integer(
    "controller.quorum.fetch.timeout.ms",
    2000,
    "A voter that could not fetch from the leader for this time stands for election.",
    at_least(0),
    importance=HIGH,
)
CONTROLLER_QUORUM_FETCH_MAX_BYTES = integer(
    "controller.quorum.fetch.max.bytes",
    1_048_576,
    "Bytes that one fetch of the metadata log holds.",
    at_least(1),
    importance=LOW,
)
CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES = integer(
    "controller.quorum.fetch.snapshot.max.bytes",
    1_048_576,
    "Bytes that one fetch of a metadata snapshot holds.",
    at_least(1),
    importance=LOW,
)
CONTROLLER_QUORUM_APPEND_LINGER_MS = integer(
    "controller.quorum.append.linger.ms",
    25,
    "How long writes to the metadata log are collected.",
    at_least(0),
)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = integer(
    "controller.quorum.request.timeout.ms", 2000, "How long a request to another voter may take.", at_least(0)
)
CONTROLLER_QUORUM_RETRY_BACKOFF_MS = integer(
    "controller.quorum.retry.backoff.ms",
    20,
    "Time to wait before a failed request to another voter is sent again.",
    at_least(0),
    importance=LOW,
)
CONTROLLER_SOCKET_TIMEOUT_MS = integer(
    "controller.socket.timeout.ms", 30_000, "How long a request to a controller may take."
)
CONTROLLER_PERFORMANCE_SAMPLE_PERIOD_MS = long(
    "controller.performance.sample.period.ms",
    60_000,
    "How often the controller writes its performance to the log.",
    at_least(100),
    internal=True,
)
CONTROLLER_PERFORMANCE_ALWAYS_LOG_THRESHOLD_MS = long(
    "controller.performance.always.log.threshold.ms",
    2000,
    "An event of the controller that takes longer than this is always logged.",
    at_least(0),
    internal=True,
)
BROKER_HEARTBEAT_INTERVAL_MS = integer(
    "broker.heartbeat.interval.ms", 2000, "How often a broker sends a heartbeat to the controller."
)
BROKER_SESSION_TIMEOUT_MS = integer(
    "broker.session.timeout.ms", 9000, "A broker that is silent for this time is fenced."
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = integer(
    "initial.broker.registration.timeout.ms", 60_000, "How long a starting broker tries to register."
)
METADATA_LOG_SEGMENT_BYTES = integer(
    "metadata.log.segment.bytes",
    1_073_741_824,
    "The segment size of the metadata log.",
    at_least(8_388_608),
    importance=HIGH,
)
METADATA_LOG_SEGMENT_MS = long(
    "metadata.log.segment.ms",
    604_800_000,
    "A segment of the metadata log is closed after this time.",
    importance=HIGH,
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = long(
    "metadata.log.max.record.bytes.between.snapshots",
    20_971_520,
    "Bytes of the metadata log after which a snapshot is written.",
    at_least(1),
    importance=HIGH,
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = long(
    "metadata.log.max.snapshot.interval.ms",
    3_600_000,
    "Time after which a snapshot is written if there were changes; 0 is never.",
    at_least(0),
    importance=HIGH,
)
METADATA_MAX_IDLE_INTERVAL_MS = integer(
    "metadata.max.idle.interval.ms",
    500,
    "How often the active controller writes a no-op record; 0 is never.",
    at_least(0),
    importance=LOW,
)
METADATA_MAX_RETENTION_BYTES = long(
    "metadata.max.retention.bytes",
    104_857_600,
    "Size of metadata log and snapshots above which the oldest go.",
    importance=HIGH,
)
METADATA_MAX_RETENTION_MS = long(
    "metadata.max.retention.ms",
    604_800_000,
    "How long old metadata log and snapshots are kept.",
    importance=HIGH,
)
INTERNAL_METADATA_LOG_SEGMENT_BYTES = integer.optional(
    "internal.metadata.log.segment.bytes",
    "The segment size of the metadata log, without its lower limit; for tests.",
    importance=LOW,
    internal=True,
)
INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES = integer(
    "internal.metadata.max.batch.size.in.bytes",
    8_388_608,
    "The largest batch in the metadata log.",
    importance=LOW,
    internal=True,
)
INTERNAL_METADATA_DELETE_DELAY_MILLIS = long(
    "internal.metadata.delete.delay.millis",
    60_000,
    "Time between a metadata file being renamed for deletion and its removal.",
    importance=LOW,
    internal=True,
)
