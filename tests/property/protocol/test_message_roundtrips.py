"""Every message at every version survives encoding and decoding, with any field values."""

from __future__ import annotations

import functools
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.schema import Field, Message, Struct
from support.protocol.messages import INTEGER_BITS, all_versions, is_flexible

MOST_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SMALL_BYTES = st.binary(max_size=12)
UNKNOWN_TAGS = st.none() | st.dictionaries(st.integers(50, 2**32 - 1), SMALL_BYTES, min_size=1, max_size=2)

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": st.uuids(allow_nil=True) | st.just(uuid.UUID(int=0)),
    "string": MOST_TEXT,
    "bytes": SMALL_BYTES,
    "records": SMALL_BYTES,
} | {kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in INTEGER_BITS.items()}


@functools.cache
def structs(cls: type[Struct], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    """Values of a struct, made from its table: the version's fields, with nulls where allowed."""
    fields = {
        field.name: values(field, version, flexible) for field in cls.FIELDS if field.in_version(version)
    }
    if flexible:
        fields["unknown_tagged_fields"] = UNKNOWN_TAGS
    return st.builds(cls, **fields)


def values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    kind = field.kind
    strategy = PLAIN[kind] if isinstance(kind, str) else structs(kind, version, flexible)
    if field.array:
        strategy = st.lists(strategy, max_size=2)
    return st.none() | strategy if field.nullable_in(version) else strategy


@pytest.mark.parametrize(
    ("cls", "version"),
    [pytest.param(cls, version, id=f"{cls.NAME}-{version}") for cls, version in all_versions()],
)
def test_a_message_survives_the_way_to_bytes_and_back(cls: type[Message], version: int) -> None:
    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(structs(cls, version, is_flexible(cls, version)))
    def check(message: Message) -> None:
        # when
        data = message.encode(version)

        # then: both kinds of buffer decode to the message, which encodes to the same bytes
        assert cls.decode(data, version) == message
        again = cls.decode(memoryview(b"\0\0" + data), version, 2)
        assert again == message
        assert again.encode(version) == data
        assert b"".join(message.encode_parts(version)) == data

        # and: a decoder that stops at the end of the message stops there
        assert cls.decode_prefix(data + b"more", version) == (message, len(data))

    check()
