"""A statement that was carried out, as it stands in the topic of commands.

The record's key is the command's number, so compaction keeps every one of them. Its value is JSON with the
version of its form; plans have a version of their own (plan/stored.py). What a version can't read ends its
part in the service: state.py says so, and nothing is guessed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ottla.config.errors import UserError
from ottla.replicated.records import Record
from ottla.sql.language.statements import QueryAction
from ottla.sql.plan.statement_plan import StatementPlan
from ottla.sql.plan.stored import StoredPlanError, restored, stored

VERSION: Final = 1
_KEY_DIGITS: Final = 12
_END_MARK_KEY: Final = b"end"


class CommandError(UserError):
    """A record that is no command of this version."""


class Outcome(enum.StrEnum):
    """How far a command is, by ksqlDB's words."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    TERMINATED = "TERMINATED"


@dataclass(frozen=True, slots=True)
class Control:
    """Running queries are ended, paused or resumed."""

    action: QueryAction
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SystemProperty:
    """A property for all statements of the service from here on (ALTER SYSTEM)."""

    name: str
    value: str


Deed = StatementPlan | Control | SystemProperty
"""What a command does."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. number: from 1 on, without holes; id: ksqlDB's name for it, kind/name/action.

    query_id: of the query that it starts or replaces. properties: those of the statement's session.
    """

    number: int
    id: str
    statement: str
    deed: Deed
    at_ms: int
    message: str
    query_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> Record:
        """As it is written."""
        value: dict[str, Any] = {
            "version": VERSION,
            "number": self.number,
            "id": self.id,
            "statement": self.statement,
            "at_ms": self.at_ms,
            "message": self.message,
            "query_id": self.query_id,
            "properties": dict(self.properties),
        }
        match self.deed:
            case Control(action=action, queries=queries):
                value["control"] = {"action": action.value, "queries": list(queries)}
            case SystemProperty(name=name, value=text):
                value["system_property"] = {"name": name, "value": text}
            case plan:
                value["plan"] = stored(plan, self.statement)
        return Record(str(self.number).zfill(_KEY_DIGITS).encode(), orjson.dumps(value))


def end_mark() -> Record:
    """A record without a meaning, by which a reader knows the topic's end."""
    return Record(_END_MARK_KEY, b"")


def command_of(key: bytes, value: bytes | None) -> Command | None:
    """The command of a record; None for an end mark. Raises CommandError."""
    if key == _END_MARK_KEY or value is None:
        return None
    try:
        found = orjson.loads(value)
        version = found["version"]
        if type(version) is not int or version > VERSION:
            raise CommandError(f"a command has version {version}, this ottla reads up to {VERSION}")
        return Command(
            number=int(found["number"]),
            id=str(found["id"]),
            statement=str(found["statement"]),
            deed=_deed(found),
            at_ms=int(found["at_ms"]),
            message=str(found["message"]),
            query_id=found["query_id"],
            properties={str(name): str(each) for name, each in found["properties"].items()},
        )
    except StoredPlanError as problem:
        raise CommandError(str(problem)) from problem
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as problem:
        raise CommandError(f"a record is no command: {problem!r}") from problem


def _deed(found: Mapping[str, Any]) -> Deed:
    if "control" in found:
        control = found["control"]
        return Control(QueryAction(control["action"]), tuple(map(str, control["queries"])))
    if "system_property" in found:
        given = found["system_property"]
        return SystemProperty(str(given["name"]), str(given["value"]))
    return restored(found["plan"])
