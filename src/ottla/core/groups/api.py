"""The events that only a group shard has, beside those of every coordinator (core/coordination/api.py).

Requests for several groups come split by shard. OffsetFetch comes in its form of version 8 and later
(`groups`), LeaveGroup in its form of version 3 and later (`members`), with topic names and, if known, topic
ids filled in, and without topics that do not exist.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TypeAlias

from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Loaded,
    Moment,
    Note,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.groups.settings import Settings
from ottla.core.groups.share.api import AskShareCoordinator, ShareCoordinatorAnswered
from ottla.core.groups.streams.api import CreateInternalTopics, InternalTopicsCreated
from ottla.core.groups.topics import TopicsView


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    name: str
    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """These topics were deleted, so their committed offsets are deleted too."""

    at: Moment
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The cluster's topics are now these; comes before `Loaded` too. `changed` names the changed ones."""

    at: Moment
    topics: TopicsView
    changed: frozenset[str]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The settings of the broker or of some groups have changed."""

    at: Moment
    settings: Settings


Event: TypeAlias = (
    RequestReceived
    | Tick
    | AppendDone
    | AppendFailed
    | TopicsDeleted
    | TopicsChanged
    | SettingsChanged
    | ShareCoordinatorAnswered
    | InternalTopicsCreated
    | Loaded
    | Resigned
)
Effect: TypeAlias = Reply | Append | Note | AskShareCoordinator | CreateInternalTopics
