"""Which records of a join come out without a partner: one word for streams and tables."""

from __future__ import annotations

from enum import Enum


class JoinKind(Enum):
    """Whose records need no partner: none's, the left side's, either side's."""

    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"
