"""The names that a server knows: its streams and tables with their columns, functions, queries.

Also which columns of a push query tell its rows apart, so that a later row takes an earlier one's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.errors import ClusterError
from ottla.sql.language.tokens import Kind, Token
from ottla.sql.terminal.api import Entity, SqlApi
from ottla.sql.terminal.entities import type_name
from ottla.sql.terminal.row_stream import RowColumn
from ottla.sql.terminal.statements import Part
from ottla.sql.types.sql_types import quoted

MAX_DESCRIBED: Final = 200
_WINDOW: Final = ("WINDOWSTART", "WINDOWEND")
_ENDS_GROUP_BY: Final = frozenset({"HAVING", "EMIT", "LIMIT", "PARTITION", "WINDOW"})


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column of a stream or table."""

    name: str
    type: str
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A stream or table; columns: empty where the server was not asked."""

    name: str
    is_table: bool
    columns: tuple[NamedColumn, ...] = ()
    is_windowed: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """What can be named in a statement."""

    sources: Mapping[str, NamedSource] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


def load_names(api: SqlApi) -> Names:
    """Ask a server for all names; those that it does not tell are left out."""
    sources: dict[str, NamedSource] = {}
    for is_table, kind in ((False, "streams"), (True, "tables")):
        for each in _asked(api, f"SHOW {kind.upper()};", kind):
            if isinstance(each, Mapping) and each.get("name"):
                name = str(each["name"])
                sources[name] = NamedSource(name, is_table, (), bool(each.get("isWindowed")))
    sources.update(_described(api, list(sources)[:MAX_DESCRIBED]))
    return Names(
        sources,
        _strings(_asked(api, "SHOW FUNCTIONS;", "functions"), "name"),
        _strings(_asked(api, "SHOW QUERIES;", "queries"), "id"),
        _strings(_asked(api, "SHOW TOPICS;", "topics"), "name"),
        _strings(_asked(api, "SHOW PROPERTIES;", "properties"), "name"),
        _strings(_asked(api, "SHOW TYPES;", "types"), "name"),
    )


def describe(api: SqlApi, name: str) -> NamedSource | None:
    """One stream or table; None if the server does not know it."""
    return _described(api, [name]).get(name)


def sources_in(tokens: Sequence[Token]) -> dict[str, str]:
    """The sources that a query names in FROM and JOIN: alias (its own name without one) -> name."""
    found: dict[str, str] = {}
    for number, token in enumerate(tokens):
        if token.word not in ("FROM", "JOIN", "INTO") or number + 1 >= len(tokens):
            continue
        name = name_of(tokens[number + 1])
        if name is None:
            continue
        behind = list(tokens[number + 2 : number + 4])
        if behind and behind[0].word == "AS":
            behind = behind[1:]
        alias = name_of(behind[0]) if behind and behind[0].word not in _NO_ALIAS else None
        found[alias or name] = name
    return found


_NO_ALIAS: Final = frozenset(
    """WHERE GROUP HAVING WINDOW PARTITION EMIT LIMIT JOIN INNER LEFT RIGHT FULL OUTER ON WITHIN SELECT VALUES
    WITH""".split()  # noqa: SIM905
)


def name_of(token: Token) -> str | None:
    """The name that a token is; None for what is no name."""
    match token.kind:
        case Kind.NAME:
            return token.text
        case Kind.WORD:
            return token.word
        case _:
            return None


def keys_of(part: Part, columns: Sequence[RowColumn], api: SqlApi) -> list[int]:
    """The places of a push query's columns by which a later row replaces an earlier one; none for streams."""
    told = [number for number, column in enumerate(columns) if column.is_key]
    if any(column.is_key is not None for column in columns):
        return told if _is_of_a_table(part, api) else []
    places = {column.name: number for number, column in enumerate(columns)}
    grouped = _grouped_by(part.tokens)
    if grouped is not None:
        return _places([*grouped, *(each for each in _WINDOW if each in places)], places)
    source = _only_table(part, api)
    if source is None:
        return []
    keys = [each.name for each in source.columns if each.is_key]
    if source.is_windowed:
        keys += [each for each in _WINDOW if each in places] or ["WINDOWSTART"]
    return _places(keys, places)


def _is_of_a_table(part: Part, api: SqlApi) -> bool:
    return _grouped_by(part.tokens) is not None or _only_table(part, api) is not None


def _only_table(part: Part, api: SqlApi) -> NamedSource | None:
    named = list(sources_in(part.tokens).values())
    if len(named) != 1:
        return None
    source = describe(api, named[0])
    return source if source is not None and source.is_table else None


def _places(names: Sequence[str], places: Mapping[str, int]) -> list[int]:
    """The places of all of these names; none if one of them is not selected."""
    found = [places[name] for name in names if name in places]
    return found if names and len(found) == len(names) else []


def _grouped_by(tokens: Sequence[Token]) -> list[str] | None:
    words = [token.word for token in tokens]
    for number in range(len(words) - 1):
        if words[number] == "GROUP" and words[number + 1] == "BY":
            names = []
            for token in tokens[number + 2 :]:
                if token.word in _ENDS_GROUP_BY:
                    break
                name = name_of(token)
                if name is not None:
                    names.append(name)
            return names
    return None


def _described(api: SqlApi, names: Sequence[str]) -> dict[str, NamedSource]:
    if not names:
        return {}
    try:
        entities = api.statements(" ".join(f"DESCRIBE {quoted(name)};" for name in names))
    except ClusterError:
        return {}
    found = {}
    for entity in entities:
        told = entity.get("sourceDescription")
        if isinstance(told, Mapping) and told.get("name"):
            columns = tuple(
                NamedColumn(str(each.get("name")), type_name(each.get("schema")), each.get("type") == "KEY")
                for each in told.get("fields") or ()
            )
            name = str(told["name"])
            found[name] = NamedSource(
                name, told.get("type") == "TABLE", columns, bool(told.get("windowType"))
            )
    return found


def _asked(api: SqlApi, statement: str, field_name: str) -> list[Any]:
    try:
        entities: list[Entity] = api.statements(statement)
    except ClusterError:
        return []
    found = entities[0].get(field_name) if entities else None
    if isinstance(found, Mapping):
        return [{"name": name} for name in found]
    return found if isinstance(found, list) else []


def _strings(rows: Sequence[Any], key: str) -> tuple[str, ...]:
    return tuple(sorted({str(each[key]) for each in rows if isinstance(each, Mapping) and each.get(key)}))
