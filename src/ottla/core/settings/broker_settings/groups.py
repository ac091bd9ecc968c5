"""Settings of consumer and streams groups and their offsets."""

from __future__ import annotations

from ottla.config.setting import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MAX_INT,
    boolean,
    class_name,
    integer,
    long,
    short,
    string,
    string_list,
)
from ottla.config.validators import ListOf, OneOf, at_least

IN_MEMORY_TOPOLOGY_DESCRIPTIONS = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""The name of Apache Kafka's own class, which here means that the coordinator holds descriptions itself."""

GROUP_MIN_SESSION_TIMEOUT_MS = integer(
    "group.min.session.timeout.ms", 6000, "The shortest session timeout that a member may ask for."
)
GROUP_MAX_SESSION_TIMEOUT_MS = integer(
    "group.max.session.timeout.ms", 1_800_000, "The longest session timeout that a member may ask for."
)
GROUP_INITIAL_REBALANCE_DELAY_MS = integer(
    "group.initial.rebalance.delay.ms",
    3000,
    "How long an empty group waits for more members before its first rebalance.",
)
GROUP_MAX_SIZE = integer("group.max.size", MAX_INT, "Members that one group may have.", at_least(1))
GROUP_COORDINATOR_THREADS = integer(
    "group.coordinator.threads", 4, "Threads of the group coordinator.", at_least(1), importance=HIGH
)
GROUP_COORDINATOR_BACKGROUND_THREADS = integer(
    "group.coordinator.background.threads",
    2,
    "Threads that compute assignments beside the group coordinator.",
    at_least(1),
    importance=HIGH,
)
GROUP_COORDINATOR_APPEND_LINGER_MS = integer(
    "group.coordinator.append.linger.ms",
    -1,
    "How long writes of the group coordinator are collected; -1 adapts to the load.",
    at_least(-1),
)
GROUP_COORDINATOR_CACHED_BUFFER_MAX_BYTES = integer(
    "group.coordinator.cached.buffer.max.bytes",
    1_048_588,
    "The largest write buffer that the group coordinator keeps.",
    at_least(524_288),
    update=CLUSTER_WIDE,
)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS = string_list(
    "group.coordinator.rebalance.protocols",
    ("classic", "consumer", "streams"),
    "The group protocols that are served.",
    ListOf(("consumer", "classic", "share", "streams"), empty=False),
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS = integer(
    "group.consumer.session.timeout.ms",
    45_000,
    "A member of the consumer protocol that is silent for this time is removed.",
    at_least(1),
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = integer(
    "group.consumer.min.session.timeout.ms",
    45_000,
    "The shortest session timeout of the consumer protocol.",
    at_least(1),
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = integer(
    "group.consumer.max.session.timeout.ms",
    60_000,
    "The longest session timeout of the consumer protocol.",
    at_least(1),
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.heartbeat.interval.ms",
    5000,
    "How often members of the consumer protocol send heartbeats.",
    at_least(1),
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.min.heartbeat.interval.ms",
    5000,
    "The shortest heartbeat interval of the consumer protocol.",
    at_least(1),
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.max.heartbeat.interval.ms",
    15_000,
    "The longest heartbeat interval of the consumer protocol.",
    at_least(1),
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.assignment.interval.ms",
    1000,
    "The least time between two assignments of a group of the consumer protocol.",
    at_least(0),
    update=CLUSTER_WIDE,
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.min.assignment.interval.ms",
    0,
    "The shortest assignment interval of the consumer protocol.",
    at_least(0),
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = integer(
    "group.consumer.max.assignment.interval.ms",
    15_000,
    "The longest assignment interval of the consumer protocol.",
    at_least(0),
)
GROUP_CONSUMER_MAX_SIZE = integer(
    "group.consumer.max.size",
    MAX_INT,
    "Members that one group of the consumer protocol may have.",
    at_least(1),
)
GROUP_CONSUMER_ASSIGNORS = string_list(
    "group.consumer.assignors",
    ("uniform", "range"),
    "Assignors on the server side; the first is the default.",
    ListOf(empty=False),
)
GROUP_CONSUMER_ASSIGNOR_OFFLOAD_ENABLE = boolean(
    "group.consumer.assignor.offload.enable",
    True,
    "Whether assignments of the consumer protocol are computed beside the group coordinator.",
    internal=True,
    update=CLUSTER_WIDE,
)
GROUP_CONSUMER_MIGRATION_POLICY = string(
    "group.consumer.migration.policy",
    "bidirectional",
    "Whether groups may change between the classic and the consumer protocol, and which way.",
    OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True),
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = integer(
    "group.consumer.regex.refresh.interval.ms",
    600_000,
    "How often subscriptions by pattern are matched again.",
    at_least(10_000),
    internal=True,
)
GROUP_STREAMS_SESSION_TIMEOUT_MS = integer(
    "group.streams.session.timeout.ms",
    45_000,
    "A member of the streams protocol that is silent for this time is removed.",
    at_least(1),
)
GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS = integer(
    "group.streams.min.session.timeout.ms",
    45_000,
    "The shortest session timeout of the streams protocol.",
    at_least(1),
)
GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS = integer(
    "group.streams.max.session.timeout.ms",
    60_000,
    "The longest session timeout of the streams protocol.",
    at_least(1),
)
GROUP_STREAMS_HEARTBEAT_INTERVAL_MS = integer(
    "group.streams.heartbeat.interval.ms",
    5000,
    "How often members of the streams protocol send heartbeats.",
    at_least(1),
)
GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS = integer(
    "group.streams.min.heartbeat.interval.ms",
    5000,
    "The shortest heartbeat interval of the streams protocol.",
    at_least(1),
)
GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS = integer(
    "group.streams.max.heartbeat.interval.ms",
    15_000,
    "The longest heartbeat interval of the streams protocol.",
    at_least(1),
)
GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS = integer(
    "group.streams.assignment.interval.ms",
    1000,
    "The least time between two assignments of a group of the streams protocol.",
    at_least(0),
    update=CLUSTER_WIDE,
)
GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS = integer(
    "group.streams.min.assignment.interval.ms",
    0,
    "The shortest assignment interval of the streams protocol.",
    at_least(0),
)
GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS = integer(
    "group.streams.max.assignment.interval.ms",
    15_000,
    "The longest assignment interval of the streams protocol.",
    at_least(0),
)
GROUP_STREAMS_MAX_SIZE = integer(
    "group.streams.max.size", MAX_INT, "Members that one group of the streams protocol may have.", at_least(1)
)
GROUP_STREAMS_NUM_STANDBY_REPLICAS = integer(
    "group.streams.num.standby.replicas", 0, "Standby replicas of each task of a streams group.", at_least(0)
)
GROUP_STREAMS_MAX_STANDBY_REPLICAS = integer(
    "group.streams.max.standby.replicas", 2, "Standby replicas that a streams group may ask for.", at_least(0)
)
GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS = integer(
    "group.streams.initial.rebalance.delay.ms",
    3000,
    "How long an empty streams group waits for more members before its first assignment.",
    at_least(0),
)
GROUP_STREAMS_ASSIGNORS = string_list(
    "group.streams.assignors",
    ("sticky",),
    "Assignors of tasks on the server side; the first is that of groups that name none.",
    ListOf(empty=False),
)
GROUP_STREAMS_ASSIGNOR_OFFLOAD_ENABLE = boolean(
    "group.streams.assignor.offload.enable",
    True,
    "Whether assignments of streams groups are computed beside the group coordinator.",
    internal=True,
    update=CLUSTER_WIDE,
)
GROUP_STREAMS_RACK_AWARE_ASSIGNMENT_TAGS = string_list(
    "group.streams.rack.aware.assignment.tags",
    (),
    "The keys of client tags over whose values the standby tasks of a streams group are spread.",
    ListOf(),
    importance=LOW,
)
GROUP_STREAMS_TASK_OFFSET_INTERVAL_MS = integer(
    "group.streams.task.offset.interval.ms",
    60_000,
    "How often members of a streams group tell the offsets of their warm-up tasks.",
    at_least(1),
    internal=True,
)
GROUP_STREAMS_MIN_TASK_OFFSET_INTERVAL_MS = integer(
    "group.streams.min.task.offset.interval.ms",
    15_000,
    "The shortest such interval that a streams group may ask for.",
    at_least(1),
    internal=True,
)
GROUP_STREAMS_NUM_WARMUP_REPLICAS = integer(
    "group.streams.num.warmup.replicas",
    2,
    "The most warm-up tasks of a streams group.",
    at_least(0),
    internal=True,
)
GROUP_STREAMS_MAX_WARMUP_REPLICAS = integer(
    "group.streams.max.warmup.replicas",
    20,
    "Warm-up tasks that a streams group may ask for.",
    at_least(0),
    internal=True,
)
GROUP_STREAMS_ACCEPTABLE_RECOVERY_LAG = long(
    "group.streams.acceptable.recovery.lag",
    10_000,
    "The lag in offsets up to which a client counts as caught up, and may get the active task.",
    at_least(0),
    internal=True,
)
GROUP_STREAMS_TOPOLOGY_DESCRIPTION_PLUGIN_CLASS = class_name.optional(
    "group.streams.topology.description.plugin.class",
    "The class that keeps the descriptions of the topologies of streams groups; none are kept without one.",
    OneOf((IN_MEMORY_TOPOLOGY_DESCRIPTIONS,)),
)
OFFSETS_TOPIC_NUM_PARTITIONS = integer(
    "offsets.topic.num.partitions",
    50,
    "Partitions of the topic of committed offsets; must not change once it exists.",
    at_least(1),
    importance=HIGH,
)
OFFSETS_TOPIC_REPLICATION_FACTOR = short(
    "offsets.topic.replication.factor",
    3,
    "Replicas of the topic of committed offsets.",
    at_least(1),
    importance=HIGH,
)
OFFSETS_TOPIC_SEGMENT_BYTES = integer(
    "offsets.topic.segment.bytes",
    104_857_600,
    "The segment size of the topic of committed offsets.",
    at_least(1),
    importance=HIGH,
)
OFFSETS_TOPIC_COMPRESSION_CODEC = integer(
    "offsets.topic.compression.codec",
    0,
    "The codec of the topic of committed offsets, by number.",
    importance=HIGH,
)
OFFSETS_LOAD_BUFFER_SIZE = integer(
    "offsets.load.buffer.size",
    5_242_880,
    "Bytes read at once while a coordinator loads its offsets.",
    at_least(1),
    importance=HIGH,
)
OFFSETS_RETENTION_MINUTES = integer(
    "offsets.retention.minutes",
    10_080,
    "How long the offsets of an empty group are kept.",
    at_least(1),
    importance=HIGH,
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = long(
    "offsets.retention.check.interval.ms",
    600_000,
    "How often offsets are looked at for expiry.",
    at_least(1),
    importance=HIGH,
)
OFFSETS_COMMIT_TIMEOUT_MS = integer(
    "offsets.commit.timeout.ms",
    5000,
    "How long a commit may wait for its replicas.",
    at_least(1),
    importance=HIGH,
)
