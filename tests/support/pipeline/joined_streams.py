"""A stream that is joined with tables, and the plain model of what must come of it.

Rows and records are drawn at random: several partitions, of another number for each topic, each in the order
of time. `application` joins the records with the rows and counts the pairs by window, and joins them with a
table that another query of the application makes of `events`. Run as a program it is that application, which
a test kills and starts again.

The model takes the whole input by time, rows before records of their time, as Kafka Streams does.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster, Topic
from support.pipeline.pipeline_kills import kill_all

if TYPE_CHECKING:
    from ottla.streams import Streams

BEGIN_MS = 1_790_000_000_000
WINDOW_MS = 1_000
ROLES = ("rows", "records", "events", "counts", "pairs", "known")
_INPUTS = ROLES[:3]


def application(name: str, grace_ms: int = 0) -> Streams:
    """The application over topics `<name>-<role>`."""
    from pyspark.sql import functions as F

    from ottla.streams import Streams, tumbling

    rows, records, events, counts, pairs, known = (f"{name}-{role}" for role in ROLES)
    app = Streams(name)
    table = app.table(rows, key=str, value=str)
    stream = app.stream(records, key=str, value=str)
    joined = stream.join_table(table, name="join")
    joined.map_values(lambda r: F.concat_ws("|", r.value.left, r.value.right)).to(pairs, key=str, value=str)
    windows = tumbling(timedelta(milliseconds=WINDOW_MS), grace=timedelta(milliseconds=grace_ms))
    counted = joined.group_by_key().windowed_by(windows).count(name="count")
    counted.to_stream(
        key=lambda r: F.concat_ws("@", r.key.key, F.unix_millis(r.key.start).cast("string"))
    ).to(counts, key=str, value=int)
    made = app.stream(events, key=str, value=str).group_by_key().count(name="events")
    stream.left_join_table(made, name="join-events").map_values(
        lambda r: F.concat_ws("|", r.value.left, r.value.right.cast("string"))
    ).to(known, key=str, value=str)
    return app


@dataclass(frozen=True, slots=True)
class Sent:
    """A record of an input. number: counts them, and is its value."""

    role: str
    key: str
    time_ms: int
    number: int


@dataclass(slots=True)
class Joined:
    """The application's inputs and outputs on a cluster. late_rows: some keys get their first row late."""

    kafka: KafkaCluster
    name: str
    random: random.Random
    late_rows: bool = True
    sent: list[Sent] = field(default_factory=list)
    _now_ms: int = 0

    def make_topics(self) -> None:
        kept = {"retention.ms": "-1"}  # the times are past
        self.kafka.ensure_topics(
            [Topic(f"{self.name}-{role}", self.random.randint(1, 4), config=kept) for role in ROLES]
        )

    def draw(self, keys: int, rows: int, records: int, span_ms: int) -> list[Sent]:
        """A round of input: rows and events of all time, the records after the first row of each key."""
        drawn: list[Sent] = []
        number = len(self.sent)
        begin_ms, end_ms = self._now_ms, self._now_ms + span_ms
        names = [f"key {each}" for each in range(keys)]

        def add(role: str, key: str, time_ms: int) -> None:
            drawn.append(Sent(role, key, time_ms, number + len(drawn)))

        if not self.sent:
            for role in ("rows", "events"):
                for key in names[: keys * 2 // 3 if self.late_rows else keys]:
                    add(role, key, self.random.randint(begin_ms, begin_ms + span_ms // 4))
        first_ms = begin_ms + span_ms // 4
        for _ in range(rows):
            time_ms = self.random.randint(first_ms, end_ms) if self.late_rows else first_ms
            add(self.random.choice(("rows", "events")), self.random.choice(names), time_ms)
        for _ in range(records):
            add("records", self.random.choice([*names, "nobody"]), self.random.randint(first_ms + 1, end_ms))
        drawn.sort(key=lambda each: each.time_ms)
        self._now_ms = end_ms
        return drawn

    def produce(self, drawn: Sequence[Sent]) -> None:
        """First the rows and events, then the records."""
        producer = Producer(self.kafka.producer_options())
        for roles in (_INPUTS[::2], ("records",)):
            for each in drawn:
                if each.role in roles:
                    producer.produce(
                        f"{self.name}-{each.role}",
                        str(each.number),
                        each.key,
                        timestamp=BEGIN_MS + each.time_ms,
                    )
            assert producer.flush(60) == 0
        self.sent += drawn

    # The model

    def pairs(self) -> dict[str, str | None]:
        """Each record's row: the last one until its time, or None."""
        found: dict[str, str | None] = {}
        rows: dict[str, str] = {}
        for each in sorted(self.sent, key=lambda each: (each.time_ms, each.role == "records")):
            if each.role == "rows":
                rows[each.key] = str(each.number)
            elif each.role == "records":
                found[str(each.number)] = rows.get(each.key)
        return found

    def counts(self) -> dict[str, int]:
        """The pairs of each key and window."""
        rows = self.pairs()
        counted = Counter(
            f"{each.key}@{BEGIN_MS + each.time_ms - (BEGIN_MS + each.time_ms) % WINDOW_MS}"
            for each in self.sent
            if each.role == "records" and rows[str(each.number)] is not None
        )
        return dict(counted)

    def events(self) -> dict[str, int]:
        """By record: the events of its key until its time."""
        seen: Counter[str] = Counter()
        found = {}
        for each in sorted(self.sent, key=lambda each: (each.time_ms, each.role == "records")):
            if each.role == "events":
                seen[each.key] += 1
            elif each.role == "records":
                found[str(each.number)] = seen[each.key]
        return found

    # The outputs

    def read(self, role: str) -> list[tuple[str, str]]:
        found = []
        for message in self.kafka.read(f"{self.name}-{role}"):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            found.append((key.decode(), value.decode(errors="replace")))
        return found

    def read_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for message in self.kafka.read(f"{self.name}-counts"):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            counts[key.decode()] = int.from_bytes(value, "big")
        return counts

    def read_pairs(self, role: str = "pairs") -> dict[str, list[str | None]]:
        """By record: the rows that it was joined with, which must be one."""
        pairs: dict[str, list[str | None]] = defaultdict(list)
        for _, value in self.read(role):
            left, _, right = value.partition("|")
            pairs[left].append(right or None)
        return pairs

    def is_done(self) -> bool:
        """Whether every record has come out, and every pair is counted, or has had the time to be."""
        expected = sum(row is not None for row in self.pairs().values())
        return (
            len(self.read("known")) >= len(self.events())
            and len(self.read("pairs")) >= expected
            and sum(self.read_counts().values()) >= expected
        )

    def check(self, *, in_order: bool) -> None:
        """in_order: all input was there before the application, so each record meets the very row."""
        pairs, found = self.pairs(), self.read_pairs()
        wanted = {record: row for record, row in pairs.items() if row is not None}
        missed = sorted(wanted.keys() - found.keys(), key=int)
        assert not missed, f"{len(missed)} of {len(wanted)} records missed their rows: {missed[:5]}"
        twice = [record for record, rows in found.items() if len(rows) != 1]
        assert not twice, f"more than once: {twice[:5]}"
        seen = {record: rows[0] for record, rows in found.items()}
        if in_order:
            assert seen == wanted
        older = [record for record in wanted if int(seen[record] or 0) < int(wanted[record] or 0)]
        assert not older, f"{len(older)} records met a row that was replaced before them"
        assert self.read_counts() == self.counts(), "the windows do not count the pairs"
        known, events = self.read_pairs("known"), self.events()
        few = {
            record: (rows, events[record])
            for record, rows in known.items()
            if len(rows) != 1 or int(rows[0] or 0) < events[record]
        }
        assert known.keys() == pairs.keys()
        assert not few, (
            f"{len(few)} of {len(known)} records came before older events: {list(few.items())[:3]}"
        )

    # The application as a program

    @contextlib.contextmanager
    def running(
        self, directory: Path, *, batch_records: int, grace_ms: int
    ) -> Iterator[subprocess.Popen[str]]:
        """The program; killed at the end with all that it has started."""
        directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--bootstrap", self.kafka.bootstrap, "--name", self.name]
        command += ["--directory", str(directory), "--batch-records", str(batch_records)]
        command += ["--grace-ms", str(grace_ms)]
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with (directory / "output.log").open("a") as log:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        try:
            yield process
        finally:
            kill_all(process)


def main(arguments: Sequence[str] | None = None) -> int:
    """The application until it is killed. Prints `started` when all its queries are."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "name", "directory"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("batch-records", "grace-ms"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args(arguments)

    from ottla.streams import StreamsSettings
    from ottla.streams.run.application import start

    settings = StreamsSettings(
        given.bootstrap,
        Path(given.directory),
        master="local[2]",
        partitions=2,
        batch_records=given.batch_records,
    )
    with start(application(given.name, given.grace_ms).topology(), settings) as running:
        print("started", flush=True)
        running.await_end()
    return 0


def wait_until_done(joined: Joined, timeout_seconds: float) -> bool:
    """Wait until everything has come out, or nothing has for a time: then False."""
    deadline = time.monotonic() + timeout_seconds
    before: object = None
    while time.monotonic() < deadline:
        now = [sum(joined.kafka.end_positions(f"{joined.name}-{role}").values()) for role in ROLES[3:]]
        if now != before:
            before, deadline = now, time.monotonic() + timeout_seconds
        elif joined.is_done():
            return True
        time.sleep(0.5)
    return False


if __name__ == "__main__":
    sys.exit(main())
