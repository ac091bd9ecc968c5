"""Records as JSON lines: every record comes back byte for byte, and no line is more than a clear error."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.cli.records.json_lines import (
    BadLine,
    JsonRecord,
    bytes_json,
    bytes_of,
    json_lines,
    parse_line,
)
from ottla.protocol.record_columns import RecordColumns

BYTES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"", b"null", b'"', b"\\", b"\n", b"\x00", b"\xed\xa0\x80", "\u2028".encode(), b"\xff"]),
)
NAMES = st.binary(max_size=8).map(lambda name: name.decode("utf-8", "surrogateescape"))
HEADERS = st.lists(st.tuples(NAMES | st.sampled_from(["a", "b"]), st.none() | BYTES), max_size=4).map(tuple)
RECORDS = st.tuples(st.none() | BYTES, st.none() | BYTES, HEADERS, st.integers(-1, (1 << 63) - 1))


@settings(max_examples=150)
@given(st.lists(RECORDS, min_size=1, max_size=5), st.text(max_size=10))
def test_what_consume_writes_produce_reads(
    records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]], topic: str
) -> None:
    topic = topic.encode("utf-8", "replace").decode()
    columns = RecordColumns(
        range(7, 7 + len(records)),
        [record[3] for record in records],
        [record[0] for record in records],
        [record[1] for record in records],
        [record[2] for record in records],
    )
    keys, values = map(bytes_json, columns.keys), map(bytes_json, columns.values)
    lines = json_lines(topic, 3, columns, keys, values).split(b"\n")
    assert lines.pop() == b""
    for offset, line, (key, value, headers, timestamp) in zip(columns.offsets, lines, records, strict=True):
        found = parse_line(line)
        assert bytes_of(found.key, "key") == key
        assert bytes_of(found.value, "value") == value
        assert found.headers == headers
        assert (found.partition, found.timestamp_ms) == (3, timestamp)
        shown = json.loads(line)
        assert (shown["topic"], shown["offset"]) == (topic, offset)
        assert isinstance(shown["headers"], dict | list)


@settings(max_examples=200)
@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["key", "value", "headers", "partition", "timestamp", "base64", "x"]), inner
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())
)
@example(b"[" * 100_000)
@example(b'{"timestamp": ' + b"9" * 10_000 + b"}")
@example(b'{"key": "\\ud800"}')
@example(b"\xff")
def test_any_line_is_a_record_or_a_clear_error(line: bytes) -> None:
    with contextlib.suppress(BadLine):
        found = parse_line(line)
        assert isinstance(found, JsonRecord)
        bytes_of(found.key, "key")
        bytes_of(found.value, "value")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"valeu": "x"}', "did you mean value?"),
        (b'{"key": "a", "key": "b"}', "'key' is there twice"),
        (b'{"headers": {"a": "1", "a": "2"}}', "a list of [name, value]"),
        (b'{"value": 5}', ""),
        (b'{"partition": -1}', "partition is outside of 0"),
        (b'{"partition": true}', "not a whole number"),
        (b'{"timestamp": 1.5}', "not a whole number"),
        (b"[]", "a record is a JSON object, not a list"),
        (b"{", "not JSON"),
        (b'{"headers": [["a"]]}', "a header is [name, value]"),
    ],
)
def test_a_bad_line_is_told_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(BadLine) as problem:
        found = parse_line(line)
        bytes_of(found.value, "value")
    assert reason in str(problem.value)


def test_the_fixed_words_of_the_format() -> None:
    columns = RecordColumns([5], [170], [b"k"], [b"\xff"], [(("a", b"1"), ("a", None))])
    line = json_lines("orders", 0, columns, map(bytes_json, columns.keys), map(bytes_json, columns.values))
    assert line == (
        b'{"topic": "orders", "partition": 0, "offset": 5, "timestamp": 170, "key": "k", '
        b'"value": {"base64": "/w=="}, "headers": [["a", "1"], ["a", null]]}\n'
    )
    found = parse_line(b'{"key": null, "headers": {"trace": "x"}, "topic": "other", "offset": 9}')
    assert found == JsonRecord(None, None, (("trace", b"x"),), None, None)
