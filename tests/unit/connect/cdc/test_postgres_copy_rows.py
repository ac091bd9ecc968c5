"""Rows of COPY's text format, whose escapes the manual lists, become the values again."""

from __future__ import annotations

import random

from ottla.connect.cdc.postgres.copying.reading import copied_row

_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}
_PARTS = ("", "a", "N", "\\", "\\N", "\n", "\t", "\b\f\r\v", "日本", "🙂", '"', "\\\\.", "\x01")


def as_the_server_writes(cells: list[str | None]) -> bytes:
    """A row as COPY … TO STDOUT has it."""
    texts = ["\\N" if each is None else "".join(_ESCAPES.get(c, c) for c in each) for each in cells]
    return "\t".join(texts).encode() + b"\n"


def test_every_value_comes_back() -> None:
    chance = random.Random(20)
    for _ in range(2000):
        cells = [
            None if chance.random() < 0.2 else "".join(chance.choices(_PARTS, k=chance.randrange(5)))
            for _ in range(chance.randrange(1, 6))
        ]
        row = as_the_server_writes(cells)
        assert copied_row(row) == tuple(cells)
