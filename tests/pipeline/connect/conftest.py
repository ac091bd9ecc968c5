"""One Spark host for all tests of connectors on Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.connect.spark_host import SparkHost, spark_host
from support.servers.cluster import Cluster


@pytest.fixture(scope="session")
def host(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    """A running host with Spark. Connectors of each test have names of their own."""
    with spark_host(cluster.bootstrap, tmp_path_factory.mktemp("spark-host")) as running:
        yield running
