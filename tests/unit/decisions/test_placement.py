"""The placement of replicas."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.core.decisions.placement import place_replicas
from ottla.protocol.errors import InvalidReplicationFactor
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from support.core.metadata import SeededRandomness, apply, image_with_brokers


def test_leaders_take_turns() -> None:
    brokers = list(image_with_brokers([1, 2, 3]).brokers.values())
    placed = place_replicas(brokers, 6, 2, SeededRandomness())
    assert Counter(replicas[0] for replicas in placed) == {1: 2, 2: 2, 3: 2}


def test_replicas_of_a_partition_are_in_different_racks() -> None:
    image = image_with_brokers([1, 2, 3, 4], racks=["east", "east", "west", "west"])
    for replicas in place_replicas(list(image.brokers.values()), 20, 2, SeededRandomness()):
        assert {image.brokers[replica].rack for replica in replicas} == {"east", "west"}


def test_a_fenced_broker_follows_but_never_leads() -> None:
    image = image_with_brokers([1, 2])
    apply(image, [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, fenced=1)])
    placed = place_replicas(list(image.brokers.values()), 5, 2, SeededRandomness())
    assert placed == [[1, 2]] * 5


def test_a_broker_in_controlled_shutdown_gets_no_new_replicas() -> None:
    image = image_with_brokers([1, 2])
    stops = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, in_controlled_shutdown=1)
    apply(image, [stops])
    assert place_replicas(list(image.brokers.values()), 3, 1, SeededRandomness()) == [[1]] * 3
    with pytest.raises(InvalidReplicationFactor, match="only 1 broker"):
        place_replicas(list(image.brokers.values()), 1, 2, SeededRandomness())


def test_too_few_brokers() -> None:
    with pytest.raises(InvalidReplicationFactor, match="only 1 broker"):
        place_replicas(list(image_with_brokers([1]).brokers.values()), 1, 2, SeededRandomness())


def test_no_broker_that_runs() -> None:
    image = image_with_brokers([1])
    apply(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)])
    with pytest.raises(InvalidReplicationFactor, match="fenced"):
        place_replicas(list(image.brokers.values()), 1, 1, SeededRandomness())
