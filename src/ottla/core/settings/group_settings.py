"""Every setting of a group, and the broker settings that they default to."""

from __future__ import annotations

from typing import Any

from ottla.config.setting import LOW, Setting, boolean, by_name, integer, long, string, string_list
from ottla.config.validators import ListOf, OneOf, at_least
from ottla.core.settings.checks import share_offset_reset

CONSUMER_ASSIGNMENT_INTERVAL_MS = integer(
    "consumer.assignment.interval.ms",
    1000,
    "The least time between two assignments of this group.",
    at_least(0),
)
CONSUMER_ASSIGNOR_OFFLOAD_ENABLE = boolean(
    "consumer.assignor.offload.enable",
    True,
    "Whether assignments of this group are computed beside the group coordinator.",
    internal=True,
)
CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "consumer.heartbeat.interval.ms", 5000, "How often members send heartbeats.", at_least(1)
)
CONSUMER_SESSION_TIMEOUT_MS = integer(
    "consumer.session.timeout.ms", 45_000, "A member that is silent for this time is removed.", at_least(1)
)
ERRORS_DEADLETTERQUEUE_COPY_RECORD_ENABLE = boolean(
    "errors.deadletterqueue.copy.record.enable",
    False,
    "Whether a dead letter has the key and value of its record, beside the headers that name the record.",
)
ERRORS_DEADLETTERQUEUE_TOPIC_NAME = string(
    "errors.deadletterqueue.topic.name",
    "",
    "The topic that gets this share group's dead letters; empty for none.",
)
SHARE_ASSIGNMENT_INTERVAL_MS = integer(
    "share.assignment.interval.ms",
    1000,
    "The least time between two assignments of this share group.",
    at_least(0),
)
SHARE_ASSIGNOR_OFFLOAD_ENABLE = boolean(
    "share.assignor.offload.enable",
    True,
    "Whether assignments of this share group are computed beside the group coordinator.",
    internal=True,
)
SHARE_AUTO_OFFSET_RESET = string(
    "share.auto.offset.reset",
    "latest",
    "Where a share group starts on a partition: latest, earliest or by_duration:<ISO 8601 duration>.",
    share_offset_reset,
)
SHARE_DELIVERY_COUNT_LIMIT = integer(
    "share.delivery.count.limit", 5, "How often a record is delivered before it counts as bad.", at_least(2)
)
SHARE_HEARTBEAT_INTERVAL_MS = integer(
    "share.heartbeat.interval.ms", 5000, "How often members of this share group send heartbeats.", at_least(1)
)
SHARE_ISOLATION_LEVEL = string(
    "share.isolation.level",
    "read_uncommitted",
    "Whether records of open and aborted transactions are delivered.",
    OneOf(("read_committed", "read_uncommitted")),
)
SHARE_PARTITION_MAX_RECORD_LOCKS = integer(
    "share.partition.max.record.locks",
    2000,
    "Records of a partition that this share group may hold at once.",
    at_least(100),
)
SHARE_RECORD_LOCK_DURATION_MS = integer(
    "share.record.lock.duration.ms",
    30_000,
    "How long a member holds a record that it was given.",
    at_least(1000),
)
SHARE_RENEW_ACKNOWLEDGE_ENABLE = boolean(
    "share.renew.acknowledge.enable", True, "Whether a member may renew its hold of a record."
)
SHARE_SESSION_TIMEOUT_MS = integer(
    "share.session.timeout.ms",
    45_000,
    "A member of this share group that is silent for this time is removed.",
    at_least(1),
)
STREAMS_ACCEPTABLE_RECOVERY_LAG = long(
    "streams.acceptable.recovery.lag",
    10_000,
    "The lag in offsets up to which a client counts as caught up, and may get the active task.",
    at_least(0),
    internal=True,
)
STREAMS_ASSIGNMENT_INTERVAL_MS = integer(
    "streams.assignment.interval.ms",
    1000,
    "The least time between two assignments of this streams group.",
    at_least(0),
)
STREAMS_ASSIGNOR_NAME = string.optional(
    "streams.assignor.name",
    "The assignor of this streams group's tasks, one of group.streams.assignors; else the first of them.",
)
STREAMS_ASSIGNOR_OFFLOAD_ENABLE = boolean(
    "streams.assignor.offload.enable",
    True,
    "Whether assignments of this streams group are computed beside the group coordinator.",
    internal=True,
)
STREAMS_HEARTBEAT_INTERVAL_MS = integer(
    "streams.heartbeat.interval.ms",
    5000,
    "How often members of this streams group send heartbeats.",
    at_least(1),
)
STREAMS_INITIAL_REBALANCE_DELAY_MS = integer(
    "streams.initial.rebalance.delay.ms",
    3000,
    "How long this group, when empty, waits for more members before its first assignment.",
    at_least(0),
)
STREAMS_NUM_STANDBY_REPLICAS = integer(
    "streams.num.standby.replicas", 0, "Standby replicas of each task.", at_least(0)
)
STREAMS_NUM_WARMUP_REPLICAS = integer(
    "streams.num.warmup.replicas",
    2,
    "The most warm-up tasks of this streams group.",
    at_least(0),
    internal=True,
)
STREAMS_RACK_AWARE_ASSIGNMENT_TAGS = string_list(
    "streams.rack.aware.assignment.tags",
    (),
    "The keys of client tags over whose values this streams group's standby tasks are spread.",
    ListOf(),
    importance=LOW,
)
STREAMS_SESSION_TIMEOUT_MS = integer(
    "streams.session.timeout.ms",
    45_000,
    "A member of this streams group that is silent for this time is removed.",
    at_least(1),
)

STREAMS_TASK_OFFSET_INTERVAL_MS = integer(
    "streams.task.offset.interval.ms",
    60_000,
    "How often members of this streams group tell the offsets of their warm-up tasks.",
    at_least(1),
    internal=True,
)

GROUP_SETTINGS: dict[str, Setting[Any]] = by_name(globals().values())

#: The broker setting that gives a group setting its default.
BROKER_SYNONYMS: dict[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.assignor.offload.enable": "group.consumer.assignor.offload.enable",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.assignor.offload.enable": "group.share.assignor.offload.enable",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.acceptable.recovery.lag": "group.streams.acceptable.recovery.lag",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.assignor.name": "group.streams.assignors",
    "streams.assignor.offload.enable": "group.streams.assignor.offload.enable",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.num.warmup.replicas": "group.streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags": "group.streams.rack.aware.assignment.tags",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
    "streams.task.offset.interval.ms": "group.streams.task.offset.interval.ms",
}
