"""Which copy has a shard: each the one for which a hash of both is the highest.

So all copies that know the same addresses agree, and one that comes or goes moves no shard between others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable


def owner(shard: int, addresses: Iterable[str]) -> str | None:
    """The address of the copy that has a shard; None where there is no copy."""
    return max(addresses, key=lambda each: (_weight(shard, each), each), default=None)


def _weight(shard: int, address: str) -> int:
    # a CRC is linear: two inputs' would differ by the same bits for each shard, but for the multiplication
    mixed = zlib.crc32(address.encode()) * 0x9E37_79B1 + shard * 0x85EB_CA77
    mixed &= 0xFFFF_FFFF
    mixed = (mixed ^ mixed >> 16) * 0x7FEB_352D & 0xFFFF_FFFF
    mixed = (mixed ^ mixed >> 15) * 0x846C_A68B & 0xFFFF_FFFF
    return mixed ^ mixed >> 16
