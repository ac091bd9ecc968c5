"""Whether all brokers of a cluster look up a name in the partition where Apache Kafka keeps it.

An older ottla looks elsewhere (partitioning.py). While one is in the cluster, all brokers of ottla do as it
does: so all of them find every group and every transactional id, and nothing is moved to a partition where
the older broker would not find it. The registration of a broker of this version says that it knows Kafka's
partitions, so its other nodes see that in the metadata, also while it is away. Apache Kafka's brokers
register exactly as an older ottla does; they are told apart by the APIs that they serve, so only while they
run.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class BrokerKind(enum.Enum):
    """The kind of a broker, as far as it is known."""

    KNOWS = "says that it knows Kafka's partitions"
    KAFKA = "Apache Kafka's"
    OLDER = "an older ottla"
    UNKNOWN = "says nothing, and can't be asked"


def all_agree(kinds: Iterable[BrokerKind]) -> bool:
    """Whether Kafka's partitions hold for all.

    A broker that can't be asked is taken for one of Kafka's if others are, otherwise for an older ottla: a
    cluster of ottla that is upgraded waits for the brokers that are away, a mixed cluster follows Kafka's
    rules.
    """
    found = set(kinds)
    if BrokerKind.OLDER in found:
        return False
    return BrokerKind.UNKNOWN not in found or BrokerKind.KAFKA in found
