"""A session with a server: properties, variables and the order of statements; each statement gives a result.

Properties (SET) and variables (DEFINE) are the session's: they go to the server with each statement. A
statement waits at the server for the command of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.sql.language.errors import SqlError
from ottla.sql.terminal.api import Entity, SqlApi
from ottla.sql.terminal.http import SqlRefusal
from ottla.sql.terminal.problems import error_of
from ottla.sql.terminal.row_stream import RowStream, TextStream
from ottla.sql.terminal.statements import Part, Sort, assigned, named, set_of_terminal

_NO_SUCH_PATH = 404


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence: the terminal itself did something."""

    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the server tells of a statement. problem: of a request that was carried out in part."""

    entities: list[Entity]
    problem: SqlError | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """A query that has begun."""

    stream: RowStream
    is_push: bool


@dataclass(frozen=True, slots=True)
class Lines:
    """PRINT that has begun."""

    stream: TextStream


@dataclass(frozen=True, slots=True)
class Script:
    """A file whose statements come next."""

    path: str


@dataclass(frozen=True, slots=True)
class TerminalSetting:
    """What is to be set of the terminal itself."""

    name: str
    value: str


Result = Said | Told | Rows | Lines | Script | TerminalSetting


@dataclass(slots=True)
class Session:
    """What holds from one statement to the next. waits: whether statements wait for those before."""

    api: SqlApi
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    waits: bool = True
    last_command: int | None = None

    def run(self, part: Part) -> Result:
        """Carry out, or begin, a statement.

        Raises SqlError for one that is wrong, with its place in the text that it is of; SqlUnreachable.
        """
        try:
            return self._run(part)
        except SqlRefusal as refusal:
            error = error_of(refusal, part.at)
            if refusal.entities:
                return Told(refusal.entities, error)
            raise error from refusal

    def _run(self, part: Part) -> Result:
        match part.sort:
            case Sort.PUSH_QUERY | Sort.PULL_QUERY:
                stream = self.api.query(f"{part.text};", self.properties, self.variables)
                return Rows(stream, part.sort is Sort.PUSH_QUERY)
            case Sort.PRINT:
                return Lines(self.api.print_topic(f"{part.text};", self.properties, self.variables))
            case Sort.SET:
                return self._set(*assigned(part, self.variables))
            case Sort.SET_CLI:
                return TerminalSetting(*set_of_terminal(part))
            case Sort.UNSET:
                return self._unset(named(part, self.variables))
            case Sort.DEFINE:
                name, value = assigned(part, self.variables)
                self.variables[name] = value
                return Said(f"{name} is '{value}'")
            case Sort.UNDEFINE:
                return self._undefine(part)
            case Sort.SHOW_VARIABLES:
                return Told([_variables(self.variables)])
            case Sort.RUN_SCRIPT:
                return Script(named(part, self.variables) or "")
            case Sort.STATEMENT:
                return self._statement(part)

    def _statement(self, part: Part) -> Told:
        after = self.last_command if self.waits else None
        entities = self.api.statements(f"{part.text};", self.properties, self.variables, after)
        for entity in entities:
            number = entity.get("commandSequenceNumber")
            if isinstance(number, int) and number >= 0:
                self.last_command = max(number, -1 if self.last_command is None else self.last_command)
        return Told(entities)

    def _set(self, name: str, value: str) -> Said:
        try:
            self.api.check_property(name)
        except SqlRefusal as refusal:
            if refusal.status != _NO_SUCH_PATH:
                raise
        before = self.properties.get(name)
        self.properties[name] = value
        return Said(f"{name} is '{value}'" + ("" if before is None else f", it was '{before}'"))

    def _unset(self, name: str | None) -> Said:
        if name is None:
            count = len(self.properties)
            self.properties.clear()
            return Said(f"{count} properties are unset")
        before = self.properties.pop(name, None)
        return Said(f"{name} was not set" if before is None else f"{name} is unset, it was '{before}'")

    def _undefine(self, part: Part) -> Said:
        name = named(part, {})
        if name not in self.variables:
            raise SqlError(f"the variable {name} is not defined", part.tokens[1].at)
        del self.variables[name]
        return Said(f"{name} is undefined")


def _variables(variables: Mapping[str, str]) -> dict[str, Any]:
    listed = [{"name": name, "value": value} for name, value in sorted(variables.items())]
    return {"@type": "variables", "statementText": "SHOW VARIABLES;", "variables": listed, "warnings": []}
