"""Settings of replication between brokers."""

from __future__ import annotations

from ottla.config.setting import CLUSTER_WIDE, HIGH, LOW, MAX_LONG, boolean, integer, long, string
from ottla.config.validators import at_least

REPLICA_LAG_TIME_MAX_MS = long(
    "replica.lag.time.max.ms",
    30_000,
    "A replica that has not caught up for this time leaves the in-sync set.",
    importance=HIGH,
)
REPLICA_FETCH_MAX_BYTES = integer(
    "replica.fetch.max.bytes",
    1_048_576,
    "Bytes that a replica fetches from one partition at once.",
    at_least(0),
)
REPLICA_FETCH_MIN_BYTES = integer(
    "replica.fetch.min.bytes", 1, "Bytes that a replica's fetch waits for.", importance=HIGH
)
REPLICA_FETCH_WAIT_MAX_MS = integer(
    "replica.fetch.wait.max.ms", 500, "The longest time that a replica's fetch waits.", importance=HIGH
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = integer(
    "replica.fetch.response.max.bytes",
    10_485_760,
    "Bytes that one answer to a replica's fetch holds.",
    at_least(0),
)
REPLICA_FETCH_BACKOFF_MS = integer(
    "replica.fetch.backoff.ms", 1000, "Time to wait after a failed fetch of a partition.", at_least(0)
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = long(
    "replica.high.watermark.checkpoint.interval.ms",
    5000,
    "How often the high watermarks are written to disk.",
    importance=HIGH,
)
REPLICA_SELECTOR_CLASS = string.optional(
    "replica.selector.class", "A class that chooses the replica that a client reads from."
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = integer(
    "replica.socket.receive.buffer.bytes",
    65_536,
    "The receive buffer of the connection to a leader.",
    importance=HIGH,
)
REPLICA_SOCKET_TIMEOUT_MS = integer(
    "replica.socket.timeout.ms", 30_000, "How long a request to a leader may take.", importance=HIGH
)
NUM_REPLICA_FETCHERS = integer(
    "num.replica.fetchers",
    1,
    "Fetchers that copy from each other broker.",
    at_least(1),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LEADER_REPLICATION_THROTTLED_RATE = long(
    "leader.replication.throttled.rate",
    MAX_LONG,
    "Bytes a second that throttled replicas may be read at.",
    at_least(0),
    update=CLUSTER_WIDE,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = long(
    "follower.replication.throttled.rate",
    MAX_LONG,
    "Bytes a second that throttled replicas may be written at.",
    at_least(0),
    update=CLUSTER_WIDE,
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = long(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    MAX_LONG,
    "Bytes a second that replicas may move between data directories.",
    at_least(0),
    update=CLUSTER_WIDE,
)
REPLICATION_QUOTA_WINDOW_NUM = integer(
    "replication.quota.window.num",
    11,
    "Samples that the replication quota is computed from.",
    at_least(1),
    importance=LOW,
)
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "replication.quota.window.size.seconds",
    1,
    "Seconds that one sample of the replication quota covers.",
    at_least(1),
    importance=LOW,
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM = integer(
    "alter.log.dirs.replication.quota.window.num",
    11,
    "Samples that the quota of moves between data directories is computed from.",
    at_least(1),
    importance=LOW,
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "alter.log.dirs.replication.quota.window.size.seconds",
    1,
    "Seconds that one sample of the quota of moves between data directories covers.",
    at_least(1),
    importance=LOW,
)
FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE = boolean(
    "follower.fetch.last.tiered.offset.enable",
    False,
    "Whether a new replica starts after the records that are in remote storage.",
    update=CLUSTER_WIDE,
)
