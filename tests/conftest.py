"""What all tests share: the cluster under test, and word of what this machine cannot run."""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.exploration import DEEP
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.clusters import ClusterPlan, NodeCluster, combined, start_cluster
from support.servers.ottla_broker import OttlaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipeline.spark.session import SparkPipelineSession

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
TAKES_MINUTES = "takes minutes: `make conformance` or `make drills` runs it"

# The same examples in each run of `make test`, others in each of `make simulate` and `make drills`. No test
# asserts a time: an example of a millisecond takes a quarter of a second when the machine is busy.
settings.register_profile(
    "ottla",
    max_examples=100 if DEEP else 60,
    derandomize=not DEEP,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ottla")

# The processes of a run, the seconds it took, and the name of a test at the moment it fails.
pytest_plugins = ("support.suite.processes", "support.suite.budgets", "support.suite.failures")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla")
    group.addoption(
        "--oracle", action="store_true", help="run the conformance tests on Apache Kafka 4.4.0 too"
    )
    group.addoption("--oracle-only", action="store_true", help="... and on nothing else")
    group.addoption("--long", action="store_true", help="run the tests that take minutes too")
    group.addoption("--record", action="store_true", help="write the transcripts again, with --oracle-only")


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python reads its field tables in a way that newer Pythons frown upon
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C, and so would all programs that tests start and interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(config.getoption(name) for name in ("--oracle", "--oracle-only", "--long")):
        return
    later = pytest.mark.skip(reason=TAKES_MINUTES)
    for item in items:
        if "long" in item.keywords:
            item.add_marker(later)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config = metafunc.config
    names = [] if config.getoption("--oracle-only") else ["ottla"]
    if config.getoption("--oracle") or config.getoption("--oracle-only"):
        names.append("apache-kafka")
    for fixture in ("cluster", "cluster_kind"):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running one-node cluster, shared by all tests: use topics and groups of your own (`unique_name`)."""
    directory = tmp_path_factory.mktemp(request.param)
    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[request.param]
    with start(directory / "data") as running:
        yield running


@pytest.fixture(scope="session")
def cluster_kind(request: pytest.FixtureRequest) -> str:
    """`ottla` or `apache-kafka`: of what a test's cluster of several nodes is made."""
    return str(request.param)


@pytest.fixture(scope="session")
def session_nodes(cluster_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """Three nodes in three racks that all tests share: use `three_nodes`."""
    plan = ClusterPlan(
        combined(3, racks=("rack-1", "rack-2", "rack-3")), {"replica.selector.class": RACK_AWARE_SELECTOR}
    )
    with start_cluster(cluster_kind, tmp_path_factory.mktemp(f"{cluster_kind}-nodes"), plan) as running:
        yield running


@pytest.fixture
def three_nodes(session_nodes: NodeCluster) -> Iterator[NodeCluster]:
    """Three nodes, broker and controller each, in sync; what a test breaks is mended after it.

    Use topics and groups of your own (`unique_name`).
    """
    yield session_nodes
    session_nodes.heal()


@pytest.fixture
def start_nodes(
    cluster_kind: str, tmp_path: Path
) -> Callable[[ClusterPlan], AbstractContextManager[NodeCluster]]:
    """Starts a cluster of the kind under test for one test alone, by its plan."""
    return functools.partial(start_cluster, cluster_kind, tmp_path / "nodes")


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPipelineSession]:
    """A local Spark with the Kafka connector. Streaming queries need checkpoints of their own."""
    from ottla.pipeline.spark.session import SparkSettings, start_session

    directory = tmp_path_factory.mktemp("spark")
    session = start_session(SparkSettings("ottla tests", directory, shuffle_partitions=2, quick_start=True))
    yield session
    session.close()


@pytest.fixture(scope="session")
def spark(spark_session: SparkPipelineSession) -> SparkSession:
    """The one Spark of all tests."""
    return spark_session.spark


_numbers = itertools.count(1)


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """A name for a topic or a group that no other test uses, and that says which test it was."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", request.node.originalname or request.node.name)
    return f"{words.removeprefix('test-')[:60]}-{next(_numbers)}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.system(command, package)`: the test is left out where `command` is not on the PATH."""
    for mark in item.iter_markers("system"):
        command = mark.args[0] if mark.args else None
        package = mark.args[1] if len(mark.args) > 1 else command
        if command is not None and shutil.which(command) is None:
            pytest.skip(f"{command} is not installed: apt-get install {package}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line that says what this machine could not run, and the command that adds it.

    Tests marked `system` that skip themselves are named too, by their own reason.
    """
    left_out: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        if "system" in getattr(report, "keywords", ()) and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            left_out[reason] += reason != TAKES_MINUTES
    if parts := [f"{count} tests ({reason})" for reason, count in sorted(left_out.items()) if count]:
        terminalreporter.write_line(
            f"ottla: left out for want of a package of the system: {', '.join(parts)}", yellow=True
        )
