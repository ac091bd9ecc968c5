"""Which names an expression may use, and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.sql.catalog.sources import closest
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expressions import Name
from ottla.sql.plan.bound import Bound, BoundColumn, BoundParameter
from ottla.sql.plan.query_plan import FromSource
from ottla.sql.types.sql_types import SqlType

ROW_KEY = "ROWKEY"
"""The key of a join where no column is it, as ksqlDB names it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The sources of a query, and the parameters of the lambdas around. row_key: what ROWKEY stands for."""

    sources: Sequence[FromSource] = ()
    parameters: Mapping[str, SqlType] = field(default_factory=dict)
    row_key: Bound | None = None

    def resolve(self, name: Name) -> Bound:
        """What a name stands for. Raises SqlError."""
        if name.source is None and name.name in self.parameters:
            return BoundParameter(name.name, self.parameters[name.name])
        if name.source is not None:
            return self._of(self.source(name.source, name.at), name)
        found = [each for each in self.sources if _type_in(each, name.name) is not None]
        if len(found) > 1:
            sources = " and ".join(f"{each.alias}.{name.name}" for each in found)
            raise SqlError(f"{name.name} may be {sources}", name.at, "write which one")
        if not found and self.row_key is not None and name.name == ROW_KEY:
            return self.row_key
        if not found:
            raise SqlError(f"there is no column {name.name}", name.at, closest(name.name, self._names()))
        return self._of(found[0], name)

    def source(self, alias: str, at: Position) -> FromSource:
        """The source of an alias. Raises SqlError."""
        for each in self.sources:
            if each.alias == alias:
                return each
        by_name = next((each for each in self.sources if each.source.name == alias), None)
        advice = (
            f"it is named {by_name.alias} here"
            if by_name
            else closest(alias, [s.alias for s in self.sources])
        )
        raise SqlError(f"there is no source {alias} in FROM", at, advice)

    def _of(self, source: FromSource, name: Name) -> BoundColumn:
        found = _type_in(source, name.name)
        if found is None:
            columns = [each.name for each in source.source.columns]
            raise SqlError(f"{source.alias} has no column {name.name}", name.at, closest(name.name, columns))
        return BoundColumn(source.alias, name.name, found)

    def _names(self) -> list[str]:
        names = [column.name for each in self.sources for column in each.source.columns]
        return [*names, *self.parameters]


def _type_in(source: FromSource, name: str) -> SqlType | None:
    column = source.source.column(name)
    return column.type if column is not None else source.source.hidden.get(name)
