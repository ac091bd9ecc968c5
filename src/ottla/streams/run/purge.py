"""Delete from internal topics the records that no query will read again.

A topic loses the records that all queries that read it have finished, by the offsets of their groups, which
never run ahead of their checkpoints (progress.py): a batch that comes again after a crash finds its records.
A windowed table's changelog loses only windows behind its retention (window_history.py), and of these as well
only those that its readers have finished.

A cluster that does not answer is asked again the next time: nothing is wrong when a topic is purged late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.client.cluster import KafkaCluster, Positions
from ottla.client.errors import ClusterError
from ottla.streams.run.repeated import Repeated
from ottla.streams.run.window_history import WindowHistory

PURGE_SECONDS = 30.0
"""As Kafka Streams' repartition.purge.interval.ms."""

log = logging.getLogger("ottla.streams")


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a changelog. watermark_ms: of the query that has the windows. file: the history."""

    retention_ms: int
    watermark_ms: Callable[[], int | None]
    file: Path


@dataclass(frozen=True, slots=True)
class Purged:
    """An internal topic. readers: groups of the queries that read it."""

    topic: str
    readers: tuple[str, ...]
    windows: Windows | None = None


def deletable(start: Positions, read: Sequence[Positions], expired: Positions | None) -> dict[int, int]:
    """The offsets before which records can go, of the partitions of which some can.

    start: where the partitions begin now; read: how far each reader is, a partition without an offset not
    having been read; expired: where the windows begin that must be kept, None where there are none.
    """
    found = {}
    for partition, first in start.items():
        ends = [positions.get(partition, first) for positions in read]
        if expired is not None:
            ends.append(expired.get(partition, first))
        if ends and min(ends) > first:
            found[partition] = min(ends)
    return found


def purge(cluster: KafkaCluster, topic: Purged) -> dict[int, int]:
    """Delete the records of a topic that can go; the offsets before which they were. Raises ClusterError."""
    expired = None
    if topic.windows is not None:
        expired = _expired(cluster, topic.topic, topic.windows)
        if not expired:
            return {}
    read = [cluster.committed(group, topic.topic) for group in topic.readers]
    before = deletable(cluster.start_positions(topic.topic), read, expired)
    cluster.delete_records(topic.topic, before)
    return before


def _expired(cluster: KafkaCluster, topic: str, windows: Windows) -> Positions:
    topic_id = cluster.topic_id(topic)
    if topic_id is None:
        raise ClusterError(f"there is no topic {topic} at {cluster.bootstrap}")
    history = WindowHistory.read(windows.file, topic_id, windows.retention_ms)
    kept = history.notes
    ends = cluster.end_positions(topic)  # first: the time is to be that of all before them, or later
    latest_ms = cluster.latest_timestamp_ms(topic)
    if latest_ms is not None:
        history.note(latest_ms, ends)
    watermark_ms = windows.watermark_ms()
    expired = {} if watermark_ms is None else history.expire(watermark_ms)
    if history.notes != kept:
        history.write(windows.file, topic_id)
    return expired


class Purge:
    """The thread that purges an application's internal topics; anything unforeseen is given to `failed`."""

    def __init__(
        self, cluster: KafkaCluster, topics: Sequence[Purged], *, failed: Callable[[BaseException], None]
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._refused: dict[str, str] = {}
        self._repeated = Repeated("purge of internal topics", PURGE_SECONDS, self.once, failed)

    def start(self) -> None:
        """Begin to purge, the first time in PURGE_SECONDS."""
        self._repeated.start()

    def stop(self) -> None:
        """Purge no more, and wait for the thread to end. Safe to call twice, and before `start`."""
        self._repeated.stop()

    def once(self) -> None:
        """Purge every topic now."""
        for topic in self._topics:
            try:
                before = purge(self._cluster, topic)
            except (ClusterError, OSError) as error:
                if self._refused.get(topic.topic) != str(error):  # told once, not twice a minute
                    self._refused[topic.topic] = str(error)
                    log.warning("internal topic not purged topic=%s: %s", topic.topic, error)
            else:
                self._refused.pop(topic.topic, None)
                if before:
                    log.debug("internal topic purged topic=%s before=%s", topic.topic, before)
