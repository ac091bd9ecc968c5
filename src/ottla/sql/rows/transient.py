"""Push queries that need Spark: as queries that write a topic of their own while a client listens."""

from __future__ import annotations

from dataclasses import replace

from ottla.sql.catalog.sources import Column, Source, WindowedKeys
from ottla.sql.language.statements import Emit, Role, SourceKind, WindowKind
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.plan.statement_plan import PutQuery
from ottla.sql.types.sql_types import Base

TOPIC_PREFIX = "_ottla-sql-"
_PLAIN_KEYS = (Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES)


def transient_plan(query: QueryPlan, id: str) -> PutQuery:
    """The plan that writes a query's rows to its own topic, in JSON."""
    is_table = query.kind is SourceKind.TABLE
    role = Role.PRIMARY_KEY if is_table else Role.KEY
    columns = tuple(
        Column(each.name, each.expression.type, role if each.key else Role.VALUE)
        for each in (*query.keys, *query.values)
    )
    keys = [each for each in columns if each.is_key]
    plain = len(keys) <= 1 and all(each.type.base in _PLAIN_KEYS for each in keys)
    windowed = None if query.grouped else query.source.source.windowed
    if query.window is not None:
        is_session = query.window.kind is WindowKind.SESSION
        windowed = WindowedKeys(query.window.kind, None if is_session else query.window.size_ms)
    target = Source(
        id.upper(),
        query.kind,
        columns,
        f"{TOPIC_PREFIX}{id}",
        "KAFKA" if plain else "JSON",
        "JSON",
        query.source.source.partitions,
        windowed=windowed,
    )
    return PutQuery(target, replace(query, limit=None, emit=query.emit or Emit.CHANGES), creates=True)
