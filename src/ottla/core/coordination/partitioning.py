"""Which partition of a coordinator's topic a name (a group id, a transactional id) lives in."""

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


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition that Kafka's own coordinator keeps `group_id` in."""
    return (java_string_hash(group_id) & 0x7FFF_FFFF) % partition_count
