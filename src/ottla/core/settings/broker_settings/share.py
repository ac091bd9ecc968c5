"""Settings of share groups and their coordinators."""

from __future__ import annotations

from ottla.config.setting import CLUSTER_WIDE, HIGH, LOW, boolean, integer, short, string, string_list
from ottla.config.validators import ListOf, at_least, between

ERRORS_DEADLETTERQUEUE_AUTO_CREATE_TOPICS_ENABLE = boolean(
    "errors.deadletterqueue.auto.create.topics.enable",
    False,
    "Whether the topic for a share group's dead letters is created when it is missing.",
    update=CLUSTER_WIDE,
)
ERRORS_DEADLETTERQUEUE_TOPIC_NAME_PREFIX = string(
    "errors.deadletterqueue.topic.name.prefix",
    "dlq.",
    "The prefix that the name of a topic for dead letters must have; empty for none.",
    update=CLUSTER_WIDE,
)
GROUP_SHARE_SESSION_TIMEOUT_MS = integer(
    "group.share.session.timeout.ms",
    45_000,
    "A member of a share group that is silent for this time is removed.",
    at_least(1),
)
GROUP_SHARE_MIN_SESSION_TIMEOUT_MS = integer(
    "group.share.min.session.timeout.ms", 45_000, "The shortest session timeout of share groups.", at_least(1)
)
GROUP_SHARE_MAX_SESSION_TIMEOUT_MS = integer(
    "group.share.max.session.timeout.ms", 60_000, "The longest session timeout of share groups.", at_least(1)
)
GROUP_SHARE_HEARTBEAT_INTERVAL_MS = integer(
    "group.share.heartbeat.interval.ms",
    5000,
    "How often members of share groups send heartbeats.",
    at_least(1),
)
GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS = integer(
    "group.share.min.heartbeat.interval.ms",
    5000,
    "The shortest heartbeat interval of share groups.",
    at_least(1),
)
GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS = integer(
    "group.share.max.heartbeat.interval.ms",
    15_000,
    "The longest heartbeat interval of share groups.",
    at_least(1),
)
GROUP_SHARE_ASSIGNMENT_INTERVAL_MS = integer(
    "group.share.assignment.interval.ms",
    1000,
    "The least time between two assignments of a share group.",
    at_least(0),
    update=CLUSTER_WIDE,
)
GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS = integer(
    "group.share.min.assignment.interval.ms",
    0,
    "The shortest assignment interval of share groups.",
    at_least(0),
)
GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS = integer(
    "group.share.max.assignment.interval.ms",
    15_000,
    "The longest assignment interval of share groups.",
    at_least(0),
)
GROUP_SHARE_DLQ_MANAGER_CLASS_NAME = string(
    "group.share.dlq.manager.class.name",
    "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
    "The class that writes the dead letters of share groups in Apache Kafka; ottla has one writer.",
    internal=True,
)
GROUP_SHARE_ASSIGNOR_OFFLOAD_ENABLE = boolean(
    "group.share.assignor.offload.enable",
    True,
    "Whether assignments of share groups are computed beside the group coordinator.",
    internal=True,
    update=CLUSTER_WIDE,
)
GROUP_SHARE_ASSIGNORS = string_list(
    "group.share.assignors", ("simple",), "Assignors of share groups.", ListOf(empty=False)
)
GROUP_SHARE_MAX_SIZE = integer(
    "group.share.max.size", 200, "Members that one share group may have.", between(1, 1000)
)
GROUP_SHARE_MAX_SHARE_SESSIONS = integer(
    "group.share.max.share.sessions", 2000, "Share sessions that a broker keeps.", at_least(1)
)
GROUP_SHARE_DELIVERY_COUNT_LIMIT = integer(
    "group.share.delivery.count.limit",
    5,
    "How often a record is delivered before it counts as bad.",
    between(2, 10),
)
GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT = integer(
    "group.share.min.delivery.count.limit",
    2,
    "The smallest delivery limit that a share group may set.",
    between(2, 5),
)
GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT = integer(
    "group.share.max.delivery.count.limit",
    10,
    "The largest delivery limit that a share group may set.",
    between(5, 25),
)
GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS = integer(
    "group.share.partition.max.record.locks",
    2000,
    "Records of a partition that a share group may hold at once.",
    between(100, 10_000),
)
GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS = integer(
    "group.share.min.partition.max.record.locks",
    100,
    "The smallest limit of held records that a share group may set.",
    between(100, 2000),
)
GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS = integer(
    "group.share.max.partition.max.record.locks",
    4000,
    "The largest limit of held records that a share group may set.",
    between(2000, 10_000),
)
GROUP_SHARE_RECORD_LOCK_DURATION_MS = integer(
    "group.share.record.lock.duration.ms",
    30_000,
    "How long a member holds a record that it was given.",
    between(1000, 3_600_000),
)
GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS = integer(
    "group.share.min.record.lock.duration.ms",
    15_000,
    "The shortest hold that a share group may set.",
    between(1000, 30_000),
)
GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS = integer(
    "group.share.max.record.lock.duration.ms",
    60_000,
    "The longest hold that a share group may set.",
    between(30_000, 3_600_000),
)
GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS = integer(
    "group.share.initialize.retry.interval.ms",
    30_000,
    "How long the coordinator waits before it initialises a share partition again.",
    at_least(1),
    importance=LOW,
    internal=True,
)
GROUP_SHARE_PERSISTER_CLASS_NAME = string(
    "group.share.persister.class.name",
    "org.apache.kafka.server.share.persister.DefaultStatePersister",
    "The class that stores the state of share groups.",
    internal=True,
)
SHARE_COORDINATOR_APPEND_LINGER_MS = integer(
    "share.coordinator.append.linger.ms",
    -1,
    "How long writes of the share coordinator are collected; -1 adapts to the load.",
    at_least(-1),
)
SHARE_COORDINATOR_CACHED_BUFFER_MAX_BYTES = integer(
    "share.coordinator.cached.buffer.max.bytes",
    1_048_588,
    "The largest write buffer that the share coordinator keeps.",
    at_least(524_288),
    update=CLUSTER_WIDE,
)
SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS = integer(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    300_000,
    "How often idle share partitions get a snapshot.",
    at_least(1),
    importance=LOW,
    internal=True,
)
SHARE_COORDINATOR_LOAD_BUFFER_SIZE = integer(
    "share.coordinator.load.buffer.size",
    5_242_880,
    "Bytes read at once while the share coordinator loads its state.",
    at_least(1),
    importance=HIGH,
)
SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT = integer(
    "share.coordinator.snapshot.update.records.per.snapshot",
    500,
    "Updates between two snapshots of a share partition.",
    between(0, 500),
)
SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC = integer(
    "share.coordinator.state.topic.compression.codec",
    0,
    "The codec of the topic of share states, by number.",
    importance=HIGH,
)
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR = short(
    "share.coordinator.state.topic.min.isr",
    2,
    "min.insync.replicas of the topic of share states.",
    at_least(1),
    importance=HIGH,
)
SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS = integer(
    "share.coordinator.state.topic.num.partitions",
    50,
    "Partitions of the topic of share states.",
    at_least(1),
    importance=HIGH,
)
SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS = integer(
    "share.coordinator.state.topic.prune.interval.ms",
    300_000,
    "How often the topic of share states is pruned.",
    at_least(1),
    importance=LOW,
    internal=True,
)
SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR = short(
    "share.coordinator.state.topic.replication.factor",
    3,
    "Replicas of the topic of share states.",
    at_least(1),
    importance=HIGH,
)
SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES = integer(
    "share.coordinator.state.topic.segment.bytes",
    104_857_600,
    "The segment size of the topic of share states.",
    at_least(1),
    importance=HIGH,
)
SHARE_COORDINATOR_THREADS = integer(
    "share.coordinator.threads", 1, "Threads of the share coordinator.", at_least(1)
)
SHARE_COORDINATOR_WRITE_TIMEOUT_MS = integer(
    "share.coordinator.write.timeout.ms",
    5000,
    "How long a write of the share coordinator may wait for its replicas.",
    at_least(1),
    importance=HIGH,
)
