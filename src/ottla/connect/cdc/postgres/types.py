"""PostgreSQL's types, as pg_type tells them; no I/O."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_NESTING: Final = 32
"""How many domains may lie in each other."""
NO_MODIFIER: Final = -1


class TypeKind(enum.Enum):
    """pg_type.typtype."""

    BASE = "b"
    COMPOSITE = "c"
    DOMAIN = "d"
    ENUM = "e"
    PSEUDO = "p"
    RANGE = "r"
    MULTIRANGE = "m"


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type. element: of an array, 0 for none; base: of a domain, with its modifier; labels: of an enum."""

    oid: int
    name: str
    namespace: str
    kind: TypeKind
    is_array: bool = False
    element: int = 0
    base: int = 0
    base_modifier: int = NO_MODIFIER
    delimiter: str = ","
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeRegistry:
    """The types of a database by their numbers."""

    types: Mapping[int, PostgresType] = field(default_factory=dict)

    def find(self, oid: int) -> PostgresType | None:
        """The type of a number."""
        return self.types.get(oid)

    def root(self, oid: int, modifier: int) -> tuple[PostgresType | None, int]:
        """The type under any domains, and the modifier that holds: the column's own, or else a domain's."""
        for _ in range(MAX_NESTING):
            found = self.types.get(oid)
            if found is None or found.kind is not TypeKind.DOMAIN:
                return found, modifier
            if modifier == NO_MODIFIER:
                modifier = found.base_modifier
            oid = found.base
        return None, NO_MODIFIER


def numeric_precision(modifier: int) -> int:
    """The digits in all of numeric(precision, scale); 0 for any."""
    return 0 if modifier == NO_MODIFIER else ((modifier - 4) >> 16) & 0xFFFF


def numeric_scale(modifier: int) -> int:
    """The digits after the point of numeric(precision, scale), from -1000 to 1000."""
    return 0 if modifier == NO_MODIFIER else (((modifier - 4) & 0x7FF) ^ 1024) - 1024


def time_digits(modifier: int) -> int:
    """The digits of the seconds' fraction of a time or timestamp."""
    return 6 if modifier == NO_MODIFIER else modifier


UNBOUNDED_BITS: Final = 2_147_483_647


def bit_length(modifier: int, is_varying: bool) -> int:
    """The bits of bit(n) or bit varying(n)."""
    if modifier == NO_MODIFIER:
        return UNBOUNDED_BITS if is_varying else 1
    return modifier
