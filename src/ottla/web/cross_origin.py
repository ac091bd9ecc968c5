"""CORS: which other origins' pages may use a service from a browser (fetch.spec.whatwg.org, "CORS protocol").

The rules are those of Jetty's filter, which Confluent's services configure with the same settings: an origin
that is allowed gets its own name back, also where any is allowed, and may send credentials; an origin that is
not allowed gets an answer without CORS headers, which its browser keeps from the page. A preflight request of
an allowed origin is answered here.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.web.front_settings import FrontOptions

PREFLIGHT_SECONDS: Final = 1_800
"""How long a browser may keep the answer to a preflight request."""
ANY: Final = "*"
VARY: Final = (b"vary", b"Origin")

Headers = list[tuple[bytes, bytes]]


class CrossOrigin:
    """The CORS headers of answers."""

    def __init__(self, options: FrontOptions) -> None:
        self._any_origin = ANY in options.origins
        self._origins = frozenset(options.origins)
        self._patterns = [_pattern(origin) for origin in options.origins if ANY in origin]
        self._methods = options.methods
        self._headers = frozenset(header.lower() for header in options.headers)
        self._allowed_methods = ",".join(options.methods).encode()
        self._allowed_headers = ",".join(options.headers)
        self._exposed: Headers = []
        if options.exposed_headers:
            self._exposed = [(b"access-control-expose-headers", ",".join(options.exposed_headers).encode())]

    @property
    def enabled(self) -> bool:
        """Whether any origin is allowed."""
        return bool(self._origins)

    def allows_page(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may open a WebSocket at this host; no browser asks before."""
        return origin.partition("://")[2].lower() == host.lower() or self._allows(origin)

    def answered(self, origin: str | None) -> Headers:
        """The headers of an answer to a page of this origin; None for a request without one."""
        if origin is None or not self._allows(origin):
            return [VARY]
        return [*_allowed(origin), *self._exposed]

    def preflight(self, origin: str, method: str, headers: str) -> Headers | None:
        """The headers of the answer to a preflight request, None if its origin is not allowed.

        method, headers: those of the request that is to follow. If one of them is not allowed, the answer
        has no headers of CORS, so the browser does not send it.
        """
        if not self._allows(origin):
            return None
        asked = [name.strip() for name in headers.split(",") if name.strip()]
        any_header = ANY in self._headers
        if method not in self._methods:
            return [VARY]
        if not any_header and not self._headers.issuperset(name.lower() for name in asked):
            return [VARY]
        allowed_headers = ",".join(asked) if any_header else self._allowed_headers
        return [
            *_allowed(origin),
            (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
            (b"access-control-allow-methods", self._allowed_methods),
            (b"access-control-allow-headers", allowed_headers.encode("latin-1")),
        ]

    def _allows(self, origin: str) -> bool:
        """Whether any of the origins of the header (a redirected request may name several) is allowed."""
        return any(
            self._any_origin
            or one in self._origins
            or any(pattern.fullmatch(one) for pattern in self._patterns)
            for one in origin.split()
        )


def _allowed(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        VARY,
    ]


def _pattern(origin: str) -> re.Pattern[str]:
    """`https://*.example.com`: each `*` stands for any characters of a host."""
    return re.compile("[^/]*".join(map(re.escape, origin.split(ANY))))
