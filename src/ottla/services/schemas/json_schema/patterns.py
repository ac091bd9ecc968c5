"""Does a regular expression of a schema match a property's name? Said only where finding out is cheap.

Patterns come from users and Python's engine backtracks: one like `(a+)+$` takes longer than anybody waits.
Patterns that could are not run; whoever asks must then allow for both answers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_MAX_PATTERN_CHARACTERS: Final = 256
_MAX_NAME_CHARACTERS: Final = 256
_MAX_LOOPS: Final = 2
"""With this many loops that are not within each other the time is at most the cube of the name's length."""
_MAX_CHOICES: Final = 8
"""Each `?` or `|` may double the time."""

_QUOTED: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]", re.DOTALL)
_LOOP_OVER_GROUP: Final = re.compile(r"\)[*+{]")
_LOOP: Final = re.compile(r"[*+{]")
_CHOICE: Final = re.compile(r"(?<!\()\?|\|")


def matches(pattern: str, name: str) -> bool | None:
    """Whether `pattern` is found in `name`; None where that would cost too much, or the pattern is odd."""
    if len(name) > _MAX_NAME_CHARACTERS:
        return None
    compiled = _compiled(pattern)
    return None if compiled is None else compiled.search(name) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _MAX_PATTERN_CHARACTERS or re.search(r"\\[1-9kpP]|\(\?P=", pattern):
        return None
    bare = _QUOTED.sub("_", pattern)
    if _LOOP_OVER_GROUP.search(bare) or len(_LOOP.findall(bare)) > _MAX_LOOPS:
        return None
    if len(_CHOICE.findall(bare)) > _MAX_CHOICES:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
