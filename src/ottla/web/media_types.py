"""Chooses the media type of an answer by the request's Accept header (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

MAX_RANGES: Final = 64
"""The ranges of an Accept header that are read; further ones are left out."""
ANYTHING: Final = "*/*"


@lru_cache(maxsize=256)
def negotiate(accept: str, produced: tuple[str, ...]) -> str | None:
    """Which of the `produced` types this Accept header likes best, None if it likes none of them.

    The most specific range that matches a type gives its weight; of equal weights the first of `produced`
    wins. No header, an empty one, and `*`, which Java's clients send, stand for any type.
    """
    ranges = list(_ranges(accept)) or [(ANYTHING, 1.0)]
    best, best_weight = None, 0.0
    for media_type in produced:
        weight = _weight(media_type, ranges)
        if weight > best_weight:
            best, best_weight = media_type, weight
    return best


def _weight(media_type: str, ranges: Iterable[tuple[str, float]]) -> float:
    family = f"{media_type.partition('/')[0]}/*"
    found = (0, 0.0)
    for name, weight in ranges:
        specificity = 3 if name == media_type else 2 if name == family else 1 if name == ANYTHING else 0
        if specificity > found[0]:
            found = specificity, weight
    return found[1]


def _ranges(accept: str) -> Iterable[tuple[str, float]]:
    """The ranges of the header in lower case, with their weights."""
    for text in accept.lower().split(",", MAX_RANGES)[:MAX_RANGES]:
        name, *parameters = (part.strip() for part in text.split(";"))
        if name:
            yield ANYTHING if name == "*" else name, quality(parameters)


def quality(parameters: Iterable[str]) -> float:
    """The weight among a range's parameters (`q=0.5`): 1 without one, 0 for one that is not from 0 to 1."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if math.isfinite(weight) and 0 <= weight <= 1 else 0.0
    return 1.0
