"""A query's progress, published as the offsets of a consumer group.

Spark neither joins a group nor commits offsets, so lag tools do not see a query. `ProgressPublisher` listens
to a session's queries and commits the positions that each batch has reached as the offsets of a group. Order:
Spark's own checkpoint is written first and alone decides where a query goes on; the group follows it and
never runs ahead. A kill between the two leaves the group one batch behind, and `follow` brings it up to date
from the checkpoint at the next start.

Each offset carries a mark in its metadata that names the Spark query, so that a later start can tell that a
group was written by a query whose checkpoint is gone (query_spec.py). Offsets of a query that has not yet
finished a batch have no mark: it has done no work that could be lost.

A thread of the publisher commits the positions and keeps only the newest ones of each query: a broker that is
slow or away holds up no query, and nothing piles up.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.pipeline.query.checkpoints import Checkpoint, Offsets, parse_source_offset
from ottla.pipeline.spark.paths import local_path

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

__all__ = ["ProgressPublisher", "checkpointed_positions", "mark", "marked_query", "parse_source_offset"]

FLUSH_TIMEOUT_SECONDS = 20.0
ANY_QUERY = "*"
"""In a mark: the offsets are a query's, and a query with any checkpoint may go on from them."""
_MARK = re.compile(r"ottla query (\*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")

log = logging.getLogger("ottla.pipeline")


def mark(query_id: str) -> str:
    """The metadata of an offset that the query of that id has reached."""
    return f"ottla query {query_id}"


def marked_query(metadata: str) -> str | None:
    """The query id in an offset's metadata, or None if no query of ottla has committed the offset.

    Stray characters that follow the id are passed over (client/offsets.py).
    """
    found = _MARK.match(metadata)
    return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class _Followed:
    group: str
    topics: frozenset[str] | None  # None: all topics that the query reads, as with a pattern


class ProgressPublisher:
    """Commits the positions of a session's queries as the offsets of consumer groups."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._followed: dict[str, _Followed] = {}
        self._changed = threading.Condition()
        self._pending: dict[str, tuple[Offsets, str]] = {}
        self._working = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def follow(
        self,
        query_name: str,
        group: str,
        topics: Sequence[str],
        checkpoint: str | Path,
        *,
        new_topics: bool = False,
        begin: Offsets | None = None,
        begin_mark: str = "",
    ) -> None:
        """Publish the progress of the query of that name; call it before the query starts.

        The positions from which the query will go on are committed at once, in place of any earlier ones:
        those of its checkpoint or, without one, `begin` with `begin_mark`, else the start of the topics.
        `checkpoint` is a directory that need not exist yet; if it is not on a local disk it can't be read,
        and nothing is committed before the first batch. `new_topics`: publish topics that are not in
        `topics`, too. Raises ClusterError.
        """
        with self._changed:
            self._followed[query_name] = _Followed(group, None if new_topics else frozenset(topics))
            self._pending.pop(query_name, None)
        path = local_path(checkpoint)
        if path is None:
            return
        finished = Checkpoint(path).positions
        metadata = mark(Checkpoint(path).query_id or ANY_QUERY) if finished else begin_mark
        first = finished or begin or {}
        for topic in topics:
            positions = self._cluster.start_positions(topic) | first.get(topic, {})
            self._cluster.commit(group, topic, positions, metadata)

    def forget(self, query_name: str) -> None:
        """Publish the query's waiting positions, and no more after that."""
        self.flush()
        with self._changed:
            self._followed.pop(query_name, None)

    def listener(self) -> StreamingQueryListener:
        """A listener for `spark.streams.addListener` that publishes each batch."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        enqueue = self.enqueue

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                positions: Offsets = {}
                for source in event.progress.sources:
                    positions |= parse_source_offset(source.endOffset)
                enqueue(event.progress.name, positions, str(event.progress.id))

            def onQueryIdle(self, event: Any) -> None:
                pass

            def onQueryTerminated(self, event: Any) -> None:
                pass

        return Listener()

    def enqueue(self, query_name: str | None, positions: Offsets, query_id: str) -> None:
        """Have the publisher's thread commit positions soon; older ones that still wait are dropped."""
        with self._changed:
            if query_name not in self._followed or not positions or self._closed:
                return
            self._pending[query_name] = (positions, query_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ottla-progress", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def publish(self, query_name: str | None, positions: Offsets, query_id: str = ANY_QUERY) -> None:
        """Commit positions now. A failure is only logged: the next batch's commit replaces this one."""
        with self._changed:
            followed = self._followed.get(query_name or "")
        if followed is None:
            return
        for topic, by_partition in positions.items():
            if followed.topics is None or topic in followed.topics:
                try:
                    self._cluster.commit(followed.group, topic, by_partition, mark(query_id))
                except ClusterError as error:
                    log.warning("progress not published group=%s topic=%s: %s", followed.group, topic, error)

    def flush(self, timeout_seconds: float = FLUSH_TIMEOUT_SECONDS) -> bool:
        """Wait until all enqueued positions are committed or have failed. False if the time ran out."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while self._pending or self._working:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    return False
        return True

    def close(self) -> None:
        """Commit the waiting positions and end the thread. Safe to call twice."""
        self.flush()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(FLUSH_TIMEOUT_SECONDS)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._working = False
                self._changed.notify_all()
                while not self._pending:
                    if self._closed:
                        return
                    self._changed.wait()
                query_name, (positions, query_id) = self._pending.popitem()
                self._working = True
            try:
                self.publish(query_name, positions, query_id)
            except Exception:
                log.exception("progress not published query=%s", query_name)


def checkpointed_positions(checkpoint: Path) -> Offsets:
    """The positions after a query's last finished batch, from its checkpoint on a local disk."""
    return Checkpoint(checkpoint).positions
