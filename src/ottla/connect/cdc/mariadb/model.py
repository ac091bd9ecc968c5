"""Tables as DDL describes them, and their form in Debezium's schema history; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

OTHER_TYPE: Final = 1111
_JDBC_TYPES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT1", "INT2"), 5),
    **dict.fromkeys(("MEDIUMINT", "INT", "INTEGER", "MIDDLEINT", "INT3", "INT4", "YEAR"), 4),
    **dict.fromkeys(("BIGINT", "INT8", "SERIAL"), -5),
    **dict.fromkeys(("BOOL", "BOOLEAN"), 16),
    **dict.fromkeys(("FLOAT", "FLOAT4"), 6),
    **dict.fromkeys(("DOUBLE", "FLOAT8", "REAL", "DOUBLE PRECISION"), 8),
    **dict.fromkeys(("DECIMAL", "DEC", "FIXED", "NUMERIC"), 3),
    "BIT": -7,
    **dict.fromkeys(("CHAR", "CHARACTER", "ENUM", "SET"), 1),
    **dict.fromkeys(("VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "LONG"), 12),
    "NCHAR": -15,
    "NVARCHAR": -9,
    "BINARY": -2,
    "VARBINARY": -3,
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), 2004),
    "DATE": 91,
    "TIME": 92,
    "DATETIME": 93,
    "TIMESTAMP": 2014,
}
"""java.sql.Types, as the history names them."""


class TableId(NamedTuple):
    """A table's database and name."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def quoted(self) -> str:
        """As the history writes it."""
        return ".".join(f'"{each}"' for each in self)


@dataclass(frozen=True, slots=True)
class Column:
    """A column. type: upper case with UNSIGNED and ZEROFILL behind, as INT UNSIGNED.

    length, scale: None where the DDL has none; has_default: also of DEFAULT NULL; options: of ENUM and SET,
    without quotes.
    """

    name: str
    type: str
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    is_nullable: bool = True
    is_auto_increment: bool = False
    has_default: bool = False
    default: str | None = None
    comment: str | None = None
    options: tuple[str, ...] = ()

    @property
    def base_type(self) -> str:
        """The type without UNSIGNED and ZEROFILL."""
        return self.type.removesuffix(" ZEROFILL").removesuffix(" UNSIGNED")

    @property
    def is_unsigned(self) -> bool:
        """Whether it is a number without a sign; ZEROFILL says so as well."""
        return "UNSIGNED" in self.type

    @property
    def jdbc_type(self) -> int:
        """The number of java.sql.Types that Debezium gives it."""
        return _JDBC_TYPES.get(self.base_type, OTHER_TYPE)


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index, which may be the key of a table without a primary one."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table's shape. primary: of its primary key, () for none."""

    id: TableId
    columns: tuple[Column, ...] = ()
    primary: tuple[str, ...] = ()
    unique: tuple[UniqueIndex, ...] = ()
    charset: str | None = None
    comment: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, or of the first unique index of columns that can't be null."""
        if self.primary:
            return self.primary
        columns = {each.name.lower(): each for each in self.columns}
        for index in self.unique:
            found = [columns.get(name.lower()) for name in index.columns]
            if found and all(each is not None and not each.is_nullable for each in found):
                return index.columns
        return ()

    def find(self, name: str) -> int:
        """The place of a column, -1 for none; names are alike in any case."""
        lower = name.lower()
        return next((at for at, each in enumerate(self.columns) if each.name.lower() == lower), -1)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a statement did to a table. table: None where it is gone; previous: its name before."""

    kind: str
    id: TableId
    table: Table | None = None
    previous: TableId | None = None

    def document(self) -> dict[str, Any]:
        """As the schema history has it."""
        found: dict[str, Any] = {"type": self.kind, "id": self.id.quoted}
        if self.previous is not None:
            found["previousId"] = self.previous.quoted
        if self.table is not None:
            found["table"] = _table_document(self.table)
            found["comment"] = self.table.comment
        return found


CREATE: Final = "CREATE"
ALTER: Final = "ALTER"
DROP: Final = "DROP"


@dataclass(slots=True)
class Tables:
    """The tables of a server, and its databases' character sets. Changed by DDL, read by the stream."""

    tables: dict[TableId, Table] = field(default_factory=dict)
    charsets: dict[str, str] = field(default_factory=dict)
    server_charset: str = "utf8mb4"

    def charset_of(self, database: str) -> str:
        """The character set of new tables of a database."""
        return self.charsets.get(database, self.server_charset)

    def apply(self, changes: Iterable[TableChange]) -> None:
        """Carry out changes."""
        for change in changes:
            if change.previous is not None:
                self.tables.pop(change.previous, None)
            if change.table is None:
                self.tables.pop(change.id, None)
            else:
                self.tables[change.id] = change.table


def _table_document(table: Table) -> dict[str, Any]:
    return {
        "defaultCharsetName": table.charset,
        "primaryKeyColumnNames": list(table.key),
        "columns": [_column_document(each, at) for at, each in enumerate(table.columns, 1)],
        "attributes": [],
    }


def quoted_option(option: str) -> str:
    """An ENUM's or SET's option as a literal."""
    return "'" + option.replace("'", "''") + "'"


def _column_document(column: Column, position: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": column.name,
        "jdbcType": column.jdbc_type,
        "typeName": column.type,
        "typeExpression": column.type,
        "charsetName": column.charset,
    }
    if column.length is not None:
        found["length"] = column.length
    if column.scale is not None:
        found["scale"] = column.scale
    found |= {
        "position": position,
        "optional": column.is_nullable,
        "autoIncremented": column.is_auto_increment,
        # Debezium's own meaning: of columns that number themselves, not of GENERATED ones.
        "generated": column.is_auto_increment,
        "comment": column.comment,
        "hasDefaultValue": column.has_default,
    }
    if column.default is not None:
        found["defaultValueExpression"] = column.default
    found["enumValues"] = [quoted_option(each) for each in column.options]
    return found


class BadHistory(ValueError):
    """A record of a schema history that can't be understood."""


def table_id_of(quoted: str) -> TableId:
    """The table of `"database"."table"`. Raises BadHistory."""
    inner = quoted.removeprefix('"').removesuffix('"')
    database, mark, table = inner.partition('"."')
    if not mark or len(inner) != len(quoted) - 2:
        raise BadHistory(f"{quoted} names no table")
    return TableId(database, table)


def change_of(document: Mapping[str, Any]) -> TableChange:
    """A change of the schema history, ours or Debezium's. Raises BadHistory."""
    try:
        id = table_id_of(document["id"])
        previous = document.get("previousId")
        described = document.get("table")
        table = None
        if described is not None and document["type"] != DROP:
            key = tuple(described.get("primaryKeyColumnNames") or ())
            columns = tuple(_column_of(each) for each in described["columns"])
            charset, comment = described.get("defaultCharsetName"), document.get("comment")
            table = Table(id, columns, key, (), charset, comment)
        return TableChange(document["type"], id, table, None if previous is None else table_id_of(previous))
    except (KeyError, TypeError, AttributeError) as problem:
        raise BadHistory(f"a change of a table lacks {problem}") from problem


def _column_of(document: Mapping[str, Any]) -> Column:
    options: Sequence[str] = document.get("enumValues") or ()
    return Column(
        document["name"],
        document["typeName"].upper(),
        document.get("length"),
        document.get("scale"),
        document.get("charsetName"),
        document["optional"],
        document.get("autoIncremented", False),
        document.get("hasDefaultValue", False),
        document.get("defaultValueExpression"),
        document.get("comment"),
        tuple(_option(each) for each in options),
    )


def _option(quoted: str) -> str:
    is_quoted = len(quoted) >= 2 and quoted[0] == quoted[-1] == "'"
    return quoted[1:-1].replace("''", "'") if is_quoted else quoted


def renamed(table: Table, id: TableId) -> Table:
    """The table under another name."""
    return replace(table, id=id)
