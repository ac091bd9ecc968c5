"""What a server tells of a statement (ksqlDB's entities) as blocks for people: a title, a table, lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.sql.terminal.api import Entity
from ottla.sql.terminal.values import json_text

_PLAIN: Final = frozenset({"@type", "statementText", "warnings"})


@dataclass(frozen=True, slots=True)
class Block:
    """A table with its title, or lines. empty: the sentence for a table without rows."""

    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    lines: tuple[str, ...] = ()
    empty: str = ""


def blocks_of(entity: Entity) -> list[Block]:
    """The blocks of an entity; those of an unknown one are its fields."""
    functions = entity.get("functions")
    if isinstance(functions, list):
        described = "arguments" in entity or any("arguments" in each for each in _objects(functions))
        return list(_function(functions, entity) if described else _functions(functions))
    for field, blocks in _BY_FIELD.items():
        if entity.get(field) is not None:
            return list(blocks(entity[field]))
    if "message" in entity or "errorMessage" in entity:
        return [Block(lines=(str(entity.get("message") or entity.get("errorMessage")),))]
    return [_fields(entity)] if entity.keys() - _PLAIN else []


def warnings_of(entity: Entity) -> list[str]:
    """The warnings of an entity."""
    found = entity.get("warnings") or ()
    return [str(each["message"]) for each in found if isinstance(each, dict) and each.get("message")]


def failure_of(entity: Entity) -> str | None:
    """Why a command has failed, although its request was taken; None if it has not."""
    status = entity.get("commandStatus")
    if isinstance(status, Mapping) and status.get("status") == "ERROR":
        return str(status.get("message") or "the statement has failed")
    if entity.get("@type") == "error_entity":
        return str(entity.get("errorMessage") or "the statement has failed")
    return None


def type_name(schema: Any) -> str:
    """A column's type as statements have it, out of the description of a schema."""
    if not isinstance(schema, Mapping):
        return str(schema)
    kind = str(schema.get("type", ""))
    match kind:
        case "ARRAY":
            return f"ARRAY<{type_name(schema.get('memberSchema'))}>"
        case "MAP":
            return f"MAP<STRING, {type_name(schema.get('memberSchema'))}>"
        case "STRUCT":
            inner = (
                f"{each.get('name')} {type_name(each.get('schema'))}" for each in schema.get("fields") or ()
            )
            return f"STRUCT<{', '.join(inner)}>"
        case "DECIMAL":
            given = schema.get("parameters") or {}
            return f"DECIMAL({given.get('precision')}, {given.get('scale')})" if given else kind
        case _:
            return kind


# -- tables of one list each


def _listed(*fields: tuple[str, str], empty: str) -> Callable[[Any], Iterator[Block]]:
    """The blocks of a list of objects: of each field (the title, the key) a column."""

    def blocks(found: Any) -> Iterator[Block]:
        rows = tuple(tuple(_cell(each, key) for _, key in fields) for each in _objects(found))
        yield Block("", tuple(title for title, _ in fields), rows, empty=empty)

    return blocks


def _cell(row: Mapping[str, Any], key: str) -> Any:
    value = row.get(key)
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _objects(found: Any) -> list[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _command(status: Any) -> Iterator[Block]:
    if not isinstance(status, Mapping):
        return
    message = str(status.get("message") or status.get("status") or "")
    yield Block(lines=tuple(message.splitlines()))


def _topics(found: Any) -> Iterator[Block]:
    extended = any("consumerCount" in each for each in _objects(found))
    titles = ("topic", "partitions", "replicas", *(("consumers", "groups") if extended else ()))
    rows = []
    for each in _objects(found):
        replicas = each.get("replicaInfo") or []
        row: list[Any] = [each.get("name"), len(replicas), max(replicas, default=0)]
        rows.append(
            (*row, *((each.get("consumerCount"), each.get("consumerGroupCount")) if extended else ()))
        )
    yield Block("", titles, tuple(rows), empty="there are no topics")


def _queries(found: Any) -> Iterator[Block]:
    rows = []
    for each in _objects(found):
        counts = each.get("statusCount")
        state = each.get("state") or (
            ", ".join(f"{name}: {count}" for name, count in counts.items())
            if isinstance(counts, dict)
            else None
        )
        text = " ".join(str(each.get("queryString") or "").split())
        rows.append((each.get("id"), each.get("queryType"), state, _cell(each, "sinks"), text))
    yield Block("", ("id", "type", "state", "into", "statement"), tuple(rows), empty="no query runs")


def _properties(found: Any) -> Iterator[Block]:
    if isinstance(found, Mapping):
        rows: list[tuple[Any, ...]] = [(name, found[name], None) for name in sorted(found)]
    else:
        rows = sorted(
            (
                (each.get("name"), each.get("value"), each.get("level") or each.get("scope"))
                for each in _objects(found)
            ),
            key=lambda row: str(row[0]),
        )
    yield Block("", ("property", "value", "level"), tuple(rows), empty="there are no properties")


def _types(found: Any) -> Iterator[Block]:
    named = found if isinstance(found, Mapping) else {}
    rows = tuple((name, type_name(schema)) for name, schema in sorted(named.items()))
    yield Block("", ("type", "is"), rows, empty="there are no types")


# -- descriptions


def _source(found: Any) -> Iterator[Block]:
    if not isinstance(found, Mapping):
        return
    kind = str(found.get("type") or "")
    columns = [(each.get("name"), _type_with_role(each, kind)) for each in _objects(found.get("fields"))]
    yield Block(f"{kind.lower()} {found.get('name')}", ("column", "type"), tuple(columns))
    if found.get("extended"):
        yield _facts(
            ("topic", found.get("topic")),
            ("partitions", found.get("partitions")),
            ("replication", found.get("replication")),
            ("key format", found.get("keyFormat")),
            ("value format", found.get("valueFormat") or found.get("format")),
            ("timestamp", found.get("timestamp")),
            ("window", found.get("windowType")),
            ("statement", " ".join(str(found.get("statement") or "").split())),
            ("statistics", found.get("statistics")),
            ("errors", found.get("errorStats")),
        )
    for title, key in (("queries that read", "readQueries"), ("queries that write", "writeQueries")):
        if queries := _objects(found.get(key)):
            lines = (
                f"{each.get('id')}: {' '.join(str(each.get('queryString')).split())}" for each in queries
            )
            yield Block(title, lines=tuple(lines))
    if found.get("sourceConstraints"):
        yield Block("made from", lines=tuple(map(str, found["sourceConstraints"])))


def _type_with_role(field: Mapping[str, Any], kind: str) -> str:
    name = type_name(field.get("schema"))
    match field.get("type"):
        case "KEY":
            return f"{name} (primary key)" if kind == "TABLE" else f"{name} (key)"
        case "HEADER":
            header = field.get("headerKey")
            return f"{name} (header '{header}')" if header else f"{name} (headers)"
        case _:
            return name


def _query(found: Any) -> Iterator[Block]:
    if not isinstance(found, Mapping):
        return
    yield _facts(
        ("id", found.get("id")),
        ("type", found.get("queryType")),
        ("state", found.get("state")),
        ("statement", " ".join(str(found.get("statementText") or "").split())),
        ("reads", _cell(found, "sources")),
        ("into", _cell(found, "sinks")),
        title="query",
    )
    if fields := _objects(found.get("fields")):
        rows = tuple((each.get("name"), _type_with_role(each, "")) for each in fields)
        yield Block("columns", ("column", "type"), rows)
    for title, key in (("plan", "executionPlan"), ("topology", "topology")):
        if text := str(found.get(key) or "").rstrip():
            yield Block(title, lines=tuple(text.splitlines()))
    if overridden := found.get("overriddenProperties"):
        yield _facts(*sorted(overridden.items()), title="properties of its own")
    for each in _objects(found.get("queryErrors")):
        yield Block("error", lines=tuple(str(each.get("errorMessage") or json_text(dict(each))).splitlines()))


def _functions(found: Any) -> Iterator[Block]:
    rows = [
        (each.get("name"), str(each.get("type") or "").lower(), each.get("category"))
        for each in _objects(found)
    ]
    rows.sort(key=lambda row: str(row[0]))
    yield Block("", ("function", "type", "category"), tuple(rows), empty="there are no functions")


def _function(found: Sequence[Any], entity: Entity) -> Iterator[Block]:
    yield _facts(
        ("name", entity.get("name")),
        ("version", entity.get("version")),
        ("author", entity.get("author")),
        ("type", entity.get("type")),
        ("overview", entity.get("description")),
        title="function",
    )
    rows = []
    for each in _objects(list(found)):
        given = ", ".join(
            f"{argument.get('name') or ''} {argument.get('type') or ''}".strip()
            + ("..." if argument.get("isVariadic") else "")
            for argument in _objects(each.get("arguments"))
        )
        rows.append((f"{entity.get('name')}({given})", each.get("returnType"), each.get("description")))
    yield Block("variations", ("call", "gives", "what"), tuple(rows))


def _connector(found: Any) -> Iterator[Block]:
    if not isinstance(found, Mapping):
        return
    worker = found.get("connector") or {}
    yield _facts(
        ("name", found.get("name")),
        ("state", worker.get("state")),
        ("worker", worker.get("worker_id") or worker.get("workerId")),
        ("trace", worker.get("trace")),
        title="connector",
    )
    rows = tuple(
        (each.get("id"), each.get("state"), each.get("trace")) for each in _objects(found.get("tasks"))
    )
    yield Block("tasks", ("task", "state", "trace"), rows, empty="it has no tasks")


def _several(blocks: Callable[[Any], Iterator[Block]]) -> Callable[[Any], Iterator[Block]]:
    def all_blocks(found: Any) -> Iterator[Block]:
        for each in _objects(found):
            yield from blocks(each)

    return all_blocks


def _facts(*facts: tuple[str, Any], title: str = "") -> Block:
    """A table of what is known: names and values."""
    known = tuple((name, value) for name, value in facts if value not in (None, "", []))
    return Block(title, ("", ""), known)


def _fields(entity: Entity) -> Block:
    rows = tuple(
        (name, json_text(value) if isinstance(value, dict | list) else value)
        for name, value in entity.items()
        if name not in _PLAIN
    )
    return Block("", ("field", "value"), rows)


_BY_FIELD: Final[dict[str, Callable[[Any], Iterator[Block]]]] = {
    "commandStatus": _command,
    "streams": _listed(
        ("stream", "name"),
        ("topic", "topic"),
        ("key format", "keyFormat"),
        ("value format", "valueFormat"),
        ("windowed", "isWindowed"),
        empty="there are no streams",
    ),
    "tables": _listed(
        ("table", "name"),
        ("topic", "topic"),
        ("key format", "keyFormat"),
        ("value format", "valueFormat"),
        ("windowed", "isWindowed"),
        empty="there are no tables",
    ),
    "topics": _topics,
    "queries": _queries,
    "properties": _properties,
    "sourceDescription": _source,
    "sourceDescriptions": _several(_source),
    "queryDescription": _query,
    "queryDescriptions": _several(_query),
    "variables": _listed(("variable", "name"), ("value", "value"), empty="no variable is defined"),
    "types": _types,
    "connectors": _listed(
        ("connector", "name"),
        ("type", "type"),
        ("class", "className"),
        ("state", "state"),
        empty="there are no connectors",
    ),
    "connectorsPlugins": _listed(
        ("class", "className"), ("type", "type"), ("version", "version"), empty="there are no plugins"
    ),
    "status": _connector,
}
