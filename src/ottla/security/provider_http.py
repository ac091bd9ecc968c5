"""Asks an identity provider over https: a bounded answer, in a bounded time, and never another address.

Plain http is taken for this machine alone: an attacker who changes an answer on its way could sign tokens.
"""

from __future__ import annotations

import ipaddress
import ssl
import time
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

MAX_ANSWER_BYTES: Final = 1 << 20
FETCH_SECONDS: Final = 5.0
"""The longest time without a byte."""
LONGEST_SECONDS: Final = 15.0
_PART_BYTES: Final = 64 << 10


class UnusableAnswer(ValueError):
    """An answer that is too large, or takes too long."""


def is_allowed_url(url: str) -> bool:
    """Whether the address is https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and parts.hostname is not None and _is_here(parts.hostname)


def ask(
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    ca_location: str | None = None,
    timeout_seconds: float = FETCH_SECONDS,
) -> bytes:
    """The answer to a GET, or to a POST of `body`; blocks. ca_location: None trusts the system's authorities.

    Raises OSError (urllib's errors are such), http.client.HTTPException, or UnusableAnswer.
    """
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if url.startswith("https:"):
        context = ssl.create_default_context(cafile=ca_location)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    asked = urllib.request.Request(url, data=body, headers=dict(headers))
    with opener.open(asked, timeout=timeout_seconds) as answer:
        return read_bounded(answer)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to plain http, or to an address that the operator did not name."""

    def redirect_request(self, *_: Any) -> None:
        return None


def read_bounded(source: Any) -> bytes:
    """All bytes of a file or an answer. Raises OSError, UnusableAnswer."""
    data = bytearray()
    end = time.monotonic() + LONGEST_SECONDS
    while part := source.read1(_PART_BYTES):
        data += part
        if len(data) > MAX_ANSWER_BYTES:
            raise UnusableAnswer(f"larger than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > end:
            raise UnusableAnswer(f"not read within {LONGEST_SECONDS:.0f} seconds")
    return bytes(data)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
