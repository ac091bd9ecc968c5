"""What a group shard asks of the shell for streams groups, and the event that brings the answer.

The shell creates the topics through the controller. If the broker ends in between, nobody answers: members
go on sending heartbeats, and the topics that are still missing are asked for again.
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
    """Event: the end of a `CreateInternalTopics`; `errors` has the message of every topic that failed."""

    at: Moment
    group_id: str
    topics: tuple[str, ...]
    errors: Mapping[str, str]
