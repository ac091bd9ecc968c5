"""Messages, bytes and requests by topic: the sums over a topic's partitions, and over all topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.broker.replication.partition import Traffic
from ottla.broker.replication.partitions import Partitions
from ottla.metrics.exposition import Family, Sample
from ottla.metrics.metric import Metric
from ottla.metrics.tables import broker as table

BREATHE_EVERY: Final = 50
"""Partitions between two points at which the loop may turn."""
_NONE: Final = Traffic()


class TopicMetrics:
    """The source of BrokerTopicMetrics."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def read(self) -> Iterator[Family | None]:
        """The families by topic."""
        partitions = self._partitions
        traffic: dict[str, Traffic] = dict(partitions.gone)
        total = partitions.gone_topics
        for number, partition in enumerate(list(partitions), 1):
            traffic[partition.topic] = partition.traffic.plus(traffic.get(partition.topic, _NONE))
            if not number % BREATHE_EVERY:
                yield None
        for each in traffic.values():
            total = total.plus(each)
        yield _by_topic(table.MESSAGES_IN, total.messages_in, {k: v.messages_in for k, v in traffic.items()})
        yield _by_topic(table.BYTES_IN, total.bytes_in, {k: v.bytes_in for k, v in traffic.items()})
        yield _by_topic(table.BYTES_OUT, total.bytes_out, {k: v.bytes_out for k, v in traffic.items()})
        yield _by_topic(
            table.BYTES_REJECTED, total.rejected_bytes, {k: v.rejected_bytes for k, v in traffic.items()}
        )
        yield Family(table.REPLICATION_BYTES_IN, [((), total.replicated_bytes_in)])
        yield Family(table.REPLICATION_BYTES_OUT, [((), total.replicated_bytes_out)])
        refusals = partitions.refusals
        refused = dict(refusals.refused_appends)
        appends = {k: v.appends + refused.get(k, 0) for k, v in traffic.items()}
        yield _by_topic(table.PRODUCE_REQUESTS, total.appends + sum(refused.values()), appends)
        yield _by_topic(table.FETCH_REQUESTS, total.fetches, {k: v.fetches for k, v in traffic.items()})
        yield _failures(table.FAILED_PRODUCE_REQUESTS, dict(refusals.failed_produces))
        yield _failures(table.FAILED_FETCH_REQUESTS, dict(refusals.failed_fetches))


def _by_topic(metric: Metric, total: int, values: Mapping[str, int]) -> Family:
    samples: list[Sample] = [((), total)]
    samples += [((topic,), value) for topic, value in values.items()]
    return Family(metric, samples)


def _failures(metric: Metric, values: Mapping[str | None, int]) -> Family:
    named = {topic: value for topic, value in values.items() if topic is not None}
    return _by_topic(metric, sum(values.values()), named)
