"""Records as rows of tables, exactly once: Confluent's JDBC sink connector."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import ottla
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.connectors.batches import made_of
from ottla.connect.connectors.common import ledger_name
from ottla.connect.connectors.jdbc import sink_settings as options
from ottla.connect.connectors.jdbc.database import Refused
from ottla.connect.connectors.jdbc.opening import checked_address, checked_zone, open_database
from ottla.connect.connectors.jdbc.shapes import Rules
from ottla.connect.connectors.jdbc.sink_rules import Naming, check_keys, rules_of, table_rules
from ottla.connect.connectors.jdbc.writing import JdbcStore, RowChange, Tables, Target
from ottla.connect.connectors.ledger_writing import LedgerWriting
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.plugins.api import RecordError, RetriableError

MAX_TARGETS: Final = 64


class GivenUp(Exception):
    """The database was away for all attempts that max.retries allows."""


class JdbcSink:
    """Offsets lie in a table beside the data, and are written in the same transaction."""

    TABLE: ClassVar[Table] = options.TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = checked_address(settings)
        self._zone = checked_zone(settings)
        self._settings = settings
        self._clock = clock
        self._ledger = ledger_name(settings)
        self._batch_size = settings[options.BATCH_SIZE]
        self._table_rules = table_rules(settings)
        check_keys(settings)
        self._naming: Naming | None = None
        self._tables: Tables | None = None
        self._rules: Rules | None = None
        self._writing = LedgerWriting[RowChange](self._opened)
        self._targets: dict[tuple[Any, ...], tuple[Target, Any]] = {}
        self._failures = 0
        self._not_before = 0.0

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._writing.open(partitions)

    def write(self, records: Sequence[SinkRecord]) -> None:
        if self._failures and self._clock() < self._not_before:
            raise RetriableError(f"{self._address.shown} is left alone for {options.RETRY_BACKOFF_MS.name}")
        try:
            for start in range(0, len(records), self._batch_size):
                self._write_batch(records[start : start + self._batch_size], start)
        except RetriableError as problem:
            self._failures += 1
            self._targets.clear()
            if self._failures > self._settings[options.MAX_RETRIES]:
                self._failures = 0
                raise GivenUp(f"{options.MAX_RETRIES.name} attempts failed: {problem}") from problem
            self._not_before = self._clock() + self._settings[options.RETRY_BACKOFF_MS] / 1000
            raise
        self._failures = 0

    def flush(self) -> None:
        """Each batch is durable when `write` returns."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._writing.lose(partitions)

    def close(self) -> None:
        self._writing.close()
        self._targets.clear()

    # -- batches --------------------------------------------------------------------------------------

    def _write_batch(self, records: Sequence[SinkRecord], start: int) -> None:
        self._writing.opened_store()
        changes, refusal = made_of(records, self._change)
        self._write(changes, start)
        if refusal is not None:
            raise RecordError(start + refusal.position, str(refusal))

    def _write(self, changes: Sequence[RowChange], start: int) -> None:
        """Write changes; where the database refuses one, those before it, and say which it is."""
        try:
            self._writing.write_changes(changes)
        except Refused as problem:
            self._targets.clear()
            if self._tables is not None:
                self._tables.forget()
            if len(changes) == 1:
                raise RecordError(start, str(problem)) from problem
            half = len(changes) // 2
            self._write(changes[:half], start)
            self._write(changes[half:], start + half)

    def _change(self, record: SinkRecord) -> RowChange:
        target = self._target(record)
        return RowChange(record.place, record.offset, target, target.row(record))

    def _target(self, record: SinkRecord) -> Target:
        each = record.record
        schemas = each.key_schema, each.value_schema
        wanted = each.topic, each.value is None, id(schemas[0]), id(schemas[1])
        found = self._targets.get(wanted)
        if found is None:
            assert self._rules is not None
            assert self._tables is not None
            assert self._naming is not None
            target = self._tables.target(self._naming.table(each.topic), self._rules.shape_of(each))
            if len(self._targets) >= MAX_TARGETS:
                self._targets.clear()
            if target.relation is None:
                return target  # the table may come with the next record
            found = target, schemas  # which are held, so that their ids are no other objects'
            self._targets[wanted] = found
        return found[0]

    def _opened(self) -> JdbcStore:
        database = open_database(self._address, self._zone)
        self._tables = Tables(database, self._table_rules)
        self._naming = Naming(self._settings, database)
        self._rules = rules_of(self._settings, self._naming)
        return JdbcStore(database, self._ledger)
