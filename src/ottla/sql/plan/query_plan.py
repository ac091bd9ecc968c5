"""A query's steps: sources and joins, a filter, then a grouping or a new key, then the columns that go out.

A row goes through them in this order: `sources[0]`, each of `joins`, `where`, `exploded` (table functions),
`partition_by` or `group_by` with `window`, `aggregates` or `ranking`, and `having`, `projection`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.sql.catalog.sources import Source, WindowedKeys
from ottla.sql.language.statements import Emit, JoinWord, SourceKind, WindowKind
from ottla.sql.plan.bound import Bound
from ottla.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class FromSource:
    """A source under its alias."""

    alias: str
    source: Source


class JoinHow(Enum):
    """How two sources are joined."""

    STREAM_STREAM = "stream-stream"
    STREAM_TABLE = "stream-table"
    TABLE_TABLE = "table-table"
    FOREIGN_KEY = "foreign-key"


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """How far apart records of two streams may be, in ms."""

    before_ms: int
    after_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class Join:
    """What was joined so far with one more source, where two keys are equal."""

    kind: JoinWord
    how: JoinHow
    right: FromSource
    left_key: Bound
    right_key: Bound
    window: JoinWindow | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of a grouping, in ms; retention None: as long as needed. advance_ms: CUMULATE's step."""

    kind: WindowKind
    size_ms: int
    advance_ms: int | None
    grace_ms: int
    retention_ms: int | None = None

    @property
    def keys(self) -> WindowedKeys:
        """The windows as keys in a topic. Those that cumulate are there as sessions: with both ends."""
        if self.kind in (WindowKind.SESSION, WindowKind.CUMULATE):
            return WindowedKeys(WindowKind.SESSION)
        return WindowedKeys(self.kind, self.size_ms)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function over a group, under a name of the group's columns."""

    name: str
    function: str
    signature: str
    arguments: tuple[Bound, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class Named:
    """An expression under a name."""

    name: str
    expression: Bound


@dataclass(frozen=True, slots=True)
class Order:
    """One of ORDER BY's expressions. NULL is less than all else."""

    expression: Bound
    descending: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first rows of each group by an order: `columns` of each, and under `rank` its number from 1 on."""

    order_by: tuple[Order, ...]
    limit: int
    rank: str
    columns: tuple[Named, ...]

    @property
    def expressions(self) -> tuple[Bound, ...]:
        """All of its expressions, over the columns of the sources."""
        return (*(each.expression for each in self.order_by), *(each.expression for each in self.columns))


@dataclass(frozen=True, slots=True)
class Projected:
    """A column that goes out. key: into the record's key."""

    name: str
    expression: Bound
    key: bool = False


class Mode(Enum):
    """How a query is answered: row by row as they come, or once from what is there."""

    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query. new_key: its key is made by PARTITION BY; without expressions then, records have no key."""

    source: FromSource
    projection: tuple[Projected, ...]
    kind: SourceKind
    joins: tuple[Join, ...] = ()
    where: Bound | None = None
    exploded: tuple[Named, ...] = ()
    new_key: bool = False
    partition_by: tuple[Bound, ...] = ()
    group_by: tuple[Named, ...] = ()
    window: Window | None = None
    aggregates: tuple[Aggregate, ...] = ()
    having: Bound | None = None
    emit: Emit | None = None
    limit: int | None = None
    mode: Mode = Mode.PUSH
    ranking: Ranking | None = None

    @property
    def sources(self) -> tuple[FromSource, ...]:
        return (self.source, *(each.right for each in self.joins))

    @property
    def keys(self) -> tuple[Projected, ...]:
        return tuple(each for each in self.projection if each.key)

    @property
    def values(self) -> tuple[Projected, ...]:
        return tuple(each for each in self.projection if not each.key)

    @property
    def grouped(self) -> bool:
        return bool(self.group_by or self.aggregates)
