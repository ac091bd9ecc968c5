"""What a statement that changes something becomes: the next command, or why it can't be one; no I/O.

Topics are looked at, and made, before (server/topics.py): a statement comes here with its plan complete. It
is bound again at its turn, so that it fits what others have done meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.sql.commands.command import Command, Control, Deed, SystemProperty
from ottla.sql.commands.replacing import why_not_replaceable
from ottla.sql.commands.state import SqlState, Wish
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.statements import ControlQuery, QueryAction, SourceKind
from ottla.sql.plan.statement_plan import (
    PutQuery,
    PutSource,
    PutType,
    RemoveSource,
    RemoveType,
    StatementPlan,
)

MAX_QUERIES = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement as it was asked for. replaces: CREATE OR REPLACE."""

    text: str
    at: Position
    now_ms: int
    properties: Mapping[str, str]
    replaces: bool = False


def planned(state: SqlState, plan: StatementPlan, asked: Asked) -> Command:
    """The command of a bound plan. Raises SqlError."""
    number = state.number + 1
    match plan:
        case PutSource(source=source):
            kind, name = source.kind.value.lower(), source.name
            if name in state.catalog.sources:
                message = f"{source.kind.value.title()} replaced"
                _require_not_made_by_query(state, name, asked)
            else:
                message = f"{source.kind.value.title()} created"
            return _command(number, f"{kind}/`{name}`/create", plan, asked, message)
        case PutQuery():
            return _query(state, number, plan, asked)
        case RemoveSource(name=name):
            kind = state.catalog.sources[name].kind.value.lower()
            _require_unread(state, name, asked)
            source = state.catalog.sources[name]
            message = f"Source `{name}` (topic: {source.topic}) was dropped."
            return _command(number, f"{kind}/`{name}`/drop", plan, asked, message)
        case PutType(name=name, type=of):
            return _command(
                number, f"type/`{name}`/create", plan, asked, f"Registered custom type {name} {of}"
            )
        case RemoveType(name=name):
            return _command(number, f"type/`{name}`/drop", plan, asked, f"Dropped type '{name}'")
    raise AssertionError(f"{type(plan).__name__} changes nothing")


def controlled(state: SqlState, statement: ControlQuery, asked: Asked) -> Command:
    """The command of TERMINATE, PAUSE or RESUME. Raises SqlError."""
    action = statement.action
    if statement.query_id is None:
        names = tuple(state.queries)
    else:
        found = next((each for each in state.queries if each.upper() == statement.query_id.upper()), None)
        if found is None:
            known = ", ".join(state.queries) or "none"
            raise SqlError(f"there is no query {statement.query_id}", asked.at, f"queries: {known}")
        names = (found,)
    done = {QueryAction.TERMINATE: "terminated", QueryAction.PAUSE: "paused", QueryAction.RESUME: "resumed"}
    wish = {QueryAction.PAUSE: Wish.REST, QueryAction.RESUME: Wish.RUN}.get(action)
    names = tuple(each for each in names if wish is None or state.queries[each].wish is not wish)
    word = action.value.lower()
    id = f"{word}/{statement.query_id or 'ALL'}/execute"
    return _command(state.number + 1, id, Control(action, names), asked, f"Query {done[action]}.")


def with_property(state: SqlState, name: str, value: str, asked: Asked) -> Command:
    """The command of ALTER SYSTEM."""
    message = f"{name} is {value} from here on"
    deed = SystemProperty(name, value)
    return _command(state.number + 1, f"cluster/{name}/alter", deed, asked, message)


def running_anew(state: SqlState, name: str) -> str | None:
    """The id of the query that makes a source, if one does."""
    found = state.catalog.sources.get(name)
    if found is None or found.written_by not in state.queries:
        return None
    return found.written_by


def _query(state: SqlState, number: int, plan: PutQuery, asked: Asked) -> Command:
    target = plan.target
    kind = target.kind.value.lower()
    if not plan.creates:
        if len(state.queries) >= MAX_QUERIES:
            raise SqlError(f"there are {MAX_QUERIES} queries already", asked.at, "TERMINATE some first")
        id = f"INSERTQUERY_{number}"
        message = f"Created query with ID {id}"
        return _command(number, f"{kind}/`{target.name}`/insert", plan, asked, message, id)
    before = state.catalog.sources.get(target.name)
    if before is None:
        if len(state.queries) >= MAX_QUERIES:
            raise SqlError(f"there are {MAX_QUERIES} queries already", asked.at, "TERMINATE some first")
        word = "CTAS" if target.kind is SourceKind.TABLE else "CSAS"
        id = f"{word}_{target.name}_{number}"
        return _command(
            number, f"{kind}/`{target.name}`/create", plan, asked, f"Created query with ID {id}", id
        )
    running = running_anew(state, target.name)
    if running is None:
        raise SqlError(
            f"{target.name} is not made by a running query, so none can be replaced",
            asked.at,
            "DROP it first",
        )
    reason = why_not_replaceable(state.queries[running].plan, plan)
    if reason is not None:
        raise SqlError(
            f"the query of {target.name} can't be replaced: {reason}",
            asked.at,
            f"DROP {target.kind.value} {target.name}, or make it under another name beside it",
        )
    message = f"Query {running} goes on with its new plan"
    return _command(number, f"{kind}/`{target.name}`/create", plan, asked, message, running)


def _command(
    number: int, id: str, deed: Deed, asked: Asked, message: str, query_id: str | None = None
) -> Command:
    return Command(number, id, asked.text, deed, asked.now_ms, message, query_id, dict(asked.properties))


def _require_not_made_by_query(state: SqlState, name: str, asked: Asked) -> None:
    if (running := running_anew(state, name)) is not None:
        raise SqlError(f"{name} is made by the query {running}", asked.at, "replace it by CREATE … AS SELECT")


def _require_unread(state: SqlState, name: str, asked: Asked) -> None:
    """No query reads a source, or inserts into it. Raises SqlError."""
    reads = [each.id for each in state.queries.values() if name in each.reads]
    writes = [each.id for each in state.queries.values() if each.target == name and not each.plan.creates]
    if reads or writes:
        told = "; ".join(
            f"{verb} it: {', '.join(found)}" for verb, found in (("read", reads), ("write", writes)) if found
        )
        raise SqlError(f"{name} can't be dropped while queries {told}", asked.at, "TERMINATE them first")


def complete(plan: PutSource | PutQuery, partitions: int, replicas: int) -> PutSource | PutQuery:
    """The plan with its topic as it is."""
    match plan:
        case PutSource(source=source):
            return PutSource(replace(source, partitions=partitions, replicas=replicas))
        case PutQuery(target=target):
            return replace(plan, target=replace(target, partitions=partitions, replicas=replicas))
