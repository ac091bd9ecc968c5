"""A project: its directory, and its properties file, by the names that ksqlDB's tool has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.client.rest_access import RestAccess
from ottla.config.errors import ConfigError, UserError
from ottla.config.sources import from_file, texts
from ottla.sql.migrations.metadata import Names
from ottla.sql.terminal.access import SQL

FILE: Final = "ksql-migrations.properties"
DIRECTORY: Final = "migrations"
MAX_NAME: Final = 200

_URL: Final = "ksql.server.url"
_STREAM: Final = "ksql.migrations.stream.name"
_TABLE: Final = "ksql.migrations.table.name"
_STREAM_TOPIC: Final = "ksql.migrations.stream.topic.name"
_TABLE_TOPIC: Final = "ksql.migrations.table.topic.name"
_REPLICAS: Final = "ksql.migrations.topic.replicas"
_DIRECTORY: Final = "ksql.migrations.dir.override"
_USER: Final = "ksql.auth.basic.username"
_PASSWORD: Final = "ksql.auth.basic.password"
_STORES: Final = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
"""Java's names of files in PEM, which hold the certificate and its key, and the names of ours."""
_STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_OF_TLS: Final = ("ssl.key.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_WITHOUT_EFFECT: Final = frozenset({_TABLE_TOPIC, "ssl.alpn"})
_KNOWN: Final = frozenset(
    {_URL, _STREAM, _TABLE, _STREAM_TOPIC, _REPLICAS, _DIRECTORY, _USER, _PASSWORD, "ssl.verify.host"}
    | {*_STORES, *_STORE_TYPES, *_OF_TLS, *_WITHOUT_EFFECT}
)
_TEMPLATE: Final = """\
# The server that carries out the migrations, and whom it knows.
{url}
#ksql.auth.basic.username=
#ksql.auth.basic.password=

# The stream of what was done, and the table of its last rows.
#ksql.migrations.stream.name=MIGRATION_EVENTS
#ksql.migrations.table.name=MIGRATION_SCHEMA_VERSIONS
#ksql.migrations.topic.replicas=1
"""


@dataclass(frozen=True, slots=True)
class Project:
    """Where the files are, and the server."""

    directory: Path
    access: RestAccess
    names: Names


def new_project(directory: Path, url: str) -> list[Path]:
    """Make the files of a project, those that are missing; which were made. Raises UserError."""
    RestAccess.from_properties(SQL, url, {})  # raises for an address that is none
    made = []
    try:
        migrations = directory / DIRECTORY
        if not migrations.is_dir():
            migrations.mkdir(parents=True)
            made.append(migrations)
        file = directory / FILE
        if not file.exists():
            with file.open("x", encoding="utf-8") as written:
                written.write(_TEMPLATE.format(url=f"{_URL}={url}"))
            made.append(file)
    except OSError as problem:
        raise UserError(f"{directory}: {problem.strerror or problem}") from None
    return made


def project_of(file: Path) -> Project:
    """The project of a properties file. Raises UserError, which names the file."""
    given = texts(from_file(file))
    for name in sorted(given.keys() - _KNOWN):
        raise ConfigError(f"{file}: no property of a project: {name} (known: {', '.join(sorted(_KNOWN))})")
    url = given.get(_URL, "").strip()
    if not url:
        raise ConfigError(f"{file}: {_URL} is missing")
    try:
        access = RestAccess.from_properties(SQL, url, _client(given))
    except UserError as problem:
        raise ConfigError(f"{file}: {problem}") from None
    named = given.get(_DIRECTORY, "").strip()
    directory = file.parent / named if named else file.parent / DIRECTORY
    replicas = given.get(_REPLICAS, "1")
    if not replicas.isdecimal() or not 1 <= int(replicas) <= 32_767:
        raise ConfigError(f"{file}: {_REPLICAS} is a number from 1 to 32,767, not {replicas!r}")
    default = Names()
    names = Names(
        _name(file, given, _STREAM, default.stream),
        _name(file, given, _TABLE, default.table),
        given.get(_STREAM_TOPIC) or None,
        int(replicas),
    )
    return Project(directory, access, names)


def _name(file: Path, given: Mapping[str, str], key: str, default: str) -> str:
    name = given.get(key, default)
    if not name.isidentifier() or not name.isascii() or len(name) > MAX_NAME:
        raise ConfigError(f"{file}: {key} has letters, digits and underscores, not {name[:MAX_NAME]!r}")
    return name


def _client(given: Mapping[str, str]) -> dict[str, str]:
    """The properties as our REST clients have them. Raises ConfigError."""
    found = {name: given[name] for name in _OF_TLS if given.get(name)}
    for name, ours in _STORES.items():
        if not given.get(name):
            continue
        kind = given.get(name.replace("location", "type"), "JKS").upper()
        if kind != "PEM":
            raise ConfigError(f"{name} is a store of type {kind}: give a file in PEM, and its type")
        found.update(dict.fromkeys(ours, given[name]))
    if given.get("ssl.verify.host", "true").lower() == "false":
        found["ssl.endpoint.identification.algorithm"] = "none"
    if given.get(_USER):
        found["basic.auth.user.info"] = f"{given[_USER]}:{given.get(_PASSWORD, '')}"
    return found
