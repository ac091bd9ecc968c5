"""Spark types: those of Connect's schemas, and one type for what two types hold."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_CONNECT: Final[dict[str, DataType]] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "string": StringType(),
    "bytes": BinaryType(),
}
_LOGICAL: Final[dict[str, DataType]] = {
    "org.apache.kafka.connect.data.Date": DateType(),
    "org.apache.kafka.connect.data.Timestamp": TimestampType(),
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_PRECISION: Final = "connect.decimal.precision"
"""The parameter by which sources tell how many digits a Decimal has at most."""
_MAX_PRECISION: Final = 38
_WIDER: Final[tuple[type[DataType], ...]] = (ByteType, ShortType, IntegerType, LongType)
MAX_DEPTH: Final = 64


def spark_type_of_connect(schema: Any, depth: int = 0) -> DataType:
    """The type of a schema in Connect's JSON. Raises ValueError for one that is none, or that Spark can't
    hold."""
    if depth > MAX_DEPTH:
        raise ValueError("the schema is too deep")
    if not isinstance(schema, dict):
        raise ValueError("a schema is a JSON object")
    name, kind = schema.get("name"), schema.get("type")
    if isinstance(name, str) and name in _LOGICAL:
        return _LOGICAL[name]
    if name == _DECIMAL:
        return _decimal(schema.get("parameters"))
    match kind:
        case "struct":
            fields = schema.get("fields")
            if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
                raise ValueError("a struct has a list of fields")
            return StructType(
                [
                    StructField(
                        str(each.get("field")),
                        spark_type_of_connect(each, depth + 1),
                        bool(each.get("optional", False)) or each.get("default") is not None,
                    )
                    for each in fields
                ]
            )
        case "array":
            items = schema.get("items")
            return ArrayType(spark_type_of_connect(items, depth + 1), _is_optional(items))
        case "map":
            keys, values = schema.get("keys"), schema.get("values")
            if spark_type_of_connect(keys, depth + 1) != StringType():
                raise ValueError("a map has texts for keys here")
            return MapType(StringType(), spark_type_of_connect(values, depth + 1), _is_optional(values))
        case str() if kind in _CONNECT:
            return _CONNECT[kind]
    raise ValueError(f"no type for the schema {name or kind}")


def _decimal(parameters: Any) -> DecimalType:
    """The type of a Decimal: of its scale, and as many digits as `connect.decimal.precision` or Spark has."""
    given = parameters if isinstance(parameters, dict) else {}
    scale, precision = int(given.get("scale", "")), int(given.get(_PRECISION, _MAX_PRECISION))
    if not 0 <= scale <= _MAX_PRECISION:
        raise ValueError(f"Spark has no decimals with {scale} digits after the point")
    return DecimalType(precision if max(scale, 1) <= precision <= _MAX_PRECISION else _MAX_PRECISION, scale)


def _is_optional(schema: Any) -> bool:
    return bool(isinstance(schema, dict) and schema.get("optional", False))


def widened(first: DataType, second: DataType) -> DataType | None:
    """The type that holds the values of two plain types without loss, None if there is none.

    Only promotions that lakes can do to a column as it lies: integers to wider ones, FLOAT to DOUBLE,
    decimals of one scale.
    """
    if first == second or isinstance(second, NullType):
        return first
    if isinstance(first, NullType):
        return second
    if isinstance(first, _WIDER) and isinstance(second, _WIDER):
        return max(first, second, key=lambda each: _WIDER.index(type(each)))
    if {type(first), type(second)} == {FloatType, DoubleType}:
        return DoubleType()
    if isinstance(first, DecimalType) and isinstance(second, DecimalType) and first.scale == second.scale:
        return max(first, second, key=lambda each: each.precision)
    return None


def merged(first: DataType, second: DataType) -> DataType:
    """The type with the fields of both. Where two can't be one, the first holds: the other's values are
    errors.
    """
    if isinstance(first, StructType) and isinstance(second, StructType):
        others = {each.name: each for each in second.fields}
        fields = []
        for each in first.fields:
            other = others.pop(each.name, None)
            if other is None:
                fields.append(StructField(each.name, each.dataType, True))
            else:
                both = merged(each.dataType, other.dataType)
                fields.append(StructField(each.name, both, each.nullable or other.nullable))
        fields += [StructField(each.name, each.dataType, True) for each in others.values()]
        return StructType(fields)
    if isinstance(first, ArrayType) and isinstance(second, ArrayType):
        return ArrayType(
            merged(first.elementType, second.elementType), first.containsNull or second.containsNull
        )
    if isinstance(first, MapType) and isinstance(second, MapType):
        return MapType(
            first.keyType,
            merged(first.valueType, second.valueType),
            first.valueContainsNull or second.valueContainsNull,
        )
    return widened(first, second) or first
