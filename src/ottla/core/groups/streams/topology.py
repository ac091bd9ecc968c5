"""The topology of a streams application, as its members send it and as it is recorded.

A subtopology is a connected part of the application that runs as tasks, one for each partition of its widest
input. Its inputs are the user's topics (`source_topics`) and repartition topics that other subtopologies
write (`repartition_sink_topics` there). Changelogs keep its state. Topics of a copartition group have the
same number of partitions. The members of a group have the same topology in the same epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ottla.protocol.messages import streams_group_describe_response as described
from ottla.protocol.records import streams_group_topology_value as stored


class InvalidTopology(Exception):
    """The topology is contradictory; the message says how. Answered STREAMS_INVALID_TOPOLOGY."""


class TopicInfo(NamedTuple):
    """A topic that the application owns. `partition_count` and `replication_factor` are 0 if not given."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Positions in the subtopology's lists of source topics, patterns and repartition source topics."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def inputs(self) -> Iterator[str]:
        """The names of all topics that its tasks read."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """The names of the topics of each copartition group. Raises InvalidTopology."""
        for group in self.copartition_groups:
            try:
                yield frozenset(
                    [self.source_topics[_position(index)] for index in group.source_topics]
                    + [
                        self.repartition_source_topics[_position(index)].name
                        for index in group.repartition_source_topics
                    ]
                )
            except IndexError:
                raise InvalidTopology(
                    f"A copartition group of subtopology {self.subtopology_id} names a topic that it lacks."
                ) from None


@dataclass(frozen=True)
class Topology:
    """A topology in one epoch; subtopologies by id, in the order of the heartbeat."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """Every topic that must exist before a task can run."""
        return frozenset(
            name
            for each in self.subtopologies.values()
            for name in (*each.inputs(), *(topic.name for topic in each.state_changelog_topics))
        )

    @cached_property
    def readers(self) -> Mapping[str, str]:
        """Input topic -> the id of the subtopology that reads it."""
        return {name: each.subtopology_id for each in self.subtopologies.values() for name in each.inputs()}

    def to_record_value(self) -> stored.StreamsGroupTopologyValue:
        return stored.StreamsGroupTopologyValue(
            epoch=self.epoch,
            subtopologies=[
                stored.Subtopology(
                    subtopology_id=each.subtopology_id,
                    source_topics=list(each.source_topics),
                    source_topic_regex=list(each.source_topic_regex),
                    state_changelog_topics=[_stored_topic(topic) for topic in each.state_changelog_topics],
                    repartition_sink_topics=list(each.repartition_sink_topics),
                    repartition_source_topics=[
                        _stored_topic(topic) for topic in each.repartition_source_topics
                    ],
                    copartition_groups=[
                        stored.CopartitionGroup(
                            source_topics=list(group.source_topics),
                            source_topic_regex=list(group.source_topic_regex),
                            repartition_source_topics=list(group.repartition_source_topics),
                        )
                        for group in each.copartition_groups
                    ],
                )
                for each in self.subtopologies.values()
            ],
        )

    def described(self) -> described.Topology:
        """The topology's description while its topics do not all exist."""
        return described.Topology(
            epoch=self.epoch,
            subtopologies=[
                described_subtopology(
                    each,
                    each.repartition_source_topics,
                    each.state_changelog_topics,
                )
                for _, each in sorted(self.subtopologies.items())
            ],
        )


def topology_from(message: Any) -> Topology:
    """The topology in a heartbeat or a record's value, which have the same fields. Raises InvalidTopology."""
    if message.epoch < 0:
        raise InvalidTopology("Topology epoch must be non-negative.")
    subtopologies: dict[str, Subtopology] = {}
    for each in message.subtopologies:
        if each.subtopology_id in subtopologies:
            raise InvalidTopology(f"There are two subtopologies {each.subtopology_id}.")
        subtopologies[each.subtopology_id] = Subtopology(
            each.subtopology_id,
            tuple(each.source_topics),
            tuple(each.source_topic_regex),
            tuple(_topic_info(topic) for topic in each.state_changelog_topics),
            tuple(each.repartition_sink_topics),
            tuple(_topic_info(topic) for topic in each.repartition_source_topics),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics),
                    tuple(group.source_topic_regex),
                    tuple(group.repartition_source_topics),
                )
                for group in each.copartition_groups
            ),
        )
    return Topology(message.epoch, subtopologies)


def described_subtopology(
    subtopology: Subtopology, repartition_sources: Iterable[TopicInfo], changelogs: Iterable[TopicInfo]
) -> described.Subtopology:
    """A subtopology's description with these partition counts."""
    return described.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        repartition_source_topics=[_described_topic(topic) for topic in sorted(repartition_sources)],
        state_changelog_topics=[_described_topic(topic) for topic in sorted(changelogs)],
    )


def _position(index: int) -> int:
    if index < 0:
        raise IndexError
    return index


def _topic_info(topic: Any) -> TopicInfo:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _stored_topic(topic: TopicInfo) -> stored.TopicInfo:
    return stored.TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=[stored.TopicConfig(key=key, value=value) for key, value in topic.configs],
    )


def _described_topic(topic: TopicInfo) -> described.TopicInfo:
    return described.TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=[described.KeyValue(key=key, value=value) for key, value in topic.configs],
    )
