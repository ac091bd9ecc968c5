"""Passes requests on to the primary, and holds its answers until this instance has replayed its writes.

So a client that writes through any instance reads its own write there: the primary tells up to which place of
the topic it has replayed, and the answer waits until this instance is there too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import httpx

from ottla.replicated.figures import ForwardOutcome
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import TopicLost
from ottla.replicated.place import Place

RETRY_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.25
_HOP_BY_HOP: Final = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)

Gone = Callable[[], Awaitable[None]]
"""Ends when the client has hung up."""


class FollowedTopic(Protocol):
    """The part of ReplicatedTopic that forwarding uses."""

    @property
    def place(self) -> Place:
        """See ReplicatedTopic."""

    def require(self) -> None:
        """See ReplicatedTopic."""

    async def wait_until_at(self, place: Place) -> None:
        """See ReplicatedTopic."""


class NoPrimary(Exception):
    """There is no instance to pass the request on to; says why. Nothing was stored."""


class PrimaryUnreachable(Exception):
    """The primary gave no answer; says why. Whether the request was done is not known."""


class ClientGone(Exception):
    """The client went away before its answer was there."""


_OUTCOMES: Final = {
    NoPrimary: ForwardOutcome.NO_PRIMARY,
    ClientGone: ForwardOutcome.CLIENT_GONE,
    TopicLost: ForwardOutcome.LOST,
}


@dataclass(frozen=True, slots=True)
class ForwardingHeaders:
    """Names in lower case. `forwarded` marks a request that is not passed on again; `place` is in answers."""

    forwarded: str
    place: str

    def answered(self, request_headers: Mapping[str, str], place: Place) -> Mapping[str, str]:
        """The headers that the primary adds to its answer: its place, for the instance that passed it on."""
        return {self.place: place.encode()} if self.forwarded in request_headers else {}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A whole request. `target`: path and query as they came; header names in lower case."""

    method: str
    target: bytes
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The primary's answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Forwarder:
    """Owns the connections to the primary. `timeout_ms`: for an answer; then again for the replay.

    tls: gives the context of connections, which may change; None trusts the system's authorities.
    """

    def __init__(
        self,
        topic: FollowedTopic,
        leadership: Leadership,
        headers: ForwardingHeaders,
        timeout_ms: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._topic = topic
        self._leadership = leadership
        self._headers = headers
        self._timeout_seconds = timeout_ms / 1000
        self._tls = tls
        self._clients: dict[ssl.SSLContext | None, httpx.AsyncClient] = {}
        self.outcomes: Counter[ForwardOutcome] = Counter()

    async def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        """The client with the present context. A former one stays for the requests that it may have."""
        context = None if self._tls is None else self._tls()
        if context not in self._clients:
            # No proxy of the environment stands between two instances.
            self._clients[context] = httpx.AsyncClient(
                timeout=self._timeout_seconds + 1,
                trust_env=False,
                verify=True if context is None else context,
            )
        return self._clients[context]

    async def forward(self, request: HttpRequest, gone: Gone) -> HttpAnswer:
        """The primary's answer, once this instance has replayed as far as the primary.

        While there is no primary, or it can't be reached, a successor may be under election: it is waited
        for. Raises NoPrimary, PrimaryUnreachable, ClientGone, TopicLost, OtherTopic.
        """
        outcome = ForwardOutcome.UNREACHABLE
        try:
            answer = await self._forward(request, gone)
            outcome = ForwardOutcome.ANSWERED
            return answer
        except (NoPrimary, ClientGone, TopicLost) as problem:
            outcome = _OUTCOMES[type(problem)]
            raise
        finally:
            self.outcomes[outcome] += 1

    async def _forward(self, request: HttpRequest, gone: Gone) -> HttpAnswer:
        self._topic.require()
        if self._headers.forwarded in request.headers:
            raise NoPrimary("A forwarded request came to an instance that is not the primary")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._while_wanted(request, gone)
        except TimeoutError:
            if self._leadership.url is None:
                raise NoPrimary("No instance is the primary at the moment") from None
            raise PrimaryUnreachable("The primary can't be reached") from None
        except httpx.HTTPError as problem:
            message = f"Error while forwarding the request to the primary: {type(problem).__name__} {problem}"
            raise PrimaryUnreachable(message) from None
        place = Place.decode(answer.headers.get(self._headers.place, ""))
        if place is not None:
            await self._wait_until_at(place)
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name not in _HOP_BY_HOP and name not in (self._headers.place, "date", "content-encoding")
        }
        return HttpAnswer(answer.status_code, kept, answer.content)

    async def _wait_until_at(self, place: Place) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._topic.wait_until_at(place)
        except (TimeoutError, TopicLost):
            return  # it was stored: that this instance reads late is no reason to say otherwise

    async def _while_wanted(self, request: HttpRequest, gone: Gone) -> httpx.Response:
        """Ask as long as the client waits: when it hangs up so does this, and the primary stops too."""
        asking = asyncio.ensure_future(self._ask(request))
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ClientGone("The client went away before its answer was there")
            return asking.result()
        finally:
            asking.cancel()
            leaving.cancel()

    async def _ask(self, request: HttpRequest) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        headers[self._headers.forwarded] = "true"
        while True:
            if self._leadership.is_here:
                raise NoPrimary("This instance has just become the primary: try again")
            primary = self._leadership.url
            if primary is not None:
                base = httpx.URL(primary)  # with a path, where several services share an address
                url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + request.target)
                client = self._client()
                asked = client.build_request(request.method, url, content=request.body, headers=headers)
                try:
                    return await self._answer(client, asked, primary)
                except httpx.ConnectError:
                    pass  # nothing was sent: it may be gone, and a successor under election
            await asyncio.sleep(RETRY_SECONDS)

    async def _answer(self, client: httpx.AsyncClient, asked: httpx.Request, primary: str) -> httpx.Response:
        """Wait for as long as the asked instance is the primary: after that it may never answer."""
        sending = asyncio.create_task(client.send(asked))
        try:
            while not (await asyncio.wait([sending], timeout=LOOK_SECONDS))[0]:
                if self._leadership.url != primary:
                    message = "Another instance has become the primary; the write may have been stored"
                    raise PrimaryUnreachable(message)
            return sending.result()
        finally:
            sending.cancel()
