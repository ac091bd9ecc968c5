"""The URLs in answers: with the host that the request named, or the one of the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request

_HOST: Final = re.compile(r"([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class Urls:
    """Makes URLs. `host` is the setting host.name; `port` that of the listener, known once it is bound."""

    def __init__(self, host: str | None) -> None:
        self._host = host
        self.port: int | None = None

    def base(self, request: Request) -> str:
        """`http://host:port`, without a slash at the end."""
        scheme = request.scope.get("scheme", "http")
        asked = request.headers.get("host", "")
        if self._host is not None:
            return f"{scheme}://{_bracketed(self._host)}{_port(self.port)}"
        if _HOST.fullmatch(asked):
            return f"{scheme}://{asked}"
        # a client of HTTP/1.0, or one whose Host is not a host
        host, port = request.scope.get("server") or ("127.0.0.1", self.port)
        return f"{scheme}://{_bracketed(host)}{_port(port)}"


def path_of(*parts: str | int) -> str:
    """`/a/b/c`, each part escaped."""
    return "".join(f"/{quote(str(part), safe='-_.~*:')}" for part in parts)


def query_of(values: Mapping[str, str]) -> str:
    """`?a=b&c=d`, escaped."""
    return f"?{urlencode(values, quote_via=quote, safe='*:')}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _port(port: int | None) -> str:
    return "" if port is None else f":{port}"
