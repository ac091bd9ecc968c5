"""Tables, or a query, of a database as records: Confluent's JDBC source connector."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import ClassVar, Final

import ottla
from ottla.config.errors import ConfigError
from ottla.config.setting import Setting, Table
from ottla.config.settings import Settings
from ottla.connect.connectors.jdbc import source_settings as options
from ottla.connect.connectors.jdbc.columns import Column, Mapping, NumericMapping
from ottla.connect.connectors.jdbc.criteria import QUERY_PARTITION, Criteria, Place, table_partition
from ottla.connect.connectors.jdbc.database import Database, Relation, TableType
from ottla.connect.connectors.jdbc.moments import NS_PER_MS
from ottla.connect.connectors.jdbc.names import Quoting, TableId
from ottla.connect.connectors.jdbc.opening import (
    QUOTE_IDENTIFIERS,
    checked_address,
    checked_zone,
    open_database,
)
from ottla.connect.connectors.jdbc.polling import Fields, Look
from ottla.connect.connectors.jdbc.source_settings import Mode
from ottla.connect.connectors.jdbc.tables import Selection, mapped, same_topics
from ottla.connect.data.record import SourceOffset, SourcePartition, SourceRecord
from ottla.connect.plugins.required import require

_log = logging.getLogger(__name__)
_NUMBERED: Final = (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)
_TIMED: Final = (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)


class JdbcSource:
    """A source partition for each table, or one for a query. A task reads one of them at a time."""

    TABLE: ClassVar[Table] = options.TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._address = checked_address(settings)
        self._mapping = Mapping(
            _numeric(settings), settings[options.TIMESTAMP_GRANULARITY], checked_zone(settings)
        )
        self._mode = require(settings, options.MODE)
        self._prefix = require(settings, options.TOPIC_PREFIX)
        self._query = settings[options.QUERY].strip().rstrip(";")
        self._clock = clock
        self._types = _checked_types(settings)
        _check_combination(settings, self._mode, bool(self._query))
        self._database: Database | None = None
        self._is_reading = False
        self._tables: dict[str, TableId] = {}
        self._tables_at: float | None = None
        self._fields: dict[str, Fields] = {}

    # -- partitions -----------------------------------------------------------------------------------

    def partitions(self) -> Sequence[SourcePartition]:
        if self._query:
            return (QUERY_PARTITION,)
        self._look_for_tables()
        return [table_partition(each) for each in self._tables]

    def _look_for_tables(self) -> None:
        now = self._clock()
        if (
            self._tables_at is not None
            and now < self._tables_at + self._settings[options.TABLE_POLL_MS] / 1000
        ):
            return
        database = self._opened()
        selection = Selection(
            frozenset(self._texts(options.TABLE_WHITELIST)),
            frozenset(self._texts(options.TABLE_BLACKLIST)),
            self._settings[options.TABLE_INCLUDE],
            self._settings[options.TABLE_EXCLUDE],
            self._settings[options.CATALOG_PATTERN],
            self._settings[options.SCHEMA_PATTERN],
            self._address.database,
            database.mark,
        )
        found = [each for each in database.tables(self._types) if selection.chooses(each)]
        doubled = same_topics(found)
        if doubled:
            raise ConfigError(
                f"these tables have one name, so they would have one topic: {', '.join(map(str, doubled))}; "
                f"choose with {options.SCHEMA_PATTERN.name} or {options.TABLE_WHITELIST.name}"
            )
        if not found:
            _log.warning("there is no table to read")
        self._tables = {str(each): each for each in found}
        self._tables_at = now

    # -- reading --------------------------------------------------------------------------------------

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        place = Place.of(offset) if self._mode is not Mode.BULK else Place()
        due = 0.0
        while True:
            if self._is_reading or self._clock() < due:
                yield ()
                continue
            database = self._opened()
            if place == Place() and self._mode in _TIMED:
                place = self._initial(database)
            look, statement = self._look(database, partition)
            if look is None:
                due = self._clock() + self._settings[options.POLL_MS] / 1000
                yield ()  # the table is not there now
                continue
            self._is_reading = True
            try:
                with closing(self._batches(database, look, statement, place)) as batches:
                    for batch in batches:
                        yield batch
                        after = batch[-1].source_offset
                        place = Place.of(after) if after else place
            finally:
                self._is_reading = False
            due = self._clock() + self._settings[options.POLL_MS] / 1000
            yield ()

    def _initial(self, database: Database) -> Place:
        initial = self._settings[options.TIMESTAMP_INITIAL]
        if initial is None:
            return Place()
        return Place(epoch_ns=database.now_ns() if initial == -1 else initial * NS_PER_MS)

    def _batches(
        self, database: Database, look: Look, statement: str, place: Place
    ) -> Generator[Sequence[SourceRecord]]:
        until_ns = 0
        if look.criteria.moments:
            until_ns = database.now_ns() - self._settings[options.TIMESTAMP_DELAY_MS] * NS_PER_MS
        condition, parameters = look.criteria.condition(database, place, until_ns)
        suffix = self._settings[options.QUERY_SUFFIX].strip()
        whole = statement + condition + (f" {database.literal(suffix)}" if suffix else "")
        reading = database.read(whole, parameters, self._settings[options.BATCH_MAX_ROWS])
        try:
            yield from look.batches(reading, place)
        finally:
            reading.close()

    def _look(self, database: Database, partition: SourcePartition) -> tuple[Look | None, str]:
        """What is read of a partition, and the SELECT for it; None where its table is not there."""
        if self._query:
            fields = self._fields.setdefault("", Fields(self._mapping, None))
            criteria = self._criteria(database, None, None)
            return Look(self._prefix, partition, criteria, fields), database.literal(self._query)
        name = partition["table"]
        table = self._tables.get(name)
        if table is None:
            self._tables_at = None
            self._look_for_tables()
            table = self._tables.get(name)
        relation = None if table is None else database.relation(table)
        if table is None or relation is None:
            return None, ""
        fields = self._fields.setdefault(name, Fields(self._mapping, table.name))
        criteria = self._criteria(database, table, relation)
        look = Look(self._prefix + table.name, partition, criteria, fields, relation.columns)
        selected = ", ".join(database.selected(each) for each in relation.columns)
        origin = ".".join(map(database.quote, table.parts))
        return look, f"SELECT {selected} FROM {origin}"

    # -- which columns count --------------------------------------------------------------------------

    def _criteria(self, database: Database, table: TableId | None, relation: Relation | None) -> Criteria:
        number: str | None = None
        moments: list[str] = []
        if self._mode in _NUMBERED:
            number = self._number_name(table, relation)
        if self._mode in _TIMED:
            moments = list(self._texts(options.TIMESTAMP_COLUMNS))
            if table is not None and not moments:
                moments = mapped(self._texts(options.TIMESTAMP_MAPPING), table, self._address.database)
            if not moments:
                raise ConfigError(
                    f"no column of {table} is the timestamp: set {options.TIMESTAMP_COLUMNS.name}"
                )
        if relation is not None:
            known = [_known(database, relation, each, table) for each in moments]
            of_number = None if number is None else _known(database, relation, number, table)
            self._check_nulls(table, of_number, known)
            moments = [each.name for each in known]
            number = None if of_number is None else of_number.name
        sql = self._column_sql(database)
        in_rows = _of_query if relation is None else str
        return Criteria(
            None if number is None else in_rows(number),
            "" if number is None else sql(number),
            tuple(in_rows(each) for each in moments),
            tuple(sql(each) for each in moments),
        )

    def _column_sql(self, database: Database) -> Callable[[str], str]:
        if self._settings[QUOTE_IDENTIFIERS] is Quoting.ALWAYS or not self._query:
            return database.quote

        def of_query(name: str) -> str:
            # In a query a column may be named with its table.
            return ".".join(database.quote(database.folded(each)) for each in name.split("."))

        return of_query

    def _number_name(self, table: TableId | None, relation: Relation | None) -> str:
        name = self._settings[options.INCREMENTING_COLUMN]
        if name:
            return name
        if table is not None:
            by_table = mapped(self._texts(options.INCREMENTING_MAPPING), table, self._address.database)
            if by_table:
                return by_table[0]
        counted = [each.name for each in (relation.columns if relation is not None else ()) if each.is_auto]
        if len(counted) != 1:
            raise ConfigError(
                f"the database counts {len(counted)} columns of {table or 'the query'} up, not one: "
                f"set {options.INCREMENTING_COLUMN.name}"
            )
        return counted[0]

    def _check_nulls(self, table: TableId | None, number: Column | None, moments: Sequence[Column]) -> None:
        if not self._settings[options.VALIDATE_NON_NULL]:
            return
        if number is not None and number.nullable:
            raise ConfigError(_may_be_null(table, number.name))
        if moments and all(each.nullable for each in moments):
            raise ConfigError(_may_be_null(table, ", ".join(each.name for each in moments)))

    # -- the end --------------------------------------------------------------------------------------

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Nothing is to be forgotten."""

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _texts(self, setting: Setting[tuple[str, ...]]) -> tuple[str, ...]:
        return self._settings[setting]

    def _opened(self) -> Database:
        if self._database is None:
            self._database = open_database(self._address, self._mapping.zone)
        return self._database


def _of_query(name: str) -> str:
    """The name that a row of a query has for a column, which may be named with its table there."""
    return name.rpartition(".")[2]


def _known(database: Database, relation: Relation, name: str, table: TableId | None) -> Column:
    found = relation.column(name) or relation.column(database.folded(name))
    if found is None:
        same = [each for each in relation.columns if each.name.lower() == name.lower()]
        if len(same) != 1:
            raise ConfigError(f"the table {table} has no column {name!r}")
        found = same[0]
    return found


def _may_be_null(table: TableId | None, names: str) -> str:
    return (
        f"{table}: {names} may be null, so that rows would be left out; make it NOT NULL, or set "
        f"{options.VALIDATE_NON_NULL.name}=false"
    )


def _numeric(settings: Settings) -> NumericMapping:
    given = settings[options.NUMERIC_MAPPING]
    if given is not None:
        return given
    only = settings[options.NUMERIC_PRECISION_MAPPING]
    return NumericMapping.PRECISION_ONLY if only else NumericMapping.NONE


def _checked_types(settings: Settings) -> frozenset[str]:
    known = {str(each) for each in TableType}
    types = frozenset(each.upper() for each in settings[options.TABLE_TYPES])
    if not types <= known:
        raise settings.refusal(options.TABLE_TYPES.name, f"the types are {', '.join(sorted(known))}")
    return types


def _check_combination(settings: Settings, mode: Mode, has_query: bool) -> None:
    """Raises ConfigError for settings that contradict each other, or leave a mode without its columns."""
    chosen = [
        each.name
        for each in (
            options.TABLE_WHITELIST,
            options.TABLE_BLACKLIST,
            options.TABLE_INCLUDE,
            options.TABLE_EXCLUDE,
        )
        if settings[each]
    ]
    if has_query and chosen:
        raise settings.refusal(options.QUERY.name, f"a query reads no tables: leave {', '.join(chosen)} out")
    if options.TABLE_WHITELIST.name in chosen and len(chosen) > 1:
        raise settings.refusal(options.TABLE_WHITELIST.name, f"leave it out, or {', '.join(chosen[1:])}")
    if settings[options.TIMESTAMP_COLUMNS] and settings[options.TIMESTAMP_MAPPING]:
        raise settings.refusal(
            options.TIMESTAMP_COLUMNS.name, f"leave it out, or {options.TIMESTAMP_MAPPING.name}"
        )
    if settings[options.INCREMENTING_COLUMN] and settings[options.INCREMENTING_MAPPING]:
        raise settings.refusal(
            options.INCREMENTING_COLUMN.name, f"leave it out, or {options.INCREMENTING_MAPPING.name}"
        )
    if (
        mode in _TIMED
        and not settings[options.TIMESTAMP_COLUMNS]
        and (has_query or not settings[options.TIMESTAMP_MAPPING])
    ):
        raise settings.refusal(options.TIMESTAMP_COLUMNS.name, f"the mode {mode} needs it")
    if mode in _NUMBERED and has_query and not settings[options.INCREMENTING_COLUMN]:
        raise settings.refusal(options.INCREMENTING_COLUMN.name, f"the mode {mode} needs it with a query")
