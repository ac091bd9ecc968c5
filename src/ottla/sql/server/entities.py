"""ksqlDB's answers to statements: JSON objects told apart by `@type`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.sql.catalog.sources import Column, Source
from ottla.sql.commands.command import Command, Outcome
from ottla.sql.commands.state import PersistentQuery, SqlState
from ottla.sql.functions.function import AggregateFunction, Function, TableFunction
from ottla.sql.language.statements import Role
from ottla.sql.rows.schema_json import schema_json
from ottla.sql.running.state_words import status_word, streams_word
from ottla.sql.running.wishes import QueryLife
from ottla.sql.types.sql_types import SqlType

Entity = dict[str, Any]
_KEYS: Final = {Role.KEY: "KEY", Role.PRIMARY_KEY: "KEY"}


def entity(kind: str, statement: str, **fields: Any) -> Entity:
    """An answer."""
    return {"@type": kind, "statementText": statement, **fields, "warnings": []}


def current_status(command: Command, statement: str) -> Entity:
    """The answer to a statement that changes something."""
    return entity(
        "currentStatus",
        statement,
        commandId=command.id,
        commandStatus=command_status(command),
        commandSequenceNumber=command.number,
    )


def command_status(command: Command) -> Entity:
    """How a command is: stored is done, as what follows is the query's own life."""
    return {"status": Outcome.SUCCESS.value, "message": command.message, "queryId": command.query_id}


def warned(statement: str, message: str) -> Entity:
    """The answer to a statement that had nothing to do."""
    found = entity("warning_entity", statement, message=message)
    found["warnings"] = []
    return found


# -- schemas


def field_json(column: Column) -> Entity:
    """A column of a source."""
    found: Entity = {"name": column.name, "schema": schema_json(column.type)}
    if column.role in _KEYS:
        found["type"] = _KEYS[column.role]
    elif column.role is Role.HEADERS:
        found["type"] = "HEADER"
        if column.header is not None:
            found["headerKey"] = column.header
    return found


def fields_json(source: Source) -> list[Entity]:
    """The columns of a source, keys first as SELECT * has them."""
    return [field_json(each) for each in source.columns]


# -- lists


def sources_list(kind: str, statement: str, sources: Iterable[Source]) -> Entity:
    """SHOW STREAMS or TABLES. kind: streams or tables."""
    rows = [
        {
            "type": each.kind.value,
            "name": each.name,
            "topic": each.topic,
            "keyFormat": each.key_format,
            "valueFormat": each.value_format,
            "isWindowed": each.windowed is not None,
        }
        for each in sorted(sources, key=lambda each: each.name)
    ]
    return entity(kind, statement, **{kind: rows})


def query_row(query: PersistentQuery, life: QueryLife | None) -> Entity:
    """A query of SHOW QUERIES."""
    word = status_word(query, life)
    return {
        "queryString": query.statement,
        "sinks": [query.target],
        "sinkKafkaTopics": [query.plan.target.topic],
        "id": query.id,
        "statusCount": {word: 1},
        "queryType": "PERSISTENT",
        "state": word,
    }


def push_row(id: str, statement: str) -> Entity:
    """A push query of SHOW QUERIES."""
    return {
        "queryString": statement,
        "sinks": [],
        "sinkKafkaTopics": [],
        "id": id,
        "statusCount": {"RUNNING": 1},
        "queryType": "PUSH",
        "state": "RUNNING",
    }


def functions_list(statement: str, named: Mapping[str, Function]) -> Entity:
    """SHOW FUNCTIONS."""
    rows = [
        {"name": each.name, "type": function_kind(each), "category": each.group.upper()}
        for each in named.values()
    ]
    return entity("function_names", statement, functions=sorted(rows, key=lambda row: row["name"]))


def function_kind(function: Function) -> str:
    """SCALAR, AGGREGATE or TABLE."""
    match function:
        case AggregateFunction():
            return "AGGREGATE"
        case TableFunction():
            return "TABLE"
        case _:
            return "SCALAR"


def described_function(statement: str, function: Function) -> Entity:
    """DESCRIBE FUNCTION."""
    variants = []
    for each in function.variants:
        arguments, _, returns = each.signature.text.rpartition(" -> ")
        variants.append(
            {
                "arguments": [
                    {
                        "name": "",
                        "type": text.removesuffix("..."),
                        "description": "",
                        "isVariadic": text.endswith("..."),
                    }
                    for text in split_arguments(arguments)
                ],
                "returnType": returns,
                "description": function.summary,
            }
        )
    return entity(
        "describe_function",
        statement,
        name=function.name,
        description=function.summary,
        author="",
        version="",
        path="internal" if function.group != "user-defined" else "user-defined",
        functions=variants,
        type=function_kind(function),
    )


def split_arguments(text: str) -> list[str]:
    """The arguments of `(A, MAP<B, C>)`."""
    found: list[str] = []
    depth, begin, inner = 0, 0, text.strip()[1:-1]
    for at, sign in enumerate(inner):
        if sign in "<(":
            depth += 1
        elif sign in ">)" and inner[at - 1] not in "-=":
            depth -= 1
        elif sign == "," and depth == 0:
            found.append(inner[begin:at].strip())
            begin = at + 1
    last = inner[begin:].strip()
    return [*found, last] if last else found


def types_list(statement: str, types: Mapping[str, SqlType]) -> Entity:
    """SHOW TYPES."""
    return entity("type_list", statement, types={name: schema_json(of) for name, of in types.items()})


# -- descriptions


def source_description(
    source: Source, state: SqlState, lives: Mapping[str, QueryLife], *, extended: bool
) -> Entity:
    """DESCRIBE of a stream or table, without the envelope."""
    queries = state.queries.values()
    reads = [query_row(each, lives.get(each.id)) for each in queries if source.name in each.reads]
    writes = [query_row(each, lives.get(each.id)) for each in queries if each.target == source.name]
    made_of: list[str] = []
    if source.written_by is not None and source.written_by in state.queries:
        made_of = list(state.queries[source.written_by].reads)
    return {
        "name": source.name,
        "windowType": None if source.windowed is None else source.windowed.kind.value,
        "readQueries": reads,
        "writeQueries": writes,
        "fields": fields_json(source),
        "type": source.kind.value,
        "timestamp": source.timestamp or "",
        "statistics": _statistics(source, state, lives) if extended else "",
        "errorStats": _errors(source, state, lives) if extended else "",
        "extended": extended,
        "keyFormat": source.key_format,
        "valueFormat": source.value_format,
        "topic": source.topic,
        "partitions": source.partitions or 0 if extended else 0,
        "replication": source.replicas or 0 if extended else 0,
        "statement": state.statements.get(source.name, ""),
        "queryOffsetSummaries": _offsets(source, state, lives) if extended else [],
        "sourceConstraints": made_of,
    }


def query_description(query: PersistentQuery, life: QueryLife | None, plan: str, topology: str) -> Entity:
    """EXPLAIN of a running query, without the envelope."""
    errors = []
    if life is not None and life.problem is not None:
        errors.append({"timestamp": 0, "errorMessage": life.problem, "type": "USER"})
    return {
        "id": query.id,
        "statementText": query.statement,
        "windowType": None if query.plan.query.window is None else query.plan.query.window.kind.value,
        "fields": fields_json(query.plan.target),
        "sources": list(query.reads),
        "sinks": [query.target],
        "topology": topology,
        "executionPlan": plan,
        "overriddenProperties": dict(query.properties),
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT",
        "queryErrors": errors,
        "tasksMetadata": [],
        "state": streams_word(query, life),
    }


def _statistics(source: Source, state: SqlState, lives: Mapping[str, QueryLife]) -> str:
    lines = []
    for query in state.queries.values():
        life = lives.get(query.id)
        if query.target == source.name and life is not None and life.progress is not None:
            told = life.progress
            lines.append(
                f"{query.id}: {told.rows} rows in the last batch, {told.rows_per_second:.0f} a second, "
                f"{told.lag} to read"
            )
            if life.took_over_at:
                places = ", ".join(
                    f"{topic}-{partition} at {offset}"
                    for topic, partitions in life.took_over_at.items()
                    for partition, offset in sorted(partitions.items())
                )
                lines.append(f"{query.id}: its plan took over {places}")
    return "\n".join(lines)


def _errors(source: Source, state: SqlState, lives: Mapping[str, QueryLife]) -> str:
    lines = []
    for query in state.queries.values():
        life = lives.get(query.id)
        if query.target != source.name or life is None:
            continue
        if life.problem is not None:
            lines.append(f"{query.id}: {life.problem.splitlines()[0]}")
        if life.progress is not None and life.progress.dead_letters:
            lines.append(f"{query.id}: {life.progress.dead_letters} records could not be read")
    return "\n".join(lines)


def _offsets(source: Source, state: SqlState, lives: Mapping[str, QueryLife]) -> list[Entity]:
    found = []
    for query in state.queries.values():
        life = lives.get(query.id)
        if query.target != source.name or life is None or not life.positions:
            continue
        found.append(
            {
                "groupId": query.id,
                "topicSummaries": [
                    {
                        "kafkaTopic": topic,
                        "offsets": [
                            {"partition": int(partition), "consumerOffset": offset}
                            for partition, offset in sorted(partitions.items())
                        ],
                    }
                    for topic, partitions in life.positions.items()
                ],
            }
        )
    return found
