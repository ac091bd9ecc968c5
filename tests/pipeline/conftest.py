"""One Spark session and one PostgreSQL for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.session import SparkSettings, start_session
from support.postgresql import postgresql, postgresql_programs


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with the Kafka connector. Streaming queries need checkpoints of their own."""
    directory = tmp_path_factory.mktemp("spark")
    session = start_session(SparkSettings("ottla tests", directory, shuffle_partitions=2, quick_start=True))
    yield session.spark
    session.close()


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    with postgresql(programs) as url:
        yield url
