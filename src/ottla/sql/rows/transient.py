"""Push queries that need Spark: as queries that write a topic of their own while a client listens."""

from __future__ import annotations

from dataclasses import replace

from ottla.sql.catalog.sources import Column, Source
from ottla.sql.language.statements import Emit, Role, SourceKind
from ottla.sql.plan.bound import GROUP, BoundColumn
from ottla.sql.plan.query_plan import Projected, QueryPlan
from ottla.sql.plan.statement_plan import PutQuery
from ottla.sql.types.sql_types import Base

TOPIC_PREFIX = "_ottla-sql-"
HIDDEN_KEY = "KSQL_KEY_"
_PLAIN_KEYS = (Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES)


def transient_plan(query: QueryPlan, id: str) -> PutQuery:
    """The plan that writes a query's rows, and its key in any case, to a topic of its own, in JSON."""
    query = _with_key(query)
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
        windowed = query.window.keys
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


def _with_key(query: QueryPlan) -> QueryPlan:
    """The query with all columns of its key; a stream whose key is not asked for writes none."""
    if query.kind is SourceKind.STREAM:
        return query if query.keys else replace(query, new_key=True, partition_by=())
    if query.grouped:
        wanted = [BoundColumn(GROUP, each.name, each.expression.type) for each in query.group_by]
    else:
        source = query.source
        wanted = [BoundColumn(source.alias, each.name, each.type) for each in source.source.keys]
    if query.keys and not query.grouped:
        return query  # the binder marks the whole key or nothing; a join's may be the right one's column
    shown = [each.expression for each in query.keys]
    missing = [each for each in wanted if each not in shown]
    hidden = tuple(Projected(f"{HIDDEN_KEY}{number}", each, key=True) for number, each in enumerate(missing))
    return replace(query, projection=(*query.projection, *hidden))
