"""Whether all brokers of a cluster look for a name in the partition where Apache Kafka keeps it.

An older ottla looks elsewhere (partitioning.py). While one of those is in the cluster, all of ottla's brokers
go on as it does: every group and every transactional id is found by all of them, and nothing is moved to
where the old broker would not find it. A broker of this version says in its registration that it knows
Kafka's partitions, which its other nodes see in the metadata, also when it is away. Apache Kafka's brokers
register exactly as an older ottla does; they are told apart by the APIs they serve, so only while they run.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class BrokerKind(enum.Enum):
    """What is known of a broker."""

    KNOWS = "says that it knows Kafka's partitions"
    KAFKA = "Apache Kafka's"
    OLDER = "an older ottla"
    UNKNOWN = "says nothing, and can't be asked"


def all_agree(kinds: Iterable[BrokerKind]) -> bool:
    """Whether Kafka's partitions hold for all.

    A broker that can't be asked is one of Kafka's where others are, an older ottla everywhere else: a cluster
    of ottla that is upgraded waits for the brokers that are away, a mixed one goes by Kafka's rules.
    """
    found = set(kinds)
    if BrokerKind.OLDER in found:
        return False
    return BrokerKind.UNKNOWN not in found or BrokerKind.KAFKA in found
