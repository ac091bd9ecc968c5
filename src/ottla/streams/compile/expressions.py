"""Expressions of a topology as columns: the user's errors get the node's name, Python's become poison."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.formats.python_types import spark_type
from ottla.pipeline.sink.dead_letters import ERROR_FIELDS, FUNCTION_STAGE, failure_of
from ottla.streams.compile.poison import ERROR, decode_error
from ottla.streams.plan.node import Node, TopologyError
from ottla.streams.plan.records import Expression, PythonFunction, PythonRecord, record_of_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RESULT: Final = "_result"
"""The column of a Python function's result, until the node has taken it."""

# Spark analyses a frame's whole plan at each step that is added to it: most of a query's start. So no column
# is dropped that is not there, and columns are added together where they may be.


@contextmanager
def naming(node: Node) -> Iterator[None]:
    """Errors of the user's expressions, with the node's name."""
    from pyspark.errors import PySparkException

    try:
        yield
    except TopologyError:
        raise
    except PySparkException as error:
        text = str(error).split(" SQLSTATE")[0].splitlines()
        raise TopologyError(f"{node.name}: {text[0] if text else error}") from error
    except Exception as error:
        raise TopologyError(f"{node.name}: {type(error).__name__}: {error}") from error


def evaluate(frame: DataFrame, expression: Expression, node: Node) -> tuple[DataFrame, Column]:
    """The frame and the column of an expression's values in it; a Python function's errors are taken out."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import pandas_udf

    if not isinstance(expression, PythonFunction):
        column = expression(record_of_columns())
        if not isinstance(column, Column):
            raise TopologyError(
                f"{node.name}: the expression gives {type(column).__name__}, not a column: use "
                "F.lit() for a constant, python() for a Python function"
            )
        return frame, column
    if expression.vectorized:
        function = pandas_udf(expression.function, spark_type(expression.returns))  # type: ignore[call-overload]
        return frame, function(F.col("key"), F.col("value"))
    return _python_column(frame, expression, node)


def without_result(frame: DataFrame, expression: Expression) -> DataFrame:
    """A frame that `evaluate` has made, once the expression's result has been taken."""
    return frame.drop(RESULT) if has_result(expression) else frame


def has_result(expression: Expression) -> bool:
    """Whether `evaluate` puts the expression's result in a column of its own."""
    return isinstance(expression, PythonFunction) and not expression.vectorized


def with_time(frame: DataFrame, timestamp: Expression, node: Node, *, since_1970: bool) -> DataFrame:
    """The frame with other timestamps. A row without one is a poison record.

    since_1970: so is one with a time before it, which Kafka does not take.
    """
    from pyspark.sql import functions as F

    frame, column = evaluate(frame, timestamp, node)
    frame = without_result(frame.withColumn("_time", column.cast("TIMESTAMP")), timestamp)
    time = F.col("_time")
    wrong, text = time.isNull(), f"{node.name}: the record has no time"
    if since_1970:
        wrong, text = wrong | (F.unix_micros(time) < 0), f"{text}, or one before 1970"
    if ERROR in frame.columns:
        error = decode_error(node.name, FUNCTION_STAGE, F.lit(text))
        failed = F.col(ERROR).isNull() & wrong
        frame = frame.withColumn(ERROR, F.when(failed, error).otherwise(F.col(ERROR)))
    else:
        time = F.when(wrong, F.raise_error(F.lit(text))).otherwise(time)
    return frame.withColumn("timestamp", time).drop("_time")


def _python_column(frame: DataFrame, function: PythonFunction, node: Node) -> tuple[DataFrame, Column]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    returned = StructType(
        [
            StructField("value", spark_type(function.returns)),
            *(StructField(name, StringType()) for name in ERROR_FIELDS),
        ]
    )
    careful = ERROR in frame.columns
    called = F.udf(
        functools.partial(_call if careful else _call_plainly, function.function), returned, useArrow=True
    )
    record = F.struct(*PythonRecord._fields)
    if not careful:
        return frame.withColumn(RESULT, called(record)), F.col(RESULT).getField("value")
    frame = frame.withColumn(RESULT, F.when(F.col(ERROR).isNull(), called(record)))
    failed = F.col(RESULT).getField("exception").isNotNull()
    error = F.struct(
        F.lit(node.name).alias("node"), *(F.col(RESULT).getField(name).alias(name) for name in ERROR_FIELDS)
    )
    return (
        frame.withColumn(ERROR, F.when(failed, error).otherwise(F.col(ERROR))),
        F.col(RESULT).getField("value"),
    )


def _call(function: Callable[[PythonRecord], Any], row: Any) -> Any:
    try:
        return plain_value(function(record_of(row))), None, None, None, None
    except Exception as error:
        failure = failure_of(error)
        return None, FUNCTION_STAGE, failure.class_name, failure.message, failure.stack_trace


def _call_plainly(function: Callable[[PythonRecord], Any], row: Any) -> Any:
    return plain_value(function(record_of(row))), None, None, None, None


def record_of(row: Any) -> PythonRecord:
    """A row of Spark's as a function of the user's takes it."""
    values = row.asDict(recursive=True)
    return PythonRecord(*(values[name] for name in PythonRecord._fields))


def plain_value(value: Any) -> Any:
    """A dataclass as the dictionary that Spark takes for a struct; all else as it is."""
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, list):
        return [plain_value(each) for each in value]
    return value
