"""Varints, tag sections and UUIDs."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import MalformedMessage
from ottla.protocol.wire import read_tags, read_unsigned_varint, uuid_of, write_tags, write_unsigned_varint

VARINTS = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    16383: "ff7f",
    16384: "808001",
    2097151: "ffff7f",
    2097152: "80808001",
    2**32 - 1: "ffffffff0f",
}


@pytest.mark.parametrize(("value", "data"), VARINTS.items())
def test_varints_on_the_edges_of_their_sizes(value: int, data: str) -> None:
    assert write_unsigned_varint(value).hex() == data
    assert read_unsigned_varint(b"?" + bytes.fromhex(data) + b"?", 1) == (value, 1 + len(data) // 2)


@given(st.integers(0, 2**32 - 1))
def test_every_varint_comes_back(value: int) -> None:
    data = write_unsigned_varint(value)
    assert read_unsigned_varint(data, 0) == (value, len(data))


@pytest.mark.parametrize("value", [-1, -200, 2**32])
def test_values_out_of_range_are_not_encoded(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        write_unsigned_varint(value)


@pytest.mark.parametrize("data", ["ffffffff1f", "ffffffffff01", "808080808000", "ff" * 1000])
def test_varints_above_32_bits_or_five_bytes(data: str) -> None:
    with pytest.raises(MalformedMessage):
        read_unsigned_varint(bytes.fromhex(data), 0)


def test_a_tag_section_has_its_tags_in_rising_order() -> None:
    parts: list[bytes] = []
    write_tags(parts.append, [(1, b"a"), (7, b"b")], {3: b"ccc", 200: b""})
    data = b"".join(parts)
    assert data == b"\x04" + b"\x01\x01a" + b"\x03\x03ccc" + b"\x07\x01b" + b"\xc8\x01\x00"
    fields, end = read_tags(data, 1, 4)
    assert [(tag, data[start:stop]) for tag, start, stop in fields] == [
        (1, b"a"),
        (3, b"ccc"),
        (7, b"b"),
        (200, b""),
    ]
    assert end == len(data)


def test_uuids() -> None:
    value = uuid.uuid4()
    assert uuid_of(value.bytes) == value
    assert uuid_of(value.bytes) is uuid_of(value.bytes)
