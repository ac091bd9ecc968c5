"""Streams and tables: their columns, and the topic that their rows are in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.statements import Role, SourceKind, WindowKind
from ottla.sql.types.sql_types import BIGINT, INTEGER, SqlType, quoted

PSEUDO_COLUMNS: Mapping[str, SqlType] = {"ROWTIME": BIGINT, "ROWPARTITION": INTEGER, "ROWOFFSET": BIGINT}
WINDOW_COLUMNS: Mapping[str, SqlType] = {"WINDOWSTART": BIGINT, "WINDOWEND": BIGINT}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. header: which header's value it is; without one, all headers of the record."""

    name: str
    type: SqlType
    role: Role = Role.VALUE
    header: str | None = None

    @property
    def is_key(self) -> bool:
        return self.role in (Role.KEY, Role.PRIMARY_KEY)

    def __str__(self) -> str:
        header = f"HEADER('{self.header}')" if self.header is not None else self.role.value
        return f"{quoted(self.name)} {self.type}" + ("" if self.role is Role.VALUE else f" {header}")


@dataclass(frozen=True, slots=True)
class WindowedKeys:
    """The windows of a source's keys. size_ms: None for sessions."""

    kind: WindowKind
    size_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table. written_by: the id of the query that makes it; None for one over a topic."""

    name: str
    kind: SourceKind
    columns: tuple[Column, ...]
    topic: str
    key_format: str = "KAFKA"
    value_format: str = "JSON"
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    windowed: WindowedKeys | None = None
    wrap_single_value: bool = True
    value_delimiter: str = ","
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    read_only: bool = False
    written_by: str | None = None

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.is_key)

    @property
    def values(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.role is Role.VALUE)

    @property
    def is_table(self) -> bool:
        return self.kind is SourceKind.TABLE

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)

    @property
    def hidden(self) -> Mapping[str, SqlType]:
        """The columns that `*` does not give, and for windowed sources those that it does."""
        return {**PSEUDO_COLUMNS, **(WINDOW_COLUMNS if self.windowed else {})}

    @property
    def schema(self) -> str:
        return ", ".join(map(str, self.columns))


@dataclass(frozen=True, slots=True)
class Catalog:
    """All sources and named types. A catalogue never changes: `with_…` and `without_…` give another one."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    types: Mapping[str, SqlType] = field(default_factory=dict)

    def source(self, name: str, at: Position) -> Source:
        """The source of a name. Raises SqlError."""
        if (found := self.sources.get(name)) is None:
            raise SqlError(f"there is no stream or table {name}", at, closest(name, self.sources))
        return found

    def with_source(self, source: Source) -> Catalog:
        return replace(self, sources={**self.sources, source.name: source})

    def without_source(self, name: str) -> Catalog:
        return replace(self, sources={key: each for key, each in self.sources.items() if key != name})

    def with_type(self, name: str, of: SqlType) -> Catalog:
        return replace(self, types={**self.types, name: of})

    def without_type(self, name: str) -> Catalog:
        return replace(self, types={key: each for key, each in self.types.items() if key != name})


def closest(name: str, known: Iterable[str]) -> str | None:
    """Advice: which of the known names may be meant."""
    names = {each.upper(): each for each in known}
    if name.upper() in names:
        return f"names in backticks keep their case: write `{names[name.upper()]}`"
    found = difflib.get_close_matches(name.upper(), names, 1)
    if found:
        return f"is {quoted(names[found[0]])} meant?"
    return None if not names or len(names) > 12 else "there are: " + ", ".join(map(quoted, names.values()))
