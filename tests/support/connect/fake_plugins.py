"""Connectors and converters for tests of hosts: numbers from nowhere, and sinks whose content can be read.

They stand alone: a host process that runs them (`host_main.py`) knows no other plugins.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ottla.config.setting import Table, boolean, by_name, integer, string
from ottla.config.settings import Settings
from ottla.connect.data.record import (
    Record,
    SinkRecord,
    SourceBatch,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TopicPartition,
)
from ottla.connect.data.schema import DataError, Schema, Type
from ottla.connect.plugins.api import RecordError, RetriableError, TransactionEnd
from ottla.connect.plugins.catalog import Catalog, Kind, Plugin

TEXT: Final = Schema(Type.STRING)

TOPIC: Final = string("topic", "numbers", "")
PARTITIONS: Final = integer("source.partitions", 1, "")
COUNT: Final = integer("count", 100, "")
BATCH: Final = integer("batch", 10, "")
COLUMNS: Final = boolean("columns", False, "")
ENDS: Final = boolean("ends", False, "")
FAIL_AT: Final = integer("fail.at", -1, "")
AWAY_AT: Final = integer("away.at", -1, "")
ENDS_EVERY: Final = integer("transaction.every", 0, "")


class NumbersSource:
    """Each source partition {"part": p} gives "p:0", "p:1" … as texts; the offset is {"next": n}.

    fail.at: the number that raises; away.at: the number before which the source is away once.
    """

    TABLE: ClassVar[Table] = Table(
        "numbers", by_name((TOPIC, PARTITIONS, COUNT, BATCH, COLUMNS, ENDS, FAIL_AT, AWAY_AT))
    )
    VERSION: ClassVar[str] = "1"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._was_away = False
        self.commits: list[tuple[SourcePartition, SourceOffset]] = []

    def partitions(self) -> Sequence[SourcePartition]:
        return [{"part": part} for part in range(self._settings[PARTITIONS])]

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        at = 0 if offset is None else int(offset["next"])
        count, size = self._settings[COUNT], self._settings[BATCH]
        while True:
            if at >= count:
                if self._settings[ENDS]:
                    return
                yield ()
                continue
            upto = min(at + size, count)
            if at <= self._settings[FAIL_AT] < upto:
                raise ValueError(f"number {self._settings[FAIL_AT]} can't be read")
            if not self._was_away and at <= self._settings[AWAY_AT] < upto:
                self._was_away = True
                raise RetriableError("the numbers are away")
            yield self._batch(partition, at, upto)
            at = upto

    def _batch(self, partition: SourcePartition, first: int, end: int) -> Sequence[SourceRecord]:
        topic = self._settings[TOPIC]
        texts = [f"{partition['part']}:{number}" for number in range(first, end)]
        if self._settings[COLUMNS]:
            return SourceBatch(topic, partition, lambda index: {"next": first + index + 1}, texts, TEXT)
        return [
            SourceRecord(Record(topic, value=text, value_schema=TEXT), partition, {"next": first + index + 1})
            for index, text in enumerate(texts)
        ]

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        self.commits.append((partition, offset))

    def close(self) -> None:
        pass


class TransactionsSource(NumbersSource):
    """Numbers whose transactions end with every n-th batch; every third of them is aborted."""

    TABLE: ClassVar[Table] = Table("numbers", {**NumbersSource.TABLE.settings, ENDS_EVERY.name: ENDS_EVERY})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._batches = 0

    def transaction_end(self) -> TransactionEnd | None:
        self._batches += 1
        every = self._settings[ENDS_EVERY]
        if self._batches % every:
            return None
        return TransactionEnd.ABORT if self._batches // every % 3 == 0 else TransactionEnd.COMMIT


PATH: Final = string("path", "", "")
REFUSE: Final = string("refuse", "", "")
AWAY: Final = integer("away.batches", 0, "")
OPEN_AWAY: Final = integer("away.opens", 0, "")
SINK: Final = by_name((PATH, REFUSE, AWAY, OPEN_AWAY))


class LinesSink:
    """Appends a JSON line for each record to a file; durable with `flush`.

    refuse: values that are refused. away.batches: so many writes find the system away. The file `PATH.away`
    has it away as long as it is there.
    """

    TABLE: ClassVar[Table] = Table("lines", SINK)
    VERSION: ClassVar[str] = "1"

    def __init__(self, settings: Settings) -> None:
        self._path = Path(settings[PATH])
        self._refused = frozenset(settings[REFUSE].split(","))
        self._away = settings[AWAY]
        self._open_away = settings[OPEN_AWAY]
        self._file = self._path.with_name(f"{self._path.name}.{os.getpid()}.{id(self)}").open("a")

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self._open_away:
            self._open_away -= 1
            raise RetriableError("the lines are away")
        self._note("open", partitions)
        return {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        if self._away or self._path.with_name(f"{self._path.name}.away").exists():
            self._away = max(0, self._away - 1)
            raise RetriableError("the lines are away")
        for position, each in enumerate(records):
            if each.record.value in self._refused:
                raise RecordError(position, f"{each.record.value} is refused")
            if each.record.value == "explode":
                raise ValueError("the sink explodes")
            line = [each.place.topic, each.place.partition, each.offset, each.record.value]
            self._file.write(json.dumps(line) + "\n")

    def flush(self) -> Mapping[TopicPartition, int] | None:
        self._file.flush()
        os.fsync(self._file.fileno())
        return None

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lose", partitions)

    def close(self) -> None:
        self._file.close()

    def _note(self, word: str, partitions: Sequence[TopicPartition]) -> None:
        with self._path.with_name(f"{self._path.name}.notes").open("a") as file:
            file.write(json.dumps([word, sorted(partitions)]) + "\n")


class LedgerSink:
    """Writes to SQLite, exactly once: rows and next offsets in one transaction of `flush`."""

    TABLE: ClassVar[Table] = Table("ledger", SINK)
    VERSION: ClassVar[str] = "1"

    def __init__(self, settings: Settings) -> None:
        self._base = sqlite3.connect(settings[PATH], timeout=30)
        self._base.execute("CREATE TABLE IF NOT EXISTS lines (topic, part, place, value)")
        self._base.execute("CREATE TABLE IF NOT EXISTS ledger (topic, part, next, PRIMARY KEY (topic, part))")
        self._base.commit()
        self._pending: list[SinkRecord] = []
        self._next: dict[TopicPartition, int] = {}

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        found = {}
        for place in partitions:
            row = self._base.execute("SELECT next FROM ledger WHERE topic=? AND part=?", place).fetchone()
            if row is not None:
                found[place] = row[0]
        return found

    def write(self, records: Sequence[SinkRecord]) -> None:
        self._pending += records
        for each in records:
            self._next[each.place] = each.offset + 1

    def flush(self) -> Mapping[TopicPartition, int] | None:
        with self._base:
            for each in self._pending:
                row = (*each.place, each.offset, each.record.value)
                self._base.execute("INSERT INTO lines VALUES (?, ?, ?, ?)", row)
            for place, offset in self._next.items():
                self._base.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)", (*place, offset))
        self._pending.clear()
        return dict(self._next)

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        lost = set(partitions)
        self._pending = [each for each in self._pending if each.place not in lost]
        self._next = {place: offset for place, offset in self._next.items() if place not in lost}

    def close(self) -> None:
        self._base.close()


class TextConverter:
    """UTF-8; `poison` in a text is no text."""

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        pass

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        if data is None:
            return TEXT, None
        try:
            text = data.decode()
        except UnicodeDecodeError as problem:
            raise DataError("Error while deserializing: no UTF-8") from problem
        if "poison" in text:
            raise DataError(f"{text} is poison")
        return TEXT, text

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value is None:
            return None
        if "poison" in value:
            raise DataError(f"{value} is poison")
        return str(value).encode()


class PoisonedConverter(TextConverter):
    """Refuses the texts that end with 7; with `large` it makes records of them that no broker takes."""

    def __init__(self) -> None:
        self._large = False

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        self._large = properties.get("large") == "true"

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if not str(value).endswith("7"):
            return str(value).encode()
        if self._large:
            return bytes(3_000_000)
        raise DataError(f"{value} is poison")


class AwayConverter(TextConverter):
    """UTF-8, by something that is away for the first so many attempts at each text; `poison` is no text."""

    def __init__(self) -> None:
        self._times = 0
        self._left: dict[Any, int] = {}

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        self._times = int(properties.get("away.times", "0"))

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        self._ask(data)
        return super().to_connect(topic, data)

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        self._ask(value)
        return super().from_connect(topic, schema, value)

    def _ask(self, text: Any) -> None:
        left = self._left.setdefault(text, self._times)
        if left:
            self._left[text] = left - 1
            raise RetriableError(f"the registry is away for {text!r}")


class BytesConverter:
    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        pass

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        return Schema(Type.BYTES), data

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        return None if value is None else bytes(value)


def _plugin(names: tuple[str, ...], kind: Kind, name: str) -> Plugin:
    return Plugin(names, kind, "1", f"{__name__}:{name}")


PLUGINS: Final = (
    _plugin(("test.NumbersSource",), Kind.SOURCE, "NumbersSource"),
    _plugin(("test.TransactionsSource",), Kind.SOURCE, "TransactionsSource"),
    _plugin(("test.LinesSink",), Kind.SINK, "LinesSink"),
    _plugin(("test.LedgerSink",), Kind.SINK, "LedgerSink"),
    _plugin(("test.TextConverter",), Kind.CONVERTER, "TextConverter"),
    _plugin(("test.PoisonedConverter",), Kind.CONVERTER, "PoisonedConverter"),
    _plugin(("test.AwayConverter",), Kind.CONVERTER, "AwayConverter"),
    _plugin(("org.apache.kafka.connect.storage.StringConverter",), Kind.CONVERTER, "TextConverter"),
    _plugin(("org.apache.kafka.connect.converters.ByteArrayConverter",), Kind.CONVERTER, "BytesConverter"),
    _plugin(
        ("org.apache.kafka.connect.storage.SimpleHeaderConverter",), Kind.HEADER_CONVERTER, "TextConverter"
    ),
)
CATALOG: Final = Catalog(PLUGINS)
