"""The pytest plugin of ottla: fixtures with real brokers, and their logs in the reports of failed tests.

    kafka            a broker for the whole session (of each process of pytest-xdist): a `Kafka`
    kafka_broker     a broker for one test, to break: a `RunningBroker`
    kafka_cluster    `kafka_cluster(3)` starts a cluster for one test: a `RunningCluster`
    schema_registry  a Schema Registry on `kafka`, for the whole session: a `RunningRegistry`
    kafka_config     the settings of `kafka`, by Kafka's names; override it in your conftest.py

pytest loads this module in every run, so it imports nothing of ottla before a fixture is used.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Protocol

import pytest

if TYPE_CHECKING:
    from ottla.testing import Kafka, RunningBroker, RunningCluster, RunningRegistry
    from ottla.testing.server_process import ServerProcess

BOOTSTRAP_OPTION: Final = "--kafka-bootstrap"
MARKER: Final = "kafka_config"
MAX_REPORTED_BYTES: Final = 64 * 1024


class Logging(Protocol):
    """A server whose log belongs into the reports."""

    @property
    def server(self) -> ServerProcess:
        """The server's process."""

    @property
    def log_title(self) -> str:
        """The log's name in a report."""


class ServerLogs:
    """The logs of the servers that run, and where in them each test began."""

    def __init__(self) -> None:
        self._servers: dict[int, tuple[Logging, int]] = {}

    def add(self, server: Logging) -> None:
        """Report this server's log; all of it, if the present test fails."""
        self._servers[id(server)] = server, 0

    def discard(self, server: Logging) -> None:
        """The server has ended."""
        self._servers.pop(id(server), None)

    def begin_test(self) -> None:
        """Remember the ends of all logs."""
        self._servers = {
            key: (each, each.server.log_size_bytes()) for key, (each, _) in self._servers.items()
        }

    def sections(self) -> Iterator[tuple[str, str]]:
        """Title and lines of each log that has any of the present test."""
        for each, begin in self._servers.values():
            end = each.server.log_size_bytes()
            text = each.server.log_text(max(begin, end - MAX_REPORTED_BYTES))
            if text.strip():
                yield each.log_title, text


LOGS: Final = pytest.StashKey[ServerLogs]()


# -- pytest's hooks --------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names a cluster to test against."""
    parser.getgroup("ottla").addoption(
        BOOTSTRAP_OPTION,
        metavar="HOST:PORT,…",
        help="the fixture `kafka` is this cluster, ottla's or another Kafka, in place of a broker of its own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}(settings): the settings of this test's kafka_broker, by Kafka's names"
    )
    config.stash[LOGS] = ServerLogs()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember where in the logs the test begins."""
    item.config.stash[LOGS].begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a test that failed what the servers logged meanwhile."""
    report = yield
    if report.failed:
        report.sections += item.config.stash[LOGS].sections()
    return report


# -- the fixtures ----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka_config() -> Mapping[str, object]:
    """The settings of the session's broker, by Kafka's names: none. Override it in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka(
    kafka_config: Mapping[str, object],
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kafka]:
    """A broker that all tests of this process share: use topics (`kafka.topic()`) and groups of your own.

    With --kafka-bootstrap it is that cluster.
    """
    bootstrap = pytestconfig.getoption(BOOTSTRAP_OPTION)
    if bootstrap:
        from ottla.testing import Kafka

        given = Kafka(bootstrap)
        yield given
        given.close()
        return
    from ottla.testing import running_broker

    logs = pytestconfig.stash[LOGS]
    # A directory of pytest's: where a killed session leaves it, a later session removes it.
    directory = tmp_path_factory.mktemp("kafka")
    with running_broker(kafka_config, data=directory) as broker:
        logs.add(broker)
        yield broker
        logs.discard(broker)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[RunningBroker]:
    """A broker of this test alone, to be stopped, killed, paused and cut off.

    `@pytest.mark.kafka_config({"message.max.bytes": 1000})` gives it settings.
    """
    from ottla.testing import running_broker

    logs = pytestconfig.stash[LOGS]
    marker = request.node.get_closest_marker(MARKER)
    with running_broker(marker.args[0] if marker is not None else None) as broker:
        logs.add(broker)
        yield broker
        logs.discard(broker)


class StartCluster(Protocol):
    """The value of the fixture `kafka_cluster`."""

    def __call__(self, brokers: int = 3, config: Mapping[str, object] | None = None) -> RunningCluster:
        """Start a cluster of so many brokers, which ends with the test."""


@pytest.fixture
def kafka_cluster(pytestconfig: pytest.Config) -> Iterator[StartCluster]:
    """Starts clusters of this test alone: `cluster = kafka_cluster(3)`."""
    from ottla.testing import running_cluster

    logs = pytestconfig.stash[LOGS]
    with ExitStack() as running:

        def start(brokers: int = 3, config: Mapping[str, object] | None = None) -> RunningCluster:
            cluster = running.enter_context(running_cluster(brokers, config))
            for broker in cluster:
                logs.add(broker)
                running.callback(logs.discard, broker)
            return cluster

        yield start


@pytest.fixture(scope="session")
def schema_registry(
    kafka: Kafka, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningRegistry]:
    """A Schema Registry on the session's broker: use subjects of your own. Needs `ottla[services]`."""
    from ottla.testing import running_registry

    logs = pytestconfig.stash[LOGS]
    with running_registry(kafka.bootstrap, directory=tmp_path_factory.mktemp("registry")) as registry:
        logs.add(registry)
        yield registry
        logs.discard(registry)
