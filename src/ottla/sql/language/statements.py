"""Statements as they are written, with positions. Names without quotes are in upper case; durations in ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ottla.sql.language.errors import Position
from ottla.sql.language.expressions import Expression, LiteralValue, TypeText


class SourceKind(Enum):
    """What a name with rows is."""

    STREAM = "STREAM"
    TABLE = "TABLE"


class Role(Enum):
    """Which part of a record a column is."""

    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"
    VALUE = "VALUE"


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column. header: the one header's name of `HEADER('name')`."""

    at: Position
    name: str
    type: TypeText
    role: Role = Role.VALUE
    header: str | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """One of WITH's properties."""

    at: Position
    value: LiteralValue


Properties = Mapping[str, Property]


class Emit(Enum):
    """When a query's rows come."""

    CHANGES = "CHANGES"
    FINAL = "FINAL"


class WindowKind(Enum):
    """Kinds of windows."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"
    CUMULATE = "CUMULATE"


@dataclass(frozen=True, slots=True)
class WindowText:
    """WINDOW. size_ms: of sessions the gap. advance_ms: of CUMULATE the step."""

    at: Position
    kind: WindowKind
    size_ms: int
    advance_ms: int | None = None
    retention_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, `source.*`."""

    at: Position
    source: str | None = None


@dataclass(frozen=True, slots=True)
class StructStar:
    """`struct->*`."""

    at: Position
    of: Expression


@dataclass(frozen=True, slots=True)
class Item:
    """A selected expression and the name that it gets."""

    at: Position
    expression: Expression
    alias: str | None


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source in FROM; alias: its own name without one."""

    at: Position
    name: str
    alias: str


class JoinWord(Enum):
    """Kinds of joins."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True, slots=True)
class Within:
    """WITHIN: how far apart records of two streams may be."""

    at: Position
    before_ms: int
    after_ms: int
    grace_ms: int | None


@dataclass(frozen=True, slots=True)
class JoinText:
    """A further source in FROM."""

    at: Position
    kind: JoinWord
    source: SourceText
    within: Within | None
    on: Expression


@dataclass(frozen=True, slots=True)
class InnerText:
    """A query in FROM, in parentheses."""

    at: Position
    query: Query
    alias: str | None


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT."""

    at: Position
    items: tuple[Star | StructStar | Item, ...]
    source: SourceText | InnerText
    joins: tuple[JoinText, ...] = ()
    window: WindowText | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    emit: Emit | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class CreateSource:
    """CREATE STREAM or TABLE over a topic. source: read only (CREATE SOURCE …)."""

    at: Position
    kind: SourceKind
    name: str
    columns: tuple[ColumnText, ...]
    properties: Properties
    or_replace: bool = False
    if_not_exists: bool = False
    source: bool = False


@dataclass(frozen=True, slots=True)
class CreateAsSelect:
    """CREATE STREAM or TABLE … AS SELECT."""

    at: Position
    kind: SourceKind
    name: str
    properties: Properties
    query: Query
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertSelect:
    """INSERT INTO … SELECT."""

    at: Position
    target: str
    properties: Properties
    query: Query


@dataclass(frozen=True, slots=True)
class InsertValues:
    """INSERT INTO … VALUES. columns: empty for all, in the order of the schema."""

    at: Position
    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """A query by itself: a push query, or a pull query."""

    at: Position
    query: Query


class Listed(Enum):
    """What SHOW shows."""

    STREAMS = "STREAMS"
    TABLES = "TABLES"
    TOPICS = "TOPICS"
    ALL_TOPICS = "ALL TOPICS"
    QUERIES = "QUERIES"
    FUNCTIONS = "FUNCTIONS"
    PROPERTIES = "PROPERTIES"
    TYPES = "TYPES"
    VARIABLES = "VARIABLES"
    CONNECTORS = "CONNECTORS"
    SOURCE_CONNECTORS = "SOURCE CONNECTORS"
    SINK_CONNECTORS = "SINK CONNECTORS"
    CONNECTOR_PLUGINS = "CONNECTOR PLUGINS"


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW and LIST."""

    at: Position
    what: Listed
    extended: bool = False


class Described(Enum):
    """What DESCRIBE describes."""

    SOURCE = "a stream or table"
    STREAMS = "all streams"
    TABLES = "all tables"
    FUNCTION = "a function"
    CONNECTOR = "a connector"


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE."""

    at: Position
    what: Described
    name: str | None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a running query by its id, or of a statement."""

    at: Position
    query_id: str | None
    statement: Statement | None


@dataclass(frozen=True, slots=True)
class Print:
    """PRINT a topic."""

    at: Position
    topic: str
    from_beginning: bool
    interval: int | None
    limit: int | None


class Droppable(Enum):
    """What DROP drops."""

    STREAM = "STREAM"
    TABLE = "TABLE"
    TYPE = "TYPE"
    CONNECTOR = "CONNECTOR"


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP."""

    at: Position
    what: Droppable
    name: str
    if_exists: bool = False
    delete_topic: bool = False


class QueryAction(Enum):
    """What may be done to a running query."""

    TERMINATE = "TERMINATE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True, slots=True)
class ControlQuery:
    """TERMINATE, PAUSE, RESUME. query_id: None for ALL."""

    at: Position
    action: QueryAction
    query_id: str | None


@dataclass(frozen=True, slots=True)
class SetProperty:
    """SET 'name' = 'value'; ALTER SYSTEM sets it for the whole server."""

    at: Position
    name: str
    value: str
    system: bool = False


@dataclass(frozen=True, slots=True)
class UnsetProperty:
    """UNSET 'name'; name None: UNSET ALL."""

    at: Position
    name: str | None


@dataclass(frozen=True, slots=True)
class Define:
    """DEFINE a variable."""

    at: Position
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Undefine:
    """UNDEFINE a variable."""

    at: Position
    name: str


@dataclass(frozen=True, slots=True)
class AlterSource:
    """ALTER STREAM or TABLE … ADD COLUMN."""

    at: Position
    kind: SourceKind
    name: str
    columns: tuple[ColumnText, ...]


@dataclass(frozen=True, slots=True)
class CreateType:
    """CREATE TYPE."""

    at: Position
    name: str
    type: TypeText
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """CREATE SOURCE or SINK CONNECTOR; kind: SOURCE or SINK."""

    at: Position
    kind: str
    name: str
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AssertTopic:
    """ASSERT [NOT EXISTS] TOPIC."""

    at: Position
    topic: str
    exists: bool
    properties: Properties = field(default_factory=dict)
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AssertSchema:
    """ASSERT [NOT EXISTS] SCHEMA, by subject, id, or both."""

    at: Position
    subject: str | None
    schema_id: int | None
    exists: bool
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RunScript:
    """RUN SCRIPT."""

    at: Position
    path: str


Statement = (
    CreateSource
    | CreateAsSelect
    | InsertSelect
    | InsertValues
    | Select
    | Show
    | Describe
    | Explain
    | Print
    | Drop
    | ControlQuery
    | SetProperty
    | UnsetProperty
    | Define
    | Undefine
    | AlterSource
    | CreateType
    | CreateConnector
    | AssertTopic
    | AssertSchema
    | RunScript
)
