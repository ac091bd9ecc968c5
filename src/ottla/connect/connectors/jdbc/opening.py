"""Databases by their JDBC URLs, and the settings of every connection."""

from __future__ import annotations

import importlib.util
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.config.setting import HIGH, LOW, choice, password, string
from ottla.config.settings import Settings
from ottla.config.unsupported import Unsupported, harmless, merged, refusing
from ottla.connect.connectors.jdbc.address import Address, BadUrl, System, read_address
from ottla.connect.connectors.jdbc.database import Database
from ottla.connect.connectors.jdbc.names import Quoting
from ottla.connect.plugins.required import Required, require

CONNECTION_URL: Final = password.optional(
    "connection.url",
    "The database: jdbc:postgresql://host:port/database, jdbc:mariadb://host:port/database, "
    "jdbc:mysql://host:port/database or jdbc:sqlite:/path/of/file.db, with parameters behind a ?.",
    Required(),
    importance=HIGH,
)
CONNECTION_USER: Final = string.optional(
    "connection.user", "The user, in place of one in the URL.", importance=HIGH
)
CONNECTION_PASSWORD: Final = password.optional(
    "connection.password", "The password, in place of one in the URL.", importance=HIGH
)
DIALECT_NAME: Final = string(
    "dialect.name",
    "",
    "PostgreSqlDatabaseDialect, MySqlDatabaseDialect or SqliteDatabaseDialect; empty: as the URL says.",
    importance=LOW,
)
QUOTE_IDENTIFIERS: Final = choice(Quoting)(
    "quote.sql.identifiers",
    Quoting.ALWAYS,
    "always: names of tables and columns are taken as they are. never: they mean what they mean without "
    "quotes, in PostgreSQL in lower case.",
)
DB_TIMEZONE: Final = string(
    "db.timezone", "UTC", "The time zone of the timestamps in the database that have none of their own."
)
CONNECTION_SETTINGS: Final = (
    CONNECTION_URL,
    CONNECTION_USER,
    CONNECTION_PASSWORD,
    DIALECT_NAME,
    QUOTE_IDENTIFIERS,
    DB_TIMEZONE,
)
UNSUPPORTED: Final[dict[str, Unsupported]] = merged(
    [
        harmless(
            "the runtime tries again as long as the database is away",
            "connection.attempts",
            "connection.backoff.ms",
        ),
        refusing(
            "the user and the password are settings; config.providers have them from elsewhere",
            "jdbc.credentials.provider.class.name",
        ),
    ]
)
_DIALECTS: Final = {
    "PostgreSqlDatabaseDialect": System.POSTGRESQL,
    "MySqlDatabaseDialect": System.MARIADB,
    "SqliteDatabaseDialect": System.SQLITE,
}
_PACKAGES: Final = {System.POSTGRESQL: ("psycopg", "psycopg[binary]"), System.MARIADB: ("pymysql", "PyMySQL")}


def checked_address(settings: Settings) -> Address:
    """The address of a database that can be opened here. Raises ConfigError."""
    given = settings[CONNECTION_PASSWORD]
    try:
        address = read_address(
            require(settings, CONNECTION_URL).value,
            settings[CONNECTION_USER],
            None if given is None else given.value,
        )
    except BadUrl as problem:
        raise settings.refusal(CONNECTION_URL.name, str(problem)) from None
    dialect = settings[DIALECT_NAME]
    if dialect and _DIALECTS.get(dialect) is not address.system:
        raise settings.refusal(
            DIALECT_NAME.name, f"is not that of {address.system.value}, which the URL names"
        )
    package, install = _PACKAGES.get(address.system, ("", ""))
    if package and importlib.util.find_spec(package) is None:
        raise settings.refusal(
            CONNECTION_URL.name,
            f"{address.system.value} needs the package {package}: pip install {install}",
        )
    zone = checked_zone(settings)
    try:
        open_database(address, zone)  # which opens no connection yet
    except ValueError as problem:
        raise settings.refusal(CONNECTION_URL.name, str(problem)) from None
    return address


def checked_zone(settings: Settings) -> ZoneInfo:
    """The zone of db.timezone. Raises ConfigError."""
    try:
        return ZoneInfo(settings[DB_TIMEZONE])
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise settings.refusal(DB_TIMEZONE.name, "is no time zone") from None


def open_database(address: Address, zone: ZoneInfo) -> Database:
    """The database at a checked address; it connects when it is first used."""
    match address.system:
        case System.POSTGRESQL:
            from ottla.connect.connectors.jdbc.postgres import PostgresDatabase

            return PostgresDatabase(address, zone)
        case System.MARIADB:
            from ottla.connect.connectors.jdbc.mariadb import MariaDatabase

            return MariaDatabase(address, zone)
        case System.SQLITE:
            from ottla.connect.connectors.jdbc.sqlite import SqliteDatabase

            return SqliteDatabase(address, zone)
