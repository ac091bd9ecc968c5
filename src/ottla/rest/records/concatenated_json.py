"""Splits a stream of concatenated JSON objects, in pieces of any length, into the objects.

Theory of operation. A piece that begins with an object is tried line by line: most streams have one object a
line, and the JSON parser itself says whether a line is one. Otherwise (several on a line, one over several
lines or pieces) brackets and strings are counted, by a scanner that goes on where it stopped: each byte is
read a fixed number of times, however the stream is cut. An object that is not whole yet is held, up to a
bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from ottla.rest.records.json_bounds import MAX_VALUES, has_too_many_values

_WHITESPACE: Final = b" \t\r\n"
_NOT_WHITESPACE: Final = re.compile(rb"[^ \t\r\n]")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]|"', re.DOTALL)
"""A whole string, a bracket, or the quote of a string that is not whole yet."""
_REST_OF_STRING: Final = re.compile(rb"(?:[^\"\\]++|\\.)*+", re.DOTALL)
_QUOTE: Final = ord('"')
_OPENING: Final = frozenset(b"{[")


class MalformedStream(Exception):
    """The stream can't be read on: this is not a JSON object, and the start of the next one is unknown."""


class ObjectTooLarge(Exception):
    """An object of more bytes than may be held."""


class ObjectStream:
    """The objects of one stream. After an exception nothing more can be fed."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_string = False

    @property
    def held_bytes(self) -> int:
        """The bytes of an object that is not whole yet."""
        return len(self._held)

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The objects that are whole with this piece. Raises MalformedStream, ObjectTooLarge."""
        if self._held:
            self._held += piece
            end = self._scan()
            if end < 0:
                self._check_size()
                return
            yield self._take(0, end)
            piece = bytes(memoryview(self._held)[end:])
            self._held.clear()
        start = 0
        while True:
            end = piece.find(b"\n", start)
            if end < 0:
                break
            line = piece[start:end]
            try:
                found = orjson.loads(line)
            except orjson.JSONDecodeError:
                if line.strip(_WHITESPACE):
                    break
            else:
                if type(found) is not dict:
                    raise MalformedStream("a record must be a JSON object")
                yield found
            start = end + 1
        yield from self._scan_all(piece[start:])

    def end(self) -> None:
        """The stream has ended. Raises MalformedStream when an object is cut short."""
        if self._held:
            raise MalformedStream("the stream ends within a record")

    def _scan_all(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The whole objects of a piece that begins between objects; the rest of the piece is held."""
        self._held += piece
        begun = 0
        while True:
            first = _NOT_WHITESPACE.search(self._held, begun)
            if first is None:
                self._held.clear()
                return
            if self._held[first.start()] != ord("{"):
                raise MalformedStream("a record must be a JSON object")
            begun = self._scanned = first.start()
            end = self._scan()
            if end < 0:
                del self._held[:begun]
                self._scanned -= begun
                self._check_size()
                return
            yield self._take(begun, end)
            begun = end

    def _scan(self) -> int:
        """Scan the bytes that are new; the end of the object, or -1 when it is not whole yet."""
        data = self._held
        if self._in_string and not self._leave_string():
            return -1
        depth = self._depth
        for token in _TOKEN.finditer(data, self._scanned):
            first = data[token.start()]
            if first == _QUOTE:
                if token.end() - token.start() > 1:
                    continue
                self._depth, self._in_string, self._scanned = depth, True, token.end()
                self._leave_string()
                return -1
            depth += 1 if first in _OPENING else -1
            if depth <= 0:
                self._depth = self._scanned = 0
                return token.end()
        self._depth, self._scanned = depth, len(data)
        return -1

    def _leave_string(self) -> bool:
        """Whether the string under the scanner ends within the held bytes."""
        rest = _REST_OF_STRING.match(self._held, self._scanned)
        assert rest is not None, "the empty text matches"
        self._scanned = rest.end()
        if self._scanned < len(self._held) and self._held[self._scanned] == _QUOTE:
            self._scanned += 1
            self._in_string = False
            return True
        return False

    def _take(self, start: int, end: int) -> dict[str, Any]:
        text = memoryview(self._held)[start:end]
        if has_too_many_values(text):
            raise ObjectTooLarge(f"a record has more than {MAX_VALUES} values")
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError as problem:
            raise MalformedStream(f"a record is not JSON: {problem}") from None
        assert isinstance(found, dict), "it begins with a brace"
        return found

    def _check_size(self) -> None:
        if len(self._held) > self._limit:
            raise ObjectTooLarge(f"a record is larger than {self._limit} bytes")
