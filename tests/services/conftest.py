"""A broker, a registry and a REST proxy that the tests of services share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OttlaBroker | ApacheKafka]:
    """ottla's broker; with --oracle-only Apache Kafka's, on which the services run unchanged."""
    kind = ApacheKafka if request.config.getoption("--oracle-only") else OttlaBroker
    with kind.start(tmp_path_factory.mktemp("services") / "broker") as running:
        yield running


@pytest.fixture(scope="session")
def registry(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("registry")
    with ServiceProcess.start("registry", broker.bootstrap, directory) as running:
        yield running


@pytest.fixture(scope="session")
def rest(
    broker: OttlaBroker, registry: ServiceProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    settings = {"schema.registry.url": registry.url}
    directory = tmp_path_factory.mktemp("rest")
    with ServiceProcess.start("rest", broker.bootstrap, directory, settings) as running:
        yield running
