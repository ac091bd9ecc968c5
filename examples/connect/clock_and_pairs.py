"""A source and a sink of one's own: seconds of a clock in, pairs in a text file out.

An installed package is found by `entry_points` in its pyproject.toml:

    [project.entry-points."ottla.connect"]
    clock = "clock_and_pairs"
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ottla.config.setting import Table, by_name, integer, string
from ottla.config.settings import Settings
from ottla.connect.data.record import (
    Record,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TopicPartition,
)
from ottla.connect.plugins.catalog import Kind, Plugin

TOPIC = string("topic", "seconds", "The topic of the seconds.")
FIRST = integer("first", 0, "The first second, since 1970.")
FILE = string("file", "pairs.txt", "The file of the pairs.")


class ClockSource:
    """Each second that has passed is a record; the offset is the next one."""

    TABLE: ClassVar[Table] = Table("ClockSource", by_name((TOPIC, FIRST)))
    VERSION: ClassVar[str] = "1.0"

    def __init__(self, settings: Settings) -> None:
        self._topic, self._first = settings[TOPIC], settings[FIRST]

    def partitions(self) -> Sequence[SourcePartition]:
        return ({"clock": "UTC"},)

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        second = self._first if offset is None else offset["next"]
        while True:
            now = min(int(time.time()), second + 500)
            yield [
                SourceRecord(Record(self._topic, value=each), partition, {"next": each + 1})
                for each in range(second, now)
            ]
            second = max(second, now)

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """The clock forgets nothing."""

    def close(self) -> None:
        """Nothing is open."""


class PairSink:
    """A line "topic partition offset value" a record. Exactly once: the file has the offsets."""

    TABLE: ClassVar[Table] = Table("PairSink", by_name((FILE,)))
    VERSION: ClassVar[str] = "1.0"

    def __init__(self, settings: Settings) -> None:
        self._file = Path(settings[FILE])
        self._next: dict[TopicPartition, int] = {}

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        for line in self._file.read_text().splitlines() if self._file.exists() else ():
            topic, partition, offset, _ = line.split(" ", 3)
            self._next[TopicPartition(topic, int(partition))] = int(offset) + 1
        return {each: self._next[each] for each in partitions if each in self._next}

    def write(self, records: Sequence[SinkRecord]) -> None:
        with self._file.open("a") as file:
            for each in records:
                if each.offset >= self._next.get(each.place, 0):
                    file.write(
                        f"{each.place.topic} {each.place.partition} {each.offset} {each.record.value}\n"
                    )
                    self._next[each.place] = each.offset + 1

    def flush(self) -> None:
        """The file was closed, so that nothing is left to write."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._next.clear()

    def close(self) -> None:
        """Nothing is open."""


PLUGINS = (
    Plugin(("example.ClockSource",), Kind.SOURCE, "1.0", "clock_and_pairs:ClockSource"),
    Plugin(("example.PairSink",), Kind.SINK, "1.0", "clock_and_pairs:PairSink"),
)
