"""Lengths and scales of PostgreSQL's columns as its JDBC driver tells them, and who is a text; no I/O."""

from __future__ import annotations

from typing import Final

from ottla.connect.cdc.postgres.types import NO_MODIFIER, UNBOUNDED_BITS, PostgresType, TypeKind

UNKNOWN_LENGTH: Final = 2_147_483_647
_PRECISIONS: Final = {
    "int2": 5,
    "int4": 10,
    "oid": 10,
    "int8": 19,
    "float4": 8,
    "float8": 17,
    "char": 1,
    "bool": 1,
    "date": 13,
    "interval": 49,
}
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "char", "name"})
_DAY: Final = 13
_CLOCK: Final = 8
_ZONE: Final = 6


def is_text(of: PostgresType) -> bool:
    """Whether JDBC has the type among those of characters."""
    return of.name in _TEXTS or of.kind is TypeKind.ENUM


def column_length(of: PostgresType, modifier: int) -> int:
    """How many digits or characters a column has at most."""
    known = _PRECISIONS.get(of.name)
    if known is not None:
        return known
    match of.name:
        case "numeric":
            return 131_089 if modifier == NO_MODIFIER else ((modifier - 4) >> 16) & 0xFFFF
        case "varchar" | "bpchar":
            return UNKNOWN_LENGTH if modifier == NO_MODIFIER else modifier - 4
        case "time":
            return _CLOCK + _fraction(modifier)
        case "timetz":
            return _CLOCK + _fraction(modifier) + _ZONE
        case "timestamp":
            return _DAY + 1 + _CLOCK + _fraction(modifier)
        case "timestamptz":
            return _DAY + 1 + _CLOCK + _fraction(modifier) + _ZONE
        case "bit":
            return modifier
        case "varbit":
            return UNBOUNDED_BITS if modifier == NO_MODIFIER else modifier
    return UNKNOWN_LENGTH


def column_scale(of: PostgresType, modifier: int) -> int:
    """How many digits stand behind the point."""
    match of.name:
        case "float4":
            return 8
        case "float8":
            return 17
        case "numeric":
            return 0 if modifier == NO_MODIFIER else (modifier - 4) & 0xFFFF
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return 6 if modifier == NO_MODIFIER else modifier
        case "interval":
            return 6 if modifier == NO_MODIFIER else modifier & 0xFFFF
    return 0


def _fraction(modifier: int) -> int:
    """The point and the digits of a second's fraction."""
    if modifier == NO_MODIFIER:
        return 7
    return {0: 0, 1: 3}.get(modifier, modifier + 1)
