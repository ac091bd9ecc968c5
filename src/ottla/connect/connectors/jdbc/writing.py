"""Rows of a batch in a database, with the ledger's offsets in the same transaction.

Tables are created and changed before that transaction, for MariaDB's DDL ends one. So a kill may leave a
table or a column that nothing was written to yet, and the next attempt finds it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.connect.connectors.jdbc.database import Bind, Database, Refused, Relation
from ottla.connect.connectors.jdbc.names import TableId
from ottla.connect.connectors.jdbc.offset_rows import OffsetRows
from ottla.connect.connectors.jdbc.shapes import Operation, Shape, Source
from ottla.connect.connectors.ledger_writing import Plan
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError


@dataclass(frozen=True, slots=True)
class Target:
    """What rows of one shape do to one table. relation: None where there is no table to delete from."""

    table: TableId
    shape: Shape
    binds: tuple[Bind, ...]
    relation: Relation | None

    def row(self, record: SinkRecord) -> tuple[Any, ...]:
        """The parameters of a record, the key's first. Raises DataError."""
        return tuple(map(_bound, self.shape.columns, self.binds, [record] * len(self.binds)))


@dataclass(frozen=True, slots=True)
class RowChange:
    """A record as a change of a table."""

    place: TopicPartition
    offset: int
    target: Target
    row: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TableRules:
    """What may be done with tables. types: those that may be written."""

    creates: bool
    evolves: bool
    types: frozenset[str]


class Tables:
    """The tables that a sink writes, as they were when it looked last."""

    def __init__(self, database: Database, rules: TableRules) -> None:
        self._database = database
        self._rules = rules
        self._known: dict[TableId, Relation] = {}

    def forget(self) -> None:
        """Somebody else may have changed tables."""
        self._known.clear()

    def target(self, table: TableId, shape: Shape) -> Target:
        """The table with a shape's columns, made where that is allowed. Raises DataError, RetriableError."""
        relation = self._known.get(table)
        if relation is None:
            relation = self._database.relation(table)
        if relation is None:
            if shape.operation is Operation.DELETE and self._rules.creates:
                return Target(table, shape, tuple(_nothing for _ in shape.columns), None)
            relation = self._create(table, shape)
        if str(relation.type) not in self._rules.types:
            raise DataError(
                f"{table} is a {relation.type}, and table.types has only {', '.join(self._rules.types)}"
            )
        missing = [each for each in shape.columns if relation.column(each.name) is None]
        if missing:
            relation = self._evolve(table, missing)
        self._known[table] = relation
        binds = []
        for each in shape.columns:
            column = relation.column(each.name)
            assert column is not None, each.name
            binds.append(self._database.bind(each.schema, column))
        return Target(table, shape, tuple(binds), relation)

    def _create(self, table: TableId, shape: Shape) -> Relation:
        if not self._rules.creates:
            raise DataError(f"there is no table {table}, and auto.create is false")
        database = self._database
        columns = [self._definition(each, is_key=each in shape.keys) for each in shape.columns]
        if shape.keys:
            columns.append(f"PRIMARY KEY ({', '.join(database.quote(each.name) for each in shape.keys)})")
        return self._change(
            table, f"CREATE TABLE {sql_name(database, table)} ({', '.join(columns)})", shape.columns
        )

    def _evolve(self, table: TableId, missing: Sequence[Source]) -> Relation:
        names = ", ".join(each.name for each in missing)
        if not self._rules.evolves:
            raise DataError(f"the table {table} has no column {names}, and auto.evolve is false")
        needed = [each.name for each in missing if not each.may_be_null]
        if needed:
            raise DataError(
                f"the table {table} can't get the column {needed[0]}, which its rows don't have: "
                "the field is neither optional nor has a default"
            )
        relation = self._database.relation(table)
        for each in missing:
            definition = self._definition(each, is_key=False)
            sql = f"ALTER TABLE {sql_name(self._database, table)} ADD {definition}"
            relation = self._change(table, sql, [each])
        assert relation is not None
        return relation

    def _change(self, table: TableId, sql: str, columns: Sequence[Source]) -> Relation:
        """Run DDL; that another task was faster is no error."""
        try:
            self._database.run(sql)
        except Refused as problem:
            relation = self._database.relation(table)
            if relation is None or any(relation.column(each.name) is None for each in columns):
                raise DataError(f"the table {table} can't be made: {problem}") from None
            return relation
        relation = self._database.relation(table)
        if relation is None:
            raise DataError(f"the table {table} is gone")
        return relation

    def _definition(self, column: Source, *, is_key: bool) -> str:
        nullable = not is_key and column.may_be_null
        type = self._database.sql_type(column.schema, is_key)
        return f"{self._database.quote(column.name)} {type} {'NULL' if nullable else 'NOT NULL'}"


class JdbcStore:
    """A `LedgerStore` of rows."""

    keeps_offsets: ClassVar[bool] = True

    def __init__(self, database: Database, ledger: str) -> None:
        self._database = database
        self._rows = OffsetRows(database, ledger)
        self._has_ledger = False

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._require_ledger()
        return self._offsets(places)

    def write(self, places: Sequence[TopicPartition], plan: Plan[RowChange]) -> None:
        self._require_ledger()
        database = self._database
        with database.transaction(self._rows.locks(places)):
            batch = plan(self._offsets(places))
            for target, rows in _runs(batch.changes):
                if target.relation is not None:
                    _write(database, target, rows)
            self._rows.put(batch.ends)

    def close(self) -> None:
        """See LedgerStore."""
        self._database.close()

    def _require_ledger(self) -> None:
        if not self._has_ledger:
            self._database.create_ledger()
            self._has_ledger = True

    def _offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        known = self._rows.read()
        return {place: known[place] for place in places if place in known}


def _runs(changes: Sequence[RowChange]) -> Iterator[tuple[Target, list[tuple[Any, ...]]]]:
    """Rows of one target that follow each other."""
    target: Target | None = None
    rows: list[tuple[Any, ...]] = []
    for each in changes:
        if each.target is not target:
            if target is not None:
                yield target, rows
            target, rows = each.target, []
        rows.append(each.row)
    if target is not None:
        yield target, rows


def _write(database: Database, target: Target, rows: Sequence[tuple[Any, ...]]) -> None:
    shape, mark = target.shape, database.placeholder
    table = sql_name(database, target.table)
    keys = [each.name for each in shape.keys]
    others = [each.name for each in shape.others]
    where = " AND ".join(f"{database.quote(each)} = {mark}" for each in keys)
    match shape.operation:
        case Operation.INSERT | Operation.UPSERT:
            names = ", ".join(map(database.quote, keys + others))
            marks = ", ".join([mark] * len(shape.columns))
            tail = database.upsert_tail(keys, others) if shape.operation is Operation.UPSERT else ""
            database.insert(f"INSERT INTO {table} ({names})", f"({marks})", tail, rows)
        case Operation.UPDATE:
            changes = ", ".join(f"{database.quote(each)} = {mark}" for each in others)
            of_key = len(keys)
            condition = f" WHERE {where}" if keys else ""
            database.execute(
                f"UPDATE {table} SET {changes}{condition}", [row[of_key:] + row[:of_key] for row in rows]
            )
        case Operation.DELETE:
            database.execute(f"DELETE FROM {table} WHERE {where}", rows)


def sql_name(database: Database, table: TableId) -> str:
    """A table as a statement names it. Raises DataError."""
    return ".".join(map(database.quote, table.parts))


def _bound(source: Source, bind: Bind, record: SinkRecord) -> Any:
    value = source.take(record)
    if value is None:
        return None
    try:
        return bind(value)
    except (DataError, TypeError, ValueError, OverflowError) as problem:
        raise DataError(f"field {source.name!r}: {problem}") from None


def _nothing(value: Any) -> None:
    return None
