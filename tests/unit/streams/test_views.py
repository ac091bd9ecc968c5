"""A materialized table's keys and values, as they are stored and answered, and the file that holds them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.streams.views.view_codec import TableCodec, TableKey
from ottla.streams.views.view_store import Change, ViewStore

PLACE = StructType([StructField("city", StringType()), StructField("since", TimestampType())])


def answered(codec: TableCodec, data: bytes) -> Any:
    return orjson.loads(orjson.dumps(codec.key_json(codec.key(data).key)))


@pytest.mark.parametrize(
    ("key_type", "data", "text", "answer"),
    [
        (StringType(), "ä/b".encode(), "ä/b", "ä/b"),
        (StringType(), b"42", "42", "42"),
        (LongType(), struct.pack(">q", -7), "-7", -7),
        (IntegerType(), struct.pack(">i", 7), "7", 7),
        (DoubleType(), struct.pack(">d", 1.5), "1.5", 1.5),
        (DoubleType(), struct.pack(">d", 2.0), "2", 2.0),
        (DoubleType(), struct.pack(">d", float("-inf")), "-Infinity", "-Infinity"),
        (BinaryType(), b"\xfb\xff", "-_8=", "+/8="),
        (BooleanType(), b"true", "true", True),
        (DateType(), b'"2026-01-31"', "2026-01-31", "2026-01-31"),
        (ArrayType(LongType()), b"[1,2]", "[1, 2]", [1, 2]),
        (MapType(StringType(), LongType()), b'{"b":1,"a":2}', '{"a":2, "b":1}', {"a": 2, "b": 1}),
        (
            PLACE,
            b'{"city":"Rome","since":"2026-01-31T12:00:00.000000Z"}',
            '{"since": "2026-01-31T13:00:00+01:00", "city": "Rome"}',
            {"city": "Rome", "since": "2026-01-31T12:00:00.000000Z"},
        ),
        (PLACE, b'{"city":null,"since":null}', "{}", {"city": None, "since": None}),
    ],
)
def test_a_key_from_a_users_text_is_the_key_of_the_record(
    key_type: DataType, data: bytes, text: str, answer: Any
) -> None:
    codec = TableCodec(key_type, LongType())
    assert codec.key_from_text(text) == codec.key(data).key
    found = answered(codec, data)
    assert (found, type(found)) == (answer, type(answer))


@pytest.mark.parametrize(
    ("key_type", "text"),
    [
        (LongType(), "alice"),
        (LongType(), "1.5"),
        (LongType(), "true"),
        (LongType(), str(2**63)),
        (DoubleType(), "x"),
        (BinaryType(), "%%"),
        (BooleanType(), "1"),
        (PLACE, '{"town": "Rome"}'),
        (PLACE, '"Rome"'),
        (PLACE, '{"since": "yesterday"}'),
        (PLACE, '{"since": 5}'),
        (ArrayType(LongType()), "{}"),
        (MapType(StringType(), LongType()), "[]"),
    ],
)
def test_text_that_is_no_key_is_refused(key_type: DataType, text: str) -> None:
    with pytest.raises(ValueError):
        TableCodec(key_type, LongType()).key_from_text(text)


def test_a_windowed_key_is_the_key_and_its_times() -> None:
    key_type = StructType(
        [
            StructField("key", LongType()),
            StructField("start", TimestampType()),
            StructField("end", TimestampType()),
        ]
    )
    codec = TableCodec(key_type, StringType())
    data = b'{"key":7,"start":"2026-01-31T12:00:00.250000Z","end":"2026-01-31T12:01:00.000000Z"}'
    assert codec.windowed
    assert codec.key(data) == TableKey(7, 1_769_860_800_250, 1_769_860_860_000)
    assert codec.key_from_text("7") == 7


def test_a_struct_of_the_same_names_is_no_window() -> None:
    names = [StructField(name, StringType()) for name in ("key", "start", "end")]
    assert not TableCodec(StructType(names), LongType()).windowed


@pytest.mark.parametrize(
    ("value_type", "data", "text"),
    [
        (StringType(), 'say "ä"'.encode(), '"say \\"ä\\""'.encode()),
        (LongType(), struct.pack(">q", 2**62), b"4611686018427387904"),
        (DoubleType(), struct.pack(">d", float("nan")), b'"NaN"'),
        (BinaryType(), b"\x00\xff", b'"AP8="'),
        (PLACE, b'{"city":"Rome"}', b'{"city":"Rome"}'),
    ],
)
def test_a_value_is_kept_as_json(value_type: DataType, data: bytes, text: bytes) -> None:
    assert TableCodec(StringType(), value_type).value(data) == text


KEYS = st.one_of(st.integers(-5, 5), st.text("ab", max_size=2))
CHANGES = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 9)), max_size=4), max_size=8)


@settings(deadline=None, max_examples=15)
@given(batches=CHANGES)
def test_the_file_holds_the_rows_that_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, batches: list[dict[Any, int | None]]
) -> None:
    path = tmp_path_factory.mktemp("store") / "t.sqlite3"
    model: dict[Any, bytes] = {}
    for number, batch in enumerate(batches):
        store = ViewStore(path, "same", windowed=False)  # opened anew each time: nothing is in memory alone
        changes = {
            TableKey(key, 0, 0): Change(None if value is None else b"%d" % value, number)
            for key, value in batch.items()
        }
        store.apply(changes, {0: number + 1})
        for key, value in batch.items():
            model.pop(key, None)
            if value is not None:
                model[key] = b"%d" % value
        assert {row.key.key: row.value for row in store.range(None, None, None, 100)} == model
        assert store.count() == len(model)
        assert store.positions() == {0: number + 1}
        store.close()


def test_pages_in_any_size_are_the_whole_range(tmp_path: Path) -> None:
    store = ViewStore(tmp_path / "t.sqlite3", "same", windowed=True)
    keys = [TableKey(key, start, start + 10) for key in ("a", "b", "c") for start in (0, 10, 20)]
    store.apply({key: Change(b"1", 5) for key in keys}, {0: 9})
    for size in range(1, 11):
        seen: list[TableKey] = []
        while page := store.range("a", "b", seen[-1] if seen else None, size):
            assert len(page) <= size
            seen += [row.key for row in page]
        assert seen == [key for key in keys if key.key != "c"]
    assert [row.key.start_ms for row in store.windows("b", 5, 20, 10)] == [10, 20]
    assert [store.expire(25, 2), store.expire(25, 100), store.count()] == [2, 4, 3]
    store.close()
