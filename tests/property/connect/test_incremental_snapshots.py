"""Chunks beside a stream, killed anywhere: the consumer ends with the database's rows, and never goes back.

The model has what PostgreSQL has: a transaction's commit stands in the log, and is streamed, before queries
see it. Its adapter reads no chunk while one that was streamed is not seen yet.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.connect.cdc.core.incremental import Chunk, ChunkRequest, ChunkRow, IncrementalSnapshot
from ottla.connect.cdc.core.progress import Progress, RowKey, progress_of
from ottla.connect.cdc.core.signals import signal_of_fields

TABLE = "public.t"
KEYS = 12
CHUNK = 3
Version = int
Row = tuple[Version, bool]
"""The number of a key's change, and whether the row is there behind it."""


@dataclass
class Database:
    """Commits in the order of the log, and those that queries see."""

    log: list[dict[int, Row]] = field(default_factory=list)
    unseen: set[int] = field(default_factory=set)

    def write(self, changes: dict[int, bool]) -> None:
        versions = self.rows(frozenset())
        number = len(self.log)
        self.log.append(
            {key: (versions.get(key, (0, False))[0] + 1, is_there) for key, is_there in changes.items()}
        )
        self.unseen.add(number)

    def rows(self, without: frozenset[int]) -> dict[int, Row]:
        found: dict[int, Row] = {}
        for number, changes in enumerate(self.log):
            if number not in without:
                found |= changes
        return found


@dataclass
class Consumer:
    """A topic whose records and offset are written together; what is not yet committed dies with a kill."""

    records: list[tuple[int, Row, Any]] = field(default_factory=list)
    committed: int = 0

    def offset(self) -> Any:
        return self.records[-1][2] if self.records else None


class Connector:
    """One run."""

    def __init__(self, database: Database, consumer: Consumer, rng: random.Random) -> None:
        self.database, self.consumer, self.rng = database, consumer, rng
        place, done, kept = consumer.offset() or (0, 0, {})
        self.place: int = place
        self.done: int = done
        self.snapshot = IncrementalSnapshot(progress_of(kept).progress)

    def emit(self, key: int, row: Row, place: int, done: int, progress: Progress) -> None:
        self.consumer.records.append((key, row, (place, done, progress.offset())))

    def stream(self) -> None:
        if self.place >= len(self.database.log):
            return
        number, changes = self.place, list(self.database.log[self.place].items())
        for at, (key, row) in enumerate(changes):
            self.snapshot.changed(TABLE, (str(key),), number)
            if at >= self.done:
                is_last = at == len(changes) - 1
                place, done = (number + 1, 0) if is_last else (number, at + 1)
                self.emit(key, row, place, done, self.snapshot.progress)
        self.place, self.done = number + 1, 0

    def read(self) -> None:
        request = self.snapshot.request()
        unseen = frozenset(self.database.unseen)
        if request is None or any(number < self.place for number in unseen):
            return
        self.snapshot.read(self.chunk(request, unseen))

    def chunk(self, request: ChunkRequest, unseen: frozenset[int]) -> Chunk:
        there = {key: row for key, row in self.database.rows(unseen).items() if row[1]}
        maximum = request.maximum or _text(max(there, default=None))
        after = -1 if request.after is None else int(request.after[0] or "")
        bound = -1 if maximum is None else int(maximum[0] or "")
        wanted = sorted(key for key in there if after < key <= bound)[:CHUNK]
        rows = [ChunkRow((str(key),), (str(key),), there[key]) for key in wanted]
        seen = [number for number in range(len(self.database.log)) if number not in unseen]
        return Chunk(rows, maximum, seen.__contains__, None, max(seen, default=-1))

    def close(self) -> None:
        chunk = self.snapshot.chunk
        if chunk is None or self.done or self.place <= chunk.place:
            return
        for row, progress in self.snapshot.close():
            self.emit(int(row.key[0] or ""), row.row, self.place, 0, progress)

    def copy(self) -> None:
        """A chunk without a change in between."""
        self.read()
        while self.place < len(self.database.log):
            self.stream()
        self.close()

    def signal(self, type: str) -> None:
        data = {"data-collections": [TABLE]} if type == "execute-snapshot" else {}
        self.snapshot.take(signal_of_fields("s", type, data), [TABLE])


def _text(key: int | None) -> RowKey | None:
    return None if key is None else (str(key),)


changes = st.dictionaries(st.integers(0, KEYS - 1), st.booleans(), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), changes),
        st.sampled_from([("stream", None), ("read", None), ("close", None)]),
        st.sampled_from([("see", None), ("commit", None)]),
        st.sampled_from([("copy", None), ("kill", None)]),
        st.sampled_from([("pause", None), ("resume", None), ("resume", None), ("execute", None)]),
    ),
    min_size=8,
    max_size=50,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=changes, steps=steps, seed=st.integers(0, 2**32))
def test_the_consumer_ends_with_the_databases_rows_and_never_goes_back(
    before: dict[int, bool], steps: list[tuple[str, Any]], seed: int
) -> None:
    rng = random.Random(seed)
    database, consumer = Database(), Consumer()
    database.write({**before, **dict.fromkeys(range(0, KEYS, 2), True)})
    database.unseen.clear()
    connector = Connector(database, consumer, rng)
    connector.place = 1  # these rows are in no stream: only a snapshot tells them
    connector.signal("execute-snapshot")
    connector.emit(-1, (0, False), 1, 0, connector.snapshot.progress)
    consumer.committed = 1
    for name, argument in steps:
        match name:
            case "write":
                database.write(argument)
            case "see":
                database.unseen.discard(min(database.unseen, default=-1))
            case "commit":
                consumer.committed = len(consumer.records)
            case "kill":
                kept = rng.randint(consumer.committed, len(consumer.records))
                del consumer.records[kept:]
                consumer.committed = kept
                connector = Connector(database, consumer, rng)
                # What was streamed before the kill is seen by now.
                database.unseen -= set(range(connector.place))
            case "execute" | "pause" | "resume":
                connector.signal(f"{name}-snapshot")
            case _:
                getattr(connector, name)()
    database.unseen.clear()
    connector.signal("resume-snapshot")
    while connector.snapshot.progress.is_running or connector.place < len(database.log):
        connector.stream()
        connector.read()
        connector.close()
    last: dict[int, Row] = {}
    for key, row, _ in consumer.records:
        assert row >= last.get(key, row), f"key {key} goes back from {last[key]} to {row}"
        last[key] = row
    expected = {key: row for key, row in database.rows(frozenset()).items() if row[1]}
    assert {key: row for key, row in last.items() if row[1]} == expected
