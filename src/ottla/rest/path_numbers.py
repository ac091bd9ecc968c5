"""Numbers in the paths of requests, in both APIs."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from ottla.web.errors import ApiError

INT32_MAX: Final = 2**31 - 1


def path_number(request: Request, name: str) -> int:
    """A number in the path. Raises ApiError 404 for other texts: no resource has such an id."""
    text = request.path_params[name]
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= INT32_MAX):
        raise ApiError(404, 404, "HTTP 404 Not Found")
    return int(text)
