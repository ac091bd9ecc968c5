"""Kafka Connect's own classes, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.java.connect_oracle import ConnectOracle, connect_oracle


@pytest.fixture(scope="package")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectOracle]:
    with connect_oracle(tmp_path_factory.mktemp("connect-oracle")) as running:
        yield running
