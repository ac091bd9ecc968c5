"""Where servers of SQL are, as clients find them."""

from __future__ import annotations

from typing import Final

from ottla.client.rest_access import CREDENTIALS, RestService

URL_VARIABLE: Final = "OTTLA_SQL_URL"
PASSWORD_VARIABLE: Final = "OTTLA_SQL_PASSWORD"
SQL: Final = RestService(
    "SQL", "http://127.0.0.1:8088", (*CREDENTIALS, "ssl.endpoint.identification.algorithm")
)
