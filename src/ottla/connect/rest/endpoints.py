"""The common part of all endpoints: media types, access, the bound in time, and answers to errors."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import unquote

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.config.errors import UserError
from ottla.connect.core.errors import Refused
from ottla.connect.worker.herder import Herder
from ottla.web.access_rules import Action
from ottla.web.application import error_answer, json_answer
from ottla.web.bodies import read_body
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError
from ottla.web.media_types import negotiate

log = logging.getLogger("ottla.connect")

MEDIA_TYPE: Final = "application/json"
MAX_BODY_BYTES: Final = 16 << 20
REQUEST_SECONDS: Final = 90.0
"""Connect gives up on a request after this time."""

Endpoint = Callable[[Request], Awaitable[Response]]


class Worker(Protocol):
    """The worker as endpoints see it."""

    @property
    def herder(self) -> Herder:
        """Its queries and changes."""

    @property
    def kafka_cluster_id(self) -> str:
        """The id of its cluster."""

    def health(self) -> tuple[int, str, str]:
        """Status of HTTP, one word, one sentence."""

    async def on_leader(self, request: Request, endpoint: Endpoint) -> Response:
        """The answer of the leader, this worker or another one. Raises ApiError."""


class Extent(enum.Enum):
    """The things that an operation is done to."""

    NOTHING = "nothing"
    SOME = "some"
    CONNECTOR = "connector"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Operation:
    """An endpoint. on_leader: the leader alone answers it."""

    method: str
    path: str
    endpoint: Endpoint
    extent: Extent = Extent.CONNECTOR
    on_leader: bool = False

    @property
    def action(self) -> Action:
        """What the caller has to be allowed."""
        return Action.READ if self.method == "GET" else Action.ADMIN


def routes_of(worker: Worker, operations: Iterable[Operation]) -> list[Route]:
    """A route for each path, in the order in which paths are first named."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = partial(_answer, worker, operation)
    return [Route(path, _by_method(methods), methods=list(methods)) for path, methods in by_path.items()]


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def chosen(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return chosen


def _has_body(request: Request) -> bool:
    """Clients for Node name a form's type for a PUT of nothing; Java's workers refuse these."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


async def _answer(worker: Worker, operation: Operation, request: Request) -> Response:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method != "GET" and given not in ("", MEDIA_TYPE) and _has_body(request):
        raise HTTPException(415)
    if negotiate(request.headers.get("accept", "*/*"), (MEDIA_TYPE,)) is None:
        raise HTTPException(406)
    try:
        _require(request, operation)
        async with asyncio.timeout(REQUEST_SECONDS):
            if operation.on_leader:
                return await worker.on_leader(request, partial(_refusing, operation.endpoint))
            return await _refusing(operation.endpoint, request)
    except ApiError as error:
        return error_answer(error.status, error.error_code, error.message, MEDIA_TYPE)
    except TimeoutError:
        return error_answer(500, 500, "Request timed out", MEDIA_TYPE)


async def _refusing(endpoint: Endpoint, request: Request) -> Response:
    """The endpoint's answer, where a refusal is one too."""
    try:
        return await endpoint(request)
    except Refused as refused:
        return error_answer(refused.status, refused.status, refused.message, MEDIA_TYPE)
    except UserError as problem:
        return error_answer(500, 500, str(problem), MEDIA_TYPE)


def _require(request: Request, operation: Operation) -> None:
    """Raises ApiError 403 if the caller may not have the operation done."""
    grants, action = grants_of(request.scope), operation.action
    match operation.extent:
        case Extent.NOTHING:
            return
        case Extent.SOME if grants.allow_some(action):
            return
        case Extent.ALL if grants.allow_all(action):
            return
        case Extent.CONNECTOR:
            connector = connector_of(request)
            if grants.allow(action, connector):
                return
            raise denied(request.scope, action, f"connector {connector}")
    raise denied(request.scope, action, "this")


def require_connector(request: Request, connector: str) -> None:
    """Raises ApiError 403 if the caller may not change this connector, which the body names."""
    if not grants_of(request.scope).allow(Action.ADMIN, connector):
        raise denied(request.scope, Action.ADMIN, f"connector {connector}")


def may_read(request: Request, connector: str) -> bool:
    """Whether the caller may see this connector."""
    return grants_of(request.scope).allow(Action.READ, connector)


# -- requests ---------------------------------------------------------------------------------------


def connector_of(request: Request) -> str:
    """The connector of the path."""
    return path_text(request, "connector")


def path_text(request: Request, name: str) -> str:
    """A parameter of the path. Raises ApiError 404 where it is no UTF-8."""
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise ApiError(404, 404, "HTTP 404 Not Found") from None


def task_of(request: Request) -> int:
    """The task of the path. Raises ApiError 404 for one that is no number."""
    text = request.path_params["task"]
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10 or not -(2**31) <= int(text) < 2**31:
        raise ApiError(404, 404, "HTTP 404 Not Found")
    return int(text)


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A flag of the query: true in upper or lower case, as Java reads one."""
    text = request.query_params.get(name)
    return default if text is None else text.lower() == "true"


async def json_body(request: Request) -> Any:
    """The body. Raises ApiError 500 for one that is no JSON, with the status that Connect answers it with."""
    return parsed(await read_body(request, MAX_BODY_BYTES))


def parsed(body: bytes) -> Any:
    """The JSON of a body, None for an empty one. Raises ApiError 500."""
    if not body:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise ApiError(500, 500, f"The body is no JSON: {problem}") from None


def config_of(value: Any) -> dict[str, str | None]:
    """A configuration in a body, whose numbers and booleans count as texts. Raises ApiError 500."""
    if not isinstance(value, dict):
        raise ApiError(500, 500, "The configuration must be a JSON object of texts")
    return {name: _text(name, each) for name, each in value.items()}


def _text(name: str, value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    raise ApiError(500, 500, f"The value of {name} must be a text")


def answer(content: Any, status: int = 200) -> Response:
    """`content` as JSON."""
    return json_answer(content, status)


def nothing(status: int) -> Response:
    """An answer without content."""
    return Response(status_code=status)
