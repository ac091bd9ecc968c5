"""Texts that match a regular expression, drawn at random."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

Draw = Callable[[random.Random], str]

MAX_REPEATS: Final = 10
"""How often a part without an upper limit (`a*`) is repeated at most, beyond its lower limit."""
MAX_REPEATS_GIVEN: Final = 10_000
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_CATEGORIES: Final = {
    codes.CATEGORY_DIGIT: "0123456789",
    codes.CATEGORY_WORD: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
    codes.CATEGORY_SPACE: " \t",
}
_OPPOSITES: Final = {
    codes.CATEGORY_NOT_DIGIT: codes.CATEGORY_DIGIT,
    codes.CATEGORY_NOT_WORD: codes.CATEGORY_WORD,
    codes.CATEGORY_NOT_SPACE: codes.CATEGORY_SPACE,
}


def drawer(pattern: str) -> Draw:
    """A function that draws texts which the whole expression matches. Raises ValueError for others."""
    try:
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(f"the regular expression {pattern!r}: {problem}") from None
    return _sequence(parsed)


def _sequence(parsed: Any) -> Draw:
    parts = [_part(code, argument) for code, argument in parsed]
    if len(parts) == 1:
        return parts[0]
    return lambda chance: "".join([part(chance) for part in parts])


def _part(code: Any, argument: Any) -> Draw:
    if code is codes.LITERAL:
        text = chr(argument)
        return lambda chance: text
    if code is codes.ANY:
        return lambda chance: chance.choice(_PRINTABLE)
    if code is codes.NOT_LITERAL:
        return _choice(_PRINTABLE.replace(chr(argument), ""))
    if code is codes.IN:
        return _choice(_set_of(argument))
    if code is codes.SUBPATTERN:
        return _sequence(argument[3])
    if code is codes.BRANCH:
        branches = [_sequence(each) for each in argument[1]]
        return lambda chance: chance.choice(branches)(chance)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return _repeat(*argument)
    if code is codes.AT:
        return lambda chance: ""
    raise ValueError(f"texts can't be drawn from a regular expression with {str(code).lower()}")


def _repeat(least: int, most: Any, repeated: Any) -> Draw:
    part = _sequence(repeated)
    most = least + MAX_REPEATS if most is codes.MAXREPEAT else int(most)
    if most > MAX_REPEATS_GIVEN:
        raise ValueError(f"a regular expression repeats a part more than {MAX_REPEATS_GIVEN} times")
    return lambda chance: "".join([part(chance) for _ in range(chance.randint(least, most))])


def _choice(characters: str) -> Draw:
    if not characters:
        raise ValueError("a regular expression has a class without characters")
    return lambda chance: chance.choice(characters)


def _set_of(items: Any) -> str:
    """The characters of a class in brackets; of a negated one, those that can be printed."""
    found: set[str] = set()
    negated = False
    for code, argument in items:
        if code is codes.NEGATE:
            negated = True
        elif code is codes.LITERAL:
            found.add(chr(argument))
        elif code is codes.RANGE:
            found.update(map(chr, range(argument[0], min(argument[1], argument[0] + 0xFFFF) + 1)))
        elif argument in _CATEGORIES:
            found.update(_CATEGORIES[argument])
        elif argument in _OPPOSITES:
            found.update(set(_PRINTABLE) - set(_CATEGORIES[_OPPOSITES[argument]]))
        else:
            raise ValueError(f"texts can't be drawn from a class with {str(argument).lower()}")
    return "".join(sorted(set(_PRINTABLE) - found if negated else found))
