"""What a relational database is to the JDBC connectors, whichever system it is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from ottla.connect.connectors.jdbc.columns import Column
from ottla.connect.connectors.jdbc.names import TableId
from ottla.connect.data.schema import Schema

LEDGER_TABLE: Final = "ottla_connect_offsets"
STAGE_PREFIX: Final = "ottla_stage_"
"""How the names of tables begin that a sink fills and drops; no source reads them."""
CONNECT_TIMEOUT_SECONDS: Final = 10

Row = Sequence[Any]
Bind = Callable[[Any], Any]
"""Makes what the driver is given of a Connect value that is not None. Raises DataError."""


class Refused(Exception):
    """The database refuses a statement or its values, and would refuse them again."""


class TableType(enum.StrEnum):
    """JDBC's types of tables."""

    TABLE = "TABLE"
    PARTITIONED_TABLE = "PARTITIONED TABLE"
    VIEW = "VIEW"
    MATERIALIZED_VIEW = "MATERIALIZED VIEW"
    FOREIGN_TABLE = "FOREIGN TABLE"
    OTHER = "OTHER"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view as the database describes it, its columns in their order."""

    type: TableType
    columns: tuple[Column, ...]
    ignores_case: bool = False
    """Whether names that differ only in upper and lower case are one name."""

    def column(self, name: str) -> Column | None:
        """The column of this name."""
        found = next((each for each in self.columns if each.name == name), None)
        if found is None and self.ignores_case:
            wanted = name.lower()
            return next((each for each in self.columns if each.name.lower() == wanted), None)
        return found


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows of a statement while they come, in lists of at most the size asked for. Close it."""

    columns: tuple[Column, ...]
    batches: Iterator[Sequence[Row]]
    close: Callable[[], None]


def is_own(table: str) -> bool:
    """Whether a table is one of ottla's."""
    return table == LEDGER_TABLE or table.startswith(STAGE_PREFIX)


class Database(Protocol):
    """A connection, and the SQL of its system. Used by one thread.

    Every method that asks the server raises RetriableError where it is away or busy, and Refused. Statements
    have `placeholder` for each parameter; what stands in them literally comes from `quote` or `literal`.
    """

    mark: ClassVar[str]
    """The character that names are quoted with."""
    placeholder: ClassVar[str]

    def quote(self, name: str) -> str:
        """A name as a statement has it. Raises DataError for one that the system can't have."""

    def literal(self, text: str) -> str:
        """SQL of the user's, as a statement with parameters has it."""

    def folded(self, name: str) -> str:
        """What a name means without quotes."""

    def table_of(self, names: Sequence[str]) -> TableId:
        """The table that one to three names mean, from the outermost. Raises DataError."""

    def tables(self, types: frozenset[str]) -> Sequence[TableId]:
        """The tables of these types, without those of the system and the ledger."""

    def relation(self, table: TableId) -> Relation | None:
        """A table's columns; None where there is no such table."""

    def selected(self, column: Column) -> str:
        """How a SELECT names a column so that its values come whole."""

    def moment(self, expression: str) -> str:
        """An expression of a timestamp's, as it is compared and ordered."""

    def moment_parameter(self, epoch_ns: int) -> Any:
        """The parameter that such an expression is compared with."""

    def now_ns(self) -> int:
        """The server's clock: nanoseconds since 1970."""

    def read(self, statement: str, parameters: Row, size: int) -> Reading:
        """Run a query, and give its rows as they come. Nothing else may be asked until it is closed."""

    def select(self, statement: str, parameters: Row = ()) -> Sequence[Row]:
        """All rows of a query that has few."""

    def run(self, statement: str) -> None:
        """Run a statement without parameters, outside of a transaction."""

    def transaction(self, locks: Sequence[str]) -> AbstractContextManager[None]:
        """A transaction that holds some named locks against others of ottla's until it has ended."""

    def insert(self, head: str, row: str, tail: str, rows: Sequence[Row]) -> None:
        """Run `head` VALUES `row` `tail` for each row, in their order."""

    def execute(self, statement: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row, in their order."""

    def upsert_tail(self, keys: Sequence[str], others: Sequence[str]) -> str:
        """What stands behind an INSERT's values so that a row of the same key is replaced."""

    def sql_type(self, schema: Schema, is_key: bool) -> str:
        """The type of a column for a field. Raises DataError where there is none."""

    def bind(self, schema: Schema, column: Column) -> Bind:
        """What makes parameters for a column of a field's values. Raises DataError where none can."""

    def create_ledger(self) -> None:
        """Make the table of the sinks' offsets where it is not there."""

    def ledger_tail(self) -> str:
        """What stands behind the INSERT of an offset so that it replaces the one before."""

    def close(self) -> None:
        """Release the connection. Safe to call twice."""
