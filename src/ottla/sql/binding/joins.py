"""FROM: sources, and how each join's two sides meet."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.binding.expression_binder import ExpressionBinder, cast
from ottla.sql.binding.scope import Scope
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.expressions import Operation
from ottla.sql.language.statements import JoinText, JoinWord, Query, SourceText
from ottla.sql.plan.bound import Bound, BoundCall, BoundColumn, columns_of
from ottla.sql.plan.query_plan import FromSource, Join, JoinHow, JoinWindow
from ottla.sql.types.coercion import common_type

DEFAULT_GRACE_MS = 24 * 3_600_000
"""The grace of windows and joins without GRACE PERIOD, as in ksqlDB."""


def from_sources(query: Query, catalog: Catalog) -> list[FromSource]:
    """The sources of FROM. Raises SqlError."""
    found: list[FromSource] = []
    assert isinstance(query.source, SourceText)
    for each in (query.source, *(join.source for join in query.joins)):
        if any(other.alias == each.alias for other in found):
            raise SqlError(
                f"two sources are named {each.alias}", each.at, "give one another name: … AS other"
            )
        found.append(_source(each, catalog))
    return found


def _source(text: SourceText, catalog: Catalog) -> FromSource:
    return FromSource(text.alias, catalog.source(text.name, text.at))


def bound_joins(query: Query, sources: list[FromSource], functions: Functions) -> tuple[Join, ...]:
    """The joins of FROM, in order. Raises SqlError."""
    joins: list[Join] = []
    table = sources[0].source.is_table
    for number, text in enumerate(query.joins, 1):
        binder = ExpressionBinder(Scope(sources[: number + 1]), functions, {})
        join = _join(text, sources[:number], sources[number], table, binder, joins)
        table = table and sources[number].source.is_table
        joins.append(join)
    return tuple(joins)


def keys_of(joins: Sequence[Join]) -> tuple[Bound, ...]:
    """The expressions that are equal to the key of joined rows; empty where it is the first source's."""
    if not joins or joins[-1].how is JoinHow.FOREIGN_KEY:
        return ()
    last = joins[-1]
    sides = (last.left_key, last.right_key)
    equal = [
        each
        for join in joins
        for each in (join.left_key, join.right_key)
        if join is last or last.left_key in (join.left_key, join.right_key)
    ]
    return tuple(dict.fromkeys((*(sides if last.kind is not JoinWord.RIGHT else sides[::-1]), *equal)))


def row_key_of(joins: Sequence[Join]) -> Bound | None:
    """ROWKEY: the key of joined rows where no column is it in each of them; else None."""
    keys = keys_of(joins)
    if not keys:
        return None
    if any(join.kind is JoinWord.FULL for join in joins):
        return BoundCall("COALESCE", "(T...) -> T", keys, keys[0].type)
    return None if any(isinstance(each, BoundColumn) for each in keys) else keys[0]


def _join(
    text: JoinText,
    left: list[FromSource],
    right: FromSource,
    left_is_table: bool,
    binder: ExpressionBinder,
    before: list[Join],
) -> Join:
    for each in (*left, right):
        if each.source.windowed is not None and each.source.is_table:
            raise SqlError(f"{each.alias} has windowed keys: it can't be joined", text.at)
    left_key, right_key = _sides(text, right, binder)
    window = None
    if left_is_table and not right.source.is_table:
        raise SqlError(
            f"a table can't be joined with the stream {right.alias}",
            text.at,
            "write the stream first: stream JOIN table",
        )
    if not left_is_table and not right.source.is_table:
        how = JoinHow.STREAM_STREAM
        if text.within is None:
            raise SqlError("a join of two streams needs WITHIN", text.at, "JOIN … WITHIN 1 HOUR ON …")
        grace = DEFAULT_GRACE_MS if text.within.grace_ms is None else text.within.grace_ms
        window = JoinWindow(text.within.before_ms, text.within.after_ms, grace)
    else:
        if text.within is not None:
            raise SqlError("WITHIN is for a join of two streams", text.within.at, "leave it out")
        _needs_primary_key(right.source, right, right_key, text)
        if not left_is_table:
            how = JoinHow.STREAM_TABLE
            if text.kind in (JoinWord.RIGHT, JoinWord.FULL):
                raise SqlError("a stream and a table are joined INNER or LEFT", text.at)
        else:
            how = JoinHow.TABLE_TABLE if _is_key_of(left, left_key, before) else JoinHow.FOREIGN_KEY
            if how is JoinHow.FOREIGN_KEY and text.kind in (JoinWord.RIGHT, JoinWord.FULL):
                raise SqlError("a foreign-key join is INNER or LEFT", text.at)
    return Join(text.kind, how, right, left_key, right_key, window)


def _sides(text: JoinText, right: FromSource, binder: ExpressionBinder) -> tuple[Bound, Bound]:
    """The two sides of ON, the right source's second. Raises SqlError."""
    on = text.on
    if not isinstance(on, Operation) or on.operator != "=":
        raise SqlError("a join is by one equality", on.at, "ON a.id = b.id; other conditions go into WHERE")
    sides = [(each, binder.bind(each)) for each in on.operands]
    of_right = [_reads(bound, right.alias) for _, bound in sides]
    if of_right not in ([True, False], [False, True]):
        raise SqlError(
            f"one side of ON reads {right.alias} alone, the other one what is before it",
            on.at,
        )
    if of_right == [True, False]:
        sides.reverse()
    (left_text, left), (_, right_side) = sides
    for side, written in zip((left, right_side), sides, strict=True):
        if not columns_of(side):
            raise SqlError("this side of ON reads no column", written[0].at)
    common = common_type(left.type, right_side.type)
    if common is None:
        raise SqlError(
            f"{left.type} and {right_side.type} can't be compared", left_text.at, "CAST one of them"
        )
    return cast(left, common), cast(right_side, common)


def _reads(bound: Bound, alias: str) -> bool | None:
    """Whether an expression reads that source alone (True), or others alone (False)."""
    sources = {each.source for each in columns_of(bound)}
    return True if sources == {alias} else None if alias in sources else False


def _needs_primary_key(source: Source, named: FromSource, key: Bound, text: JoinText) -> None:
    keys = source.keys
    if len(keys) != 1:
        raise SqlError(f"{named.alias} has {len(keys)} key columns: it can't be joined", text.at)
    if not (isinstance(key, BoundColumn) and key.name == keys[0].name):
        raise SqlError(
            f"the table {named.alias} is joined by its primary key",
            text.on.at,
            f"ON … = {named.alias}.{keys[0].name}"
            + ("" if key.type == keys[0].type else f"; CAST the other side to {keys[0].type}"),
        )


def _is_key_of(left: list[FromSource], key: Bound, before: list[Join]) -> bool:
    """Whether an expression is the key of the tables joined so far."""
    if not isinstance(key, BoundColumn):
        return False
    if key.source == left[0].alias:
        return [each.name for each in left[0].source.keys] == [key.name]
    return any(
        join.how is JoinHow.TABLE_TABLE and join.right.alias == key.source and join.right_key == key
        for join in before
    )
