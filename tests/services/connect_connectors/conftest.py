"""Servers of other systems that the tests of connectors share."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from support.servers.postgresql import postgresql, postgresql_programs

_numbers = count()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgresql(programs) as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """A database of its own for each test."""
    name = f"connect_{next(_numbers)}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgresql_server.replace("/postgres", f"/{name}")
