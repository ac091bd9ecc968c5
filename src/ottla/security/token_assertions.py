"""Gets this process a bearer token for an assertion (RFC 7523), which is in a file or signed here.

An assertion stands for the client's secret (KIP-1258), or is itself exchanged for a token (KIP-1139). Claims
are made as Apache Kafka's clients make them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ottla.security.provider_http import FETCH_SECONDS, read_bounded
from ottla.security.token_source import TokenFile, TokenUnavailable, request_token

ALGORITHMS: Final = ("RS256", "ES256")
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Assertion(Protocol):
    """Where assertions come from."""

    def text(self) -> str:
        """An assertion as it is now; blocks. Raises TokenUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class AssertionFile:
    """A file with an assertion, which another program keeps fresh."""

    path: Path

    def text(self) -> str:
        """The assertion in the file. Raises TokenUnavailable."""
        return TokenFile(self.path).fetch()


@dataclass(frozen=True, slots=True)
class SignedAssertion:
    """An assertion that is signed here with a private key in PEM. Printed, the key's password is hidden.

    lifetime_seconds, backdated_seconds: how long it is good after and before its making. template: a file of
    JSON with further entries, `{"header": {…}, "payload": {…}}`; what is made here wins over it, and it wins
    over `claims`.
    """

    key: Path
    algorithm: str = "RS256"
    key_password: str | None = None
    claims: tuple[tuple[str, str], ...] = ()
    lifetime_seconds: int = 300
    backdated_seconds: int = 60
    has_id: bool = False
    template: Path | None = None

    def __repr__(self) -> str:
        return f"SignedAssertion({self.key}, {self.algorithm}, [hidden])"

    def text(self) -> str:
        """A new assertion. Raises TokenUnavailable."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey

        now = int(time.time())
        header, payload = ({}, {}) if self.template is None else _template(self.template)
        times = {"iat": now, "exp": now + self.lifetime_seconds, "nbf": now - self.backdated_seconds}
        identity = {"jti": str(uuid.uuid4())} if self.has_id else {}
        kind = RSAKey if self.algorithm == "RS256" else ECKey
        pem = _read(self.key)
        try:
            key = kind.import_key(pem, password=self.key_password)
            return jwt.encode(
                {**header, "alg": self.algorithm, "typ": "JWT"},
                {**dict(self.claims), **payload, **times, **identity},
                key,
                algorithms=[self.algorithm],
            )
        except (JoseError, ValueError, TypeError):
            # the library's text may quote the key
            problem = f"it can't be used with {self.algorithm}, or its password is another one"
            raise TokenUnavailable(f"{self.key}: {problem}") from None


@dataclass(frozen=True, slots=True)
class AssertionGrant:
    """The tokens that an identity provider gives at `url` for assertions.

    replaces_secret: whether the assertion proves who the client is, in place of its secret (RFC 7523, 2.2);
    else it is the grant itself (2.1). client_id: is told with the former if it is not None.
    """

    url: str
    assertion: Assertion
    replaces_secret: bool
    client_id: str | None = None
    scope: str | None = None
    ca_location: str | None = None
    timeout_seconds: float = FETCH_SECONDS

    def fetch(self) -> str:
        """A new token. Raises TokenUnavailable."""
        if self.replaces_secret:
            form = {
                "grant_type": "client_credentials",
                "client_assertion_type": _ASSERTION_TYPE,
                "client_assertion": self.assertion.text(),
            }
            if self.client_id is not None:
                form["client_id"] = self.client_id
        else:
            form = {"grant_type": _GRANT, "assertion": self.assertion.text()}
        if self.scope:
            form["scope"] = self.scope
        return request_token(self.url, form, {}, self.ca_location, self.timeout_seconds)


def _template(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The header and the claims of a template file. Raises TokenUnavailable."""
    try:
        found = json.loads(_read(path))
        header, payload = found.get("header") or {}, found.get("payload") or {}
    except (ValueError, AttributeError, RecursionError):
        header, payload = None, None
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise TokenUnavailable(f'{path}: it is no JSON as {{"header": {{…}}, "payload": {{…}}}}')
    return header, payload


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return read_bounded(file)
    except (OSError, ValueError) as problem:
        raise TokenUnavailable(f"{path}: {problem}") from None
