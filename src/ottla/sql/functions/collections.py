"""Functions of arrays and maps, functions with lambdas, and functions that choose among values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.sql.functions import casts
from ottla.sql.functions.function import ScalarFunction, Variant, on, scalar
from ottla.sql.functions.signature import signature
from ottla.sql.types.sql_types import SqlType


def identity(value: Any) -> Any:
    """What makes values equal: itself, or for arrays and maps, which can't be hashed, their contents."""
    if isinstance(value, list):
        return ("array", *map(identity, value))
    if isinstance(value, dict):
        return ("map", frozenset((key, identity(each)) for key, each in value.items()))
    return (type(value).__name__, value) if isinstance(value, bool) else value


def distinct(values: list[Any]) -> list[Any]:
    """Each value once, in the order of its first place."""
    found: dict[Any, Any] = {}
    for each in values:
        found.setdefault(identity(each), each)
    return list(found.values())


def _concat(first: list[Any] | None, second: list[Any] | None) -> list[Any] | None:
    if first is None or second is None:
        return first if second is None else second
    return first + second


def _contains(values: list[Any] | None, wanted: Any) -> bool | None:
    if values is None:
        return None
    return any(identity(each) == identity(wanted) for each in values)


def _except(first: list[Any], second: list[Any]) -> list[Any]:
    taken = set(map(identity, second))
    return [each for each in distinct(first) if identity(each) not in taken]


def _intersect(first: list[Any], second: list[Any]) -> list[Any]:
    kept = set(map(identity, second))
    return [each for each in distinct(first) if identity(each) in kept]


def _union(first: list[Any], second: list[Any]) -> list[Any]:
    return distinct(first + second)


def _join(types: Sequence[SqlType], values: list[Any] | None, delimiter: str | None = ",") -> str | None:
    if values is None:
        return None
    return (delimiter or "").join(casts.text_of(each, types[0].elements[0]) for each in values)


def _of_present(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def chosen(values: list[Any]) -> Any:
        present = [each for each in values if each is not None]
        return choose(present) if present else None

    return chosen


def _remove(values: list[Any] | None, unwanted: Any) -> list[Any] | None:
    return None if values is None else [each for each in values if identity(each) != identity(unwanted)]


def _sort(values: list[Any], direction: str = "ASC") -> list[Any]:
    if direction.upper() not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        raise ValueError(f"the order is ASC or DESC, not {direction}")
    present = sorted(
        (each for each in values if each is not None), reverse=direction.upper().startswith("DESC")
    )
    return present + [None] * (len(values) - len(present))


def _as_map(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=False))


def _entries(found: dict[Any, Any], ordered: bool) -> list[dict[str, Any]]:
    pairs = sorted(found.items()) if ordered else list(found.items())
    return [{"K": key, "V": value} for key, value in pairs]


def _map_union(first: dict[Any, Any] | None, second: dict[Any, Any] | None) -> dict[Any, Any] | None:
    if first is None or second is None:
        return first if second is None else second
    return first | second


def _slice(values: list[Any] | None, begin: int | None, end: int | None) -> list[Any] | None:
    if values is None:
        return None
    start = 0 if begin is None else begin - 1
    stop = len(values) if end is None else end
    return None if start < 0 or start >= len(values) or stop < start else values[start:stop]


def _elt(number: int | None, *texts: str | None) -> str | None:
    return texts[number - 1] if number is not None and 1 <= number <= len(texts) else None


def _field(wanted: str | None, *texts: str | None) -> int:
    return next((n for n, each in enumerate(texts, 1) if wanted is not None and each == wanted), 0)


def _filter_map(found: dict[Any, Any], keep: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    return {key: value for key, value in found.items() if keep(key, value)}


def _reduce(values: list[Any] | None, state: Any, step: Callable[[Any, Any], Any]) -> Any:
    if values is None or state is None:
        return state
    for each in values:
        state = step(state, each)
    return state


def _reduce_map(found: dict[Any, Any] | None, state: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
    if found is None or state is None:
        return state
    for key, value in found.items():
        state = step(state, key, value)
    return state


def _transform_map(
    found: dict[Any, Any], key: Callable[[Any, Any], Any], value: Callable[[Any, Any], Any]
) -> dict[Any, Any]:
    return {key(k, v): value(k, v) for k, v in found.items()}


def _first_present(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)


def _collection(name: str, summary: str, *variants: Variant) -> ScalarFunction:
    return scalar(name, summary, *variants, group="collections")


COLLECTIONS = (
    _collection(
        "ARRAY_CONCAT",
        "two arrays one after the other",
        on("(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", _concat, nulls=True),
    ),
    _collection(
        "ARRAY_CONTAINS",
        "whether an array has a value",
        on("(ARRAY<T>, T) -> BOOLEAN", _contains, nulls=True),
    ),
    _collection("ARRAY_DISTINCT", "each value of an array once", on("(ARRAY<T>) -> ARRAY<T>", distinct)),
    _collection(
        "ARRAY_EXCEPT",
        "the values that another array has not",
        on("(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", _except),
    ),
    _collection(
        "ARRAY_INTERSECT",
        "the values that both arrays have",
        on("(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", _intersect),
    ),
    _collection(
        "ARRAY_JOIN",
        "an array as a text with delimiters",
        Variant(signature("(ARRAY<T>) -> STRING"), _join, nulls=True, typed=True),
        Variant(signature("(ARRAY<T>, STRING) -> STRING"), _join, nulls=True, typed=True),
    ),
    _collection("ARRAY_LENGTH", "how many elements", on("(ARRAY<T>) -> INT", len)),
    _collection("ARRAY_MAX", "the largest element", on("(ARRAY<T>) -> T", _of_present(max))),
    _collection("ARRAY_MIN", "the smallest element", on("(ARRAY<T>) -> T", _of_present(min))),
    _collection(
        "ARRAY_REMOVE", "an array without a value", on("(ARRAY<T>, T) -> ARRAY<T>", _remove, nulls=True)
    ),
    _collection(
        "ARRAY_SORT",
        "an array in order, NULLs last",
        on("(ARRAY<T>) -> ARRAY<T>", _sort),
        on("(ARRAY<T>, STRING) -> ARRAY<T>", _sort),
    ),
    _collection(
        "ARRAY_UNION",
        "each value that either array has, once",
        on("(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", _union),
    ),
    _collection(
        "AS_MAP",
        "an array of keys and one of values as a map",
        on("(ARRAY<K>, ARRAY<V>) -> MAP<K, V>", _as_map),
    ),
    _collection("ELT", "the text with a number", on("(INT, STRING...) -> STRING", _elt, nulls=True)),
    _collection(
        "ENTRIES",
        "a map's entries as an array of structs of K and V",
        on("(MAP<STRING, V>, BOOLEAN) -> ARRAY<STRUCT<K STRING, V V>>", _entries),
    ),
    _collection(
        "FIELD",
        "the number of a text among texts, 0 if it is none",
        on("(STRING, STRING...) -> INT", _field, nulls=True),
    ),
    _collection("MAP_KEYS", "a map's keys", on("(MAP<K, V>) -> ARRAY<K>", list)),
    _collection(
        "MAP_VALUES", "a map's values", on("(MAP<K, V>) -> ARRAY<V>", lambda found: list(found.values()))
    ),
    _collection(
        "MAP_UNION",
        "two maps as one, the second's values first",
        on("(MAP<K, V>, MAP<K, V>) -> MAP<K, V>", _map_union, nulls=True),
    ),
    _collection(
        "SLICE",
        "the elements from one position to another",
        on("(ARRAY<T>, INT, INT) -> ARRAY<T>", _slice, nulls=True),
    ),
    _collection(
        "FILTER",
        "the elements, or entries, that a lambda keeps",
        on(
            "(ARRAY<T>, (T) => BOOLEAN) -> ARRAY<T>",
            lambda values, keep: [each for each in values if keep(each)],
        ),
        on("(MAP<K, V>, (K, V) => BOOLEAN) -> MAP<K, V>", _filter_map),
    ),
    _collection(
        "REDUCE",
        "one value of all elements, or entries, by a lambda",
        on("(ARRAY<T>, S, (S, T) => S) -> S", _reduce, nulls=True),
        on("(MAP<K, V>, S, (S, K, V) => S) -> S", _reduce_map, nulls=True),
    ),
    _collection(
        "TRANSFORM",
        "each element, or key and value, by a lambda",
        on("(ARRAY<T>, (T) => U) -> ARRAY<U>", lambda values, change: [change(each) for each in values]),
        on("(MAP<K, V>, (K, V) => L, (K, V) => W) -> MAP<L, W>", _transform_map),
    ),
)

NULLS = (
    scalar(
        "COALESCE",
        "the first value that is not NULL",
        on("(T...) -> T", _first_present, nulls=True),
        group="NULLs",
    ),
    scalar(
        "IFNULL",
        "a value, or another in place of NULL",
        on("(T, T) -> T", _first_present, nulls=True),
        group="NULLs",
    ),
    scalar(
        "NULLIF",
        "NULL where two values are equal",
        on("(T, T) -> T", lambda one, other: None if one == other else one, nulls=True),
        group="NULLs",
    ),
)
