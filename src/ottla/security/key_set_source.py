"""Fetches the keys of an identity provider: a JSON web key set at an https address, or in a file.

Plain http is taken for this machine alone: an attacker who changes the answer on its way could sign tokens.
"""

from __future__ import annotations

import ipaddress
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ottla.security.bearer_tokens import TokenKeys, UnusableKeys

MAX_ANSWER_BYTES: Final = 1 << 20
FETCH_SECONDS: Final = 5.0
"""The longest time without a byte."""
LONGEST_SECONDS: Final = 15.0
_PART_BYTES: Final = 64 << 10


class KeysUnreachable(ValueError):
    """The provider's keys can't be read; says why."""


@dataclass(frozen=True, slots=True)
class KeySetSource:
    """An address, `https://…` or `file:///…`; ca_location: the authorities of its certificate.

    None trusts the system's authorities.
    """

    url: str
    ca_location: str | None = None

    def __post_init__(self) -> None:
        """Raises UnusableKeys for an address that is not taken."""
        parts = urlsplit(self.url)
        if parts.scheme == "file" and parts.path:
            return
        if parts.scheme == "https" and parts.hostname:
            return
        if parts.scheme == "http" and parts.hostname and _is_here(parts.hostname):
            return
        raise UnusableKeys("it must be https://HOST…, or file:///PATH")

    @property
    def path(self) -> Path | None:
        """The file, if the keys are in one."""
        parts = urlsplit(self.url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    def fetch(self) -> TokenKeys:
        """The keys, as they are now; blocks. Raises KeysUnreachable."""
        try:
            return TokenKeys.parse(self._text())
        except UnusableKeys as problem:
            raise KeysUnreachable(f"{self.url}: {problem}") from None
        except Exception as problem:  # urllib's are OSErrors, those of http.client are not
            reason = getattr(problem, "reason", None) or problem
            raise KeysUnreachable(f"{self.url}: {reason}") from None

    def _text(self) -> bytes:
        path = self.path
        if path is not None:
            with path.open("rb") as file:
                return _bounded(file)
        import urllib.request

        asked = urllib.request.Request(self.url, headers={"Accept": "application/json"})
        with self._opener().open(asked, timeout=FETCH_SECONDS) as answer:
            return _bounded(answer)

    def _opener(self) -> Any:
        import urllib.request

        class NoRedirects(urllib.request.HTTPRedirectHandler):
            """A redirect could lead to plain http, or to an address that the operator did not name."""

            def redirect_request(self, *_: Any) -> None:
                return None

        handlers: list[urllib.request.BaseHandler] = [NoRedirects()]
        if self.url.startswith("https:"):
            context = ssl.create_default_context(cafile=self.ca_location)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)


def _bounded(source: Any) -> bytes:
    data = bytearray()
    end = time.monotonic() + LONGEST_SECONDS
    while part := source.read1(_PART_BYTES):
        data += part
        if len(data) > MAX_ANSWER_BYTES:
            raise UnusableKeys(f"larger than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > end:
            raise UnusableKeys(f"not read within {LONGEST_SECONDS:.0f} seconds")
    return bytes(data)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
