"""The partition of a coordinator's topic that a name (group id, transactional id, share key) belongs to.

Kafka takes the absolute value of Java's string hash (0 for the smallest integer, which has none), modulo the
number of partitions. Older versions of ottla masked the sign bit away instead, which gives another partition
for nearly every name whose hash is negative. Both are functions of the same number, so the older partition
determines the right one and the other way round (`counterpart_of`): all strays in a partition belong to one
other partition, and all names that a partition misses are in that same one.
"""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode` of `text`: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    for character in text:
        code_point = ord(character)
        if code_point > 0xFFFF:
            code_point -= 0x1_0000
            value = (31 * value + (0xD800 | code_point >> 10)) & 0xFFFF_FFFF
            code_point = 0xDC00 | code_point & 0x3FF
        value = (31 * value + code_point) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(name: str, partition_count: int) -> int:
    """The partition in which Kafka's coordinators keep `name`."""
    hashed = java_string_hash(name)
    return 0 if hashed == -(2**31) else abs(hashed) % partition_count


def older_partition_for(name: str, partition_count: int) -> int:
    """The partition in which an older ottla kept `name`."""
    return (java_string_hash(name) & 0x7FFF_FFFF) % partition_count


def counterpart_of(partition: int, partition_count: int) -> int:
    """The one partition in which an older ottla may have kept names of `partition`; for a few it is the same.

    A negative hash h has the absolute value 2^31 - (h & 0x7FFFFFFF): the two partitions of a name sum up to
    2^31, modulo the number of partitions.
    """
    return (2**31 - partition) % partition_count


def is_stray(name: str, partition: int, partition_count: int) -> bool:
    """Whether `name` belongs to another partition, and an older ottla kept it in `partition`."""
    return (
        partition_for(name, partition_count) != partition
        and older_partition_for(name, partition_count) == partition
    )
