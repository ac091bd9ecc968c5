"""The user's functions over batches as Arrow functions of Spark's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.sql.functions.vectors import FAILED, VALUE, Vectors
from ottla.sql.lowering.evaluator import fitting
from ottla.sql.types.sql_types import SqlType

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class ArrowCall:
    """A call of a function over batches, with its types. It travels to Spark's workers as data."""

    vectors: Vectors
    types: tuple[SqlType, ...]
    returns: SqlType

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        return self.vectors.of_batch(self.types, self.returns, fitting(self.returns), arrays)


def has_arrow_functions() -> bool:
    """Whether this Spark has functions of Arrow's arrays: 4.1 and newer."""
    from pyspark.sql import functions as F

    return hasattr(F, "arrow_udf")


def arrow_column(call: ArrowCall, arguments: list[Column]) -> Column:
    """A struct of the call's value, and of whether the function has raised."""
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import BooleanType, StructField, StructType

    from ottla.sql.lowering.spark_types import spark_type

    returns = StructType([StructField(VALUE, spark_type(call.returns)), StructField(FAILED, BooleanType())])

    def run(*arrays: pa.Array) -> pa.Array:
        return call(*arrays)

    column: Column = arrow_udf(run, returns)(*arguments)  # type: ignore[call-overload]
    return column
