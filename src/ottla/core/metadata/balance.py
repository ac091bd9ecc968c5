"""Elections in the background: leaders go back to preferred replicas, leaderless partitions get one.

`balance_leaders` is due every leader.imbalance.check.interval.seconds where auto.leader.rebalance.enable says so;
`elect_uncleanly` every unclean.leader.election.interval.ms, and at once when a topic begins to allow it. Each does
a bounded number of elections a round; while the answer is True there is more to do at once.
"""

from __future__ import annotations

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import TopicRules

#: Elections in one round, as in Apache Kafka.
MAX_ELECTIONS_PER_ROUND = 1_000


def balance_leaders(
    image: MetadataImage, rules: TopicRules, max_elections: int = MAX_ELECTIONS_PER_ROUND
) -> Decision[bool]:
    """Give partitions back to their preferred replicas that are in sync. True: there may be more."""
    raise AssertionError("not yet")


def elect_uncleanly(
    image: MetadataImage, rules: TopicRules, max_elections: int = MAX_ELECTIONS_PER_ROUND
) -> Decision[bool]:
    """Give partitions without a leader one at any price, where their topic allows it. True: there may be more."""
    raise AssertionError("not yet")
