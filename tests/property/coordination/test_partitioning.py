"""Partitions of names beside a model of Java's hash: every string of UTF-16 units, every sign of the hash."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.core.coordination.partitioning import (
    counterpart_of,
    is_stray,
    java_string_hash,
    older_partition_for,
    partition_for,
)

SMALLEST_HASH = "polygenelubricants"
code_points = st.integers(0, 0x10FFFF).map(chr)  # with surrogates, alone and in pairs
names = st.one_of(st.text(code_points), st.text(st.sampled_from("abcxyz-_.09"), min_size=6, max_size=40))
counts = st.integers(1, 200)


def javas_hash(text: str) -> int:
    """The polynomial of Java's documentation, in unbounded integers, then cut to 32 bits."""
    units = [unit for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))]
    total = sum(unit * 31 ** (len(units) - 1 - index) for index, unit in enumerate(units))
    return (total + 2**31) % 2**32 - 2**31


def kafkas_partition(text: str, count: int) -> int:
    """Utils.abs of the hash, modulo the partitions."""
    hashed = javas_hash(text)
    return (0 if hashed == -(2**31) else abs(hashed)) % count


@given(names, counts)
@example(SMALLEST_HASH, 50)
@example(SMALLEST_HASH, 7)
@example("\ud800", 50)
@example("\udc00\ud800", 50)
@example("😀", 50)
def test_a_name_lives_where_kafka_keeps_it(name: str, count: int) -> None:
    assert java_string_hash(name) == javas_hash(name)
    assert partition_for(name, count) == kafkas_partition(name, count)


@given(names, counts)
@example(SMALLEST_HASH, 7)
def test_an_older_partition_has_one_counterpart(name: str, count: int) -> None:
    home, older = partition_for(name, count), older_partition_for(name, count)
    # then: either both agree, or each is the other's counterpart
    assert home == older or (counterpart_of(older, count), counterpart_of(home, count)) == (home, older)
    assert is_stray(name, older, count) == (home != older)
    assert all(not is_stray(name, each, count) for each in range(count) if each != older)


def test_the_smallest_hash_has_no_absolute_value() -> None:
    assert java_string_hash(SMALLEST_HASH) == -(2**31)
    assert [partition_for(SMALLEST_HASH, count) for count in (1, 7, 50)] == [0, 0, 0]
