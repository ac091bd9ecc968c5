"""An operation of the API: its handler beside its description in the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.urls import Urls
from ottla.web.openapi import JSON, Description, Query

__all__ = ["JSON", "Api", "Description", "Handler", "Operation", "Query", "routes_of"]

LISTINGS_AT_A_TIME: Final = 4
"""Listings under way at a time: that of a large cluster may hold tens of MB."""


@dataclass(frozen=True, slots=True)
class Api:
    """Shared by the handlers of administration. `listings` bounds answers of the whole cluster's size."""

    admin: ClusterAdmin
    urls: Urls
    max_body_bytes: int
    listings: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LISTINGS_AT_A_TIME))


Handler = Callable[[Api, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """A description and its handler. `everything`: the answer grows with the cluster."""

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
