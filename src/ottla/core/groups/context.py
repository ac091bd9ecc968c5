"""The state that the parts of a group shard share: the outbox, turns, settings, topics, and every group.

A group id names one group, of one kind. Each kind has its own dictionary here, which only the modules of that
kind change.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from ottla.core.coordination.outbox import Outbox
from ottla.core.coordination.turns import Turns
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.offset_rules import OffsetRules
from ottla.core.groups.responses import coordinator_error
from ottla.core.groups.settings import GroupSettings, Settings
from ottla.core.groups.share.group import ShareGroup
from ottla.core.groups.streams.group import StreamsGroup
from ottla.core.groups.topics import NO_TOPICS, TopicsView


class GroupKind(enum.Enum):
    """The values are the names that clients see (KIP-848, KIP-932, KIP-1071)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(slots=True)
class ShardContext:
    """Owned by the shard and given to its parts; `settings` and `topics` are replaced as they change."""

    outbox: Outbox
    turns: Turns
    settings: Settings
    topics: TopicsView = NO_TOPICS
    classic: dict[str, ClassicGroup] = field(default_factory=dict)
    consumer: dict[str, ConsumerGroup] = field(default_factory=dict)
    share: dict[str, ShareGroup] = field(default_factory=dict)
    streams: dict[str, StreamsGroup] = field(default_factory=dict)

    rules: dict[GroupKind, OffsetRules] = field(default_factory=dict)
    """Each kind registers its rules for offsets and deletions here."""

    @classmethod
    def of(cls, settings: Settings) -> ShardContext:
        outbox = Outbox(settings.broker.commit_timeout_ms, coordinator_error)
        return cls(outbox, Turns(outbox), settings)

    @property
    def broker_settings(self) -> GroupSettings:
        """The broker's settings, without overrides of groups."""
        return self.settings.broker

    def kind_of(self, group_id: str) -> GroupKind | None:
        """The kind of the group `group_id`; None if there is no such group."""
        if group_id in self.classic:
            return GroupKind.CLASSIC
        if group_id in self.consumer:
            return GroupKind.CONSUMER
        if group_id in self.share:
            return GroupKind.SHARE
        if group_id in self.streams:
            return GroupKind.STREAMS
        return None

    def rules_of(self, group_id: str) -> OffsetRules | None:
        """The rules of the group's kind; None if there is no such group."""
        kind = self.kind_of(group_id)
        return None if kind is None else self.rules[kind]
