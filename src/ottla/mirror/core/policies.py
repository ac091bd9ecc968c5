"""Replication policies: the names of topics on the other cluster, and where a topic comes from.

The two policies of MirrorMaker 2. `us-west.orders` is the topic `orders` of the cluster `us-west` by the
default policy; by the identity policy a topic keeps its name everywhere, heartbeats alone have the prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

HEARTBEATS: Final = "heartbeats"
MOST_HOPS: Final = 64
"""Of a topic through clusters; a name of 249 characters with short aliases has more."""


class ReplicationPolicy(Protocol):
    """Names of topics. `separator` stands between a cluster's alias and a topic."""

    @property
    def separator(self) -> str:
        """What stands between an alias and a name."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of a source's topic."""

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was copied from; None for a topic of this cluster."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name of a topic in the cluster that it was copied from; None for a topic of this cluster."""

    def offset_syncs_topic(self, alias: str) -> str:
        """The topic of offset syncs with another cluster."""

    def checkpoints_topic(self, source_alias: str) -> str:
        """The topic on the target with the checkpoints of a source's groups."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether a topic holds checkpoints."""

    def is_mirrors_own(self, topic: str) -> bool:
        """Whether a topic holds records of MirrorMaker itself, other than heartbeats."""


@dataclass(frozen=True, slots=True)
class DefaultPolicy:
    """Topics have the alias of their source in front.

    internal_separator: in the names of the mirror's own topics.
    """

    separator: str = "."
    internal_separator: str = "."

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """See ReplicationPolicy."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """See ReplicationPolicy."""
        parts = topic.split(self.separator)
        while parts and not parts[-1]:
            parts.pop()  # as Java's split does: "orders." is a topic of this cluster
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """See ReplicationPolicy."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        """See ReplicationPolicy."""
        return f"mm2-offset-syncs{self.internal_separator}{alias}{self._internal}"

    def checkpoints_topic(self, source_alias: str) -> str:
        """See ReplicationPolicy."""
        return f"{source_alias}{self._checkpoints}"

    def is_checkpoints_topic(self, topic: str) -> bool:
        """See ReplicationPolicy."""
        return topic.endswith(self._checkpoints)

    def is_mirrors_own(self, topic: str) -> bool:
        """See ReplicationPolicy."""
        return topic.endswith(self._internal)

    @property
    def _internal(self) -> str:
        return f"{self.internal_separator}internal"

    @property
    def _checkpoints(self) -> str:
        return f"{self.internal_separator}checkpoints{self._internal}"


@dataclass(frozen=True, slots=True)
class IdentityPolicy:
    """Topics keep their names; heartbeats have the prefix of `names`."""

    source_alias: str | None
    names: DefaultPolicy

    @property
    def separator(self) -> str:
        """See ReplicationPolicy."""
        return self.names.separator

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """See ReplicationPolicy."""
        return self.names.remote_topic(source_alias, topic) if _looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """See ReplicationPolicy: of any other topic it can't be told, so it is the flow's source."""
        return self.names.topic_source(topic) if _looks_like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """See ReplicationPolicy."""
        return self.names.upstream_topic(topic) if _looks_like_heartbeats(topic) else topic

    def offset_syncs_topic(self, alias: str) -> str:
        """See ReplicationPolicy."""
        return self.names.offset_syncs_topic(alias)

    def checkpoints_topic(self, source_alias: str) -> str:
        """See ReplicationPolicy."""
        return self.names.checkpoints_topic(source_alias)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """See ReplicationPolicy."""
        return self.names.is_checkpoints_topic(topic)

    def is_mirrors_own(self, topic: str) -> bool:
        """See ReplicationPolicy."""
        return self.names.is_mirrors_own(topic)


@dataclass(frozen=True, slots=True)
class Flow:
    """The two clusters of a connector, and the names of topics in them."""

    source_alias: str
    target_alias: str
    policy: ReplicationPolicy

    def remote_topic(self, topic: str) -> str:
        """The name on the target of a topic of the source."""
        return self.policy.remote_topic(self.source_alias, topic)

    def __str__(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"


def original_topic(policy: ReplicationPolicy, topic: str) -> str:
    """The name of a topic in the cluster where its records were first written."""
    for _ in range(MOST_HOPS):
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            break
        topic = upstream
    return topic


def is_heartbeats_topic(policy: ReplicationPolicy, topic: str) -> bool:
    """Whether a topic holds heartbeats, of this cluster or of one upstream."""
    return original_topic(policy, topic) == HEARTBEATS


def is_internal_topic(policy: ReplicationPolicy, topic: str) -> bool:
    """Whether a topic is one of Kafka's, Connect's or the mirror's own, which are never copied."""
    return (
        policy.is_mirrors_own(topic)
        or topic.startswith(("__", "."))
        or topic.endswith(("-internal", ".internal"))
    )


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether a topic's records have been in the target before: copying it would go round for ever.

    The identity policy has no names that tell it: with it two clusters must not copy the same topics to each
    other, as with MirrorMaker 2.
    """
    for _ in range(MOST_HOPS):
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
    return True


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)
