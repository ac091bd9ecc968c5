"""Path and query parameters.

Paths reach the routes still percent-encoded (see `paths.py`), so that a subject may hold a slash; here they
are decoded. A flag is true when it says `true`, in upper or lower case; anything else is false. A text in
place of a number ends in 404, as with Confluent, but with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote

from starlette.requests import Request

from ottla.registry.core.contexts import normal_subject
from ottla.registry.core.image import Deleted
from ottla.registry.core.reading import LATEST
from ottla.web.errors import ApiError

T = TypeVar("T")


class Limits(NamedTuple):
    """How many items a listing has that names no limit, and how many it has at most."""

    default: int
    most: int


MAX_INT: Final = 2**31 - 1
_MAX_DIGITS: Final = 10


def path_text(request: Request, name: str) -> str:
    """A parameter of the path, decoded. 400 when it is no UTF-8."""
    encoded: str = request.path_params[name]
    try:
        return unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise ApiError(400, 400, f"{encoded} is not percent-encoded UTF-8") from None


def subject_of(request: Request) -> str:
    """The path's subject, as the core names it."""
    return normal_subject(path_text(request, "subject"))


def optional_subject_of(request: Request) -> str | None:
    """The path's subject, or context (`:.c:`); None where the path names none."""
    return subject_of(request) if "subject" in request.path_params else None


def version_of(request: Request) -> int:
    """The path's version: a number from 1, or LATEST for `latest` and -1. 42202."""
    text = path_text(request, "version")
    if text in ("latest", str(LATEST)):
        return LATEST
    version = _whole_number(text)
    if version is None or version < 1:
        raise ApiError(
            422,
            42202,
            f"The specified version '{text}' is not a valid version id. "
            f'Allowed values are between [1, 2^31-1] and the string "latest"',
        )
    return version


def id_of(request: Request) -> int:
    """The path's schema id. 404."""
    text = path_text(request, "id")
    schema_id = _whole_number(text)
    if schema_id is None:
        raise ApiError(404, 404, f"HTTP 404 Not Found: {text!r} is no schema id")
    return schema_id


def flag(request: Request, name: str) -> bool:
    """A flag of the query; false when it is absent."""
    return request.query_params.get(name, "").lower() == "true"


def number(request: Request, name: str, default: int) -> int:
    """A whole number of the query. 404."""
    text = request.query_params.get(name)
    if not text:
        return default
    value = _whole_number(text)
    if value is None:
        raise ApiError(404, 404, f"HTTP 404 Not Found: {name} must be a whole number, not {text!r}")
    return value


def query_subject(request: Request) -> str | None:
    """`?subject=`, as the core names it."""
    subject = request.query_params.get("subject")
    return normal_subject(subject) if subject else None


def shown(request: Request) -> Deleted:
    """`?deleted` and `?deletedOnly`, of which the latter wins."""
    if flag(request, "deletedOnly"):
        return Deleted.ONLY
    return Deleted.SHOW if flag(request, "deleted") else Deleted.HIDE


def page(request: Request, items: Sequence[T], limits: Limits | None = None) -> Sequence[T]:
    """The part of `items` that `?offset` and `?limit` ask for, within these limits."""
    first = max(number(request, "offset", 0), 0)
    asked = number(request, "limit", -1 if limits is None else limits.default)
    if limits is not None:
        asked = min(asked if asked >= 0 else limits.most, limits.most)
    return items[first:] if asked < 0 else items[first : first + asked]


def _whole_number(text: str) -> int | None:
    """A number that Java's int can hold."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _MAX_DIGITS:
        return None
    value = int(text)
    return value if -MAX_INT - 1 <= value <= MAX_INT else None
