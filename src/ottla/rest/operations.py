"""An operation of the API: what answers it, beside what the OpenAPI document says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.urls import Urls

JSON: Final = "application/json"
LISTINGS_AT_A_TIME: Final = 4
"""Of a large cluster each may hold tens of MB."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter behind the question mark. `type` is JSON Schema's."""

    name: str
    description: str
    type: str = "string"
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """One method of one path, as the document tells it.

    body: the schema of the request, by its name among the document's. answers: by status the schema of what
    comes back, or None for nothing. errors: the statuses beside those that any request may get. note: what
    else there is to know.
    """

    method: str
    path: str
    summary: str
    answers: Mapping[int, str | None]
    body: str | None = None
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    body_media_types: tuple[str, ...] = (JSON,)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    """What the handlers of administration share. `listings` admits those that tell of everything."""

    admin: ClusterAdmin
    urls: Urls
    max_body_bytes: int
    listings: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LISTINGS_AT_A_TIME))


Handler = Callable[[Api, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """A description and what answers as it says. `everything`: the answer is as large as the cluster."""

    description: Description
    handler: Handler
    everything: bool = False


def routes_of(api: Api, operations: Iterable[Operation]) -> list[Route]:
    """The routes of a table, in its order: the first that matches answers."""
    return [
        Route(
            operation.description.path,
            partial(_in_turn if operation.everything else _at_once, api, operation.handler),
            methods=[operation.description.method],
        )
        for operation in operations
    ]


async def _at_once(api: Api, handler: Handler, request: Request) -> Response:
    return await handler(api, request)


async def _in_turn(api: Api, handler: Handler, request: Request) -> Response:
    async with api.listings:
        return await handler(api, request)
