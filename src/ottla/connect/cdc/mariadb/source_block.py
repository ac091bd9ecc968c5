"""The source block of MariaDB's changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.connect.cdc.core.envelope import SnapshotMark, source_schema
from ottla.connect.data.building import OPTIONAL, REQUIRED
from ottla.connect.data.schema import Struct, Type

CONNECTOR: Final = "mariadb"
VERSION: Final = "3.5.0.Final"
"""The release whose events these are, field by field."""
SOURCE: Final = source_schema(
    "io.debezium.connector.mariadb.Source",
    (
        ("table", OPTIONAL[Type.STRING]),
        ("server_id", REQUIRED[Type.INT64]),
        ("gtid", OPTIONAL[Type.STRING]),
        ("file", REQUIRED[Type.STRING]),
        ("pos", REQUIRED[Type.INT64]),
        ("row", REQUIRED[Type.INT32]),
        ("thread", OPTIONAL[Type.INT64]),
        ("query", OPTIONAL[Type.STRING]),
    ),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a change happened. position: where its event begins; row: its number in the event."""

    time_us: int
    file: str
    position: int
    server_id: int = 0
    gtid: str | None = None
    row: int = 0
    query: str | None = None


def source_block(
    prefix: str, database: str, table: str | None, moment: Moment, mark: SnapshotMark | None = None
) -> Struct:
    """The block of one change. mark: None while it is streamed."""
    return Struct(
        SOURCE,
        {
            "version": VERSION,
            "connector": CONNECTOR,
            "name": prefix,
            "ts_ms": moment.time_us // 1000,
            "snapshot": None if mark is None else mark.value,
            "db": database,
            "sequence": None,
            "ts_us": moment.time_us,
            "ts_ns": moment.time_us * 1000,
            "table": table,
            "server_id": moment.server_id,
            "gtid": moment.gtid,
            "file": moment.file,
            "pos": moment.position,
            "row": moment.row,
            "thread": None,
            "query": moment.query,
        },
    )
