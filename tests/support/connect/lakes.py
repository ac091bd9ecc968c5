"""Independent readers of what lake sinks have written: pyiceberg, deltalake, duckdb."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def iceberg_metadata(table: Path) -> Path | None:
    """The newest metadata file of a HadoopCatalog's table."""
    found = (table / "metadata").glob("v*.metadata.json")
    return max(found, key=lambda path: int(re.findall(r"\d+", path.name)[0]), default=None)


def iceberg_rows(table: Path) -> Rows:
    """The rows of an Iceberg table, by pyiceberg; none if there is no table yet."""
    from pyiceberg.table import StaticTable

    metadata = iceberg_metadata(table)
    if metadata is None:
        return []
    found = StaticTable.from_metadata(metadata.as_uri())
    return found.scan().to_arrow().to_pylist()


def delta_rows(table: Path) -> Rows:
    """The rows of a Delta table, by delta-rs; none if there is no table yet."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(table)):
        return []
    return DeltaTable(str(table)).to_pyarrow_table().to_pylist()


def duckdb_rows(query: str) -> Rows:
    """The rows of a query, by duckdb with its extensions for lakes."""
    import duckdb
    import duckdb_extensions

    connection = duckdb.connect()
    try:
        for name in ("avro", "iceberg", "delta"):
            duckdb_extensions.import_extension(name, con=connection)
            connection.load_extension(name)
        return connection.sql(query).arrow().read_all().to_pylist()
    finally:
        connection.close()
