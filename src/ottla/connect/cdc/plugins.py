"""The sources of databases' changes, as plugins."""

from __future__ import annotations

from typing import Final

import ottla
from ottla.connect.plugins.catalog import Kind, Plugin

PLUGINS: Final[tuple[Plugin, ...]] = (
    Plugin(
        ("io.debezium.connector.postgresql.PostgresConnector", "ottla.connect.PostgresChanges"),
        Kind.SOURCE,
        ottla.__version__,
        "ottla.connect.cdc.postgres.connector:PostgresConnector",
    ),
    Plugin(
        ("io.debezium.connector.mariadb.MariaDbConnector", "ottla.connect.MariaDbChanges"),
        Kind.SOURCE,
        ottla.__version__,
        "ottla.connect.cdc.mariadb.connector:MariaDbConnector",
    ),
)
