"""Aggregate functions. Accumulators are never changed in place: each step gives another one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ottla.sql.functions.collections import identity
from ottla.sql.functions.function import AggregateFunction, AggregateVariant
from ottla.sql.functions.signature import Returns, signature
from ottla.sql.types.sql_types import SqlType

MAX_COLLECTED = 1_000
"""How many values COLLECT_LIST and COLLECT_SET keep (ksql.functions.collect_list.limit)."""
MAX_HISTOGRAM = 1_000


def _plain(value: Any) -> Any:
    return value


def _aggregate(
    text: str,
    new: Callable[[], Any],
    add: Callable[..., Any],
    merge: Callable[[Any, Any], Any],
    result: Callable[[Any], Any] = _plain,
    *,
    remove: Callable[..., Any] | None = None,
    constants: int = 0,
    returns: Returns | None = None,
) -> AggregateVariant:
    return AggregateVariant(signature(text, returns), new, add, merge, result, remove, constants)


def _same(arguments: Sequence[SqlType]) -> SqlType:
    return arguments[0]


# Sums


def _sum(zero: Any, text: str, returns: Returns | None = None) -> AggregateVariant:
    return _aggregate(
        text,
        lambda: zero,
        lambda total, value: total if value is None else total + value,
        lambda first, second: first + second,
        remove=lambda total, value: total if value is None else total - value,
        returns=returns,
    )


# Means and spreads: [count, sum, sum of squares…] of doubles


def _sums(
    *products: Callable[..., float],
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """add, remove and merge of a list of sums; rows with a NULL do not count."""

    def changed(sign: int) -> Callable[..., Any]:
        def change(sums: list[float], *values: Any) -> list[float]:
            if any(each is None for each in values):
                return sums
            numbers = [float(each) for each in values]
            return [total + sign * of(*numbers) for total, of in zip(sums, products, strict=True)]

        return change

    def merge(first: list[float], second: list[float]) -> list[float]:
        return [one + other for one, other in zip(first, second, strict=True)]

    return changed(1), changed(-1), merge


def _mean(sums: list[float]) -> float:
    return sums[1] / sums[0] if sums[0] else 0.0


def _deviation(sums: list[float]) -> float:
    """The sample standard deviation, by Welford's (count, mean, sum of squared differences)."""
    return math.sqrt(sums[2] / (sums[0] - 1)) if sums[0] > 1 else 0.0


def _variance(sums: list[float]) -> float:
    return sums[2] / (sums[0] - 1) if sums[0] > 1 else 0.0


def _welford_add(sums: list[float], value: Any) -> list[float]:
    if value is None:
        return sums
    count, mean, squares = sums[0] + 1, sums[1], sums[2]
    moved = mean + (float(value) - mean) / count
    return [count, moved, squares + (float(value) - mean) * (float(value) - moved)]


def _welford_remove(sums: list[float], value: Any) -> list[float]:
    if value is None:
        return sums
    count = sums[0] - 1
    if count <= 0:
        return [0.0, 0.0, 0.0]
    mean = (sums[1] * sums[0] - float(value)) / count
    return [count, mean, max(sums[2] - (float(value) - mean) * (float(value) - sums[1]), 0.0)]


def _welford_merge(first: list[float], second: list[float]) -> list[float]:
    count = first[0] + second[0]
    if not count:
        return first
    apart = second[1] - first[1]
    mean = first[1] + apart * second[0] / count
    return [count, mean, first[2] + second[2] + apart**2 * first[0] * second[0] / count]


def _correlation(sums: list[float]) -> float:
    count, x, y, xx, yy, xy = sums
    if not count:
        return math.nan
    spread = (count * xx - x * x) * (count * yy - y * y)
    return (count * xy - x * y) / math.sqrt(spread) if spread > 0 else math.nan


_MEAN = _sums(lambda value: 1.0, lambda value: value)
_CORRELATION = _sums(
    lambda x, y: 1.0,
    lambda x, y: x,
    lambda x, y: y,
    lambda x, y: x * x,
    lambda x, y: y * y,
    lambda x, y: x * y,
)


def _spread(text: str, result: Callable[[list[float]], float]) -> AggregateVariant:
    return _aggregate(
        text, lambda: [0.0, 0.0, 0.0], _welford_add, _welford_merge, result, remove=_welford_remove
    )


# The smallest and the largest


def _extreme(
    text: str,
    choose: Callable[[Any, Any], Any],
    returns: Returns | None = None,
) -> AggregateVariant:
    def add(found: Any, value: Any) -> Any:
        return value if found is None else found if value is None else choose(found, value)

    return _aggregate(text, lambda: None, add, add, returns=returns)


_ORDERED = ("INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIME", "TIMESTAMP", "BYTES")


def _extremes(choose: Callable[[Any, Any], Any]) -> tuple[AggregateVariant, ...]:
    exact = (_extreme(f"({each}) -> {each}", choose) for each in _ORDERED)
    return (*exact, _extreme("(DECIMAL) -> DECIMAL", choose, _same))


# Values in the order of their offsets


def _ordered(
    latest: bool, several: bool, ignores: bool
) -> tuple[Callable[..., Any], Callable[[Any, Any], Any]]:
    """add and merge of EARLIEST_ and LATEST_BY_OFFSET; the accumulator is the list of kept values."""

    def kept(values: list[Any], number: int) -> list[Any]:
        return values[-number:] if latest else values[:number]

    def add(values: list[Any], value: Any, *options: Any) -> list[Any]:
        number = options[0] if several else 1
        ignore = bool(options[-1]) if len(options) > (1 if several else 0) else True
        if value is None and ignore:
            return values
        return kept([*values, value], number)

    def merge(first: list[Any], second: list[Any]) -> list[Any]:
        return kept(first + second, max(len(first), len(second), 1))

    return add, merge


def _by_offset(latest: bool) -> tuple[AggregateVariant, ...]:
    one, one_merge = _ordered(latest, False, True)
    many, many_merge = _ordered(latest, True, True)

    def single(values: list[Any]) -> Any:
        return values[0] if values else None

    return (
        _aggregate("(T) -> T", list, one, one_merge, single),
        _aggregate("(T, BOOLEAN) -> T", list, one, one_merge, single, constants=1),
        _aggregate("(T, INT) -> ARRAY<T>", list, many, many_merge, constants=1),
        _aggregate("(T, INT, BOOLEAN) -> ARRAY<T>", list, many, many_merge, constants=2),
    )


# Collections


def _without(values: list[Any], value: Any) -> list[Any]:
    """The list without the first of a value."""
    for number, each in enumerate(values):
        if identity(each) == identity(value):
            return values[:number] + values[number + 1 :]
    return values


def _collect(values: list[Any], value: Any) -> list[Any]:
    return values if len(values) >= MAX_COLLECTED else [*values, value]


def _collect_new(values: list[Any], value: Any) -> list[Any]:
    return values if any(identity(each) == identity(value) for each in values) else _collect(values, value)


def _merge_new(first: list[Any], second: list[Any]) -> list[Any]:
    for each in second:
        first = _collect_new(first, each)
    return first


def _histogram_add(counts: dict[str, int], value: Any) -> dict[str, int]:
    if value is None or (value not in counts and len(counts) >= MAX_HISTOGRAM):
        return counts
    return {**counts, value: counts.get(value, 0) + 1}


def _histogram_remove(counts: dict[str, int], value: Any) -> dict[str, int]:
    """A text that is there no more has no entry; one beyond the limit was never counted."""
    if value not in counts:
        return counts
    changed = {**counts, value: counts[value] - 1}
    return {key: count for key, count in changed.items() if count > 0}


def _merge_counts(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {**first, **{key: first.get(key, 0) + count for key, count in second.items()}}


def _distinct_add(counts: list[list[Any]], *values: Any) -> list[list[Any]]:
    """COUNT_DISTINCT keeps every value and how often it is there: exact, where ksqlDB estimates."""
    value = values[0] if len(values) == 1 else list(values)
    if value is None:
        return counts
    for number, (each, count) in enumerate(counts):
        if identity(each) == identity(value):
            return [*counts[:number], [each, count + 1], *counts[number + 1 :]]
    return [*counts, [value, 1]]


def _distinct_merge(first: list[list[Any]], second: list[list[Any]]) -> list[list[Any]]:
    for value, _ in second:
        first = _distinct_add(first, value)
    return first


def _top(unique: bool) -> tuple[Callable[..., Any], Callable[[Any, Any], Any]]:
    def add(values: list[Any], value: Any, number: int) -> list[Any]:
        if value is None or (unique and value in values):
            return values
        return heapq.nlargest(number, [*values, value])

    def merge(first: list[Any], second: list[Any]) -> list[Any]:
        number = max(len(first), len(second))
        together = dict.fromkeys(first + second) if unique else first + second
        return heapq.nlargest(number, together)

    return add, merge


def _tops(unique: bool) -> tuple[AggregateVariant, ...]:
    add, merge = _top(unique)
    exact = [
        _aggregate(f"({each}, INT) -> ARRAY<{each}>", list, add, merge, constants=1) for each in _ORDERED
    ]
    return tuple(exact)


AGGREGATES = (
    AggregateFunction(
        "AVG",
        "the mean",
        (
            _aggregate(
                "(DOUBLE) -> DOUBLE",
                lambda: [0.0, 0.0],
                _MEAN[0],
                _MEAN[2],
                _mean,
                remove=_MEAN[1],
            ),
        ),
    ),
    AggregateFunction(
        "COLLECT_LIST",
        "all values as an array, 1,000 at most",
        (
            _aggregate(
                "(T) -> ARRAY<T>", list, _collect, lambda a, b: (a + b)[:MAX_COLLECTED], remove=_without
            ),
        ),
    ),
    AggregateFunction(
        "COLLECT_SET",
        "each value once, 1,000 at most",
        (_aggregate("(T) -> ARRAY<T>", list, _collect_new, _merge_new),),
    ),
    AggregateFunction(
        "CORRELATION",
        "Pearson's coefficient of two columns",
        (
            _aggregate(
                "(DOUBLE, DOUBLE) -> DOUBLE",
                lambda: [0.0] * 6,
                _CORRELATION[0],
                _CORRELATION[2],
                _correlation,
                remove=_CORRELATION[1],
            ),
        ),
    ),
    AggregateFunction(
        "COUNT",
        "how many rows, or values that are not NULL",
        (
            _aggregate(
                "() -> BIGINT",
                lambda: 0,
                lambda count: count + 1,
                lambda a, b: a + b,
                remove=lambda count: count - 1,
            ),
            _aggregate(
                "(T) -> BIGINT",
                lambda: 0,
                lambda count, value: count + (value is not None),
                lambda a, b: a + b,
                remove=lambda count, value: count - (value is not None),
            ),
        ),
    ),
    AggregateFunction(
        "COUNT_DISTINCT",
        "how many different values",
        (_aggregate("(T, U...) -> BIGINT", list, _distinct_add, _distinct_merge, len),),
    ),
    AggregateFunction("EARLIEST_BY_OFFSET", "the first value, or the first N", _by_offset(False)),
    AggregateFunction(
        "HISTOGRAM",
        "how often each text is there",
        (
            _aggregate(
                "(STRING) -> MAP<STRING, BIGINT>",
                dict,
                _histogram_add,
                _merge_counts,
                remove=_histogram_remove,
            ),
        ),
    ),
    AggregateFunction("LATEST_BY_OFFSET", "the last value, or the last N", _by_offset(True)),
    AggregateFunction("MAX", "the largest value", _extremes(max)),
    AggregateFunction("MIN", "the smallest value", _extremes(min)),
    AggregateFunction(
        "STDDEV_SAMP",
        "the sample's variance (as ksqlDB has it; STDDEV_SAMPLE is its root)",
        (_spread("(DOUBLE) -> DOUBLE", _variance),),
    ),
    AggregateFunction(
        "STDDEV_SAMPLE", "the sample's standard deviation", (_spread("(DOUBLE) -> DOUBLE", _deviation),)
    ),
    AggregateFunction(
        "SUM",
        "the sum, 0 without values",
        (
            _sum(0, "(INT) -> INT"),
            _sum(0, "(BIGINT) -> BIGINT"),
            _sum(Decimal(0), "(DECIMAL) -> DECIMAL", _same),
            _sum(0.0, "(DOUBLE) -> DOUBLE"),
        ),
    ),
    AggregateFunction("TOPK", "the N largest values, largest first", _tops(False)),
    AggregateFunction("TOPKDISTINCT", "the N largest different values", _tops(True)),
)
