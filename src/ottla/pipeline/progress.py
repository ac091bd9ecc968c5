"""A query's progress, published as the offsets of a consumer group.

Spark neither joins a group nor commits offsets, so lag tools see nothing of a query. `ProgressPublisher`
listens to a session's queries and commits what each batch has read as the offsets of a group. Order: Spark's
own checkpoint is first and alone decides where a query goes on; the group follows it and never runs ahead. A
kill between the two leaves the group behind by a batch, and `follow` catches it up from the checkpoint at the
next start.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipeline.kafka import ClusterError, KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

log = logging.getLogger("ottla.pipeline")


@dataclass(frozen=True, slots=True)
class _Followed:
    group: str
    topics: frozenset[str]


class ProgressPublisher:
    """Commits what a session's queries have read as the offsets of consumer groups."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._followed: dict[str, _Followed] = {}
        self._lock = threading.Lock()

    def follow(self, query_name: str, group: str, topics: Sequence[str], checkpoint: Path) -> None:
        """Publish the progress of the query of that name; call it before the query starts.

        Where the query will go on is committed at once: what its checkpoint holds or, without one, the start
        of the topics, whatever an earlier query had committed for the group. `checkpoint` is a local
        directory, which need not exist yet. Raises ClusterError.
        """
        with self._lock:
            self._followed[query_name] = _Followed(group, frozenset(topics))
        finished = checkpointed_positions(checkpoint)
        for topic in topics:
            positions = self._cluster.start_positions(topic) | finished.get(topic, {})
            self._cluster.commit(group, topic, positions)

    def listener(self) -> StreamingQueryListener:
        """What `spark.streams.addListener` takes."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        publish = self.publish

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                for source in event.progress.sources:
                    publish(event.progress.name, source.endOffset)

            def onQueryIdle(self, event: Any) -> None:
                pass

            def onQueryTerminated(self, event: Any) -> None:
                pass

        return Listener()

    def publish(self, query_name: str | None, end_offset: str | None) -> None:
        """Commit a source's end offset, given in the Kafka source's JSON. A failure is only logged."""
        with self._lock:
            followed = self._followed.get(query_name or "")
        if followed is None:
            return
        for topic, positions in parse_source_offset(end_offset).items():
            if topic in followed.topics:
                try:
                    self._cluster.commit(followed.group, topic, positions)
                except ClusterError as error:
                    log.warning("progress not published group=%s topic=%s: %s", followed.group, topic, error)


def parse_source_offset(text: str | None) -> dict[str, dict[int, int]]:
    """The Kafka source's offset JSON, `{"topic": {"0": 12}}`; anything else is no positions at all."""
    try:
        value = json.loads(text or "")
        return {
            str(topic): {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in value.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def checkpointed_positions(checkpoint: Path) -> dict[str, dict[int, int]]:
    """What the last finished batch of a query had read, by topic, from its checkpoint on a local disk.

    Spark writes `offsets/N` before batch N runs and `commits/N` after it: the highest N in `commits` is the
    last finished one. Its offsets file has a version line, a line of metadata, then a line for each source.
    """
    finished = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not finished:
        return {}
    try:
        lines = (checkpoint / "offsets" / str(max(finished))).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    positions: dict[str, dict[int, int]] = {}
    for line in lines[2:]:
        positions |= parse_source_offset(line)
    return positions
