"""Elections in the background: leadership returns to preferred replicas, leaderless partitions get leaders.

`balance_leaders` is due every leader.imbalance.check.interval.seconds if auto.leader.rebalance.enable is set.
`elect_missing_leaders` is due every unclean.leader.election.interval.ms, at once when a topic begins to allow
unclean elections, and when a controller becomes active: the one before may have ended between the record that
unfenced a broker and the records that made it a leader. Each runs a bounded number of elections a round;
while the answer is True, the next round is due at once.

As in Kafka since KRaft, every partition that is not led by its preferred replica counts:
leader.imbalance.per.broker.percentage has no effect.
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
    """Elect preferred replicas that are in sync but do not lead. True if there may be more."""
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
    """Elect leaders where there are none, unclean ones if the topic allows it. True if there may be more."""
    changes = PartitionChanges(image, rules)
    for topic, partition in image.leaderless_partitions():
        if len(changes.records) >= max_elections:
            return Decision(changes.records, True)
        changes.change(topic, partition.partition_id, Target())
    return Decision(changes.records, False)
