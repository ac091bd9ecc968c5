"""The effect by which a group shard asks the shell for internal topics, and the event with the result.

The shell creates the topics through the controller. If the broker ends in between, no result comes: members
go on sending heartbeats, and the topics that are still missing are requested again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.core.coordination.api import Moment


class InternalTopic(NamedTuple):
    """A repartition or changelog topic; `replication_factor` 0 means the broker's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CreateInternalTopics:
    """Effect: create these topics for a streams group, and report the end."""

    group_id: str
    topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class InternalTopicsCreated:
    """Event: the end of a `CreateInternalTopics`; `errors` has the message of each topic that failed."""

    at: Moment
    group_id: str
    topics: tuple[str, ...]
    errors: Mapping[str, str]
