"""What a statement does once it is bound: changes of the catalogue, queries to run, rows to write."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.language.statements import Statement
from ottla.sql.plan.bound import Bound
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class PutSource:
    """A stream or table over a topic is there from now on, in place of one of its name."""

    source: Source


@dataclass(frozen=True, slots=True)
class PutQuery:
    """A query writes a stream or table. creates: the target is new, or replaced; else it is there."""

    target: Source
    query: QueryPlan
    creates: bool


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A query whose rows go to whoever asks."""

    query: QueryPlan


@dataclass(frozen=True, slots=True)
class WriteRow:
    """One record. values: of columns, by name."""

    target: Source
    values: tuple[tuple[str, Bound], ...]


@dataclass(frozen=True, slots=True)
class RemoveSource:
    """A stream or table is dropped, with its topic if delete_topic."""

    name: str
    topic: str
    delete_topic: bool


@dataclass(frozen=True, slots=True)
class PutType:
    """A named type."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class RemoveType:
    """A named type is dropped."""

    name: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """The statement changes nothing: IF [NOT] EXISTS."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A statement for the server alone (SHOW, SET, TERMINATE…): it is checked, there is nothing to plan."""

    statement: Statement


StatementPlan = (
    PutSource | PutQuery | RunQuery | WriteRow | RemoveSource | PutType | RemoveType | Nothing | Ask
)


def applied(plan: StatementPlan, catalog: Catalog) -> Catalog:
    """The catalogue after a statement."""
    match plan:
        case PutSource(source=source) | PutQuery(target=source, creates=True):
            return catalog.with_source(source)
        case RemoveSource(name=name):
            return catalog.without_source(name)
        case PutType(name=name, type=of):
            return catalog.with_type(name, of)
        case RemoveType(name=name):
            return catalog.without_type(name)
        case _:
            return catalog
