"""Functions that Spark has with the same results: by name and signature, on columns.

Scalar functions get arguments that are not NULL, but for those that take NULLs themselves. Only what can't
raise stands here: Spark's errors end a query, SQL's make a NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

OnColumns = Callable[..., Column]


def _concat(*texts: Column) -> Column:
    return F.concat_ws("", *texts)


SCALARS: Mapping[tuple[str, str], OnColumns] = {
    ("CONCAT", "(STRING, STRING...) -> STRING"): _concat,
    ("LCASE", "(STRING) -> STRING"): F.lower,
    ("UCASE", "(STRING) -> STRING"): F.upper,
    ("LEN", "(STRING) -> INT"): F.length,
    ("ARRAY_LENGTH", "(ARRAY<T>) -> INT"): F.size,
    ("COALESCE", "(T...) -> T"): F.coalesce,
    ("IFNULL", "(T, T) -> T"): F.coalesce,
    ("AS_VALUE", "(T) -> T"): lambda value: value,
    ("UNIX_DATE", "(DATE) -> INT"): lambda value: value,
    ("UNIX_TIMESTAMP", "(TIMESTAMP) -> BIGINT"): lambda value: value,
    ("FROM_UNIXTIME", "(BIGINT) -> TIMESTAMP"): lambda value: value,
    ("FROM_DAYS", "(INT) -> DATE"): lambda value: value,
}
_MIN_MAX = ("INT", "BIGINT", "STRING", "DATE", "TIME", "TIMESTAMP")

AGGREGATES: Mapping[tuple[str, str], OnColumns] = {
    ("COUNT", "() -> BIGINT"): lambda: F.count(F.lit(1)),
    ("COUNT", "(T) -> BIGINT"): F.count,
    ("SUM", "(INT) -> INT"): lambda value: F.try_sum(F.coalesce(value, F.lit(0))).try_cast("int"),
    ("SUM", "(BIGINT) -> BIGINT"): lambda value: F.try_sum(F.coalesce(value, F.lit(0))),
    ("SUM", "(DOUBLE) -> DOUBLE"): lambda value: F.coalesce(F.sum(value), F.lit(0.0)),
    ("AVG", "(DOUBLE) -> DOUBLE"): lambda value: F.coalesce(F.avg(value), F.lit(0.0)),
    **{("MIN", f"({each}) -> {each}"): F.min for each in _MIN_MAX},
    **{("MAX", f"({each}) -> {each}"): F.max for each in _MIN_MAX},
}
