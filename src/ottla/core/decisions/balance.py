"""Elections in the background: leaders go back to preferred replicas, leaderless partitions get one.

`balance_leaders` is due every leader.imbalance.check.interval.seconds where auto.leader.rebalance.enable says
so. `elect_missing_leaders` is due every unclean.leader.election.interval.ms, at once when a topic begins to
allow unclean elections, and when a controller begins: the one before may have ended between the record that
unfenced a broker and those that made it a leader. Each does a bounded number of elections a round; while the
answer is True there is more to do at once.

As in Kafka since KRaft, every partition that is not led by its preferred replica counts:
leader.imbalance.per.broker.percentage is read by nobody.
"""

from __future__ import annotations

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.partition_changes import Election, PartitionChanges, Target, TopicRules
from ottla.core.image.image import MetadataImage

#: Elections in one round, as in Apache Kafka.
MAX_ELECTIONS_PER_ROUND = 1_000


def balance_leaders(
    image: MetadataImage, rules: TopicRules, max_elections: int = MAX_ELECTIONS_PER_ROUND
) -> Decision[bool]:
    """Give partitions back to their preferred replicas that are in sync. True: there may be more."""
    changes = PartitionChanges(image, rules)
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader == partition.replicas[0]:
                continue
            if len(changes.records) >= max_elections:
                return Decision(changes.records, True)
            changes.change(topic, partition.partition_id, Target(), Election.PREFERRED)
    return Decision(changes.records, False)


def elect_missing_leaders(
    image: MetadataImage, rules: TopicRules, max_elections: int = MAX_ELECTIONS_PER_ROUND
) -> Decision[bool]:
    """Give partitions without a leader one; at any price where their topic allows it. True: maybe more."""
    changes = PartitionChanges(image, rules)
    for topic, partition in image.leaderless_partitions():
        if len(changes.records) >= max_elections:
            return Decision(changes.records, True)
        changes.change(topic, partition.partition_id, Target())
    return Decision(changes.records, False)
