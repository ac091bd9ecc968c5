"""Include and exclude lists of schemas, tables and columns: Debezium's regular expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.connect.data.java_regex import BadPattern, JavaRegex

MAX_EXPRESSIONS: Final = 10_000


def split_expressions(text: str) -> list[str]:
    """The expressions of a list: a comma behind a backslash belongs to its expression."""
    found = [""]
    escaped = False
    for character in text:
        if character == "," and not escaped:
            found.append("")
        elif character == "," and escaped:
            found[-1] = found[-1][:-1] + ","
        else:
            found[-1] += character
        escaped = character == "\\" and not escaped
    return [each.strip() for each in found if each.strip()]


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Names that one of some expressions matches whole, in any case; or those that none matches.

    expressions: None for every name.
    """

    expressions: tuple[JavaRegex, ...] | None = None
    excludes: bool = False

    @staticmethod
    def of(include: str | None, exclude: str | None) -> NameFilter:
        """The filter of two lists, of which one at most is given. Raises ValueError."""
        if include:
            return NameFilter(_compiled(split_expressions(include)))
        if exclude:
            return NameFilter(_compiled(split_expressions(exclude)), excludes=True)
        return NameFilter()

    def takes(self, name: str) -> bool:
        """Whether a name is taken."""
        if self.expressions is None:
            return True
        return any(each.matches(name) for each in self.expressions) is not self.excludes


def _compiled(texts: Sequence[str]) -> tuple[JavaRegex, ...]:
    if len(texts) > MAX_EXPRESSIONS:
        raise ValueError(f"a list of {len(texts)} expressions, more than {MAX_EXPRESSIONS}")
    try:
        return tuple(JavaRegex(f"(?i){each}") for each in texts)
    except BadPattern as problem:
        raise ValueError(str(problem)) from None


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """message.key.columns: the columns of tables' keys, `table:column,column;…`, in place of primary keys."""

    entries: tuple[tuple[JavaRegex, tuple[str, ...]], ...] = ()

    @staticmethod
    def of(text: str | None) -> KeyColumns:
        """Raises ValueError."""
        entries = []
        for part in (text or "").split(";"):
            table, mark, columns = part.rpartition(":")
            names = tuple(each.strip() for each in columns.split(",") if each.strip())
            if not part.strip():
                continue
            if not mark or not names or not table.strip():
                raise ValueError(f"{part.strip()!r} is not table:column,column")
            entries += [(each, names) for each in _compiled(split_expressions(table))]
        return KeyColumns(tuple(entries))

    def of_table(self, name: str) -> tuple[str, ...] | None:
        """The key's columns of a table; None: those of its primary key."""
        return next((columns for table, columns in self.entries if table.matches(name)), None)


@dataclass(frozen=True, slots=True)
class CaptureFilter:
    """What is captured: tables by schema and by `schema.table`, columns by `schema.table.column`."""

    schemas: NameFilter = NameFilter()
    tables: NameFilter = NameFilter()
    columns: NameFilter = NameFilter()
    never: frozenset[str] = frozenset()
    """Schemas of the database itself."""
    copied: NameFilter = NameFilter()
    """snapshot.include.collection.list: tables whose rows are copied, of those that are captured."""
    signals: str | None = None
    """The signal table, whose changes are captured whatever the lists say."""

    def takes_table(self, schema: str, table: str) -> bool:
        """Whether a table's changes are captured."""
        return f"{schema}.{table}" == self.signals or self._is_listed(schema, table)

    def copies_table(self, schema: str, table: str) -> bool:
        """Whether a table's rows are copied as well."""
        return self._is_listed(schema, table) and self.copied.takes(f"{schema}.{table}")

    def _is_listed(self, schema: str, table: str) -> bool:
        return (
            schema not in self.never and self.schemas.takes(schema) and self.tables.takes(f"{schema}.{table}")
        )

    def takes_column(self, schema: str, table: str, column: str) -> bool:
        """Whether a column stands in the records of its table."""
        return self.columns.takes(f"{schema}.{table}.{column}")


def one_at_most(given: Iterable[tuple[str, str | None]]) -> str | None:
    """What is wrong with settings of which one at most may be given."""
    names = [name for name, value in given if value]
    return None if len(names) < 2 else f"only one of {' and '.join(names)} may be given"
