"""Reads request bodies, bounded in size, as bytes or JSON."""

from __future__ import annotations

from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request

from ottla.web.errors import ApiError

MAX_BODY_BYTES: Final = 16 << 20
"""The bound on a request's body where the service sets no other."""


async def read_body(request: Request, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. Raises ApiError 413 when it is longer than `limit_bytes`."""
    claimed = request.headers.get("content-length", "")
    if claimed.isdecimal() and int(claimed) > limit_bytes:
        raise _too_large(limit_bytes)
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            parts.append(part)
    except ClientDisconnect:
        raise ApiError(400, 400, "The client went away before its request was whole") from None
    return b"".join(parts)


async def hung_up(request: Request) -> None:
    """Wait until the client has gone. Call it once the body is read: before, it would consume the body."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def parse_json(body: bytes, error: ApiError) -> Any:
    """The value of the JSON text `body`. Raises `error`, with the parser's reason, for any other text."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise ApiError(error.status, error.error_code, f"{error.message}: {problem}") from None


def _too_large(limit_bytes: int) -> ApiError:
    return ApiError(413, 413, f"The request's body is larger than {limit_bytes} bytes")
