"""The properties of statements: which may be set, and SHOW PROPERTIES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.rows.bodies import plain_property
from ottla.sql.server import settings as names
from ottla.sql.server.entities import Entity, entity
from ottla.sql.server.node import SqlNode

SETTABLE: Final[Mapping[str, str]] = {
    "auto.offset.reset": "where a new query begins: earliest or latest",
    "ksql.query.pull.table.scan.enabled": "whether a pull query may read a whole table",
    "ksql.query.pull.max.allowed.offset.lag": "how far a table may be behind for a pull query",
    "ksql.query.push.max.rows.waiting": "how many rows may wait for a slow client",
}
"""By name: what it is for."""
IGNORED: Final = frozenset(
    {
        "commit.interval.ms",
        "cache.max.bytes.buffering",
        "statestore.cache.max.bytes",
        "num.stream.threads",
        "processing.guarantee",
        "max.task.idle.ms",
        "ksql.idle.connection.timeout.seconds",
        "ksql.query.push.v2.enabled",
        "ksql.query.pull.forwarding.timeout.ms",
        "ksql.suppress.enabled",
        "ksql.new.query.planner.enabled",
    }
)
"""ksqlDB's, which clients set and which have no meaning here."""


def is_valid(name: str) -> bool:
    """Whether a statement may set a property."""
    plain = plain_property(name)
    return plain in SETTABLE or plain in IGNORED


def check_property(name: str, at: Position) -> None:
    """Raises SqlError for a property that no statement may set."""
    if not is_valid(name):
        raise SqlError(
            f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'",
            at,
            "properties: " + ", ".join(SETTABLE),
        )


def properties_list(text: str, node: SqlNode, session: Mapping[str, str]) -> Entity:
    """SHOW PROPERTIES: those of statements, then the server's settings that are no secrets."""
    given = {**node.default_properties, **session}
    rows = [
        {"name": name, "scope": "KSQL", "value": given.get(name), "editable": True, "level": "QUERY"}
        for name in sorted(SETTABLE)
    ]
    for name, setting in sorted(names.TABLE.settings.items()):
        if setting.sensitive or not name.startswith(("ksql.", "ottla.sql.")):
            continue
        value = setting.format(node.settings[setting])
        rows.append({"name": name, "scope": "KSQL", "value": value, "editable": False, "level": "SERVER"})
    return entity(
        "properties",
        text,
        properties=rows,
        overwrittenProperties=sorted(session),
        defaultProperties=[row["name"] for row in rows if row["name"] not in given],
    )
