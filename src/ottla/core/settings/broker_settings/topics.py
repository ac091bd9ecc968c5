"""Settings of topics and leadership."""

from __future__ import annotations

from ottla.config.setting import CLUSTER_WIDE, HIGH, LOW, boolean, class_name, integer, long
from ottla.config.validators import at_least

NUM_PARTITIONS = integer(
    "num.partitions", 1, "Partitions of a topic that is created without a count.", at_least(1)
)
DEFAULT_REPLICATION_FACTOR = integer(
    "default.replication.factor", 1, "Replicas of a topic that is created without a count."
)
AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable",
    True,
    "Whether asking for a topic that does not exist creates it.",
    importance=HIGH,
)
DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, "Whether topics can be deleted.", importance=HIGH)
CREATE_TOPIC_POLICY_CLASS_NAME = class_name.optional(
    "create.topic.policy.class.name", "A class that may refuse new topics.", importance=LOW
)
ALTER_CONFIG_POLICY_CLASS_NAME = class_name.optional(
    "alter.config.policy.class.name", "A class that may refuse changes of settings.", importance=LOW
)
MIN_INSYNC_REPLICAS = integer(
    "min.insync.replicas",
    1,
    "Replicas that must be in sync for a write with acks=all to be taken.",
    at_least(1),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    "Whether a replica out of sync may lead when no other is left, at the price of lost records.",
    importance=HIGH,
    update=CLUSTER_WIDE,
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS = long(
    "unclean.leader.election.interval.ms",
    300_000,
    "How often partitions without a leader are looked at for an unclean election.",
    at_least(1),
    internal=True,
)
AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable",
    True,
    "Whether leadership goes back to preferred replicas by itself.",
    importance=HIGH,
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = long(
    "leader.imbalance.check.interval.seconds",
    300,
    "How often leadership is looked at for going back to preferred replicas.",
    at_least(1),
    importance=HIGH,
)
OFFSET_METADATA_MAX_BYTES = integer(
    "offset.metadata.max.bytes",
    4096,
    "The largest text that a client may store beside a committed offset.",
    importance=HIGH,
)
