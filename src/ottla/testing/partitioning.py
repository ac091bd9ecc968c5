"""The partition of a key as Java's clients choose it: Murmur2 over the key's bytes."""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition, of so many, of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit hash, as an unsigned number."""
    length = len(data)
    found = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        block = (block ^ (block >> 24)) * _M & _MASK
        found = (found * _M & _MASK) ^ block
    if whole < length:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    found = (found ^ (found >> 13)) * _M & _MASK
    return found ^ (found >> 15)
