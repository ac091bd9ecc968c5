"""Blocks of producer ids."""

from __future__ import annotations

import pytest

from ottla.core.decisions.producer_ids import BLOCK_SIZE, MAX_PRODUCER_ID, allocate_producer_ids
from ottla.core.transactions.producer_ids import ProducerIdBlock
from ottla.protocol.errors import StaleBrokerEpoch, UnknownServerError
from support.core.metadata import decided, image_with_brokers


def test_no_id_is_given_twice() -> None:
    image = image_with_brokers([1])
    blocks = [decided(image, allocate_producer_ids(image, 1, 101)) for _ in range(3)]
    assert blocks == [ProducerIdBlock(first, BLOCK_SIZE) for first in (0, 1000, 2000)]


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 100), (2, 101)])
def test_only_a_registered_broker_gets_one(broker_id: int, epoch: int) -> None:
    with pytest.raises(StaleBrokerEpoch):
        allocate_producer_ids(image_with_brokers([1]), broker_id, epoch)


def test_the_ids_end() -> None:
    image = image_with_brokers([1])
    image.next_producer_id = MAX_PRODUCER_ID - BLOCK_SIZE + 1
    with pytest.raises(UnknownServerError):
        allocate_producer_ids(image, 1, 101)
