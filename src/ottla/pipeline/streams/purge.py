"""Delete from internal topics what nobody will read again.

Of a topic goes what all queries that read it have finished, by the offsets of their groups, which never run
ahead of their checkpoints (progress.py): a batch that comes again after a crash finds its records. Of
a windowed table's changelog, only windows behind its retention go (internal_topics.py), and of these as well
only what its readers have finished. A topic that nobody reads but views loses windows alone.

A cluster that does not answer is asked again the next time: nothing is wrong when a topic is purged late.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.pipeline.kafka import ClusterError, KafkaCluster, Positions

PURGE_SECONDS = 30.0
"""As Kafka Streams' repartition.purge.interval.ms."""
STOP_TIMEOUT_SECONDS = 30.0

log = logging.getLogger("ottla.streams")


@dataclass(frozen=True, slots=True)
class Purged:
    """An internal topic. readers: groups of the queries that read it. retention_ms: of windows, else None."""

    topic: str
    readers: tuple[str, ...]
    retention_ms: int | None


def deletable(start: Positions, read: Sequence[Positions], expired: Positions | None) -> dict[int, int]:
    """The offsets before which records can go, of the partitions of which some can.

    start: where the partitions begin now; read: how far each reader is, a partition without an offset not
    having been read; expired: where what must be kept for its own sake begins, None where nothing must.
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
    """Delete what can go of a topic; what was deleted, as offsets. Raises ClusterError."""
    expired = None
    if topic.retention_ms is not None:
        stream_time_ms = cluster.latest_timestamp_ms(topic.topic)
        if stream_time_ms is None:
            return {}
        expired = cluster.positions_at(topic.topic, max(0, stream_time_ms - topic.retention_ms))
    read = [cluster.committed(group, topic.topic) for group in topic.readers]
    before = deletable(cluster.start_positions(topic.topic), read, expired)
    cluster.delete_records(topic.topic, before)
    return before


class Purge:
    """The thread that purges an application's internal topics; anything unforeseen is given to `failed`."""

    def __init__(
        self, cluster: KafkaCluster, topics: Sequence[Purged], *, failed: Callable[[BaseException], None]
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._failed = failed
        self._refused: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="purge of internal topics", daemon=True)

    def start(self) -> None:
        """Begin to purge, the first time in PURGE_SECONDS."""
        self._thread.start()

    def stop(self) -> None:
        """Purge no more, and wait for the thread to end. Safe to call twice, and before `start`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_SECONDS)

    def once(self) -> None:
        """Purge every topic now."""
        for topic in self._topics:
            try:
                before = purge(self._cluster, topic)
            except ClusterError as error:
                if self._refused.get(topic.topic) != str(error):  # told once, not twice a minute
                    self._refused[topic.topic] = str(error)
                    log.warning("internal topic not purged topic=%s: %s", topic.topic, error)
            else:
                self._refused.pop(topic.topic, None)
                if before:
                    log.debug("internal topic purged topic=%s before=%s", topic.topic, before)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PURGE_SECONDS):
                self.once()
        except BaseException as error:
            log.exception("internal topics are not purged any more")
            self._failed(error)
