"""JDBC URLs: which database they name, and where it is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

MAX_URL: Final = 4000
_DRIVERS: Final = ("postgresql", "mariadb", "mysql", "sqlite")


class System(enum.Enum):
    """A database system that is spoken to."""

    POSTGRESQL = "PostgreSQL"
    MARIADB = "MariaDB"
    SQLITE = "SQLite"


class BadUrl(ValueError):
    """A URL that names no database we know. The text never has the URL, which may have a password."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is. hosts: "host" or "host:port"; database: its name, or a file's path of SQLite."""

    system: System
    hosts: tuple[str, ...] = ()
    database: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The address in messages."""
        if self.system is System.SQLITE:
            return f"the SQLite file {self.database}"
        return f"{self.system.value} at {','.join(self.hosts)}"


def read_address(url: str, user: str | None = None, password: str | None = None) -> Address:
    """The address that a JDBC URL gives; user and password come before those in it. Raises BadUrl."""
    if len(url) > MAX_URL:
        raise BadUrl(f"has more than {MAX_URL} characters")
    scheme, _, rest = url.strip().partition(":")
    driver, _, rest = rest.partition(":")
    if scheme != "jdbc" or driver not in _DRIVERS:
        raise BadUrl(f"begins with none of {', '.join(f'jdbc:{each}:' for each in _DRIVERS)}")
    if driver == "sqlite":
        return _file(rest)
    place, _, query = rest.partition("?")
    try:
        parameters = dict(
            parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
        )
    except ValueError:
        raise BadUrl("has parameters that are not name=value&name=value") from None
    hosts, database = _host(place, driver)
    own_user, own_password = parameters.pop("user", None), parameters.pop("password", None)
    return Address(
        System.POSTGRESQL if driver == "postgresql" else System.MARIADB,
        hosts,
        database,
        own_user if user is None else user,
        own_password if password is None else password,
        parameters,
    )


def _file(rest: str) -> Address:
    path = rest.partition("?")[0]
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:"))
    if not path or path.startswith(":"):
        raise BadUrl("names no file: jdbc:sqlite:/path/of/file.db")
    return Address(System.SQLITE, database=path)


def _host(place: str, driver: str) -> tuple[tuple[str, ...], str]:
    if not place.startswith("//"):
        return ("localhost",), unquote(place)
    names, _, database = place[2:].partition("/")
    if "@" in names:
        raise BadUrl("has a user before the host: use connection.user and connection.password")
    hosts = tuple(each.strip() for each in names.split(",")) if names else ("localhost",)
    for each in hosts:
        port = split_host(each)[1]
        if port is not None and not 0 < port < 65536:
            raise BadUrl("has a port that is none")
    if driver != "postgresql" and len(hosts) > 1:
        raise BadUrl("names several hosts, which works with PostgreSQL alone")
    return hosts, unquote(database)


def split_host(text: str) -> tuple[str, int | None]:
    """Host and port of "host:port", "[::1]:port" or "host". Raises BadUrl."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), None
    if not port.isascii() or not port.isdecimal():
        raise BadUrl("has a port that is none")
    return host.strip("[]"), int(port[:6])
