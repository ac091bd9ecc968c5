"""Statements bound: each to what it changes, what it runs or what it writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ottla.sql.binding.expression_binder import ExpressionBinder, cast
from ottla.sql.binding.query_binder import QueryBinder
from ottla.sql.binding.scope import Scope
from ottla.sql.binding.source_binder import (
    Given,
    bound_columns,
    check_formats,
    given,
    source_of,
    with_properties,
)
from ottla.sql.catalog.sources import Catalog, Column, Source, closest
from ottla.sql.functions import casts
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.statements import (
    AlterSource,
    CreateAsSelect,
    CreateSource,
    CreateType,
    Drop,
    Droppable,
    Explain,
    InsertSelect,
    InsertValues,
    Role,
    Select,
    SourceKind,
    Statement,
)
from ottla.sql.plan.bound import Bound, BoundLiteral
from ottla.sql.plan.query_plan import Projected, QueryPlan
from ottla.sql.plan.statement_plan import (
    Ask,
    Nothing,
    PutQuery,
    PutSource,
    PutType,
    RemoveSource,
    RemoveType,
    RunQuery,
    StatementPlan,
    WriteRow,
)
from ottla.sql.types.coercion import can_stand_for
from ottla.sql.types.sql_types import BIGINT, STRING, Base, SqlType, type_of


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds statements over a catalogue and a registry of functions."""

    catalog: Catalog = field(default_factory=Catalog)
    functions: Functions = field(default_factory=Functions)

    def bind(self, statement: Statement) -> StatementPlan:
        """The plan of a statement. Raises SqlError."""
        match statement:
            case CreateSource():
                return self._create(statement)
            case CreateAsSelect():
                return self._create_as(statement)
            case InsertSelect():
                return self._insert_select(statement)
            case InsertValues():
                return self._insert_values(statement)
            case Select():
                return RunQuery(self._queries.asked(statement.query))
            case Explain(statement=inner) if inner is not None:
                return self.bind(inner)
            case Drop(what=Droppable.STREAM | Droppable.TABLE):
                return self._drop(statement)
            case Drop(what=Droppable.TYPE):
                if statement.name not in self.catalog.types:
                    if statement.if_exists:
                        return Nothing(f"there is no type {statement.name}")
                    raise SqlError(f"there is no type {statement.name}", statement.at)
                return RemoveType(statement.name)
            case CreateType():
                if statement.name in self.catalog.types:
                    if statement.if_not_exists:
                        return Nothing(f"the type {statement.name} is there")
                    raise SqlError(f"the type {statement.name} is there already", statement.at)
                return PutType(statement.name, type_of(statement.type, dict(self.catalog.types)))
            case AlterSource():
                return self._alter(statement)
            case _:
                return Ask(statement)

    @property
    def _queries(self) -> QueryBinder:
        return QueryBinder(self.catalog, self.functions)

    # Streams and tables

    def _create(self, statement: CreateSource) -> StatementPlan:
        if (nothing := self._is_there(statement)) is not None:
            return nothing
        made = source_of(statement, self.catalog)
        if statement.or_replace and statement.name in self.catalog.sources:
            _check_replaceable(self.catalog.sources[statement.name], made, statement.at)
        return PutSource(made)

    def _create_as(self, statement: CreateAsSelect) -> StatementPlan:
        if (nothing := self._is_there(statement)) is not None:
            return nothing
        plan = self._queries.persistent(statement.query, statement.kind)
        for each in plan.sources:
            if each.source.name == statement.name:
                raise SqlError(f"{statement.name} can't be made of itself", statement.query.source.at)
        found = given(statement.properties, statement.at)
        target = self._target(statement.name, statement.kind, plan, found)
        if statement.or_replace and statement.name in self.catalog.sources:
            _check_replaceable(self.catalog.sources[statement.name], target, statement.at)
        return PutQuery(target, plan, creates=True)

    def _is_there(self, statement: CreateSource | CreateAsSelect) -> Nothing | None:
        found = self.catalog.sources.get(statement.name)
        if found is None or statement.or_replace:
            return None
        kind = found.kind.value.lower()
        if statement.if_not_exists:
            return Nothing(f"the {kind} {found.name} is there")
        raise SqlError(
            f"the {kind} {found.name} is there already",
            statement.at,
            f"CREATE OR REPLACE, or DROP {found.kind.value} first",
        )

    def _target(self, name: str, kind: SourceKind, plan: QueryPlan, found: Given) -> Source:
        first = plan.source.source
        role = Role.PRIMARY_KEY if kind is SourceKind.TABLE else Role.KEY
        columns = tuple(
            Column(each.name, each.expression.type, role if each.key else Role.VALUE)
            for each in (*plan.keys, *plan.values)
        )
        windowed = first.windowed if not plan.grouped else None
        if plan.window is not None:
            windowed = plan.window.keys
        inherited = first.key_format if first.key_format != "NONE" else "KAFKA"
        if "KEY_FORMAT" not in found.properties and "FORMAT" not in found.properties:
            keys = [each for each in columns if each.is_key]
            simple = len(keys) <= 1 and all(each.type.base in _KAFKA_KEYS for each in keys)
            inherited = "JSON" if inherited == "KAFKA" and not simple else inherited
        source = Source(
            name,
            kind,
            columns,
            found.text("KAFKA_TOPIC") or name,
            found.format("KEY_FORMAT", inherited),
            found.format("VALUE_FORMAT", first.value_format),
            first.partitions,
            first.replicas,
            windowed=windowed,
            wrap_single_value=True,
        )
        source = with_properties(source, found)
        check_formats(source, found)
        return source

    def _alter(self, statement: AlterSource) -> PutSource:
        found = self.catalog.source(statement.name, statement.at)
        if found.kind is not statement.kind:
            raise SqlError(f"{found.name} is a {found.kind.value.lower()}", statement.at)
        if found.written_by is not None or found.read_only:
            raise SqlError(
                f"{found.name} takes its columns from elsewhere", statement.at, "CREATE OR REPLACE it"
            )
        added = bound_columns(statement.columns, statement.kind, self.catalog)
        for column, text in zip(added, statement.columns, strict=True):
            if found.column(column.name) is not None:
                raise SqlError(f"{found.name} has a column {column.name} already", text.at)
        return PutSource(replace(found, columns=(*found.columns, *added)))

    def _drop(self, statement: Drop) -> StatementPlan:
        found = self.catalog.sources.get(statement.name)
        if found is None:
            if statement.if_exists:
                return Nothing(f"there is no {statement.what.value.lower()} {statement.name}")
            advice = closest(statement.name, self.catalog.sources)
            raise SqlError(
                f"there is no {statement.what.value.lower()} {statement.name}", statement.at, advice
            )
        if found.kind.value != statement.what.value:
            raise SqlError(
                f"{found.name} is a {found.kind.value.lower()}", statement.at, f"DROP {found.kind.value}"
            )
        if found.read_only and statement.delete_topic:
            raise SqlError(
                f"{found.name} is a SOURCE: its topic stays", statement.at, "leave DELETE TOPIC out"
            )
        return RemoveSource(found.name, found.topic, statement.delete_topic)

    # INSERT

    def _insert_select(self, statement: InsertSelect) -> PutQuery:
        target = self._written(statement.target, statement.at)
        if target.kind is SourceKind.TABLE:
            raise SqlError(
                f"{target.name} is a table: INSERT INTO … SELECT is for streams",
                statement.at,
                "make the table of a query: CREATE TABLE … AS SELECT",
            )
        plan = self._queries.persistent(statement.query, SourceKind.STREAM)
        by_name = {each.name: each for each in plan.projection}
        projection = []
        for column in target.columns:
            if column.role is Role.HEADERS:
                raise SqlError(f"{target.name} has headers: it can't be written", statement.at)
            item = by_name.pop(column.name, None)
            if item is None or item.key is not column.is_key:
                what = "key column" if column.is_key else "column"
                raise SqlError(f"SELECT lacks the {what} {column}", statement.query.at)
            if not can_stand_for(item.expression.type, column.type):
                raise SqlError(
                    f"{column.name} is {column.type}, SELECT has {item.expression.type}",
                    statement.query.at,
                    "CAST it",
                )
            projection.append(Projected(item.name, cast(item.expression, column.type), item.key))
        if by_name:
            raise SqlError(
                f"{target.name} has no column {next(iter(by_name))}",
                statement.query.at,
                f"its columns: {target.schema}",
            )
        return PutQuery(target, replace(plan, projection=tuple(projection)), creates=False)

    def _insert_values(self, statement: InsertValues) -> WriteRow:
        target = self._written(statement.target, statement.at)
        writable = [each for each in target.columns if each.role is not Role.HEADERS]
        if len(writable) < len(target.columns):
            raise SqlError(f"{target.name} has headers: it can't be written", statement.at)
        if target.windowed is not None:
            raise SqlError(f"{target.name} has windowed keys: it can't be written", statement.at)
        names = statement.columns or tuple(each.name for each in writable)
        if len(names) != len(statement.values):
            raise SqlError(
                f"there are {len(names)} columns and {len(statement.values)} values",
                statement.values[0].at,
                "columns: " + ", ".join(names),
            )
        types = {each.name: each.type for each in writable} | {"ROWTIME": BIGINT}
        binder = ExpressionBinder(Scope(), self.functions, dict(self.catalog.types))
        values: list[tuple[str, Bound]] = []
        for name, expression in zip(names, statement.values, strict=True):
            if name not in types:
                raise SqlError(f"{target.name} has no column {name}", statement.at, closest(name, types))
            if any(name == each for each, _ in values):
                raise SqlError(f"{name} is given twice", expression.at)
            values.append((name, _value(binder.bind(expression), types[name], name, expression.at)))
        if target.kind is SourceKind.TABLE:
            present = {
                name
                for name, value in values
                if not (isinstance(value, BoundLiteral) and value.value is None)
            }
            for each in target.keys:
                if each.name not in present:
                    raise SqlError(f"a table's row needs its primary key {each.name}", statement.at)
        return WriteRow(target, tuple(values))

    def _written(self, name: str, at: Position) -> Source:
        found = self.catalog.source(name, at)
        if found.read_only:
            raise SqlError(f"{name} is a SOURCE: it is only read", at, "CREATE it without SOURCE")
        return found


_KAFKA_KEYS = (Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES)


def _value(value: Bound, wanted: SqlType, name: str, at: Position) -> Bound:
    """A value for a column: what can be cast without being told to, texts of times, and whole constants."""
    if can_stand_for(value.type, wanted):
        return cast(value, wanted)
    constant = isinstance(value, BoundLiteral)
    text_of_time = value.type == STRING and wanted.is_time
    numbers = constant and value.type.is_number and wanted.is_number
    if (text_of_time or numbers) and (convert := casts.caster(value.type, wanted)) is not None:
        if not isinstance(value, BoundLiteral):
            return cast(value, wanted)
        try:
            return BoundLiteral(convert(value.value), wanted)
        except ValueError as error:
            raise SqlError(f"{name} is {wanted}: {error}", at) from None
    raise SqlError(f"{name} is {wanted}, the value is {value.type}", at, f"CAST(… AS {wanted})")


def _check_replaceable(old: Source, new: Source, at: Position) -> None:
    """CREATE OR REPLACE changes what is written, not what is there. Raises SqlError."""
    if old.kind is not new.kind:
        raise SqlError(
            f"{old.name} is a {old.kind.value.lower()}: it can't become a {new.kind.value.lower()}", at
        )
    if old.topic != new.topic or old.key_format != new.key_format or old.value_format != new.value_format:
        raise SqlError(
            f"{old.name} has another topic or other formats", at, "DROP it first, or give it another name"
        )
    if [(each.name, each.type) for each in old.keys] != [(each.name, each.type) for each in new.keys]:
        raise SqlError(
            f"the key of {old.name} can't be replaced", at, "DROP it first, or give it another name"
        )
    for each in old.values:
        column = new.column(each.name)
        if column is None or column.type != each.type:
            raise SqlError(
                f"{old.name} has the column {each}: it has to stay", at, "columns can be added, at the end"
            )
