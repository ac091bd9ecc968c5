"""Where the servers of a REST API are, and as whom they are asked. Needs no package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from ottla.client.errors import ClientOptionError
from ottla.client.registry.wire import RegistryAccess, authorization_in, shown

CREDENTIALS: Final = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)


@dataclass(frozen=True, slots=True)
class RestService:
    """A kind of server. name: as errors tell it; properties: those that its clients may be given."""

    name: str
    default_url: str
    properties: tuple[str, ...] = CREDENTIALS


@dataclass(frozen=True, slots=True)
class RestAccess:
    """Servers of one kind, and credentials.

    urls: tried in turn, until one answers. authorization: the header; None without credentials. tls: the
    properties `ssl.*`, by librdkafka's names.
    """

    urls: tuple[str, ...]
    authorization: str | None = field(default=None, repr=False)
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_properties(cls, service: RestService, url: str, properties: Mapping[str, str]) -> Self:
        """From addresses by commas, and properties as a Schema Registry's clients have them.

        Raises ClientOptionError.
        """
        for name in sorted(properties.keys() - set(service.properties)):
            known = ", ".join(service.properties)
            raise ClientOptionError(f"no property of a client of {service.name}: {name} (known: {known})")
        urls = tuple(each.strip().rstrip("/") for each in url.split(",") if each.strip())
        for each in urls:
            _parts_of(each)
        credentials = RegistryAccess(
            service.default_url,
            user_info=properties.get("basic.auth.user.info"),
            bearer_token=properties.get("bearer.auth.token"),
        )
        tls = {name: text for name, text in properties.items() if name.startswith("ssl.")}
        return cls(urls or (service.default_url,), credentials.authorization, tls)

    @property
    def shown(self) -> str:
        """The addresses without the passwords in them."""
        return ",".join(map(shown, self.urls))

    def authorization_for(self, url: str) -> str | None:
        """The header for one of the addresses, which may have credentials of its own."""
        return self.authorization or authorization_in(_parts_of(url))


def _parts_of(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port_is_known = parts.port is None or parts.port > 0
    except ValueError:
        port_is_known = False
    if not port_is_known or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ClientOptionError(
            f"the address {shown(url)!r} must begin with http:// or https://, and name a host"
        )
    return parts
