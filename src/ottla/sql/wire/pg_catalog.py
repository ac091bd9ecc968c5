"""PostgreSQL's catalogue of the streams and tables, as far as psql, drivers and tools ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from ottla.sql.catalog.sources import Catalog
from ottla.sql.types.sql_types import Base, SqlType, array, decimal
from ottla.sql.wire.pg_types import modifier, pg_type

PUBLIC: Final = 2200
SYSTEM: Final = 11
OWNER: Final = 10
FIRST_OID: Final = 16_384
INDEX_OFFSET: Final = 1_000_000
DATABASE: Final = "ottla"
_SCALARS: Final = (
    *(
        SqlType(each)
        for each in (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES)
    ),
    *(SqlType(each) for each in (Base.DATE, Base.TIME, Base.TIMESTAMP)),
    decimal(38, 0),
    SqlType(Base.STRUCT),
)
_CATEGORIES: Final = {"bool": "B", "int4": "N", "int8": "N", "float8": "N", "numeric": "N", "text": "S"}


def catalogue() -> Sequence[str]:
    """The statements that make the catalogue's tables and functions in DuckDB."""
    text = resources.files(__package__).joinpath("pg_catalog.sql").read_text(encoding="utf-8")
    return [each.strip() for each in text.split(";\n") if each.strip()]


def catalogue_rows(catalog: Catalog) -> Mapping[str, Sequence[Sequence[Any]]]:
    """The rows of the catalogue's tables."""
    classes: list[Sequence[Any]] = []
    attributes: list[Sequence[Any]] = []
    constraints: list[Sequence[Any]] = []
    indexes: list[Sequence[Any]] = []
    for number, source in enumerate(catalog.sources.values()):
        oid = FIRST_OID + number
        kind = "r" if source.is_table else "v"
        classes.append(
            (oid, source.name, PUBLIC, 0, OWNER, 2, kind, len(source.columns), False, False, False, False,
             False, False, "p", "n", 0, 0, 0, -1.0, 0, 0, None, None, None, False)
        )  # fmt: skip
        keys = []
        for place, column in enumerate(source.columns, 1):
            of = pg_type(column.type)
            is_key = column.is_key and source.is_table
            keys += [place] if is_key else []
            attributes.append(
                (oid, column.name, of.oid, of.size, place, int(column.type.base is Base.ARRAY),
                 modifier(column.type), is_key, False, False, "", "", 0, "p", "", -1, None, 0, True)
            )  # fmt: skip
        if keys:
            index = oid + INDEX_OFFSET
            count = len(keys)
            indexes.append(
                (index, oid, count, count, True, True, False, True, False, keys, [0] * count, None, None)
            )
            classes.append(
                (index, f"{source.name}_pkey", PUBLIC, 0, OWNER, 403, "i", count, False, False, False, False,
                 False, False, "p", "n", 0, 0, 0, -1.0, 0, 0, None, None, None, False)
            )  # fmt: skip
            constraints.append(
                (index, f"{source.name}_pkey", PUBLIC, "p", oid, 0, index, keys, None, False, False, 0,
                 "", "", True)
            )  # fmt: skip
    return {
        "pg_namespace": [(SYSTEM, "pg_catalog", OWNER, None), (PUBLIC, "public", OWNER, None)],
        "pg_class": classes,
        "pg_attribute": attributes,
        "pg_constraint": constraints,
        "pg_index": indexes,
        "pg_type": _types(),
        "pg_am": [(2, "heap", "t"), (403, "btree", "i")],
        "pg_database": [(1, DATABASE, OWNER, 6, "C.UTF-8", "C.UTF-8", False, True, "c", None, None)],
        "pg_roles": [(OWNER, "ottla", True, True, True, True, True, False, -1, None, True)],
    }


def _types() -> list[Sequence[Any]]:
    rows: list[Sequence[Any]] = []
    for of in _SCALARS:
        found, category = pg_type(of), _CATEGORIES.get(pg_type(of).name, "U")
        rows.append(_type_row(found.oid, found.name, found.size, category, 0, found.array))
        name = f"_{found.name}"
        rows.append(_type_row(found.array, name, -1, "A", found.oid, 0))
    assert pg_type(array(_SCALARS[1])).oid in {row[0] for row in rows}
    return rows


def _type_row(oid: int, name: str, size: int, category: str, element: int, array_oid: int) -> Sequence[Any]:
    return (oid, name, SYSTEM, OWNER, size, "b", category, element, array_oid, 0, 0, -1, False, ",", 0,
            f"{name}in", f"{name}recv", None, True)  # fmt: skip
