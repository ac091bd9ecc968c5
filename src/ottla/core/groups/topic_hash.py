"""The hashes of topics and of groups' topics that Kafka 4.1 and later store in group records.

A group's metadata record has a hash of all facts that an assignor uses: each subscribed topic's id, name,
partition count and racks. A coordinator that computes another hash than the stored one begins a new group
epoch. Kafka and ottla read each other's records, so both must compute the same number: XXH3 (64 bits, seed 0)
over a byte stream of little-endian numbers and UTF-16 strings, each string followed by its length in UTF-16
units.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from ottla.core.groups.topics import TopicDescription, TopicsView

FORMAT = 0
"""The first byte of a topic's stream: the version of its layout."""
NO_TOPIC = 0
"""The hash of a topic that does not exist, and of a group without topics."""

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_AVALANCHE, _SHORT = 0x165667919E3779F9, 0x9FB21C651E98DF25

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE_BYTES = 64
_STRIPES_A_BLOCK = (len(_SECRET) - _STRIPE_BYTES) // 8
_BLOCK_BYTES = _STRIPE_BYTES * _STRIPES_A_BLOCK


class TopicHashes:
    """The hashes of groups; keeps each topic's own hash until the topic changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicDescription, int]] = {}

    def of_group(self, topics: Iterable[str], view: TopicsView) -> int:
        """The hash of all topics (by name) that a group reads; those that do not exist are left out."""
        hashes: dict[str, int] = {}
        for name in topics:
            topic = view.named(name)
            if topic is None:
                self._known.pop(name, None)
                continue
            known = self._known.get(name)
            if known is None or known[0] is not topic:
                known = self._known[name] = topic, topic_hash(topic)
            hashes[name] = known[1]
        return combine(hashes)


def group_hash(topics: Iterable[str], view: TopicsView) -> int:
    """The hash of all topics (by name) that a group reads, as a signed 64-bit number."""
    return TopicHashes().of_group(topics, view)


def combine(topic_hashes: Mapping[str, int]) -> int:
    """The hash of a group from the hashes of its topics; 0 without any."""
    if not topic_hashes:
        return NO_TOPIC
    # Java compares strings by their UTF-16 units.
    names = sorted(topic_hashes, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return _signed(xxh3_64(b"".join(struct.pack("<q", topic_hashes[name]) for name in names)))


def topic_hash(topic: TopicDescription | None) -> int:
    """The hash of one topic as a signed 64-bit number; 0 for a topic that does not exist."""
    if topic is None:
        return NO_TOPIC
    most, least = struct.unpack(">qq", topic.topic_id.bytes)
    parts = [
        struct.pack("<Bqq", FORMAT, most, least),
        _string(topic.name),
        struct.pack("<i", topic.partition_count),
    ]
    for partition, racks in enumerate(topic.racks):
        parts.append(struct.pack("<i", partition))
        for rack in sorted(racks, key=lambda rack: rack.encode("utf-16-be", "surrogatepass")):
            text = _string(rack)
            parts += (text[-4:], text)
    return _signed(xxh3_64(b"".join(parts)))


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def xxh3_64(data: bytes) -> int:
    """XXH3's 64-bit hash (seed 0, default secret), unsigned."""
    size = len(data)
    if size <= 16:
        return _hash_to_16(data, size)
    if size <= 128:
        return _hash_to_128(data, size)
    if size <= 240:
        return _hash_to_240(data, size)
    return _hash_long(data, size)


def _read32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _read64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(left: int, right: int) -> int:
    """The two halves of the 128-bit product, combined by XOR."""
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _swap64(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _rotate64(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _avalanche(value: int) -> int:
    value = ((value ^ value >> 37) * _AVALANCHE) & _MASK
    return value ^ value >> 32


def _avalanche_xxh64(value: int) -> int:
    value = ((value ^ value >> 33) * _P64_2) & _MASK
    value = ((value ^ value >> 29) * _P64_3) & _MASK
    return value ^ value >> 32


def _hash_to_16(data: bytes, size: int) -> int:
    if size > 8:
        low = _read64(data, 0) ^ (_read64(_SECRET, 24) ^ _read64(_SECRET, 32))
        high = _read64(data, size - 8) ^ (_read64(_SECRET, 40) ^ _read64(_SECRET, 48))
        return _avalanche((size + _swap64(low) + high + _fold(low, high)) & _MASK)
    if size >= 4:
        mixed = _read32(data, size - 4) + (_read32(data, 0) << 32)
        value = mixed ^ (_read64(_SECRET, 8) ^ _read64(_SECRET, 16))
        value ^= _rotate64(value, 49) ^ _rotate64(value, 24)
        value = (value * _SHORT) & _MASK
        value ^= (value >> 35) + size
        value = (value * _SHORT) & _MASK
        return value ^ value >> 28
    if size > 0:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        return _avalanche_xxh64(combined ^ (_read32(_SECRET, 0) ^ _read32(_SECRET, 4)))
    return _avalanche_xxh64(_read64(_SECRET, 56) ^ _read64(_SECRET, 64))


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(
        _read64(data, at) ^ _read64(_SECRET, secret_at),
        _read64(data, at + 8) ^ _read64(_SECRET, secret_at + 8),
    )


def _hash_to_128(data: bytes, size: int) -> int:
    total = size * _P64_1
    for pair in range((size - 1) // 32, -1, -1):
        total += _mix16(data, 16 * pair, 32 * pair)
        total += _mix16(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total & _MASK)


def _hash_to_240(data: bytes, size: int) -> int:
    total = size * _P64_1
    for part in range(8):
        total += _mix16(data, 16 * part, 16 * part)
    total = _avalanche(total & _MASK)
    for part in range(8, size // 16):
        total += _mix16(data, 16 * part, 16 * (part - 8) + 3)
    total += _mix16(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _hash_long(data: bytes, size: int) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    blocks = (size - 1) // _BLOCK_BYTES
    scramble_keys = struct.unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE_BYTES)
    for block in range(blocks):
        for stripe in range(_STRIPES_A_BLOCK):
            _accumulate(lanes, data, block * _BLOCK_BYTES + stripe * _STRIPE_BYTES, 8 * stripe)
        for lane, key in enumerate(scramble_keys):
            value = lanes[lane]
            lanes[lane] = ((value ^ value >> 47 ^ key) * _P32_1) & _MASK
    start = blocks * _BLOCK_BYTES
    for stripe in range((size - 1 - start) // _STRIPE_BYTES):
        _accumulate(lanes, data, start + stripe * _STRIPE_BYTES, 8 * stripe)
    _accumulate(lanes, data, size - _STRIPE_BYTES, len(_SECRET) - _STRIPE_BYTES - 7)
    total = size * _P64_1
    for pair in range(4):
        total += _fold(
            lanes[2 * pair] ^ _read64(_SECRET, 11 + 16 * pair),
            lanes[2 * pair + 1] ^ _read64(_SECRET, 19 + 16 * pair),
        )
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", _SECRET, secret_at)
    for lane, value in enumerate(values):
        keyed = value ^ keys[lane]
        lanes[lane ^ 1] += value
        lanes[lane] += (keyed & 0xFFFF_FFFF) * (keyed >> 32)
    for lane in range(8):
        lanes[lane] &= _MASK
