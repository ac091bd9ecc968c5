"""post.processors: values that the stream leaves out are read from the table, as it is now.

Debezium's ReselectColumnsPostProcessor. The value is the row's of now, which may be newer than the change:
the changes in between come after it, so that the last event of a key has its last value. A row that is not
there any more keeps the placeholder: the event of its end follows.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql

from ottla.config.errors import ConfigError
from ottla.config.setting import Table, boolean, by_name, choice, string
from ottla.config.settings import Settings
from ottla.connect.cdc.core.column_form import ABSENT, NOT_SENT, Cell
from ottla.connect.cdc.core.filters import NameFilter, one_at_most
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres.catalog import Connection
from ottla.connect.cdc.postgres.pgoutput import Relation, Row
from ottla.connect.plugins.configuring import configured

RESELECT_CLASS: Final = "io.debezium.processors.reselect.ReselectColumnsPostProcessor"
_log = logging.getLogger(__name__)


class OnError(enum.StrEnum):
    """reselect.error.handling.mode: what a query that the server refuses does."""

    WARN = "warn"
    FAIL = "fail"


COLUMNS_INCLUDE: Final = string.optional(
    "reselect.columns.include.list", "Columns that are read again: schema.table:column."
)
COLUMNS_EXCLUDE: Final = string.optional("reselect.columns.exclude.list", "Columns that are not.")
UNAVAILABLE: Final = boolean(
    "reselect.unavailable.values", True, "Whether values that the stream leaves out are."
)
NULLS: Final = boolean("reselect.null.values", True, "Whether nulls are.")
USE_EVENT_KEY: Final = boolean(
    "reselect.use.event.key", False, "Whether the row is found by the record's key, not by the primary key."
)
ON_ERROR: Final = choice(OnError)(
    "reselect.error.handling.mode", OnError.WARN, "What a query that the server refuses does."
)
TABLE: Final = Table("ReselectColumnsPostProcessor", by_name(globals().values()))


class ReselectError(Exception):
    """A row can't be read again, and the settings say that this ends the task."""


@dataclass(frozen=True, slots=True)
class Reselection:
    """The settings of one processor."""

    columns: NameFilter
    unavailable: bool = True
    nulls: bool = True
    uses_event_key: bool = False
    on_error: OnError = OnError.WARN


def reselections(settings: Settings, names: str | None) -> tuple[Reselection, ...]:
    """The processors of post.processors, whose settings stand behind their names. Raises ConfigError."""
    found = []
    for name in (each.strip() for each in (names or "").split(",")):
        if not name:
            continue
        texts = settings.with_prefix(f"{name}.")
        kind = texts.get("type")
        if kind != RESELECT_CLASS:
            raise ConfigError(
                f"{name}.type={kind or ''}: the only post processor is {RESELECT_CLASS}; other classes of "
                "Java's are not run here"
            )
        found.append(_reselection(name, configured(TABLE, texts)))
    return tuple(found)


def _reselection(name: str, given: Settings) -> Reselection:
    include, exclude = given[COLUMNS_INCLUDE], given[COLUMNS_EXCLUDE]
    problem = one_at_most(((COLUMNS_INCLUDE.name, include), (COLUMNS_EXCLUDE.name, exclude)))
    if problem is not None:
        raise ConfigError(f"{name}: {problem}")
    try:
        columns = NameFilter.of(include, exclude)
    except ValueError as wrong:
        raise ConfigError(f"{name}: {wrong}") from None
    return Reselection(columns, given[UNAVAILABLE], given[NULLS], given[USE_EVENT_KEY], given[ON_ERROR])


@dataclass(frozen=True, slots=True)
class _Known:
    """A relation of the stream, its shape, and the places of its primary key's columns."""

    relation: Relation
    shape: TableShape
    key: tuple[int, ...]


class Reselector:
    """Completes rows of the stream by a connection that commits by itself."""

    def __init__(self, connection: Connection, processors: Sequence[Reselection]) -> None:
        self._connection = connection
        self._processors = processors
        self._known: dict[int, _Known] = {}
        self._told: set[int] = set()

    def learn(self, relation: Relation, shape: TableShape, key: Sequence[str]) -> None:
        """A table as it is from here on in the stream. key: the columns of its primary key."""
        places = {each.name: index for index, each in enumerate(relation.columns)}
        found = tuple(places[each] for each in key if each in places)
        self._known[relation.oid] = _Known(relation, shape, found)

    def complete(self, oid: int, row: Row) -> Row:
        """The row, with the values of now that the processors read. Raises psycopg.Error, ReselectError."""
        known = self._known.get(oid)
        if known is None:
            return row
        for each in self._processors:
            row = self._processed(each, known, row)
        return row

    def _processed(self, by: Reselection, known: _Known, row: Row) -> Row:
        wanted = [
            slot.place
            for slot in known.shape.row_slots
            if ((row[slot.place] is NOT_SENT and by.unavailable) or (row[slot.place] is None and by.nulls))
            and by.columns.takes(f"{known.shape.id}:{slot.column}")
        ]
        key = tuple(slot.place for slot in known.shape.key_slots) if by.uses_event_key else known.key
        if not wanted or not key:
            return row
        values = [row[index] for index in key]
        if any(not isinstance(each, str) for each in values):
            return row
        found = self._read(by, known, wanted, key, values)
        if found is None:
            return _without(known.shape, row, wanted)
        cells = list(row)
        for index, value in zip(wanted, found, strict=True):
            cells[index] = value
        return tuple(cells)

    def _read(
        self,
        by: Reselection,
        known: _Known,
        wanted: Sequence[int],
        key: Sequence[int],
        values: Sequence[Cell],
    ) -> list[str | None] | None:
        """The values of the row, as the stream would write them; None where the row is not there."""
        names = [each.name for each in known.relation.columns]
        query = sql.SQL("SELECT {} FROM {} WHERE {} LIMIT 1").format(
            sql.SQL(", ").join(sql.Identifier(names[index]) for index in wanted),
            sql.Identifier(known.shape.schema_name, known.shape.table_name),
            sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(names[index])) for index in key),
        )
        try:
            result = self._connection.execute(query, values).pgresult
        except psycopg.OperationalError:
            raise
        except psycopg.Error as problem:
            words = f"a row of {known.shape.id} can't be read again: {' '.join(str(problem).split())}"
            if by.on_error is OnError.FAIL:
                raise ReselectError(words) from problem
            self._warn(known, words)
            return None
        if result is None or result.ntuples == 0:
            self._warn(
                known, f"a row of {known.shape.id} is not there any more: what was not sent stays unknown"
            )
            return None
        cells = (result.get_value(0, column) for column in range(len(wanted)))
        return [None if each is None else bytes(each).decode() for each in cells]

    def _warn(self, known: _Known, words: str) -> None:
        """The first of a table; a table whose rows vanish quickly would fill the log."""
        if known.relation.oid not in self._told:
            self._told.add(known.relation.oid)
            _log.warning("%s", words)


def _without(shape: TableShape, row: Row, wanted: Sequence[int]) -> Row:
    """The row where it can't be completed: null stands for what has no placeholder."""
    gone = {slot.place for slot in shape.row_slots if slot.place in wanted and slot.unavailable is ABSENT}
    if not gone:
        return row
    return tuple(None if index in gone and cell is NOT_SENT else cell for index, cell in enumerate(row))
