"""The schema history: DDL with its place, in a topic or a file, in Debezium's record format.

A record is written, durably, before an offset behind its statement can be: so what an offset's rows look like
is always in the history. After a kill a statement that is read again is written again; a record that says
the same as an earlier one at the same place is left out when the history is read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException, Producer

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.reading import read
from ottla.connect.cdc.mariadb.ddl import carry_out
from ottla.connect.cdc.mariadb.model import BadHistory, TableChange, Tables, change_of
from ottla.connect.cdc.mariadb.position import Position, log_order, position_of

PRODUCE_TIMEOUT_SECONDS: Final = 30.0
TOPIC_SETTINGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
MAX_LINE_BYTES: Final = 64 << 20


class HistoryError(Exception):
    """The history can't be read or written."""


class HistoryStore(Protocol):
    """Where the lines of a history are kept."""

    def append(self, lines: Iterable[str]) -> None:
        """Write lines, durably. Raises HistoryError."""

    def lines(self) -> Iterator[str]:
        """All lines in their order. Raises HistoryError."""

    def close(self) -> None:
        """Give it up."""


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A statement, and what it did."""

    position: Position
    database: str
    ddl: str
    changes: tuple[TableChange, ...]

    def line(self, prefix: str, now_ms: int) -> str:
        """As a line of JSON."""
        document: dict[str, Any] = {
            "source": {"server": prefix},
            "position": dict(self.position.offset()),
            "ts_ms": now_ms,
            "databaseName": self.database,
            "ddl": self.ddl,
            "tableChanges": [each.document() for each in self.changes],
        }
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class History:
    """The history of one connector. prefix: topic.prefix, as several may share a topic."""

    store: HistoryStore
    prefix: str

    def append(self, records: Iterable[HistoryRecord]) -> None:
        """Write records, durably. Raises HistoryError."""
        now_ms = time.time_ns() // 1_000_000
        self.store.append([each.line(self.prefix, now_ms) for each in records])

    def recover(self, until: Position) -> Tables | None:
        """The tables as they were at a place; None where there is no history. Raises HistoryError."""
        tables = Tables()
        seen: set[str] = set()
        is_there = False
        for line in self.store.lines():
            try:
                document = json.loads(line)
                if (document.get("source") or {}).get("server") != self.prefix:
                    continue
                is_there = True
                document.pop("ts_ms", None)
                (document.get("position") or {}).pop("ts_sec", None)
                same = json.dumps(document, sort_keys=True)
                if same in seen or not is_at_or_before(position_of(document["position"]), until):
                    continue
                seen.add(same)
                _apply(tables, document)
            except (ValueError, KeyError, AttributeError) as problem:
                raise HistoryError(
                    f"the schema history has a record that makes no sense: {problem}"
                ) from None
        return tables if is_there else None


def _apply(tables: Tables, document: dict[str, Any]) -> None:
    changes = document.get("tableChanges") or []
    if changes:
        tables.apply([change_of(each) for each in changes])
    elif document.get("ddl"):
        carry_out(tables, document["ddl"], document.get("databaseName") or "")


def is_at_or_before(place: Position, until: Position) -> bool:
    """Whether a place of the history lies before another one, or is it."""
    if place.gtids.domains and until.gtids.domains:
        if not until.gtids.covers(place.gtids):
            return False
        if place.gtids != until.gtids:
            return True
        return place.events <= until.events
    return (*log_order(place.file, place.position), place.events) <= (
        *log_order(until.file, until.position),
        until.events,
    )


@dataclass(frozen=True, slots=True)
class FileStore:
    """FileSchemaHistory: a line of JSON for each record."""

    path: Path

    def append(self, lines: Iterable[str]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell():
                    self._end_line(file.fileno())
                file.writelines(f"{line}\n".encode() for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise HistoryError(f"the schema history {self.path} can't be written: {problem}") from problem

    def _end_line(self, number: int) -> None:
        """Cut off what a kill left of a line: its record was not confirmed, and is written again."""
        data = self.path.read_bytes()
        if not data.endswith(b"\n"):
            os.ftruncate(number, data.rfind(b"\n") + 1)

    def lines(self) -> Iterator[str]:
        try:
            with self.path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n") and line.strip():
                        yield line.decode("utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as problem:
            raise HistoryError(f"the schema history {self.path} can't be read: {problem}") from problem

    def close(self) -> None:
        pass


class KafkaStore:
    """KafkaSchemaHistory: a topic of one partition that keeps everything, made where it is not there."""

    def __init__(self, reading: ClusterAccess, writing: ClusterAccess, topic: str) -> None:
        self._reading = reading
        self._writing = writing
        self._topic = topic
        self._producer: Producer | None = None

    def append(self, lines: Iterable[str]) -> None:
        failed: list[str] = []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(str(error))

        try:
            if self._producer is None:
                self._ensure()
                self._producer = Producer(
                    self._writing.librdkafka({"enable.idempotence": True, "compression.type": "zstd"})
                )
            for line in lines:
                self._producer.produce(self._topic, line.encode(), partition=0, on_delivery=told)
                self._producer.poll(0)
            left = self._producer.flush(PRODUCE_TIMEOUT_SECONDS)
        except (KafkaException, BufferError) as problem:
            raise HistoryError(f"the schema history {self._topic} can't be written: {problem}") from problem
        if failed or left:
            why = failed[0] if failed else f"nothing is answered for {PRODUCE_TIMEOUT_SECONDS:.0f} s"
            raise HistoryError(f"the schema history {self._topic} can't be written: {why}")

    def _ensure(self) -> None:
        KafkaCluster(self._writing.bootstrap, self._writing.properties).ensure_topics(
            [Topic(self._topic, 1, config=TOPIC_SETTINGS)]
        )

    def lines(self) -> Iterator[str]:
        self._ensure()
        ends = KafkaCluster(self._reading.bootstrap, self._reading.properties).end_positions(self._topic)
        for message in read(self._reading, self._topic, dict.fromkeys(ends, 0), ends):
            value = message.value()
            if value is not None:
                yield value.decode("utf-8")

    def close(self) -> None:
        self._producer = None


__all__ = [
    "BadHistory",
    "FileStore",
    "History",
    "HistoryError",
    "HistoryRecord",
    "HistoryStore",
    "KafkaStore",
]
