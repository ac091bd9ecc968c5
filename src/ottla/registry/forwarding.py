"""Writes that come to an instance that is not the primary: the whole request goes on to the one that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ottla.replicated.forwarding import (
    ClientGone,
    Forwarder,
    ForwardingHeaders,
    HttpRequest,
    NoPrimary,
    PrimaryUnreachable,
)
from ottla.replicated.place import Place
from ottla.web.bodies import read_body
from ottla.web.errors import ApiError
from ottla.web.passing_on import passed_on

Endpoint = Callable[[Request], Awaitable[Response]]

HEADERS: Final = ForwardingHeaders(forwarded="x-forward", place="x-ottla-place")
"""The first is Confluent's."""
FORWARDING_FAILED: Final = 50003
NO_PRIMARY: Final = 50004


class Written(Protocol):
    """The state that an operation writes, as this instance has it."""

    @property
    def is_primary(self) -> bool:
        """Whether writes are decided here."""

    @property
    def place(self) -> Place:
        """How far this instance has read which topic."""

    def require_topic(self) -> None:
        """Raises ApiError 50001 when the topic is lost; its image is still served here."""

    async def forward(self, request: Request) -> Response:
        """The primary's answer to a write that came here. Raises ApiError 50001, 50003, 50004."""


def on_primary(written: Written, endpoint: Endpoint) -> Endpoint:
    """The endpoint of a write: answered here on the primary, by the primary otherwise."""

    async def here_or_there(request: Request) -> Response:
        written.require_topic()
        if not written.is_primary:
            return await written.forward(request)
        answer = await endpoint(request)
        answer.headers.update(HEADERS.answered(request.headers, written.place))
        return answer

    return here_or_there


async def forwarded(request: Request, forwarder: Forwarder, limit_bytes: int) -> Response:
    """The primary's answer to this request, whose body has at most `limit_bytes`.

    Raises ApiError 413, 50003, 50004; TopicLost, OtherTopic.
    """
    body = await read_body(request, limit_bytes)
    try:
        return await passed_on(request, body, HttpRequest, forwarder.forward)
    except NoPrimary as problem:
        raise ApiError(500, NO_PRIMARY, str(problem)) from None
    except PrimaryUnreachable as problem:
        raise ApiError(500, FORWARDING_FAILED, str(problem)) from None
    except ClientGone as problem:
        raise ApiError(400, 400, str(problem)) from None
