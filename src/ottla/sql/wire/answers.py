"""Statements of PostgreSQL's clients: to the queries of streams and tables, to the server, or to DuckDB."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import START, SqlError
from ottla.sql.language.parser import parse_statement
from ottla.sql.language.statements import (
    Define,
    Select,
    SetProperty,
    Show,
    Statement,
    Undefine,
    UnsetProperty,
)
from ottla.sql.plan.statement_plan import RunQuery
from ottla.sql.rows.bodies import plain_property
from ottla.sql.rows.port import Answer, RowQueries
from ottla.sql.rows.selecting import columns_of
from ottla.sql.types.sql_types import STRING, quoted
from ottla.sql.wire.analytic import Analytic
from ottla.sql.wire.connection import PARAMETERS
from ottla.sql.wire.port import Column, Result
from ottla.sql.wire.statements import first_words

_SILENT: Final = {
    "BEGIN": "BEGIN",
    "START": "BEGIN",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK",
    "DISCARD": "DISCARD ALL",
    "RESET": "RESET",
    "DEALLOCATE": "DEALLOCATE",
    "UNLISTEN": "UNLISTEN",
    "CLOSE": "CLOSE CURSOR",
}
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_SETTING: Final = re.compile(r"\s*SHOW\s+\"?([A-Za-z_.]+(?:\s+[A-Za-z_]+)*)\"?\s*", re.I)

Entities = Sequence[Mapping[str, Any]]
RunStatements = Callable[[str, dict[str, str], dict[str, str]], Awaitable[Entities]]
"""Carries out statements that are no queries, with properties and variables that it changes."""


class SqlAnswers:
    """Satisfies Answers, for one connection."""

    def __init__(
        self,
        rows: RowQueries,
        run_statements: RunStatements,
        catalog: Callable[[], Catalog],
        functions: Functions,
        defaults: Callable[[], Mapping[str, str]],
    ) -> None:
        self._rows = rows
        self._run_statements = run_statements
        self._catalog = catalog
        self._functions = functions
        self._defaults = defaults
        self._properties: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._analytic = Analytic(catalog, self._scan)

    async def describe(self, text: str) -> tuple[Column, ...] | None:
        """See Answers."""
        words = first_words(text)
        if not words or words[0] not in (*_QUERIES, "SHOW"):
            return None
        if words[0] == "SHOW":
            return (await self._show(text)).columns
        statement = self._query_of(text)
        if statement is None:
            return await self._analytic.describe(text)
        plan = Binder(self._catalog(), self._functions).bind(statement)
        assert isinstance(plan, RunQuery)
        return tuple(Column(each.name, each.type) for each in columns_of(plan.query))

    async def run(self, text: str) -> Result:
        """See Answers."""
        words = first_words(text)
        if not words:
            raise SqlError("this is no statement", START)
        if words[0] in _SILENT:
            return Result(_SILENT[words[0]])
        if words[0] in _QUERIES:
            return await self._select(text)
        if words[0] == "SHOW":
            return await self._show(text)
        if words[0] == "SET":
            return self._set(text)
        found = await self._run_statements(f"{text};", self._properties, self._variables)
        notices = [str(each["commandStatus"]["message"]) for each in found if "commandStatus" in each]
        return Result(_tag(words), notices=notices)

    # -- queries --------------------------------------------------------------------------------------

    def _query_of(self, text: str) -> Select | None:
        """The statement of ksqlDB's language; None for one that is ordinary SQL alone. Raises SqlError."""
        try:
            statement = parse_statement(text, self._variables)
            if not isinstance(statement, Select):
                return None
            Binder(self._catalog(), self._functions).bind(statement)
            return statement
        except SqlError:
            if re.search(r"\bEMIT\s+(CHANGES|FINAL)\b", text, re.I):
                raise
            return None

    async def _select(self, text: str) -> Result:
        statement = self._query_of(text)
        if statement is None:
            return await self._ordinary(text)
        answer = await self._rows.query(statement.query, text, {**self._defaults(), **self._properties})
        columns = tuple(Column(each.name, each.type) for each in answer.columns)
        return Result("SELECT", columns, _cells(answer), closing=answer.close)

    async def _ordinary(self, text: str) -> Result:
        """SQL that ksqlDB does not have. Where both refuse, ksqlDB's reason is the better one to tell."""
        try:
            columns, rows = await self._analytic.run(text)
        except SqlError as problem:
            try:
                statement = parse_statement(text, self._variables)
                Binder(self._catalog(), self._functions).bind(statement)
            except SqlError as own:
                if own.position is not None and not re.search(r"\bpg_|information_schema", text, re.I):
                    raise own from None
            raise problem from None
        return Result("SELECT", columns, _at_once(rows))

    async def _scan(self, source: Source, most: int) -> Sequence[Sequence[Any]]:
        names = ", ".join(quoted(each.name) for each in source.columns)
        text = f"SELECT {names} FROM {quoted(source.name)}"
        statement = parse_statement(text)
        assert isinstance(statement, Select)
        answer = await self._rows.query(statement.query, text, {**self._defaults(), **self._properties})
        rows: list[Sequence[Any]] = []
        try:
            async for chunk in answer.rows:
                rows += [each.values for each in chunk]
                if len(rows) > most:
                    raise SqlError(
                        f"{source.name} has more than {most:,} rows, which ordinary SQL reads whole here",
                        None,
                        "make a table of fewer: CREATE TABLE … AS SELECT … GROUP BY",
                    )
        finally:
            await answer.close()
        return rows

    # -- settings and lists ---------------------------------------------------------------------------

    def _set(self, text: str) -> Result:
        statement: Statement | None = None
        try:
            statement = parse_statement(text, self._variables)
        except SqlError:
            return Result("SET")  # PostgreSQL's own, as drivers send them at their start
        match statement:
            case SetProperty(name=name, value=value, system=False):
                self._properties[plain_property(name)] = value
            case UnsetProperty(name=name):
                if name is None:
                    self._properties.clear()
                else:
                    self._properties.pop(plain_property(name), None)
            case Define(name=name, value=value):
                self._variables[name] = value
            case Undefine(name=name):
                self._variables.pop(name, None)
        return Result("SET")

    async def _show(self, text: str) -> Result:
        try:
            statement = parse_statement(text, self._variables)
        except SqlError:
            statement = None
        if not isinstance(statement, Show):
            found = _SETTING.fullmatch(text)
            name = "" if found is None else " ".join(found[1].lower().split())
            known = {key.lower(): value for key, value in PARAMETERS.items()} | {
                "transaction isolation level": "read committed",
                "transaction_isolation": "read committed",
                "search_path": '"$user", public',
                "max_identifier_length": "63",
            }
            if name not in known:
                raise SqlError(f"there is no setting {name!r}", START)
            return Result("SHOW", (Column(name.replace(" ", "_"), STRING),), _at_once([(known[name],)]))
        entities = await self._run_statements(f"{text};", self._properties, self._variables)
        rows: list[Mapping[str, Any]] = []
        for entity in entities:
            for value in entity.values():
                if isinstance(value, list) and value and isinstance(value[0], dict):
                    rows += value
        names = list(dict.fromkeys(key for row in rows for key in row)) or ["name"]
        columns = tuple(Column(each, STRING) for each in names)
        cells = [tuple(_shown(row.get(name)) for name in names) for row in rows]
        return Result("SHOW", columns, _at_once(cells))


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    import orjson

    return orjson.dumps(value).decode()


def _tag(words: Sequence[str]) -> str:
    """A command's tag: its first words."""
    if words[0] == "INSERT":
        return "INSERT 0 1"
    return " ".join(words[:2]) if words[0] in ("CREATE", "DROP", "ALTER") else words[0]


async def _cells(answer: Answer) -> AsyncIterator[Sequence[Sequence[Any]]]:
    async for chunk in answer.rows:
        yield [each.values for each in chunk]


async def _at_once(rows: Sequence[Sequence[Any]]) -> AsyncIterator[Sequence[Sequence[Any]]]:
    if rows:
        yield rows
