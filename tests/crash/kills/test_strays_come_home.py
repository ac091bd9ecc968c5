"""State that an older ottla wrote into the wrong partitions is found after an upgrade, killed or not."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from ottla.core.coordination.partitioning import older_partition_for, partition_for
from support.clients.named_states import NamedStates, seed_of_this_run
from support.clients.wire import WireClient
from support.servers.cluster import ServerError
from support.servers.older_ottla import ENVIRONMENT, MODULE
from support.servers.ottla_broker import OttlaBroker

LINE = re.compile(r"moved from the partition where an older version kept them topic=(\S+)")
OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"


def settings(rng: random.Random) -> dict[str, str]:
    """Partitions of the coordinators' topics, few enough that every one is used; short timeouts."""
    counts = {
        name: str(rng.choice((3, 5, 6, 7)))
        for name in (
            "offsets.topic.num.partitions",
            "transaction.state.log.num.partitions",
            "share.coordinator.state.topic.num.partitions",
        )
    }
    return {**counts, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


def moved(data: Path) -> list[str]:
    """The topics of the lines that say what was moved."""
    return LINE.findall(data.with_name(f"{data.name}.log").read_text())


def topics_with_strays(states: NamedStates, chosen: dict[str, str]) -> set[str]:
    """The topics in which an older broker has put anything into another partition than this version does."""
    producers = [producer.name for producer in states.producers + states.open_producers]
    kept = [
        (OFFSETS, "offsets.topic.num.partitions", list(states.groups)),
        (TRANSACTIONS, "transaction.state.log.num.partitions", producers),
        (
            SHARES,
            "share.coordinator.state.topic.num.partitions",
            [key.coordinator_key for key in states.shares],
        ),
    ]
    return {
        topic
        for topic, setting, names in kept
        for name in names
        if partition_for(name, int(chosen[setting])) != older_partition_for(name, int(chosen[setting]))
    }


@pytest.mark.parametrize("kills", [pytest.param(0, marks=pytest.mark.long), 4])
def test_what_an_older_version_kept_elsewhere_is_found(tmp_path: Path, kills: int) -> None:
    rng = random.Random(seed_of_this_run())
    chosen, data = settings(rng), tmp_path / "data"
    # given: an older broker's groups, transactions and share states
    states = NamedStates(rng)
    with (
        OttlaBroker.start(data, settings=chosen, environment=ENVIRONMENT, module=(MODULE, "older")) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        states.write_all(client, 12, leaves_open=True)
        broker.kill()
    # when: this version is killed again and again while it brings them home
    for _ in range(kills):
        step = str(rng.randint(1, 12))
        try:
            with OttlaBroker.start(
                data, settings=chosen, environment=ENVIRONMENT, module=(MODULE, step)
            ) as broker:
                broker.kill()
        except ServerError:
            pass  # it died by its own hand, before it was ready
    # then: it is all there
    with (
        OttlaBroker.start(data, settings=chosen) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        states.check_all(client)
        states.check_ended(client)
        states.go_on(client)
        states.commit(client, next(iter(states.groups)))
        broker.kill()
    # and a line says so; one whose move was done when the kill came has none
    expected = topics_with_strays(states, chosen)
    assert set(moved(data)) == expected if not kills else set(moved(data)) <= expected
    # and the next start has nothing left to move
    before = moved(data)
    with (
        OttlaBroker.start(data, settings=chosen) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        states.check_all(client)
    assert moved(data) == before
