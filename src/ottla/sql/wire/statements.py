"""Texts into statements, and parameters into their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.sql.language.errors import SqlError

MAX_PARAMETERS: Final = 1_000
_PIECES: Final = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<name>\"(?:[^\"]|\"\")*\"|`[^`]*`)"
    r"|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<parameter>\$[1-9]\d{0,3})|(?P<end>;)",
    re.S,
)


def split(text: str) -> list[str]:
    """The statements of a text, without empty ones and without their semicolons."""
    found, begin = [], 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            found.append(text[begin : piece.start()])
            begin = piece.end()
    found.append(text[begin:])
    return [each.strip() for each in found if _has_words(each)]


def _has_words(text: str) -> bool:
    return bool(_PIECES.sub(lambda piece: "" if piece["comment"] else piece[0], text).strip())


def parameters_of(text: str) -> int:
    """How many parameters a statement has: the highest number of one."""
    numbers = [int(each["parameter"][1:]) for each in _PIECES.finditer(text) if each["parameter"]]
    count = max(numbers, default=0)
    if count > MAX_PARAMETERS:
        raise SqlError(f"a statement has at most {MAX_PARAMETERS} parameters", None)
    return count


def with_parameters(text: str, literals: Sequence[str]) -> str:
    """The statement with its parameters' values in their places. Raises SqlError."""

    def value(piece: re.Match[str]) -> str:
        if not piece["parameter"]:
            return piece[0]
        number = int(piece["parameter"][1:])
        if number > len(literals):
            raise SqlError(f"the parameter ${number} has no value", None)
        return literals[number - 1]

    return _PIECES.sub(value, text)


def first_words(text: str) -> list[str]:
    """The first words of a statement, in upper case."""
    plain = _PIECES.sub(lambda piece: " " if piece["comment"] else piece[0], text)
    return [each.upper() for each in re.findall(r"[A-Za-z_]+", plain[:400])[:4]]
