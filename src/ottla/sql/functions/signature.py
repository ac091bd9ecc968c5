"""Signatures of functions: patterns of types with letters for any type, and their match with arguments.

`(ARRAY<T>, T) -> BOOLEAN`, `(STRING...) -> STRING`, `(MAP<K, V>, (K, V) => BOOLEAN) -> MAP<K, V>`. A letter
stands for one type throughout; `DECIMAL` alone for a decimal of any size; NUMBER, as a letter, for numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.sql.types.coercion import can_stand_for, common_type
from ottla.sql.types.sql_types import UNKNOWN, Base, SqlType, array, map_of, parsed_type, struct

Returns = Callable[[Sequence[SqlType]], SqlType]
"""The result's type by the arguments' types, where a pattern can't say it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A type with letters in it. letter: stands for any type; any_decimal: DECIMAL without a size."""

    base: Base | None
    letter: str = ""
    exact: SqlType | None = None
    parts: tuple[Pattern, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives. variadic: the last parameter may stand any number of times."""

    text: str
    parameters: tuple[Pattern, ...]
    variadic: bool
    returns: Pattern | Returns

    def parameter(self, number: int) -> Pattern | None:
        if number < len(self.parameters):
            return self.parameters[number]
        return self.parameters[-1] if self.variadic else None

    def takes(self, count: int) -> bool:
        """Whether it takes so many arguments."""
        least = len(self.parameters) - (1 if self.variadic else 0)
        return least <= count and (self.variadic or count == len(self.parameters))


def signature(text: str, returns: Returns | None = None) -> Signature:
    """The signature of a text."""
    inside, _, result = text.rpartition(" -> ")
    parts = _split(inside.strip()[1:-1])
    variadic = bool(parts) and parts[-1].endswith("...")
    patterns = tuple(_pattern(each.removesuffix("...")) for each in parts)
    return Signature(text, patterns, variadic, returns or _pattern(result))


@dataclass(frozen=True, slots=True)
class Match:
    """Arguments of a signature: the types that they are cast to, and what is called gives."""

    arguments: tuple[SqlType, ...]
    returns: SqlType
    casts: int


def match(found: Signature, given: Sequence[SqlType]) -> Match | None:
    """How the arguments fit; None if they do not. Lambdas must have their types by now."""
    if not found.takes(len(given)):
        return None
    letters: dict[str, SqlType] = {}
    for number, each in enumerate(given):
        parameter = found.parameter(number)
        if parameter is None or not bind_letters(parameter, each, letters):
            return None
    wanted = []
    for number, each in enumerate(given):
        parameter = found.parameter(number)
        assert parameter is not None
        to = made(parameter, letters, each)
        if to.base is not Base.LAMBDA and not can_stand_for(each, to):
            return None
        wanted.append(each if to.base is Base.LAMBDA else to)
    returns = found.returns(wanted) if callable(found.returns) else made(found.returns, letters, UNKNOWN)
    casts = sum(1 for a, b in zip(given, wanted, strict=True) if a not in (b, UNKNOWN))
    return Match(tuple(wanted), returns, casts)


def bind_letters(pattern: Pattern, given: SqlType, letters: dict[str, SqlType]) -> bool:
    """Whether a type fits, as far as letters go; `letters` learns what they stand for."""
    if pattern.letter:
        if pattern.letter == "NUMBER" and not given.is_number and given != UNKNOWN:
            return False
        common = common_type(letters.get(pattern.letter, UNKNOWN), given)
        if common is None:
            return False
        letters[pattern.letter] = common
        return True
    if given == UNKNOWN:
        return True
    if pattern.exact is not None:
        return can_stand_for(given, pattern.exact)
    if given.base is not pattern.base:
        return pattern.base is Base.DECIMAL and given.base in (Base.INTEGER, Base.BIGINT)
    if pattern.base is Base.STRUCT:
        return all(
            (of := given.field_named(name)) is not None and bind_letters(part, of, letters)
            for name, part in zip(pattern.names, pattern.parts, strict=True)
        )
    if pattern.base in (Base.ARRAY, Base.MAP, Base.LAMBDA):
        return len(given.elements) == len(pattern.parts) and all(
            bind_letters(part, of, letters) for part, of in zip(pattern.parts, given.elements, strict=True)
        )
    return True


def made(pattern: Pattern, letters: dict[str, SqlType], given: SqlType) -> SqlType:
    """The type that a pattern is with its letters known."""
    if pattern.letter:
        return letters.get(pattern.letter, given)
    if pattern.exact is not None:
        return pattern.exact
    parts = [made(part, letters, UNKNOWN) for part in pattern.parts]
    match pattern.base:
        case Base.ARRAY:
            return array(parts[0])
        case Base.MAP:
            return map_of(parts[0], parts[1])
        case Base.LAMBDA:
            return SqlType(Base.LAMBDA, elements=tuple(parts))
        case Base.STRUCT:
            return struct(*zip(pattern.names, parts, strict=True))
    return given


@functools.cache
def _pattern(text: str) -> Pattern:
    text = text.strip()
    if "=>" in _outside(text):
        parameters, _, result = _cut(text)
        parts = [*_split(parameters.strip()[1:-1]), result]
        return Pattern(Base.LAMBDA, parts=tuple(map(_pattern, parts)))
    if text == "NUMBER" or (len(text) == 1 and text.isalpha()):
        return Pattern(None, text)
    if text == "DECIMAL":
        return Pattern(Base.DECIMAL)
    for base in (Base.ARRAY, Base.MAP):
        if text.startswith(f"{base.value}<"):
            return Pattern(base, parts=tuple(map(_pattern, _split(text[len(base.value) + 1 : -1]))))
    if text.startswith("STRUCT<"):
        fields = [each.strip().split(" ", 1) for each in _split(text[7:-1])]
        names, parts = [each[0] for each in fields], [each[1] for each in fields]
        return Pattern(Base.STRUCT, parts=tuple(map(_pattern, parts)), names=tuple(names))
    return Pattern(None, exact=parsed_type(text))


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for number, each in enumerate(text):
        if each in "(<":
            depth += 1
        elif each in ")>" and text[number - 1 : number + 1] != "=>":
            depth -= 1
        elif each == "," and depth == 0:
            parts.append(text[begin:number].strip())
            begin = number + 1
    return [*parts, text[begin:].strip()] if text.strip() else []


def _cut(text: str) -> tuple[str, str, str]:
    return text.partition("=>")


def _outside(text: str) -> str:
    """A text without what is in angle brackets."""
    return text if text.startswith("(") else ""
