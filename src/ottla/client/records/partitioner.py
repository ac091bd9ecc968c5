"""The partition of a record, as Java's producer chooses it: murmur2 of the key, or a sticky one without a
key.

Keys land where Java's producer and librdkafka's `murmur2_random` put them (KIP-480 for records without a key:
one partition for a batch, then another).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_KEPT_KEYS: Final = 1 << 16
_LONGEST_KEPT_KEY: Final = 64


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's clients, as an unsigned number."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _M & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 24) * _M & 0xFFFFFFFF
        hashed = hashed * _M & 0xFFFFFFFF ^ mixed
    if length > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * _M & 0xFFFFFFFF
    return hashed ^ hashed >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class Partitioner:
    """Chooses partitions of one topic."""

    def __init__(
        self, partition_count: int, available: Sequence[int], dice: random.Random | None = None
    ) -> None:
        """available: the partitions that have a leader; records without a key go there."""
        self._count = partition_count
        self._available = list(available) or list(range(partition_count))
        self._dice = dice or random.Random()
        self._sticky = self._dice.choice(self._available)
        self._kept: dict[bytes, int] = {}

    @property
    def partition_count(self) -> int:
        """The number of the topic's partitions."""
        return self._count

    def of_key(self, key: bytes) -> int:
        """The partition of a key."""
        if self._count == 1:
            return 0
        kept = self._kept.get(key)
        if kept is None:
            kept = partition_of_key(key, self._count)
            if len(key) <= _LONGEST_KEPT_KEY and len(self._kept) < _KEPT_KEYS:
                self._kept[key] = kept
        return kept

    @property
    def sticky(self) -> int:
        """The partition for records without a key, until `move_on`."""
        return self._sticky

    def move_on(self) -> None:
        """Choose another partition for records without a key, as after each batch."""
        if len(self._available) > 1:
            others = [each for each in self._available if each != self._sticky]
            self._sticky = self._dice.choice(others)
