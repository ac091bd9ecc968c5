"""Reads requests of API v3: bodies field by field, and flags in queries."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any, Final, TypeVar

from starlette.requests import Request

from ottla.rest.operations import JSON, Api
from ottla.web.bodies import parse_json, read_body
from ottla.web.errors import ApiError

E = TypeVar("E", bound=IntEnum)

INT16_MAX: Final = 2**15 - 1
MAX_ITEMS: Final = 10_000
"""The most items of one list in a body."""
MAX_TEXT: Final = 32_767
"""The most bytes of a string, as in Kafka's protocol."""


def bad(message: str) -> ApiError:
    """The answer to an invalid request."""
    return ApiError(400, 400, message)


async def read_fields(api: Api, request: Request, known: Collection[str]) -> dict[str, Any]:
    """The JSON object that is the request's body, with no other fields than `known`. Raises ApiError."""
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON:
        raise ApiError(415, 415, "HTTP 415 Unsupported Media Type")
    body = await read_body(request, api.max_body_bytes)
    if not body.strip():
        raise ApiError(422, 422, "Payload error. Request body is empty. Data is required.")
    return known_fields(parse_json(body, bad("The body is not JSON")), known, "the body")


def known_fields(value: Any, known: Collection[str], where: str) -> dict[str, Any]:
    """`value` as an object with no other fields than `known`. Raises ApiError."""
    if not isinstance(value, dict):
        raise bad(f"Cannot deserialize {where}: it must be a JSON object")
    for name in value:
        if name not in known:
            fields = ", ".join(sorted(known))
            raise bad(f'Unrecognized field "{name[:100]}" in {where}; known fields are {fields}')
    return value


def text_field(fields: dict[str, Any], name: str) -> str:
    """A required string. Raises ApiError."""
    value = optional_text_field(fields, name)
    if value is None:
        raise bad(f"{name} must be a string and is missing")
    return value


def optional_text_field(fields: dict[str, Any], name: str) -> str | None:
    """A string, or None where it is absent or null. Raises ApiError."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise bad(f"Cannot deserialize {name}: it must be a string")
    if value is not None and len(value.encode()) > MAX_TEXT:
        raise bad(f"{name} is longer than {MAX_TEXT} bytes")
    return value


def optional_number(fields: dict[str, Any], name: str, most: int) -> int | None:
    """A whole number up to `most`, or None where it is absent or null. Raises ApiError."""
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise bad(f"Cannot deserialize {name}: it must be a whole number")
    if value is not None and not -most - 1 <= value <= most:
        raise bad(f"{name} is out of range")
    return value


def flag_field(fields: dict[str, Any], name: str) -> bool:
    """A boolean; false where it is absent or null. Raises ApiError."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad(f"Cannot deserialize {name}: it must be true or false")
    return bool(value)


def list_field(fields: dict[str, Any], name: str) -> list[Any]:
    """A list; empty where it is absent or null. Raises ApiError."""
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad(f"Cannot deserialize {name}: it must be a list")
    if len(value) > MAX_ITEMS:
        raise bad(f"{name} has more than {MAX_ITEMS} items")
    return value


def member_of(kind: type[E], value: str, name: str) -> E:
    """The member of this name, in upper or lower case. Raises ApiError."""
    try:
        return kind[value.upper()]
    except KeyError:
        choices = ", ".join(member.name for member in kind)
        raise bad(f"{name} must be one of {choices}, not {value[:100]}") from None


def query_flag(request: Request, name: str) -> bool:
    """A boolean in the query; false where it is absent. Raises ApiError."""
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false"):
        raise bad(f"{name} must be true or false")
    return value == "true"
