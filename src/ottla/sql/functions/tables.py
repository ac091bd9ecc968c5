"""Table functions: several rows for one."""

from __future__ import annotations

import itertools
from typing import Any

from ottla.sql.functions.function import TableFunction, on

MAX_CUBE = 16


def _cube(values: list[Any]) -> list[list[Any]]:
    """All combinations of values and NULL in their place; a NULL has no other."""
    if len(values) > MAX_CUBE:
        raise ValueError(f"CUBE_EXPLODE takes at most {MAX_CUBE} columns")
    choices = [[None] if each is None else [None, each] for each in values]
    return [list(each) for each in itertools.product(*choices)]


TABLES = (
    TableFunction(
        "CUBE_EXPLODE",
        "a row for each combination of an array's values and NULL",
        (on("(ARRAY<T>) -> ARRAY<T>", _cube),),
    ),
    TableFunction(
        "EXPLODE",
        "a row for each element of an array, or each entry of a map as a struct",
        (
            on("(ARRAY<T>) -> T", list),
            on(
                "(MAP<K, V>) -> STRUCT<K K, V V>",
                lambda found: [{"K": key, "V": value} for key, value in found.items()],
            ),
        ),
    ),
)
