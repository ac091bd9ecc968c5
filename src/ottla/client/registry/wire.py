"""Addresses and credentials of a Schema Registry, and the meaning of its answers. Standard library alone."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import SplitResult, quote, unquote

from ottla.client.errors import ClientOptionError

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_ANSWER_BYTES: Final = 16 << 20
_PASSING_STATUS: Final = frozenset((408, 429))
_PROPERTIES: Final = {
    "schema.registry.url": "url",
    "url": "url",
    "basic.auth.user.info": "user_info",
    "schema.registry.basic.auth.user.info": "user_info",
    "bearer.auth.token": "bearer_token",
    "ssl.ca.location": "ca_location",
    "ssl.certificate.location": "certificate_location",
    "ssl.key.location": "key_location",
    "rule.executors._default_.param.secret": "local_secret",
}


class RegistryUnreachable(Exception):
    """No instance of the registry answers."""


class UnusableAnswer(RegistryUnreachable):
    """An instance answers, but not as a Schema Registry does."""


class RegistryRefusal(Exception):
    """The registry refused; with the answer's `status`, `error_code` and `message`.

    is_told: whether the answer has an error code, as a Schema Registry's has. url, path: the request's.
    """

    def __init__(
        self,
        status: int,
        error_code: int,
        message: str,
        *,
        is_told: bool = True,
        url: str = "",
        path: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.is_told = is_told
        self.url = url
        self.path = path

    @property
    def is_passing(self) -> bool:
        """Whether another instance, or the same one a little later, may do better."""
        return self.status >= 500 or self.status in _PASSING_STATUS


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry's address, and the client's credentials. Several instances, by commas, are tried in turn.

    user_info: `user:password`. local_secret: of the key service local-kms. attempts: how often each instance
    is asked before the question fails.
    """

    url: str
    user_info: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = field(default=None, repr=False)
    local_secret: str | None = field(default=None, repr=False)
    timeout_seconds: float = 10.0
    attempts: int = 5

    def __post_init__(self) -> None:
        for url in self.urls:
            if not url.startswith(("http://", "https://")):
                raise ClientOptionError(
                    f"the registry's address {shown(url)!r} must begin with http:// or https://"
                )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """From `schema.registry.url` and the security properties of Confluent's clients."""
        known: dict[str, str] = {}
        for name, value in properties.items():
            if name not in _PROPERTIES:
                raise ClientOptionError(
                    f"no property of a registry: {name} (known: {', '.join(_PROPERTIES)})"
                )
            known[_PROPERTIES[name]] = value
        if "url" not in known:
            raise ClientOptionError("schema.registry.url is missing")
        return cls(
            known["url"],
            known.get("user_info"),
            known.get("bearer_token"),
            known.get("ca_location"),
            known.get("certificate_location"),
            known.get("key_location"),
            known.get("local_secret"),
        )

    @property
    def urls(self) -> list[str]:
        return [url.strip().rstrip("/") for url in self.url.split(",")]

    @property
    def shown(self) -> str:
        """The addresses without the passwords in them."""
        return ",".join(map(shown, self.urls))

    @property
    def authorization(self) -> str | None:
        """The header Authorization; None where there are no credentials, or only those in the address."""
        if self.bearer_token is not None:
            return f"Bearer {self.bearer_token}"
        return None if self.user_info is None else _basic(self.user_info)


def authorization_in(parts: SplitResult) -> str | None:
    """The header Authorization for the `user:password@` of an address, None if it has none."""
    if parts.username is None:
        return None
    return _basic(f"{unquote(parts.username)}:{unquote(parts.password or '')}")


def _basic(user_info: str) -> str:
    return "Basic " + base64.b64encode(user_info.encode()).decode()


def quoted(part: str) -> str:
    """A part of a path, such as a subject's name, percent-encoded."""
    return quote(part, safe="")


def shown(url: str) -> str:
    """An address without the user and password that it may have."""
    return re.sub(r"//[^/@]*@", "//", url)


def judged(status: int, body: bytes, url: str, path: str) -> dict[str, Any] | list[Any]:
    """The JSON of an answer. Raises RegistryRefusal, UnusableAnswer."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if status == 200:
        if not isinstance(said, dict | list):
            raise UnusableAnswer(f"{shown(url)} is no schema registry: status {status} for {path}")
        return said
    told = said if isinstance(said, dict) else {}
    code, message = told.get("error_code"), told.get("message")
    raise RegistryRefusal(
        status,
        code if isinstance(code, int) else status,
        message if isinstance(message, str) else f"HTTP {status}",
        is_told=isinstance(code, int),
        url=url,
        path=path,
    )
