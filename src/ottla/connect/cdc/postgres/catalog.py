"""What PostgreSQL's catalog says of types and tables: one query each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from ottla.connect.cdc.postgres.types import PostgresType, TypeKind, TypeRegistry

Connection = psycopg.Connection[tuple[Any, ...]]
SYSTEM_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema", "pg_toast"})

_TYPES: Final = """
SELECT t.oid::bigint, t.typname, n.nspname, t.typtype::text, t.typcategory = 'A' AND t.typelem <> 0,
    t.typelem::bigint, t.typbasetype::bigint, t.typtypmod, t.typdelim::text,
    (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e
     WHERE e.enumtypid = t.oid)
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE t.typrelid = 0 AND n.nspname <> 'pg_toast'
"""
_TABLES: Final = """
SELECT c.oid::bigint, n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY(%s) AND c.relpersistence = 'p' AND (NOT %s OR NOT c.relispartition)
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
"""
_COLUMNS: Final = """
SELECT a.attrelid::bigint, a.attname, a.atttypid::bigint, a.atttypmod,
    a.attnotnull OR (t.typtype = 'd' AND t.typnotnull),
    CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attrelid, a.attnum
"""
_KEYS: Final = """
SELECT i.indrelid::bigint, i.indisprimary,
    (SELECT array_agg(a.attname::text ORDER BY k.place)
     FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (number, place)
     JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY(%s) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indrelid, NOT i.indisprimary, c.relname COLLATE "C"
"""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table: its number in the catalog, schema and name."""

    oid: int
    schema: str
    name: str

    @property
    def id(self) -> str:
        """schema.table."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column that is stored and not generated. default: an expression."""

    name: str
    type_oid: int
    modifier: int
    not_null: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table's columns, and those of its primary key, or else of its first unique index."""

    columns: tuple[CatalogColumn, ...] = ()
    key: tuple[str, ...] = ()


def read_types(connection: Connection) -> TypeRegistry:
    """All types but those of tables' rows."""
    rows = connection.execute(_TYPES).fetchall()
    found = (
        PostgresType(
            oid,
            name,
            namespace,
            TypeKind(kind),
            is_array,
            element,
            base,
            modifier,
            delimiter,
            tuple(labels or ()),
        )
        for oid, name, namespace, kind, is_array, element, base, modifier, delimiter, labels in rows
    )
    return TypeRegistry({each.oid: each for each in found})


def read_tables(connection: Connection, via_root: bool) -> list[TableName]:
    """The tables of the database. via_root: partitioned ones, in place of their partitions."""
    kinds = ["r", "p"] if via_root else ["r"]
    rows = connection.execute(_TABLES, (kinds, via_root)).fetchall()
    return [TableName(*row) for row in rows]


def describe_tables(connection: Connection, oids: Sequence[int]) -> Mapping[int, CatalogTable]:
    """Columns and keys of some tables; one that is gone has none."""
    wanted = list(oids)
    columns: dict[int, list[CatalogColumn]] = {oid: [] for oid in wanted}
    for row in connection.execute(_COLUMNS, (wanted,)).fetchall():
        columns[row[0]].append(CatalogColumn(*row[1:]))
    keys: dict[int, tuple[str, ...]] = {}
    for oid, _, names in connection.execute(_KEYS, (wanted,)).fetchall():
        keys.setdefault(oid, tuple(names or ()))
    return {oid: CatalogTable(tuple(found), keys.get(oid, ())) for oid, found in columns.items()}
