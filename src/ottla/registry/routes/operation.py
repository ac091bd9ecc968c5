"""One method of one path: the media types that it takes and answers in, and whether the primary must do it.

A request with a body names one of CONSUMED as its Content-Type, or nothing (415 otherwise). The answer is of
the first of PRODUCED that the Accept header likes best (406 when it likes none); so are errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.registry.forwarding import Endpoint, on_primary
from ottla.registry.registry import Keys, Registry
from ottla.registry.routes.access import Need, require
from ottla.web import media_types
from ottla.web.application import error_answer, json_answer
from ottla.web.errors import ApiError

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
PRODUCED: Final = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")
CONSUMED: Final = frozenset((*PRODUCED, "application/octet-stream"))


@dataclass(frozen=True, slots=True)
class Operation:
    """`path` is Starlette's; `needs`: of the caller. A write (`writes`) goes to the primary as a whole."""

    method: str
    path: str
    endpoint: Endpoint
    needs: Need
    writes: bool = False


def routes_of(registry: Registry, operations: Iterable[Operation], keys: Keys | None = None) -> list[Route]:
    """A route for each path, in the order in which paths are first named.

    keys: the state that the operations read and write; without it that of schemas.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in operations:
        endpoint = operation.endpoint
        if operation.writes:
            endpoint = on_primary(registry if keys is None else keys, endpoint)
        if keys is not None:
            endpoint = _opened(keys, endpoint)
        methods = by_path.setdefault(operation.path, {})
        assert operation.method not in methods, operation
        methods[operation.method] = _negotiated(registry, operation.needs, endpoint)
    return [Route(path, _by_method(methods), methods=list(methods)) for path, methods in by_path.items()]


def answer(request: Request, content: Any, status: int = 200) -> Response:
    """`content` as JSON of the media type that the request asks for."""
    return json_answer(content, status, _media_type(request))


def text_answer(request: Request, text: str) -> Response:
    """A schema's text as it is."""
    return Response(text.encode(), media_type=_media_type(request))


def negotiate(accept: str) -> str | None:
    """Which of PRODUCED this Accept header likes best; None when it wants none of them."""
    return media_types.negotiate(accept, PRODUCED)


def _media_type(request: Request) -> str:
    return negotiate(request.headers.get("accept", "*/*")) or MEDIA_TYPE


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def chosen(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return chosen


def _opened(keys: Keys, endpoint: Endpoint) -> Endpoint:
    async def after_opening(request: Request) -> Response:
        await keys.open()
        return await endpoint(request)

    return after_opening


def _negotiated(registry: Registry, needs: Need, endpoint: Endpoint) -> Endpoint:
    async def checked(request: Request) -> Response:
        if request.method in ("POST", "PUT"):
            named = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if named and named not in CONSUMED:
                raise HTTPException(415)
        media_type = negotiate(request.headers.get("accept", "*/*"))
        if media_type is None:
            raise HTTPException(406)
        try:
            require(request, registry, needs)
            return await endpoint(request)
        except ApiError as error:
            return error_answer(error.status, error.error_code, error.message, media_type)

    return checked
