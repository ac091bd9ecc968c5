"""How an application's internal topics are made, and how long they keep their records.

- A repartition topic hands records from one query to another. The broker deletes nothing of it by time, as
  record times are event times and may be years old; records that all its readers have read are deleted by us,
  as Kafka Streams does (`repartition.purge.interval.ms`; see purge.py).
- A table's changelog is compacted: one record for each key stays.
- A windowed table's keys come for ever, so compaction alone would bound nothing: windows that have not been
  able to change for RETENTION_SLACK_MS of event time are deleted by us as well. Kafka Streams leaves that to
  the broker, which compares event times with its clock: a replay of last month's records would lose its
  windows before others had read them.
"""

from __future__ import annotations

from typing import Final

from ottla.client.cluster import Topic
from ottla.streams.plan.node import Node, event_time_of
from ottla.streams.plan.nodes.sink import ToInternalTopic
from ottla.streams.plan.windowed_tables import windowed_aggregate

RETENTION_SLACK_MS: Final = 86_400_000
"""A day, as Kafka Streams' `windowstore.changelog.additional.retention.ms`."""
_FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_REPARTITION_SEGMENT_BYTES: Final = 50 << 20  # only whole segments leave the disk


def topic_of(sink: ToInternalTopic, partitions: int) -> Topic:
    """The internal topic that a sink writes, as it is created."""
    if not sink.input.table:
        config = {
            "cleanup.policy": "delete",
            "segment.bytes": str(_REPARTITION_SEGMENT_BYTES),
            **_FOR_EVER,
        }
    elif retention_ms(sink.input) is None:
        config = {"cleanup.policy": "compact"}
    else:
        config = {"cleanup.policy": "compact,delete", **_FOR_EVER}
    return Topic(sink.topic, partitions, config=config)


def retention_ms(node: Node) -> int | None:
    """For how long of event time a windowed table's rows are kept; None for a table without windows."""
    windowed = windowed_aggregate(node)
    event_time = event_time_of(windowed)
    if event_time is None or event_time.horizon_ms is None:
        return None
    return event_time.horizon_ms + RETENTION_SLACK_MS
