"""How far the tweets are in each step, and whether each is there exactly once."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError

TWEETS: Final = "pipeline.tweets"
SCORED: Final = "pipeline.scored"
DOCUMENTS: Final = "pipeline.documents"
OPINIONS: Final = "pipeline.opinions"
TOPICS: Final = (TWEETS, SCORED, DOCUMENTS, OPINIONS)
STRONG: Final = 0.5
"""As in files/opinions.py."""


class Tally:
    """Follows the four topics, in a thread: how often each id is in each of them."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ids: dict[str, Counter[str]] = {topic: Counter() for topic in TOPICS}
        self._strong: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="tally", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more. Safe to call twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def records(self) -> dict[str, int]:
        """The records of each topic so far."""
        with self._lock:
            return {topic: ids.total() for topic, ids in self._ids.items()}

    def ids(self) -> dict[str, Counter[str]]:
        """How often each id is in each topic."""
        with self._lock:
            return {topic: Counter(ids) for topic, ids in self._ids.items()}

    def strong(self) -> set[str]:
        """The ids of the scored tweets with a strong opinion."""
        with self._lock:
            return set(self._strong)

    def add(self, topic: str, value: bytes | None) -> None:
        """Take a record's value into account."""
        try:
            fields: Mapping[str, Any] = json.loads(value or b"")
            id, compound = str(fields["id"]), float(fields.get("compound", 0.0))
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        with self._lock:
            self._ids[topic][id] += 1
            if topic == SCORED and abs(compound) >= STRONG:
                self._strong.add(id)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                consumer = self._cluster.follow(TOPICS)
            except ClusterError:
                self._stop.wait(0.5)
                continue
            with self._lock:  # a new consumer begins at the start
                for ids in self._ids.values():
                    ids.clear()
            try:
                while not self._stop.is_set():
                    for message in consumer.consume(1000, timeout=0.2):
                        topic = message.topic()
                        if message.error() is None and topic is not None:
                            self.add(topic, message.value())
            finally:
                consumer.close()


def stored_ids(url: str, collection: str) -> list[str]:
    """The ids of a store's documents; empty while it has none."""
    if url.startswith("sqlite:"):
        return _in_sqlite(Path(url.removeprefix("sqlite://")), collection)
    import psycopg
    from psycopg import sql

    with psycopg.connect(url) as connection:
        try:
            query = sql.SQL("SELECT id FROM {}").format(sql.Identifier(collection))
            return [str(row[0]) for row in connection.execute(query)]
        except psycopg.errors.UndefinedTable:
            return []


def _in_sqlite(path: Path, collection: str) -> list[str]:
    if not path.exists():
        return []
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        return [str(row[0]) for row in connection.execute(f'SELECT id FROM "{collection}"')]
    except sqlite3.OperationalError as problem:
        if "no such table" in str(problem):
            return []
        raise
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Found:
    """The ids that each step has, with how often; wanted: the ids that it should have, each once."""

    step: str
    ids: Counter[str]
    wanted: frozenset[str]

    def problem(self) -> str | None:
        """A sentence if the step has not each id exactly once."""
        missing = len(self.wanted - self.ids.keys())
        stray = len(self.ids.keys() - self.wanted)
        repeated = sum(1 for count in self.ids.values() if count > 1)
        if not missing and not stray and not repeated:
            return None
        return f"{self.step}: {missing} missing, {stray} too many, {repeated} more than once"


def problems(found: Sequence[Found]) -> list[str]:
    """A sentence for each step that has not each id exactly once."""
    return [problem for one in found if (problem := one.problem()) is not None]


def counted(ids: Iterable[str]) -> Counter[str]:
    """How often each id is there."""
    return Counter(ids)
