"""The helpers of the tests put a key where Java's clients put it."""

from __future__ import annotations

import random

from aiokafka.partitioner import murmur2 as oracle

from ottla.testing.partitioning import murmur2, partition_of


def test_the_hash_is_that_of_other_clients() -> None:
    dice = random.Random()
    for length in [*range(12), *(dice.randrange(200) for _ in range(50))]:
        key = dice.randbytes(length)
        assert murmur2(key) == oracle(key) & 0xFFFFFFFF, key


def test_a_partition_is_one_of_the_topic() -> None:
    assert {partition_of(str(number).encode(), 3) for number in range(100)} == {0, 1, 2}
