"""Fetches the keys of an identity provider: a JSON web key set at an https address, or in a file."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ottla.security.bearer_tokens import TokenKeys, UnusableKeys
from ottla.security.provider_http import ask, is_allowed_url, read_bounded

_ACCEPTED: Final = {"Accept": "application/json"}


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
        if not (parts.scheme == "file" and parts.path) and not is_allowed_url(self.url):
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
        except (OSError, http.client.HTTPException, ValueError) as problem:
            reason = getattr(problem, "reason", None) or problem
            raise KeysUnreachable(f"{self.url}: {reason}") from None

    def _text(self) -> bytes:
        path = self.path
        if path is None:
            return ask(self.url, _ACCEPTED, ca_location=self.ca_location)
        with path.open("rb") as file:
            return read_bounded(file)
