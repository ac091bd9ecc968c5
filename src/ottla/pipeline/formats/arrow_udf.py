"""Functions over whole Arrow batches as column expressions, on every Spark 4.

Spark 4.1 has `arrow_udf`. Spark 4.0 has only pandas UDFs, which rebuild nested values one by one. There the
result is returned as pandas objects that carry the Arrow array through untouched: PySpark calls a column's
`apply` to convert each value, then Arrow's own protocol; these objects answer the first with themselves and
the second with the array.

The cyclic garbage collector is off during a batch: a hundred thousand new dicts would make it scan all of
them again and again, and they hold no cycles.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ottla.pipeline.formats.format import ERROR, VALUE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

DecodeBatch: TypeAlias = "Callable[[Sequence[bytes | None]], tuple[pa.Array, list[str | None]]]"
"""Turns payloads into an array of values of the wanted Arrow type, and an error or None for each payload."""
EncodeBatch: TypeAlias = "Callable[[Sequence[str | None]], list[bytes | None]]"
_HELD: Final = "held"


def decode_column(decode: DecodeBatch, value_type: DataType, column: Column) -> Column:
    """STRUCT<value: value_type, error: STRING> from a BINARY column. `decode` is pickled for the workers."""
    # A struct around the value: PySpark 4.0 converts a bare TIMESTAMP before it asks for Arrow's protocol.
    holder = StructType([StructField(_HELD, nullable_throughout(value_type))])
    result_type = StructType([StructField(VALUE, holder), StructField(ERROR, StringType())])

    def run(payloads: Sequence[bytes | None]) -> tuple[pa.Array, pa.Array]:
        import pyarrow as pa

        with collector_of_cycles_off():
            values, errors = decode(payloads)
        held = pa.StructArray.from_arrays([values], [_HELD])
        return held, pa.array(errors, pa.string())

    result = _struct_udf(run, result_type)(column)
    return F.struct(result.getField(VALUE).getField(_HELD).alias(VALUE), result.getField(ERROR).alias(ERROR))


def encode_column(encode: EncodeBatch, column: Column) -> Column:
    """BINARY from a STRING column, batch by batch."""
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def run(texts: Any) -> Any:
        import pandas as pd

        with collector_of_cycles_off():
            return pd.Series(encode(texts.tolist()), dtype=object)

    # PySpark derives the kind of a function from its annotations, which must be types and not texts
    run.__annotations__.update({"texts": pd.Series, "return": pd.Series})
    return pandas_udf(run, BinaryType())(column)  # type: ignore[call-overload,no-any-return]


def nullable_throughout(wanted: DataType) -> DataType:
    """The type with null allowed at every level: Arrow and Spark's optimizer rely on NOT NULL."""
    match wanted:
        case StructType():
            return StructType(
                [StructField(each.name, nullable_throughout(each.dataType)) for each in wanted.fields]
            )
        case ArrayType():
            return ArrayType(nullable_throughout(wanted.elementType))
        case MapType():
            return MapType(nullable_throughout(wanted.keyType), nullable_throughout(wanted.valueType))
    return wanted


@contextlib.contextmanager
def collector_of_cycles_off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _struct_udf(
    run: Callable[[Sequence[bytes | None]], tuple[pa.Array, pa.Array]], result_type: StructType
) -> Callable[[Column], Column]:
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        return _struct_udf_over_pandas(run, result_type)

    def over_arrow(payloads: pa.Array) -> pa.Array:
        import pyarrow as pa

        values, errors = run(payloads.to_pylist())
        return pa.StructArray.from_arrays([values, errors], [VALUE, ERROR])

    import pyarrow as pa

    over_arrow.__annotations__.update({"payloads": pa.Array, "return": pa.Array})
    made: Callable[[Column], Column] = arrow_udf(over_arrow, result_type)
    return made


def _struct_udf_over_pandas(
    run: Callable[[Sequence[bytes | None]], tuple[pa.Array, pa.Array]], result_type: StructType
) -> Callable[[Column], Column]:
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def over_pandas(payloads: Any) -> Any:
        from ottla.pipeline.formats.arrow_in_pandas import ArrowFrame

        values, errors = run(payloads.tolist())
        return ArrowFrame({VALUE: values, ERROR: errors})

    over_pandas.__annotations__.update({"payloads": pd.Series, "return": pd.DataFrame})
    made: Callable[[Column], Column] = pandas_udf(over_pandas, result_type)  # type: ignore[call-overload]
    return made
