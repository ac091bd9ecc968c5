"""The topics of streams and tables: looked at, and made where a statement may. For a thread: it blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.sql.catalog.sources import Source
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.plan.statement_plan import PutQuery, PutSource, StatementPlan

DEFAULT_REPLICAS: Final = 1
RETENTION: Final = "retention.ms"


class Topics:
    """A service's cluster. prefix: before the names of topics that queries write."""

    def __init__(self, cluster: KafkaCluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix

    def completed(self, plan: StatementPlan, at: Position) -> StatementPlan:
        """The plan with its topic as it is now, which is made if need be. Raises SqlError."""
        try:
            match plan:
                case PutSource(source=source):
                    return PutSource(self._of_source(source, at))
                case PutQuery(creates=True):
                    return replace(plan, target=self._of_target(plan, at))
                case PutQuery(target=target):
                    self._cluster.partitions(target.topic)
            return plan
        except NoSuchTopic as problem:
            raise SqlError(str(problem), at) from None
        except ClusterError as problem:
            raise SqlError(f"the cluster: {problem}", at) from problem

    def delete(self, topic: str) -> None:
        """Delete a topic, if it is there. Raises ClusterError."""
        self._cluster.delete_topic(topic)

    def _of_source(self, source: Source, at: Position) -> Source:
        found = self._partitions(source.topic)
        if found is not None:
            if source.partitions is not None and source.partitions != found:
                raise SqlError(
                    f"the topic {source.topic} has {found} partitions, not {source.partitions}",
                    at,
                    "leave PARTITIONS out, or take another topic",
                )
            return replace(source, partitions=found)
        if source.read_only:
            raise SqlError(f"the topic {source.topic} does not exist, and a SOURCE makes none", at)
        if source.partitions is None:
            raise SqlError(
                f"the topic {source.topic} does not exist", at, "with PARTITIONS=n in WITH it is made"
            )
        return self._made(source)

    def _of_target(self, plan: PutQuery, at: Position) -> Source:
        target = plan.target
        if self._prefix and target.topic == target.name:
            target = replace(target, topic=f"{self._prefix}{target.name}")
        for each in plan.query.sources:
            if self._partitions(each.source.topic) is None:
                raise SqlError(f"the topic {each.source.topic} of {each.source.name} does not exist", at)
        found = self._partitions(target.topic)
        if found is None:
            wanted = target.partitions or self._partitions(plan.query.source.source.topic) or 1
            return self._made(replace(target, partitions=wanted))
        if target.partitions is not None and target.partitions != found and _asks(plan):
            raise SqlError(
                f"the topic {target.topic} has {found} partitions, not {target.partitions}",
                at,
                "leave PARTITIONS out, or write to another topic",
            )
        return replace(target, partitions=found)

    def _made(self, source: Source) -> Source:
        assert source.partitions is not None
        replicas = source.replicas or min(DEFAULT_REPLICAS, self._cluster.broker_count())
        settings: dict[str, str] = {}
        if source.is_table:
            settings["cleanup.policy"] = "compact" if source.windowed is None else "compact,delete"
        if source.retention_ms is not None:
            settings[RETENTION] = str(source.retention_ms)
        self._cluster.ensure_topics([Topic(source.topic, source.partitions, replicas, settings)])
        return replace(source, replicas=replicas)

    def _partitions(self, topic: str) -> int | None:
        try:
            return len(self._cluster.partitions(topic))
        except NoSuchTopic:
            return None


def _asks(plan: PutQuery) -> bool:
    """Whether the statement itself said how many partitions there are to be."""
    return plan.target.partitions != plan.query.source.source.partitions
