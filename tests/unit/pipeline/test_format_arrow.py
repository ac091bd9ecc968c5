"""Arrow columns on their way out of a Python worker: PySpark's own serializer leaves them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ottla.pipeline.formats import spark_type
from ottla.pipeline.formats.arrow_udf import _struct_udf_over_pandas, nullable_throughout
from ottla.pipeline.formats.framed import spark_arrow_type

pytestmark = pytest.mark.skipif(
    not pyspark.__version__.startswith("4.0."), reason="later versions have arrow_udf"
)
TYPE = spark_type("at TIMESTAMP, far DATE, lines ARRAY<STRUCT<sku: STRING, n: INT>>, by MAP<STRING, BINARY>")
VALUES = [{"at": 2**60, "far": -700_000, "lines": [{"sku": "x", "n": None}], "by": [("a", b"b")]}, None]


def result_type(held: DataType) -> StructType:
    holder = StructType([StructField("held", nullable_throughout(held))])
    return StructType([StructField("value", holder), StructField("error", StringType())])


def test_a_struct_goes_through_a_pandas_udf_untouched() -> None:
    from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer

    column = pa.array(VALUES, spark_arrow_type(TYPE))

    def run(payloads: Sequence[bytes | None]) -> tuple[pa.Array, pa.Array]:
        assert list(payloads) == [b"x", None]
        return pa.StructArray.from_arrays([column], ["held"]), pa.array([None, "bad"], pa.string())

    made: Any = _struct_udf_over_pandas(run, result_type(TYPE))
    in_worker = cloudpickle.loads(cloudpickle.dumps(made.func))
    frame = in_worker(pd.Series([b"x", None], dtype=object))
    serializer = ArrowStreamPandasUDFSerializer("UTC", True, True, df_for_struct=True)
    batch = serializer._create_batch([(frame, to_arrow_type(result_type(TYPE)))])

    assert len(frame) == 2
    values = batch.column(0).field("value").field("held")
    assert values.equals(column)  # a time in the year 38505 and a date before the year 54: pandas has neither
    assert batch.column(0).field("error").to_pylist() == [None, "bad"]
