"""Groups, transactional ids and share states under random names: Apache Kafka and ottla find each other's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.clients.named_states import NamedStates, seed_of_this_run
from support.clients.wire import WireClient
from support.servers.apache_kafka import ApacheKafka
from support.servers.older_ottla import ENVIRONMENT, MODULE
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

SETTINGS = {
    "offsets.topic.num.partitions": "7",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def test_each_finds_the_states_that_the_other_has_written(tmp_path: Path) -> None:
    data = tmp_path / "logs"  # where ApacheKafka has it too
    states = NamedStates(random.Random(seed_of_this_run()))
    with (
        OttlaBroker.start(data, settings=SETTINGS) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        states.write_all(client, 10, leaves_open=True)
    with (
        ApacheKafka.start(tmp_path, settings=SETTINGS) as kafka,
        WireClient.connect(kafka.bootstrap) as client,
    ):
        states.check_all(client)
        states.check_ended(client)
        states.open_producers.clear()
        states.go_on(client)
        states.write_all(client, 10, leaves_open=True)
    with (
        OttlaBroker.start(data, settings=SETTINGS) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        states.check_all(client)
        states.check_ended(client)
        states.go_on(client)


def test_the_newest_of_kafkas_and_an_older_ottlas_counts(tmp_path: Path) -> None:
    """An older ottla began anew on a directory of Kafka's: its later records are the newest."""
    data = tmp_path / "logs"
    states = NamedStates(random.Random(seed_of_this_run()))
    with (
        ApacheKafka.start(tmp_path, settings=SETTINGS) as kafka,
        WireClient.connect(kafka.bootstrap) as client,
    ):
        states.write_all(client, 10, leaves_open=False)
    with (
        OttlaBroker.start(
            data, settings=SETTINGS, environment=ENVIRONMENT, module=(MODULE, "older")
        ) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        for group in states.groups:
            states.commit(client, group)
        for key in states.shares:
            states.share(client, key)
    with (
        OttlaBroker.start(data, settings=SETTINGS) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        states.check_all(client)
        states.go_on(client)
    # and Kafka finds it where it looks
    with (
        ApacheKafka.start(tmp_path, settings=SETTINGS) as kafka,
        WireClient.connect(kafka.bootstrap) as client,
    ):
        states.check_all(client)
        states.go_on(client)
