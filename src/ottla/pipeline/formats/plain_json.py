"""Plain JSON objects as rows, by ottla's own class in Spark's JVM (JsonRows.java)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

log = logging.getLogger("ottla.pipeline")


def plain_rows(
    spark: SparkSession, of: Column, wanted: DataType, *, lower_too: bool = False
) -> Column | None:
    """A column of bytes as rows of a type: null where the bytes are no plain object of it.

    lower_too: fields may be written by their names in lower case.

    None for types, and for sessions, that have no such rows: of Spark Connect, and without ottla's classes.
    Spark never evaluates the column twice for a row.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.sql import Column

    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return None
    try:
        its_type = jvm.org.apache.spark.sql.types.DataType.fromJson(wanted.json())
        if not jvm.ottla.pipeline.JsonRows.reads(its_type, lower_too):
            return None
        rows = jvm.ottla.pipeline.JsonRows(its_type, lower_too)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        utilities = jvm.org.apache.spark.sql.classic.ExpressionUtils
        to_seq = jvm.PythonUtils.toSeq
        reader = expressions.Literal(rows, jvm.org.apache.spark.sql.types.ObjectType(rows.getClass()))
        given = to_seq([utilities.expression(of._jc)])
        # null for null bytes, may be null; not deterministic, so that Spark copies it into no filter
        called = expressions.objects.Invoke(reader, "decode", its_type, given, to_seq([]), True, True, False)
        return Column(utilities.column(called))
    except (Py4JError, TypeError) as problem:
        log.debug("no rows of plain JSON: %s", problem)
        return None
