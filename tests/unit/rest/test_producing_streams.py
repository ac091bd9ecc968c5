"""Concatenated JSON objects found in a stream, however it is cut."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.rest.records import json_bounds
from ottla.rest.records.concatenated_json import MalformedStream, ObjectStream, ObjectTooLarge


def fed(*pieces: bytes, limit: int = 1_000) -> list[dict[str, Any]]:
    stream = ObjectStream(limit)
    found = [record for piece in pieces for record in stream.feed(piece)]
    stream.end()
    return found


@pytest.mark.parametrize(
    "pieces",
    [
        [b'{"a":1}{"a":2}'],
        [b'{"a":1}\n{"a":2}\n'],
        [b'{"a":1}\r\n\r\n{"a":2}'],
        [b'  {"a":1} \t{"a":2} '],
        [b'{"a"', b':1}{"', b'a":2}'],
        [b'{\n "a": 1\n}\n{\n "a": 2\n}\n'],
        [b'{"a":1}', b"\n", b'{"a":2}', b"\n"],
        [b"", b'{"a":1}{"a":', b"", b"2}"],
    ],
)
def test_objects_are_found_however_they_are_laid_out_and_cut(pieces: list[bytes]) -> None:
    assert fed(*pieces) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "text", [b'{"a":"}{"}', b'{"a":"\\"}"}', b'{"a\\\\":"["}', b'{"a":{"b":[{"c":"]"}]}}']
)
def test_brackets_and_quotes_in_strings_do_not_count(text: bytes) -> None:
    whole = fed(text)
    assert len(whole) == 1
    for cut in range(len(text)):
        assert fed(text[:cut], text[cut:], text) == whole * 2
    assert fed(*(bytes([byte]) for byte in text)) == whole


@pytest.mark.parametrize(
    "text",
    [
        b"[1]",
        b"1",
        b"1\n",
        b"null\n",
        b'"{}"',
        b"}",
        b"{]",
        b'{"a":}',
        b'{"a":NaN}',
        b"{} x",
        b"{}\nx\n",
        b"{},{}",
    ],
)
def test_what_is_no_object_ends_the_stream(text: bytes) -> None:
    with pytest.raises(MalformedStream):
        fed(text)


@pytest.mark.parametrize("text", [b"{", b'{"a', b'{"a":"\\', b'{"a":[', b'{}{"'])
def test_an_object_that_is_cut_short_is_told_at_the_end(text: bytes) -> None:
    stream = ObjectStream(100)
    list(stream.feed(text))
    with pytest.raises(MalformedStream):
        stream.end()


def test_what_came_before_a_malformed_object_is_found() -> None:
    stream, found = ObjectStream(100), []
    with pytest.raises(MalformedStream):
        for record in stream.feed(b'{"a":1}\n{"a":2}{"a":3} oh'):
            found.append(record)  # noqa: PERF402  # what a comprehension has found is lost
    assert found == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_an_object_that_grows_too_large_is_refused_before_it_is_whole() -> None:
    stream = ObjectStream(100)
    with pytest.raises(ObjectTooLarge):
        for _ in range(30):
            list(stream.feed(b'{"a":"x'))
    assert stream.held_bytes <= 107


def test_an_object_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bounds, "MAX_VALUES", 10)
    with pytest.raises(ObjectTooLarge):
        fed(b'{"a":[', b"1," * 20, b"1]}")


def test_nothing_is_held_between_objects() -> None:
    stream = ObjectStream(100)
    assert len(list(stream.feed(b'{"a":1}{"a"'))) == 1
    assert stream.held_bytes == 4
    assert len(list(stream.feed(b":2}\n"))) == 1
    assert stream.held_bytes == 0
