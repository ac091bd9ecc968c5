"""Finds out whether a schema's regular expression matches a property's name, if that is cheap.

Patterns come from users and Python's engine backtracks: a pattern like `(a+)+$` may practically never end.
Patterns that could take so long are not run, and the caller must allow for both answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ottla.schemas.effort import Effort

_MAX_PATTERN_CHARACTERS: Final = 256
_MAX_NAME_CHARACTERS: Final = 256
_MAX_LOOPS: Final = 2
"""The most loops, which may not be nested: the time is then at most the cube of the name's length."""
_MAX_CHOICES: Final = 8
"""The most `?` and `|`, each of which may double the time."""

_QUOTED: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]", re.DOTALL)
_LOOP_OVER_GROUP: Final = re.compile(r"\)[*+{]")
_LOOP: Final = re.compile(r"[*+{]")
_CHOICE: Final = re.compile(r"(?<!\()\?|\|")


_COMPILE_STEPS: Final = 50
_LOOP_STEPS: Final = 40
"""The number of positions that the engine tries in the time of a step."""


class Patterns:
    """The patterns of a comparison, compiled once; a search counts as many steps as it takes at worst."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._compiled: dict[str, _Compiled | None] = {}

    def matches(self, pattern: str, name: str) -> bool | None:
        """Whether the pattern matches `name`; None if that would take too long, or the pattern is invalid."""
        self._effort.spend()
        if pattern not in self._compiled:
            self._effort.spend(_COMPILE_STEPS)
            self._compiled[pattern] = _compiled(pattern)
        compiled = self._compiled[pattern]
        if compiled is None or len(name) > _MAX_NAME_CHARACTERS:
            return None
        self._effort.spend(len(name) ** compiled.power * 2**compiled.choices // _LOOP_STEPS)
        return compiled.pattern.search(name) is not None


@dataclass(frozen=True, slots=True)
class _Compiled:
    pattern: re.Pattern[str]
    power: int
    """The power of the name's length that bounds a search."""
    choices: int


def _compiled(pattern: str) -> _Compiled | None:
    if len(pattern) > _MAX_PATTERN_CHARACTERS or re.search(r"\\[1-9kpP]|\(\?P=", pattern):
        return None
    bare = _QUOTED.sub("_", pattern)
    loops, choices = len(_LOOP.findall(bare)), len(_CHOICE.findall(bare))
    if _LOOP_OVER_GROUP.search(bare) or loops > _MAX_LOOPS or choices > _MAX_CHOICES:
        return None
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
    is_anchored = bare.startswith("^") and "|" not in bare
    return _Compiled(compiled, loops + (0 if is_anchored else 1), choices)
