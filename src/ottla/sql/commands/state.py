"""What the commands so far have made: streams, tables and types, and the queries that are to run; no I/O.

Every server replays all commands and comes to the same state. Whether a query does run, and how far it is,
is not here: running/ tells that.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.sql.catalog.sources import Catalog
from ottla.sql.commands.command import Command, CommandError, Control, SystemProperty, command_of
from ottla.sql.language.statements import QueryAction
from ottla.sql.plan.statement_plan import PutQuery, RemoveSource, applied

MAX_KEPT_COMMANDS = 10_000


class Wish(enum.Enum):
    """What a query is to do."""

    RUN = "run"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class PersistentQuery:
    """A query that writes a stream or table for as long as it is there.

    revision: the command that gave it its present plan. began_ms: when it was first made.
    """

    id: str
    plan: PutQuery
    statement: str
    revision: int
    began_ms: int
    properties: Mapping[str, str]
    wish: Wish = Wish.RUN

    @property
    def target(self) -> str:
        """The name of what it writes."""
        return self.plan.target.name

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of what it reads."""
        return tuple(dict.fromkeys(each.source.name for each in self.plan.query.sources))


@dataclass(frozen=True, slots=True)
class SqlState:
    """The state after so many commands. A state never changes: `after` gives the next one.

    statements: the text that made each source. problem: why the commands that follow can't be read here.
    """

    number: int = 0
    catalog: Catalog = field(default_factory=Catalog)
    queries: Mapping[str, PersistentQuery] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    statements: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)
    problem: str | None = None

    def after(self, command: Command) -> SqlState:
        """The state after one more command; one that was taken before changes nothing."""
        if command.number <= self.number:
            return self
        commands = {**self.commands, command.id: command}
        if len(commands) > MAX_KEPT_COMMANDS:
            del commands[next(iter(commands))]
        state = replace(self, number=command.number, commands=commands)
        match command.deed:
            case Control(action=action, queries=names):
                return state._controlled(action, names)
            case SystemProperty(name=name, value=value):
                return replace(state, properties={**state.properties, name: value})
            case RemoveSource(name=name) as plan:
                left = {key: each for key, each in state.queries.items() if each.target != name}
                made = {key: each for key, each in state.statements.items() if key != name}
                return replace(state, catalog=applied(plan, state.catalog), queries=left, statements=made)
            case PutQuery() as plan:
                assert command.query_id is not None
                return state._with_query(command, plan, command.query_id)
            case plan:
                catalog = applied(plan, state.catalog)
                new = dict.fromkeys(_put(state.catalog, catalog), command.statement)
                return replace(state, catalog=catalog, statements={**state.statements, **new})

    def replayed(self, key: bytes, value: bytes | None) -> SqlState:
        """The state after a record of the topic."""
        if self.problem is not None:
            return self
        try:
            command = command_of(key, value)
        except CommandError as problem:
            return replace(self, problem=str(problem))
        return self if command is None else self.after(command)

    def _controlled(self, action: QueryAction, names: tuple[str, ...]) -> SqlState:
        queries = dict(self.queries)
        for each in names:
            if each not in queries:
                continue
            match action:
                case QueryAction.TERMINATE:
                    del queries[each]
                case QueryAction.PAUSE:
                    queries[each] = replace(queries[each], wish=Wish.REST)
                case QueryAction.RESUME:
                    queries[each] = replace(queries[each], wish=Wish.RUN)
        return replace(self, queries=queries)

    def _with_query(self, command: Command, plan: PutQuery, query_id: str) -> SqlState:
        before = self.queries.get(query_id)
        if plan.creates:
            plan = replace(plan, target=replace(plan.target, written_by=query_id))
        query = PersistentQuery(
            query_id,
            plan,
            command.statement,
            command.number,
            command.at_ms if before is None else before.began_ms,
            command.properties,
            Wish.RUN if before is None else before.wish,
        )
        statements = self.statements
        if plan.creates:
            statements = {**statements, plan.target.name: command.statement}
        return replace(
            self,
            catalog=applied(plan, self.catalog),
            queries={**self.queries, query_id: query},
            statements=statements,
        )


def _put(before: Catalog, after: Catalog) -> list[str]:
    return [name for name, each in after.sources.items() if before.sources.get(name) is not each]
