"""Writes that come to an instance that is not the primary: the whole request goes on to the one that is.

A client that writes through any instance reads its own write there: the primary tells up to which offset of
which topic it has read, and the answer is held until this instance has read as far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import httpx
from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.membership import Identity
from ottla.registry.registry import Place, Registry
from ottla.web.bodies import hung_up, read_body
from ottla.web.errors import ApiError

Endpoint = Callable[[Request], Awaitable[Response]]

FORWARDED: Final = "x-forward"
"""Confluent's header: such a request is not forwarded again."""
PLACE: Final = "x-ottla-place"
FORWARDING_FAILED: Final = 50003
NO_PRIMARY: Final = 50004
RETRY_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.25
_HOP_BY_HOP: Final = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)


def on_primary(registry: Registry, endpoint: Endpoint) -> Endpoint:
    """The endpoint of a write: answered here on the primary, by the primary otherwise."""

    async def here_or_there(request: Request) -> Response:
        registry.require_topic()
        if not registry.is_primary:
            return await registry.forward(request)
        answer = await endpoint(request)
        if FORWARDED in request.headers:
            answer.headers[PLACE] = registry.place.encode()
        return answer

    return here_or_there


class Forwarder:
    """Passes requests on; owns the connections to the primary."""

    def __init__(self, limit_bytes: int, timeout_ms: int) -> None:
        self._limit_bytes = limit_bytes
        self._timeout_seconds = timeout_ms / 1000
        # No proxy of the environment stands between two instances.
        self._client = httpx.AsyncClient(timeout=self._timeout_seconds + 1, trust_env=False)

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()

    async def forward(
        self,
        request: Request,
        primary: Callable[[], Identity | None],
        is_here: Callable[[], bool],
    ) -> tuple[Response, Place | None]:
        """The primary's answer to `request`, and how far it had read. Raises ApiError 50003, 50004.

        While nobody is the primary, or it can't be reached, a successor may be under election: it is waited
        for.
        """
        if FORWARDED in request.headers:
            raise ApiError(500, NO_PRIMARY, "A forwarded request came to an instance that is not the primary")
        body = await read_body(request, self._limit_bytes)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._ask_for(request, body, primary, is_here)
        except TimeoutError:
            if primary() is None:
                raise ApiError(500, NO_PRIMARY, "No instance is the primary at the moment") from None
            raise ApiError(500, FORWARDING_FAILED, "The primary can't be reached") from None
        except httpx.HTTPError as problem:
            message = f"Error while forwarding the request to the primary: {type(problem).__name__} {problem}"
            raise ApiError(500, FORWARDING_FAILED, message) from None
        headers = {
            name: value
            for name, value in answer.headers.items()
            if name not in _HOP_BY_HOP and name not in (PLACE, "date", "content-encoding")
        }
        place = Place.decode(answer.headers.get(PLACE, ""))
        return Response(answer.content, answer.status_code, headers), place

    async def _ask_for(
        self,
        request: Request,
        body: bytes,
        primary: Callable[[], Identity | None],
        is_here: Callable[[], bool],
    ) -> httpx.Response:
        """Ask as long as the client waits: when it hangs up so does this, and the primary stops too."""
        asking = asyncio.create_task(self._ask(request, body, primary, is_here))
        leaving = asyncio.create_task(hung_up(request))
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ApiError(400, 400, "The client went away before its answer was there")
            return asking.result()
        finally:
            asking.cancel()
            leaving.cancel()

    async def _ask(
        self,
        request: Request,
        body: bytes,
        primary: Callable[[], Identity | None],
        is_here: Callable[[], bool],
    ) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        headers[FORWARDED] = "true"
        path = request.scope.get("raw_path") or request.url.path.encode()
        target = path + (b"?" + request.scope["query_string"] if request.scope["query_string"] else b"")
        while True:
            found = primary()
            if is_here():
                raise ApiError(500, NO_PRIMARY, "This instance has just become the primary: try again")
            if found is not None:
                url = httpx.URL(found.url).copy_with(raw_path=target)
                asked = self._client.build_request(request.method, url, content=body, headers=headers)
                try:
                    return await self._answer(asked, found, primary)
                except httpx.ConnectError:
                    pass  # nothing was sent: it may be gone, and a successor under election
            await asyncio.sleep(RETRY_SECONDS)

    async def _answer(
        self, asked: httpx.Request, by: Identity, primary: Callable[[], Identity | None]
    ) -> httpx.Response:
        """Wait for as long as the one that was asked is the primary: after that it may never answer."""
        sending = asyncio.create_task(self._client.send(asked))
        try:
            while not (await asyncio.wait([sending], timeout=LOOK_SECONDS))[0]:
                if primary() != by:
                    message = "Another instance has become the primary; the write may have been stored"
                    raise ApiError(500, FORWARDING_FAILED, message)
            return sending.result()
        finally:
            sending.cancel()
