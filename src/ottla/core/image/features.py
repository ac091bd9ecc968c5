"""The features of a cluster and their levels: the supported ranges, and the levels of a new cluster.

Names and levels are Apache Kafka 4.4's (KIP-584, KIP-778). A cluster's finalized levels are metadata
records; a node registers the ranges that it supports, and the cluster never finalizes a level outside of
them.
"""

from __future__ import annotations

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"

#: The first level of share.version with dead-letter queues (KIP-1191).
SHARE_VERSION_WITH_DEAD_LETTERS = 2

#: 3.3-IV3 (the first with KRaft in production) to 4.4-IV2.
OLDEST_METADATA_VERSION = 7
LATEST_METADATA_VERSION = 33

#: 4.3-IV0: records of this level are the oldest that are written here, so metadata of a lower level is not
#: served. A directory of this level keeps it until an administrator finalizes a higher one.
OLDEST_WRITTEN_METADATA_VERSION = 30

#: 4.4-IV2: from this level on a controller can be unregistered. An older node can't read that record.
CONTROLLER_UNREGISTRATION_METADATA_VERSION = 33

#: The levels whose metadata a node of the level before can't read: no downgrade goes below one of them.
CHANGED_METADATA_VERSIONS = frozenset({30, 32, 33})

#: feature -> smallest and largest level that this version supports.
SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
    GROUP_VERSION: (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (OLDEST_METADATA_VERSION, LATEST_METADATA_VERSION),
    SHARE_VERSION: (0, 2),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}

#: Not Kafka's: a broker that registers it looks up groups and transactional ids as Kafka does, see
#: core/coordination/agreement.py. Kafka's controllers keep the name, but can't finalize a level of it. Level
#: 0 has to be in the range, as in that of every feature that a cluster has not finalized.
COORDINATOR_PARTITIONS = "ottla.coordinator.partitions"

#: feature -> (smallest, largest) level, as a broker of this version registers them.
REGISTERED_FEATURES: dict[str, tuple[int, int]] = {**SUPPORTED_FEATURES, COORDINATOR_PARTITIONS: (0, 1)}

#: The levels of a new cluster, in the order in which they are written. kraft.version is not among them: it is
#: a control record of the log itself.
INITIAL_FEATURES: tuple[tuple[str, int], ...] = (
    (METADATA_VERSION, LATEST_METADATA_VERSION),
    (ELIGIBLE_LEADER_REPLICAS, 1),
    (GROUP_VERSION, 1),
    (SHARE_VERSION, 2),
    (STREAMS_VERSION, 1),
    (TRANSACTION_VERSION, 2),
)

KRAFT_VERSION_LEVEL = 1

#: metadata.version level -> its release name.
METADATA_VERSION_NAMES: dict[int, str] = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0", 13: "3.6-IV1",
    14: "3.6-IV2", 15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3", 19: "3.7-IV4", 20: "3.8-IV0",
    21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1",
    28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0", 31: "4.4-IV0", 32: "4.4-IV1", 33: "4.4-IV2",
}  # fmt: skip
