"""Which names of a cluster a user means: plain names, patterns of a shell, or a regular expression."""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.config.errors import UserError

WILDCARDS: Final = frozenset("*?[")
"""No topic's name has any of them."""


class BadPattern(UserError):
    """A regular expression that can't be read."""


@dataclass(frozen=True, slots=True)
class ChosenNames:
    """The names that were found, in their order, and the plain names that there are not."""

    found: tuple[str, ...]
    missing: tuple[str, ...] = ()


def is_pattern(word: str) -> bool:
    """Whether a word stands for all names that it matches, as in a shell."""
    return not WILDCARDS.isdisjoint(word)


def choose(words: Sequence[str], names: Iterable[str], regex: str | None = None) -> ChosenNames:
    """The names that a word or the expression means, sorted; all names where there is neither.

    regex: matches whole names. Raises BadPattern.
    """
    known = sorted(set(names))
    if not words and regex is None:
        return ChosenNames(tuple(known))
    plain = dict.fromkeys(word for word in words if not is_pattern(word))
    patterns = _compiled([word for word in words if is_pattern(word)], regex)
    found = [name for name in known if name in plain or any(one.match(name) for one in patterns)]
    return ChosenNames(tuple(found), tuple(word for word in plain if word not in set(known)))


def _compiled(words: Sequence[str], regex: str | None) -> list[re.Pattern[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sets in sets, which a later Python may read in another way
        patterns = [re.compile(fnmatch.translate(word)) for word in words]
        if regex is not None:
            try:
                patterns.append(re.compile(f"(?:{regex})\\Z"))
            except (re.error, RecursionError, OverflowError) as problem:
                raise BadPattern(f"--regex {regex}: not a regular expression: {problem}") from None
    return patterns
