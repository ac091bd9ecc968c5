"""The publication and the slot: made where the settings say so, and checked before they are used."""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from ottla.connect.cdc.postgres.catalog import Connection, TableName
from ottla.connect.cdc.postgres.position import lsn_of

PLUGIN: Final = "pgoutput"
_SLOT: Final = """
SELECT plugin, database, active, confirmed_flush_lsn::text, wal_status,
    pg_catalog.pg_wal_lsn_diff(here.lsn, confirmed_flush_lsn)::bigint,
    pg_catalog.pg_wal_lsn_diff(here.lsn, restart_lsn)::bigint, safe_wal_size
FROM pg_catalog.pg_replication_slots, LATERAL (SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.pg_last_wal_receive_lsn() ELSE pg_catalog.pg_current_wal_lsn() END) here (lsn)
WHERE slot_name = %s
"""
_log = logging.getLogger(__name__)


class Autocreate(enum.StrEnum):
    """publication.autocreate.mode."""

    ALL_TABLES = "all_tables"
    DISABLED = "disabled"
    FILTERED = "filtered"
    NO_TABLES = "no_tables"


class SetupError(Exception):
    """The server, its slot or publication can't be used as they are; the text says what to do."""


class WalStatus(enum.StrEnum):
    """pg_replication_slots.wal_status: whether the server still has what a slot needs of its log."""

    RESERVED = "reserved"
    EXTENDED = "extended"
    """More than max_wal_size is kept."""
    UNRESERVED = "unreserved"
    """More than max_slot_wal_keep_size: the next checkpoint may throw it away."""
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that is there. confirmed: transactions before this place are gone.

    retained_bytes: the server's log that it holds; safe_bytes: what may be written before it is in danger,
    None without a limit.
    """

    confirmed: int
    is_active: bool
    lag_bytes: int
    retained_bytes: int
    safe_bytes: int | None
    wal_status: WalStatus | None

    @property
    def is_lost(self) -> bool:
        """Whether the server has thrown away what the slot needs."""
        return self.wal_status is WalStatus.LOST


class NotPromoted(Exception):
    """The server is a standby for now."""


def check_server(connection: Connection) -> None:
    """Raises SetupError for a server that can't decode its log, NotPromoted for a standby."""
    row = _row(connection, "SELECT current_setting('wal_level'), pg_catalog.pg_is_in_recovery()")
    if row[0] != "logical":
        raise SetupError(
            f"the server's wal_level is {row[0]}: set it to logical in postgresql.conf and restart the server"
        )
    if row[1]:
        raise NotPromoted("the server is a standby: changes are read from the primary")


def find_slot(connection: Connection, name: str, database: str) -> Slot | None:
    """The slot of this name, if it is there. Raises SetupError for one that is not ours to use."""
    row = connection.execute(_SLOT, (name,)).fetchone()
    if row is None:
        return None
    plugin, of_database, active, confirmed, wal_status, lag_bytes, retained_bytes, safe_bytes = row
    if plugin != PLUGIN or of_database != database:
        raise SetupError(
            f"the slot {name} is of {plugin or 'physical replication'} in database {of_database}, not of "
            f"{PLUGIN} in {database}: choose another slot.name"
        )
    return Slot(
        lsn_of(confirmed or "0/0"),
        bool(active),
        int(lag_bytes or 0),
        int(retained_bytes or 0),
        None if safe_bytes is None else int(safe_bytes),
        None if wal_status is None else WalStatus(wal_status),
    )


def advise_limit(connection: Connection, name: str) -> None:
    """Say so where nothing keeps an abandoned slot from filling the server's disk."""
    row = _row(connection, "SELECT current_setting('max_slot_wal_keep_size')")
    if row[0] == "-1":
        _log.warning(
            "max_slot_wal_keep_size is not set: while this connector does not run, the slot %s keeps the "
            "server's log without a limit. Set it to what the disk can spare",
            name,
        )


def ensure_publication(
    connection: Connection,
    name: str,
    mode: Autocreate,
    tables: Sequence[TableName],
    via_root: bool,
) -> None:
    """The publication, made or altered as the mode says. Raises SetupError."""
    found = connection.execute(
        "SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = %s", (name,)
    ).fetchone()
    if found is None:
        _create_publication(connection, name, mode, tables, via_root)
    elif mode is Autocreate.FILTERED and not found[0]:
        _set_tables(connection, name, tables)
    _warn_of_missing(connection, name, tables)


def _create_publication(
    connection: Connection, name: str, mode: Autocreate, tables: Sequence[TableName], via_root: bool
) -> None:
    options = sql.SQL("WITH (publish_via_partition_root = {})").format(sql.Literal(via_root))
    publication = sql.Identifier(name)
    match mode:
        case Autocreate.DISABLED:
            raise SetupError(
                f"there is no publication {name}, and publication.autocreate.mode is disabled: "
                f"CREATE PUBLICATION {name} FOR ALL TABLES, or name its tables"
            )
        case Autocreate.ALL_TABLES:
            connection.execute(
                sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES {}").format(publication, options)
            )
        case Autocreate.NO_TABLES:
            connection.execute(sql.SQL("CREATE PUBLICATION {} {}").format(publication, options))
        case Autocreate.FILTERED:
            if not tables:
                raise SetupError("no table is captured, so there is none to publish: see table.include.list")
            connection.execute(
                sql.SQL("CREATE PUBLICATION {} FOR TABLE {} {}").format(publication, _listed(tables), options)
            )


def _set_tables(connection: Connection, name: str, tables: Sequence[TableName]) -> None:
    rows = connection.execute(
        "SELECT prrelid::bigint FROM pg_catalog.pg_publication_rel r "
        "JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE p.pubname = %s",
        (name,),
    ).fetchall()
    if tables and {row[0] for row in rows} != {each.oid for each in tables}:
        connection.execute(
            sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(sql.Identifier(name), _listed(tables))
        )


def _listed(tables: Sequence[TableName]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(each.schema, each.name) for each in tables)


def _warn_of_missing(connection: Connection, name: str, tables: Sequence[TableName]) -> None:
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_catalog.pg_publication_tables WHERE pubname = %s", (name,)
    ).fetchall()
    published = {(row[0], row[1]) for row in rows}
    missing = [each.id for each in tables if (each.schema, each.name) not in published]
    if missing:
        _log.warning(
            "the publication %s does not publish %s: their changes don't come", name, ", ".join(missing[:20])
        )


def _row(connection: Connection, query: str) -> tuple[Any, ...]:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return found
