"""One PostgreSQL for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.postgresql import postgresql, postgresql_programs


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    with postgresql(programs) as url:
        yield url
