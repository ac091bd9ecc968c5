"""Where large tables are cut into ranges of their keys: by a sample of their pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from ottla.connect.cdc.postgres.catalog import CatalogTable, Connection
from ottla.connect.cdc.postgres.copying.ranges import MAX_RANGES, Bound, Ranges, ranges_of

SAMPLED_ROWS_PER_RANGE: Final = 100
_GUESSED_ROWS_PER_PAGE: Final = 60
"""Of a table whose rows the server has not counted yet."""
_PAGES: Final = """
SELECT c.oid::bigint,
    coalesce((SELECT sum(pg_catalog.pg_relation_size(p.relid)) FROM pg_catalog.pg_partition_tree(c.oid) p),
        pg_catalog.pg_relation_size(c.oid)) / current_setting('block_size')::bigint,
    CASE WHEN c.reltuples > 0 AND c.relpages > 0 THEN c.reltuples / c.relpages END
FROM pg_catalog.pg_class c WHERE c.oid = ANY(%s)
"""
_SAMPLE: Final = sql.SQL(
    "SELECT {texts} FROM (SELECT {columns}, row_number() OVER (ORDER BY {columns}) AS ottla_number, "
    "count(*) OVER () AS ottla_count FROM {table} TABLESAMPLE SYSTEM ({percent}) REPEATABLE (1)) sampled "
    "WHERE ottla_number > 1 AND ottla_number % greatest(ottla_count / {ranges}, 1) = 0 ORDER BY ottla_number"
)


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's pages on the disk, and about how many rows it has."""

    pages: int
    rows: int


def table_sizes(connection: Connection, oids: Sequence[int]) -> Mapping[int, TableSize]:
    """The sizes of tables; one that is gone has none."""
    found = {}
    for oid, pages, density in connection.execute(_PAGES, (list(oids),)).fetchall():
        count = int(pages)
        found[oid] = TableSize(count, int(count * float(density or _GUESSED_ROWS_PER_PAGE)))
    return found


def split_table(
    connection: Connection,
    table: sql.Composable,
    described: CatalogTable,
    size: TableSize,
    range_rows: int,
) -> Ranges:
    """Ranges of about so many rows; the whole table where it is smaller, or has no key that is never null.

    table: as it stands behind FROM; range_rows: 0 for no ranges. Raises psycopg.Error.
    """
    wanted = min(size.rows // range_rows, MAX_RANGES) if range_rows > 0 else 1
    if wanted < 2 or not described.key or not _never_null(described):
        return Ranges()
    percent = min(100.0, 100.0 * wanted * SAMPLED_ROWS_PER_RANGE / size.rows)
    # At least some pages: of few, the sample may have none.
    percent = min(100.0, max(percent, 100.0 * 20 / max(size.pages, 1)))
    columns = [sql.Identifier(each) for each in described.key]
    query = _SAMPLE.format(
        texts=sql.SQL(", ").join(sql.SQL("{}::text").format(each) for each in columns),
        columns=sql.SQL(", ").join(columns),
        table=table,
        percent=sql.Literal(percent),
        ranges=sql.Literal(wanted),
    )
    bounds: list[Bound] = [tuple(row) for row in connection.execute(query).fetchall()]
    return ranges_of(described.key, bounds[: MAX_RANGES - 1])


def _never_null(described: CatalogTable) -> bool:
    not_null = {each.name for each in described.columns if each.not_null}
    return not_null.issuperset(described.key)
