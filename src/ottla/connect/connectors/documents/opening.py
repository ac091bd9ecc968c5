"""Document stores by their URLs: sqlite:, postgresql:, mongodb:, couchbase:."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ottla.config.setting import HIGH, password
from ottla.config.settings import Settings
from ottla.connect.connectors.documents.store import Store
from ottla.connect.plugins.required import Required, require

STORE_URL: Final = password.optional(
    "store.url",
    "The store: sqlite:///absolute/path.db, postgresql://user:password@host:port/database, "
    "mongodb://host:port/database or couchbase://user:password@host/bucket.",
    Required(),
    importance=HIGH,
)


class _System(NamedTuple):
    """A document store's system, and the package that has its client."""

    name: str
    package: str | None
    install: str
    open: Callable[[str, str], Store]


def _sqlite(url: str, ledger: str) -> Store:
    from ottla.connect.connectors.documents.sqlite import SqliteStore

    return SqliteStore(Path(unquote(urlsplit(url).path)), ledger)


def _postgres(url: str, ledger: str) -> Store:
    from ottla.connect.connectors.documents.postgres import PostgresStore

    return PostgresStore(url, ledger)


def _mongodb(url: str, ledger: str) -> Store:
    from ottla.connect.connectors.documents.mongodb import MongoStore

    return MongoStore(url)


def _couchbase(url: str, ledger: str) -> Store:
    from ottla.connect.connectors.documents.couchbase_store import CouchbaseStore

    return CouchbaseStore(url)


_SYSTEMS: Final[dict[str, _System]] = {
    "sqlite": _System("SQLite", None, "", _sqlite),
    "postgresql": _System("PostgreSQL", "psycopg", "psycopg[binary]", _postgres),
    "postgres": _System("PostgreSQL", "psycopg", "psycopg[binary]", _postgres),
    "mongodb": _System("MongoDB", "pymongo", "pymongo", _mongodb),
    "couchbase": _System("Couchbase", "couchbase", "couchbase", _couchbase),
    "couchbases": _System("Couchbase", "couchbase", "couchbase", _couchbase),
}


def checked_store_url(settings: Settings) -> str:
    """The URL of a store that can be opened here. Raises ConfigError."""
    url = require(settings, STORE_URL).value
    try:
        parts = urlsplit(url)
        scheme = parts.scheme.partition("+")[0]
    except ValueError:
        raise settings.refusal(STORE_URL.name, "is no URL") from None
    system = _SYSTEMS.get(scheme)
    if system is None:
        raise settings.refusal(STORE_URL.name, f"begins with none of {', '.join(_SYSTEMS)}")
    if system.package is not None and importlib.util.find_spec(system.package) is None:
        raise settings.refusal(
            STORE_URL.name, f"{system.name} needs the package {system.package}: pip install {system.install}"
        )
    if scheme == "sqlite" and not Path(parts.path).name:
        raise settings.refusal(STORE_URL.name, "names no file: sqlite:///absolute/path.db")
    return url


def open_store(url: str, ledger: str) -> Store:
    """The store at a checked URL, with the offsets of one ledger. Raises RetriableError."""
    return _SYSTEMS[urlsplit(url).scheme.partition("+")[0]].open(url, ledger)
