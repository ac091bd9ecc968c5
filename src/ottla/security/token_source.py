"""Gets this process a bearer token of its own: from a file, or for client credentials (RFC 6749, 4.4).

A token is kept until most of its life is over; its end is read from the token, without a check: the server
that takes it checks it.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from ottla.security.bearer_tokens import MAX_TOKEN_CHARACTERS
from ottla.security.provider_http import FETCH_SECONDS, ask, is_allowed_url, read_bounded

_FORM: Final = "application/x-www-form-urlencoded"


class TokenUnavailable(Exception):
    """No token can be had; says why, without a secret."""


class TokenSource(Protocol):
    """Where tokens come from."""

    def fetch(self) -> str:
        """A token as it is now; blocks. Raises TokenUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token, which another program keeps fresh."""

    path: Path

    def fetch(self) -> str:
        """The token in the file. Raises TokenUnavailable."""
        try:
            with self.path.open("rb") as file:
                return _checked(read_bounded(file).decode().strip())
        except (OSError, ValueError) as problem:
            raise TokenUnavailable(f"{self.path}: {problem}") from None


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client of an identity provider, which gives it tokens at `url`. Printed, its secret is hidden."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    ca_location: str | None = None
    encodes_credentials: bool = False
    """Whether id and secret are encoded as in a form before they become a header (RFC 6749, 2.3.1)."""
    timeout_seconds: float = FETCH_SECONDS

    def __repr__(self) -> str:
        return f"ClientCredentials({self.url}, {self.client_id}, [hidden])"

    def fetch(self) -> str:
        """A new token. Raises TokenUnavailable."""
        client_id, secret = self.client_id, self.client_secret
        if self.encodes_credentials:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"}
        if self.scope:
            form["scope"] = self.scope
        headers = {"Authorization": f"Basic {basic}"}
        return request_token(self.url, form, headers, self.ca_location, self.timeout_seconds)


def request_token(
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    ca_location: str | None,
    timeout_seconds: float,
) -> str:
    """The token with which a provider answers a form (RFC 6749, 5.1); blocks. Raises TokenUnavailable."""
    sent = {"Accept": "application/json", "Content-Type": _FORM, **headers}
    try:
        answer = ask(url, sent, urlencode(form).encode(), ca_location, timeout_seconds)
        token = json.loads(answer)["access_token"]
        if not isinstance(token, str):
            raise TypeError
        return _checked(token)
    except (OSError, http.client.HTTPException) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise TokenUnavailable(f"{url}: {reason}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TokenUnavailable(f"{url}: the answer has no access_token") from None


def token_file(url: str) -> Path | None:
    """The path of a `file:` address, None for another one."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.path else None


def is_token_endpoint(url: str) -> bool:
    """Whether tokens are taken from the address: https, or http on this machine."""
    return is_allowed_url(url)


def expiry_seconds(token: str) -> float | None:
    """The end of a token's life in seconds since 1970; None where it does not say."""
    claims = unverified_part(token, 1)
    value = None if claims is None else claims.get("exp")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return None
    return float(value)


def unverified_part(token: str, number: int) -> Mapping[str, Any] | None:
    """The header (0) or the claims (1) of a JSON web token, nothing of it checked; None if malformed."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN_CHARACTERS or len(parts) != 3:
        return None
    text = parts[number]
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _checked(token: str) -> str:
    """A token as it may go into a header. Raises ValueError without repeating it."""
    if not token or len(token) > MAX_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable():
        raise ValueError("it holds no token")
    if " " in token:
        raise ValueError("it holds no token")
    return token
