"""One PostgreSQL for all tests of the pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from support.servers.postgresql import postgresql, postgresql_programs


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    with postgresql(programs) as url:
        yield url


_databases = itertools.count(1)


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """An empty database of the test's own."""
    name = f"test_{next(_databases)}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgresql_server.rpartition("/")[0] + f"/{name}"
