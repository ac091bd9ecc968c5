"""A topology applied to the cluster's topics: partition counts of internal topics, and missing topics.

Theory of operation. Repartition topics without a given count take that of the widest input of the subtopology
that writes them, then copartitioned topics are made equal, then changelogs take the width of their
subtopology. A topic that exists keeps its count. A problem that the user or the coordinator can solve is a
status that members are told; a topology that can never work raises InvalidTopology.

To make the topics of a copartition group equal, Apache Kafka 4.4 considers all repartition topics with a
given count, even those outside of the group. Here, as in the classic protocol, only the group's own topics
count.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.core.groups.streams.api import InternalTopic
from ottla.core.groups.streams.topology import (
    InvalidTopology,
    Subtopology,
    TopicInfo,
    Topology,
    described_subtopology,
)
from ottla.core.groups.topics import TopicsView
from ottla.protocol.messages import streams_group_describe_response as described

TOPICS_SHOWN = 3


class Status(enum.IntEnum):
    """A problem of the group as its members are told."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Problem(NamedTuple):
    status: Status
    detail: str


class _Unusable(Exception):
    """Carries a problem that leaves nothing to configure."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    subtopology: Subtopology
    task_count: int
    repartition_source_topics: tuple[TopicInfo, ...]
    state_changelog_topics: tuple[TopicInfo, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """`subtopologies`, ordered by id, are empty if a problem left nothing to configure."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing_topics: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    def described(self) -> described.Topology:
        return described.Topology(
            epoch=self.epoch,
            subtopologies=[
                described_subtopology(
                    each.subtopology, each.repartition_source_topics, each.state_changelog_topics
                )
                for each in self.subtopologies.values()
            ],
        )


def configure(topology: Topology, topics: TopicsView) -> ConfiguredTopology:
    """Apply the topology to these topics. Raises InvalidTopology."""
    subtopologies = list(topology.subtopologies.values())
    groups = [group for each in subtopologies for group in each.copartitioned()]
    try:
        _check_sources(subtopologies, topics)
        counts = _PartitionCounts(topics)
        _decide_repartition_topics(subtopologies, counts)
        fixed = {
            topic.name
            for each in subtopologies
            for topic in each.repartition_source_topics
            if topic.partition_count
        }
        flexible = {
            topic.name
            for each in subtopologies
            for topic in each.repartition_source_topics
            if not topic.partition_count
        }
        for group in groups:
            _make_equal(group, fixed, flexible, counts)
        configured = {
            each.subtopology_id: _configured(each, counts)
            for each in sorted(subtopologies, key=lambda each: each.subtopology_id)
        }
        missing = _missing_topics(configured.values(), topics)
    except _Unusable as unusable:
        return ConfiguredTopology(topology.epoch, {}, problem=unusable.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary(sorted(topic.name for topic in missing))}"
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


class _PartitionCounts:
    """Partition counts by topic: of existing topics, and as decided for the others."""

    def __init__(self, topics: TopicsView) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}

    def of(self, name: str) -> int:
        topic = self._topics.named(name)
        return self.decided[name] if topic is None else topic.partition_count

    def existing(self, name: str) -> int | None:
        topic = self._topics.named(name)
        return None if topic is None else topic.partition_count


def _check_sources(subtopologies: Iterable[Subtopology], topics: TopicsView) -> None:
    missing = {name for each in subtopologies for name in each.source_topics if topics.named(name) is None}
    if missing:
        detail = f"Source topics {_summary(sorted(missing))} are missing."
        raise _Unusable(Status.MISSING_SOURCE_TOPICS, detail)


def _decide_repartition_topics(subtopologies: list[Subtopology], counts: _PartitionCounts) -> None:
    """Given counts stand; others are derived from the inputs of the writing subtopology, upstream first."""
    decided = {
        topic.name: topic.partition_count
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partition_count
    }
    while True:
        waiting = progress = False
        for each in subtopologies:
            undecided = [name for name in each.repartition_sink_topics if name not in decided]
            if not undecided:
                continue
            known = [
                count
                for count in (
                    *(decided.get(topic.name) for topic in each.repartition_source_topics),
                    *(counts.existing(name) for name in each.source_topics),
                )
                if count is not None
            ]
            if known:
                decided.update(dict.fromkeys(undecided, max(known)))
                progress = True
            else:
                waiting = True
        if not waiting:
            break
        if not progress:
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
    for each in subtopologies:
        if any(topic.name not in decided for topic in each.repartition_source_topics):
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics, "
                "because a repartition source topic is never used as a sink topic."
            )
    counts.decided.update(decided)


def _make_equal(group: frozenset[str], fixed: set[str], flexible: set[str], counts: _PartitionCounts) -> None:
    """Give the repartition topics of a copartition group the count of the group."""
    if not group:
        return
    repartition = {name: counts.of(name) for name in group if name in fixed or name in flexible}
    sources = {name: counts.of(name) for name in group if name not in repartition}
    fixed_here = {name: count for name, count in repartition.items() if name in fixed}
    leading = sources or fixed_here
    if len(set(leading.values())) > 1:
        shown = sources or repartition
        pairs = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        detail = f"Following topics do not have the same number of partitions: [{{{pairs}}}]"
        raise _Unusable(Status.INCORRECTLY_PARTITIONED_TOPICS, detail)
    count = next(iter(leading.values())) if leading else max(repartition.values())
    for name, its_count in sorted(repartition.items()):
        if name in fixed and its_count != count:
            raise _Unusable(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{its_count}] of repartition topic [{name}] "
                f"doesn't match number of partitions [{count}] of the source topic.",
            )
        counts.decided[name] = count


def _configured(subtopology: Subtopology, counts: _PartitionCounts) -> ConfiguredSubtopology:
    widths = [counts.of(name) for name in subtopology.inputs()]
    if not widths:
        raise InvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return ConfiguredSubtopology(
        subtopology,
        max(widths),
        tuple(
            topic._replace(partition_count=topic.partition_count or counts.decided[topic.name])
            for topic in subtopology.repartition_source_topics
        ),
        tuple(topic._replace(partition_count=max(widths)) for topic in subtopology.state_changelog_topics),
    )


def _missing_topics(
    subtopologies: Iterable[ConfiguredSubtopology], topics: TopicsView
) -> tuple[InternalTopic, ...]:
    missing: dict[str, InternalTopic] = {}
    for each in subtopologies:
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            existing = topics.named(topic.name)
            if existing is None:
                missing[topic.name] = InternalTopic(*topic)
            elif existing.partition_count != topic.partition_count:
                raise _Unusable(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {topic.name} has different number of partitions: "
                    f"expected {topic.partition_count}, found {existing.partition_count}",
                )
    return tuple(missing.values())


def _summary(names: list[str]) -> str:
    shown = ", ".join(names[:TOPICS_SHOWN])
    more = len(names) - TOPICS_SHOWN
    return f"{shown} and {more} additional topics" if more > 0 else shown
