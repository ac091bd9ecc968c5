"""Shapes of MariaDB's tables, and whether the stream's table maps fit them; no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ottla.connect.cdc.core.filters import CaptureFilter, KeyColumns
from ottla.connect.cdc.core.names import Names
from ottla.connect.cdc.core.tables import CapturedColumn, OnFailure, TableShape, table_shape
from ottla.connect.cdc.mariadb.binlog import TableMap, lenenc
from ottla.connect.cdc.mariadb.column_forms import FormOptions, column_form, default_value
from ottla.connect.cdc.mariadb.model import Column, Table
from ottla.connect.cdc.mariadb.row_values import real_type
from ottla.connect.cdc.mariadb.source_block import SOURCE

_COLUMN_NAMES: Final = 4
"""The field of binlog_row_metadata=FULL with the columns' names."""
_TYPES: Final = {
    **dict.fromkeys(("TINYINT", "INT1", "BOOL", "BOOLEAN"), frozenset({1})),
    **dict.fromkeys(("SMALLINT", "INT2"), frozenset({2})),
    **dict.fromkeys(("MEDIUMINT", "MIDDLEINT", "INT3"), frozenset({9})),
    **dict.fromkeys(("INT", "INTEGER", "INT4"), frozenset({3})),
    **dict.fromkeys(("BIGINT", "INT8", "SERIAL"), frozenset({8})),
    **dict.fromkeys(("FLOAT", "FLOAT4"), frozenset({4, 5})),
    **dict.fromkeys(("DOUBLE", "FLOAT8", "REAL"), frozenset({5})),
    **dict.fromkeys(("DECIMAL", "DEC", "FIXED", "NUMERIC"), frozenset({246})),
    "BIT": frozenset({16}),
    **dict.fromkeys(("CHAR", "CHARACTER", "NCHAR", "BINARY", "UUID", "INET4", "INET6"), frozenset({254})),
    **dict.fromkeys(("VARCHAR", "NVARCHAR", "VARBINARY"), frozenset({15, 141, 253})),
    **dict.fromkeys(("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "LONG", "JSON"), frozenset({140, 252})),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), frozenset({140, 252})),
    "DATE": frozenset({10, 14}),
    "TIME": frozenset({11, 19}),
    "DATETIME": frozenset({12, 18}),
    "TIMESTAMP": frozenset({7, 17}),
    "YEAR": frozenset({13}),
    "ENUM": frozenset({247}),
    "SET": frozenset({248}),
}
_GEOMETRY: Final = frozenset({255})
_WITH_FRACTION: Final = frozenset({17, 18, 19})


@dataclass(frozen=True, slots=True)
class Shaping:
    """The settings that tables' shapes follow."""

    names: Names
    options: FormOptions = field(default_factory=FormOptions)
    filter: CaptureFilter = field(default_factory=CaptureFilter)
    keys: KeyColumns = field(default_factory=KeyColumns)
    on_failure: OnFailure = OnFailure.WARN

    def takes(self, table: Table) -> bool:
        """Whether a table's changes are captured."""
        return self.filter.takes_table(*table.id)

    def shape(self, table: Table) -> TableShape:
        """The shape of a table. Raises DataError."""
        asked = self.keys.of_table(str(table.id))
        names = {each.name.lower(): each.name for each in table.columns}
        key = [names.get(each.lower(), each) for each in table.key]
        return table_shape(
            self.names,
            SOURCE,
            table.id.database,
            table.id.table,
            [self._captured(table, each) for each in table.columns],
            key if asked is None else asked,
            self.on_failure,
        )

    def _captured(self, table: Table, column: Column) -> CapturedColumn:
        form = column_form(column, self.options)
        return CapturedColumn(
            column.name,
            form,
            column.is_nullable,
            None if form is None else default_value(column, form),
            self.filter.takes_column(table.id.database, table.id.table, column.name),
            doc=column.comment or None,
        )


def misfit(table: Table, mapped: TableMap) -> str | None:
    """Where a table as it is known differs from the stream's description of it; None for nowhere."""
    if len(table.columns) != len(mapped.types):
        return f"{len(table.columns)} columns are known, and the binary log has {len(mapped.types)}"
    names = _names(mapped)
    for at, column in enumerate(table.columns):
        kind, metadata = real_type(mapped.types[at], mapped.metadata[at])
        if kind not in _TYPES.get(column.base_type, _GEOMETRY):
            return f"{column.name} is known as {column.type}, and the binary log has the type {kind}"
        if kind in _WITH_FRACTION and metadata != (column.length or 0):
            return f"{column.name} is known with {column.length or 0} digits of a second, not {metadata}"
        if kind == 246 and (metadata & 0xFF, metadata >> 8) != (column.length, column.scale):
            return f"{column.name} is known with other digits than the binary log has"
        if mapped.nullable[at] is not column.is_nullable:
            return f"{column.name} may{'' if mapped.nullable[at] else ' not'} be NULL in the binary log"
        if names and names[at].lower() != column.name.lower():
            return f"{column.name} is named {names[at]} in the binary log"
    return None


def _names(mapped: TableMap) -> list[str]:
    data = mapped.optional.get(_COLUMN_NAMES, b"")
    found, at = [], 0
    while at < len(data):
        length, at = lenenc(data, at)
        found.append(data[at : at + length].decode())
        at += length
    return found
