"""Which tables a source reads, and which of their columns count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.connect.connectors.jdbc.names import TableId

_LIKE: Final = re.compile(r"\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """The settings that choose tables. database: what stands before names in patterns, if they have it."""

    named: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    catalog_pattern: str | None = None
    schema_pattern: str | None = None
    database: str = ""
    mark: str = '"'

    def chooses(self, table: TableId) -> bool:
        """Whether a table is read."""
        if not _like(self.catalog_pattern, table.catalog if table.catalog is not None else self.database):
            return False
        if not _like(self.schema_pattern, table.schema or ""):
            return False
        names = {str(table), table.name, ".".join(_quoted(each, self.mark) for each in table.parts)}
        if self.named:
            return not names.isdisjoint(self.named)
        if not names.isdisjoint(self.left_out):
            return False
        if self.include and not self._matches(self.include, table):
            return False
        return not self._matches(self.exclude, table)

    def _matches(self, patterns: Sequence[str], table: TableId) -> bool:
        return any(matches(each, table, self.database) for each in patterns)


def matches(pattern: str, table: TableId, database: str) -> bool:
    """Whether a regular expression is that of a table's whole name, with or without its database."""
    names = {str(table)} | ({f"{database}.{table}"} if table.catalog is None and database else set())
    return any(re.fullmatch(pattern, each) is not None for each in names)


def mapped(mappings: Sequence[str], table: TableId, database: str) -> list[str]:
    """The columns that the first mapping (pattern:column or pattern:[column|column]) of a table gives."""
    for each in mappings:
        pattern, _, columns = each.rpartition(":")
        if matches(pattern, table, database):
            return [name.strip() for name in columns.strip().removeprefix("[").removesuffix("]").split("|")]
    return []


def same_topics(tables: Sequence[TableId]) -> list[TableId]:
    """Tables of different schemas whose topic would be one."""
    by_name: dict[str, list[TableId]] = {}
    for each in tables:
        by_name.setdefault(each.name, []).append(each)
    return [each for group in by_name.values() if len(group) > 1 for each in group]


def _quoted(name: str, mark: str) -> str:
    return mark + name.replace(mark, mark + mark) + mark


def _like(pattern: str | None, text: str) -> bool:
    """Whether a text is like a pattern of SQL; None is like everything."""
    if pattern is None:
        return True
    parts = [{"%": ".*", "_": "."}.get(each) or re.escape(each[-1]) for each in _LIKE.findall(pattern)]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None
