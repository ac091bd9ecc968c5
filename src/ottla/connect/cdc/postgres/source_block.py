"""The source block of PostgreSQL's changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.connect.cdc.core.envelope import SnapshotMark, source_schema
from ottla.connect.data.building import OPTIONAL, REQUIRED
from ottla.connect.data.schema import Struct, Type

CONNECTOR: Final = "postgresql"
VERSION: Final = "3.6.1.Final"
"""The release whose events these are, field by field."""
SOURCE: Final = source_schema(
    "io.debezium.connector.postgresql.Source",
    (
        ("schema", REQUIRED[Type.STRING]),
        ("table", REQUIRED[Type.STRING]),
        ("txId", OPTIONAL[Type.INT64]),
        ("lsn", OPTIONAL[Type.INT64]),
        ("xmin", OPTIONAL[Type.INT64]),
        ("origin", OPTIONAL[Type.STRING]),
        ("origin_lsn", OPTIONAL[Type.INT64]),
    ),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a change happened. last_commit: the end of the transaction before, None if unknown."""

    lsn: int
    time_us: int
    xid: int | None = None
    last_commit: int | None = None
    origin: str | None = None
    origin_lsn: int | None = None


def last_commit_text(moment: Moment) -> str:
    """The first of `sequence`: the end of the transaction before, as JSON."""
    return "null" if moment.last_commit is None else f'"{moment.last_commit}"'


def source_block(
    prefix: str, database: str, schema: str, table: str, moment: Moment, mark: SnapshotMark | None = None
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
            "sequence": f'[{last_commit_text(moment)},"{moment.lsn}"]',
            "ts_us": moment.time_us,
            "ts_ns": moment.time_us * 1000,
            "schema": schema,
            "table": table,
            "txId": moment.xid,
            "lsn": moment.lsn,
            "xmin": None,
            "origin": moment.origin,
            "origin_lsn": moment.origin_lsn,
        },
    )
