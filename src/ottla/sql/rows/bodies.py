"""The bodies of ksqlDB's REST API: what a request gives, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from ottla.sql.language.errors import SqlError
from ottla.web.bodies import parse_json
from ottla.web.errors import ApiError

BAD_REQUEST: Final = 40000
BAD_STATEMENT: Final = 40001
NO_SUCH_COMMAND: Final = 40400
SERVER_ERROR: Final = 50000
ENTITIES: Final = "application/vnd.ksql.v1+json"
_STREAMS: Final = "ksql.streams."


def json_object(data: bytes, what: str = "The request") -> Mapping[str, Any]:
    """The JSON object that a text is. Raises ApiError."""
    found = parse_json(data, ApiError(400, BAD_REQUEST, f"{what} is no JSON"))
    if not isinstance(found, dict):
        raise ApiError(400, BAD_REQUEST, f"{what} is no JSON object")
    return found


def text_of(given: Mapping[str, Any], name: str) -> str:
    """A request's text, which has to be there. Raises ApiError."""
    found = given.get(name)
    if not isinstance(found, str) or not found:
        raise ApiError(400, BAD_REQUEST, f'The request has no text "{name}"')
    return found


def texts_of(given: Mapping[str, Any], name: str) -> dict[str, str]:
    """A request's object of texts; other values as their JSON. Raises ApiError."""
    found = given.get(name) or {}
    if not isinstance(found, dict):
        raise ApiError(400, BAD_REQUEST, f"{name} is no JSON object")
    return {
        key: value if isinstance(value, str) else orjson.dumps(value).decode() for key, value in found.items()
    }


def properties_of(given: Mapping[str, Any], name: str) -> dict[str, str]:
    """A request's properties, by their plain names. Raises ApiError."""
    return {plain_property(key): value for key, value in texts_of(given, name).items()}


def plain_property(name: str) -> str:
    """A property's name without ksqlDB's prefix for Streams, by which nobody here looks for it."""
    return name.removeprefix(_STREAMS)


def statement_problem(
    problem: SqlError, statement: str, script: str, entities: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """ksqlDB's body of a refused statement, with the place and the advice besides.

    entities: the answers to the script's statements before it.
    """
    found: dict[str, Any] = {
        "@type": "statement_error",
        "error_code": BAD_STATEMENT,
        "message": problem.shown(script),
        "statementText": statement,
        "entities": list(entities),
        "advice": problem.advice,
    }
    if problem.position is not None:
        found["position"] = {"line": problem.position.line, "column": problem.position.column}
    return found


def generic_problem(error_code: int, message: str) -> dict[str, Any]:
    """ksqlDB's body of a request that can't be."""
    return {"@type": "generic_error", "error_code": error_code, "message": message}
