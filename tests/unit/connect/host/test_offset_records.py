"""Records of the offsets topic: Java's bytes, and the newest offset of each partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.data.schema import DataError
from ottla.connect.host.offset_records import OffsetImage, key_bytes, read_key, value_bytes

NAMES = st.text(st.characters(codec="utf-8"))
VALUES = st.none() | st.booleans() | st.integers() | NAMES | st.floats(allow_nan=False, allow_infinity=False)
OBJECTS = st.dictionaries(NAMES, VALUES)


def test_keys_and_values_are_those_of_java() -> None:
    assert key_bytes("c", {"filename": "ä b"}) == '["c",{"filename":"ä b"}]'.encode()
    assert value_bytes({"position": 17}) == b'{"position":17}'
    assert value_bytes(None) is None
    # the order of Java's HashMap, whatever order they were given in
    assert key_bytes("c", {"server": "s", "database": "d"}) == b'["c",{"server":"s","database":"d"}]'
    assert key_bytes("c", {"database": "d", "server": "s"}) == b'["c",{"server":"s","database":"d"}]'


@given(NAMES, OBJECTS)
def test_a_key_reads_as_it_was_written(connector: str, partition: dict[str, object]) -> None:
    assert read_key(key_bytes(connector, partition)) == (connector, partition)


@given(st.binary())
def test_other_keys_are_passed_over(data: bytes) -> None:
    assert read_key(data) is None or data.startswith(b"[")
    image = OffsetImage()
    image.apply(data, b"{}")
    image.apply(data, data)
    image.of("c")


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1,), b"x"])
def test_only_primitive_values_are_stored(value: object) -> None:
    with pytest.raises(DataError, match="Offsets may only contain primitive types as values, but field a"):
        key_bytes("c", {"a": value})
    with pytest.raises(DataError):
        value_bytes({"a": value})


def test_what_is_no_json_is_refused() -> None:
    for partition in ({"a": float("nan")}, {"a": "\udc80"}):
        with pytest.raises(DataError):
            key_bytes("c", partition)
    with pytest.raises(DataError, match="String keys"):
        key_bytes("c", {1: "a"})  # type: ignore[dict-item]


def test_the_own_spelling_of_a_partition_counts_before_others() -> None:
    image = OffsetImage()
    partition = {"server": "s", "database": "d"}
    other = b'["c", {"server": "s", "database": "d"}]'
    image.apply(other, b'{"at":1}')
    assert image.of("c") == [(partition, {"at": 1})]
    assert image.spellings("c", partition) == [other]
    image.apply(key_bytes("c", partition), b'{"at":2}')
    image.apply(other, b'{"at":3}')
    assert image.of("c") == [(partition, {"at": 2})]
    assert image.of("d") == []
    image.apply(key_bytes("c", partition), None)
    image.apply(other, None)
    assert image.of("c") == []
