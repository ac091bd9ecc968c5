"""A real Prometheus scrapes a cluster; its queries give what happened, and its alerts fire for a fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.metrics.tables import all_tables
from ottla.testing import RunningBroker, RunningCluster, running_cluster
from support.clients.confluent import eventually
from support.servers.prometheus import Prometheus, prometheus

pytestmark = [pytest.mark.system("prometheus"), pytest.mark.slow]

RULES = Path(__file__).parents[3] / "packaging" / "monitoring" / "prometheus" / "ottla-alerts.yml"
RECORDS = 1_234
JOB = "ottla-test"


class Watched(NamedTuple):
    """A cluster, and the Prometheus that watches it."""

    cluster: RunningCluster
    prometheus: Prometheus


def metrics_address(broker: RunningBroker) -> str:
    """HOST:PORT of a broker's endpoint, as its log tells."""
    found = re.search(r"metrics address=http://(\S+)", broker.log_text())
    assert found is not None, broker.log_text()
    return found[1]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with running_cluster(config={"ottla.metrics.listen": "127.0.0.1:0"}) as cluster:
        targets = [metrics_address(broker) for broker in cluster]
        with prometheus(tmp_path_factory.mktemp("prometheus"), {JOB: targets}, RULES) as server:
            yield Watched(cluster, server)


def test_prometheus_takes_every_target_and_type(watched: Watched) -> None:
    server = watched.prometheus
    eventually(
        lambda: [each["health"] for each in server.targets()] == ["up"] * 3,
        "Prometheus has scraped all brokers",
    )
    types = {name: told[0]["type"] for name, told in server.metadata().items()}
    described = {metric.name: metric.kind for table in all_tables() for metric in table.metrics}
    assert len(types) > 100
    for name, told in types.items():
        if name.startswith(("kafka_", "ottla_")):
            # OpenMetrics, which Prometheus asks for, names a counter's family without its suffix.
            kind = described.get(name) or described[f"{name}_total"]
            assert told == kind.value, name


def test_queries_give_what_was_produced(watched: Watched) -> None:
    cluster, server = watched
    cluster.create_topic("counted", partitions=6)
    for partition in range(6):
        cluster.produce("counted", *(str(number) for number in range(RECORDS // 6)), partition=partition)
    written = 6 * (RECORDS // 6)
    # Brokers are scraped one after the other: one may not have told of the last records yet.
    for query, expected in (
        ('sum(kafka_server_brokertopicmetrics_messagesin_total{topic="counted"})', written),
        ('sum(kafka_log_log_logendoffset{topic="counted"})', 3 * written),
    ):
        eventually(
            lambda query=query, expected=expected: [value for _, value in server.query(query)] == [expected],
            f"{query} is {expected}",
        )


def test_a_killed_broker_has_its_alerts_fire_and_its_return_ends_them(watched: Watched) -> None:
    cluster, server = watched
    cluster.create_topic("watched", partitions=6)
    caused = {"OttlaProcessDown", "OttlaUnderReplicatedPartitions", "OttlaFencedBrokers"}
    eventually(lambda: not caused & server.firing(), f"none of {caused} fires in a sound cluster")
    victim = cluster.broker(3)
    victim.kill()
    eventually(lambda: caused <= server.firing(), f"{caused} fire after kill -9")
    assert "OttlaOfflinePartitions" not in server.firing(), "each partition has two replicas left"
    cluster.heal()
    # The port of its endpoint is another one now, so OttlaProcessDown stays.
    gone = caused - {"OttlaProcessDown"}
    eventually(lambda: not gone & server.firing(), f"{gone} end when the broker is back")
