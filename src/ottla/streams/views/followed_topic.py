"""The topic of a view: the one that was there at the start, and no other one of its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer

from ottla.client.cluster import KafkaCluster, Positions
from ottla.config.errors import UserError

DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000
SHORTEST_FORGET_SECONDS: Final = 60.0
"""A view that is a moment behind is not read anew, however little its topic remembers."""


class ViewError(UserError):
    """A view can't start, or can't go on; the message is for the user."""


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic by its id. forget_seconds: after so long away from its end a deletion may have been missed."""

    cluster: KafkaCluster
    name: str
    id: str
    forget_seconds: float

    @classmethod
    def found(cls, cluster: KafkaCluster, name: str) -> FollowedTopic:
        """The topic as it is now. Raises ViewError, ClusterError."""
        topic_id = cluster.topic_id(name)
        if topic_id is None:
            raise ViewError(f"there is no topic {name} at {cluster.bootstrap}: has the application run?")
        forget_seconds = DEFAULT_DELETE_RETENTION_MS / 2_000
        retention_ms = cluster.topic_settings(name).get("delete.retention.ms", "")
        if retention_ms.isdecimal():
            forget_seconds = max(int(retention_ms) / 2_000, SHORTEST_FORGET_SECONDS)
        return cls(cluster, name, topic_id, forget_seconds)

    def consumer(self) -> Consumer:
        """A consumer of committed records."""
        return self.cluster.consumer()

    def partitions(self) -> Sequence[int]:
        """Its partitions. Raises ClusterError."""
        return self.cluster.partitions(self.name)

    def ends(self) -> Positions:
        """Where it ends now. Raises ClusterError, and ViewError when it was deleted."""
        topic_id = self.cluster.topic_id(self.name)
        if topic_id is None:
            raise ViewError(f"the topic {self.name} was deleted")
        if topic_id != self.id:
            raise ViewError(f"the topic {self.name} was deleted and made anew: start again")
        return self.cluster.end_positions(self.name)
