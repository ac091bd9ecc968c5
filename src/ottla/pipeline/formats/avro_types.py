"""Avro schemas -> Spark types, and the schemas with which fastavro reads and writes them fastest.

| Avro | Spark | | Avro | Spark |
|---|---|---|---|---|
| boolean, int, long | BOOLEAN, INT, BIGINT | | date | DATE |
| float, double | FLOAT, DOUBLE | | time-millis, time-micros | INT, BIGINT (since midnight) |
| bytes, fixed (duration too) | BINARY | | timestamp-millis, -micros | TIMESTAMP |
| string, enum, uuid | STRING | | local-timestamp-… | TIMESTAMP_NTZ |
| record, array, map | STRUCT, ARRAY, MAP | | decimal | DECIMAL(precision, scale) |
| [null, T], [T] | T | | another union | STRUCT with one field a branch, by its type's name |

`plain` is a schema of the same encoding for which fastavro gives Python values that Arrow takes unchanged:
logical types except decimal are left out (Arrow reads their numbers itself), and a union's branch T becomes a
record with T as its one field, named after the branch. Avro encodes a record as nothing but its fields, so
the bytes are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
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
    TimestampNTZType,
    TimestampType,
)

from ottla.pipeline.formats.format import FormatError
from ottla.schemas.avro import model
from ottla.schemas.avro.avro_format import AvroFormat as AvroParser
from ottla.schemas.format import InvalidSchema

MAX_PRECISION: Final = 38
Convert: TypeAlias = Callable[[Any], Any]
"""Converts a value from fastavro's form to Arrow's, or the other way; None stays None."""

_PRIMITIVES: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "null": (NullType(), pa.null()),
    "boolean": (BooleanType(), pa.bool_()),
    "int": (IntegerType(), pa.int32()),
    "long": (LongType(), pa.int64()),
    "float": (FloatType(), pa.float32()),
    "double": (DoubleType(), pa.float64()),
    "bytes": (BinaryType(), pa.binary()),
    "string": (StringType(), pa.string()),
}
_LOGICAL: Final[dict[tuple[str, str], tuple[DataType, pa.DataType]]] = {
    ("int", "date"): (DateType(), pa.date32()),
    ("long", "timestamp-millis"): (TimestampType(), pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros"): (TimestampType(), pa.timestamp("us", "UTC")),
    ("long", "local-timestamp-millis"): (TimestampNTZType(), pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): (TimestampNTZType(), pa.timestamp("us")),
}


@dataclass(frozen=True, slots=True)
class AvroShape:
    """A schema as Spark, Arrow and fastavro see it.

    spark: the type of its columns. arrow: the type of the values that fastavro gives with `plain`, which can
    be cast to Spark's. nullable: whether null is one of its values. kind: Avro's name of the type, or of the
    logical type where that matters. children: a record's fields, a union's branches, the one type within an
    array or a map.
    """

    spark: DataType
    arrow: pa.DataType
    plain: Any
    nullable: bool
    kind: str
    children: tuple[tuple[str, AvroShape], ...] = ()


def shape_of(text: str) -> AvroShape:
    """The shape of a complete schema's text. Raises FormatError for a type that Spark does not have."""
    try:
        root = AvroParser().parse(text, {}).root
    except InvalidSchema as problem:
        raise FormatError(f"not an Avro schema: {problem}") from None
    return _Shapes().shape(root, "")


class _Shapes:
    """One walk through a schema. A named type is defined once and then referred to, as Avro requires."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._defined: dict[str, AvroShape] = {}
        self._branches = 0

    def shape(self, node: model.AvroType, path: str) -> AvroShape:
        match node:
            case model.Primitive():
                return _primitive(node, path)
            case model.Fixed():
                return self._named(node, path, lambda: _fixed(node, path))
            case model.Enum():
                plain = {"type": "enum", "name": _flat(node.full_name), "symbols": list(node.symbols)}
                made = AvroShape(StringType(), pa.string(), plain, False, "enum")
                return self._named(node, path, lambda: made)
            case model.Array():
                items = self.shape(node.items, f"{path}[]")
                if _takes_no_bytes(items):
                    raise FormatError(f"{_place(path)}: an array of nulls may be huge in a few bytes")
                plain = {"type": "array", "items": items.plain}
                return AvroShape(
                    ArrayType(items.spark, items.nullable),
                    pa.list_(items.arrow),
                    plain,
                    False,
                    "array",
                    (("", items),),
                )
            case model.Map():
                values = self.shape(node.values, f"{path}{{}}")
                plain = {"type": "map", "values": values.plain}
                return AvroShape(
                    MapType(StringType(), values.spark, values.nullable),
                    pa.map_(pa.string(), values.arrow),
                    plain,
                    False,
                    "map",
                    (("", values),),
                )
            case model.Union():
                return self._union(node, path)
            case model.Record():
                if node.full_name in self._open:
                    raise FormatError(
                        f"{_place(path)}: {node.full_name} contains itself, Spark has no such type"
                    )
                return self._named(node, path, lambda: self._record(node, path))

    def _named(self, node: model.NamedType, path: str, make: Callable[[], AvroShape]) -> AvroShape:
        known = self._defined.get(node.full_name)
        if known is None:
            known = self._defined[node.full_name] = make()
            return known
        return AvroShape(
            known.spark, known.arrow, _flat(node.full_name), known.nullable, known.kind, known.children
        )

    def _record(self, node: model.Record, path: str) -> AvroShape:
        self._open.add(node.full_name)
        found = [(each, self.shape(each.type, f"{path}.{each.name}".lstrip("."))) for each in node.fields]
        self._open.discard(node.full_name)
        fields = [{"name": each.name, "type": shape.plain} for each, shape in found]
        return AvroShape(
            StructType([StructField(each.name, shape.spark, shape.nullable) for each, shape in found]),
            pa.struct([pa.field(each.name, shape.arrow) for each, shape in found]),
            {"type": "record", "name": _flat(node.full_name), "fields": fields},
            False,
            "record",
            tuple((each.name, shape) for each, shape in found),
        )

    def _union(self, node: model.Union, path: str) -> AvroShape:
        branches = [
            each for each in node.branches if not (isinstance(each, model.Primitive) and each.kind == "null")
        ]
        nullable = len(branches) < len(node.branches)
        if not branches:
            return AvroShape(NullType(), pa.null(), ["null"], True, "null")
        if len(branches) == 1:
            inner = self.shape(branches[0], path)
            order = [
                "null" if isinstance(each, model.Primitive) and each.kind == "null" else inner.plain
                for each in node.branches
            ]
            return AvroShape(inner.spark, inner.arrow, order, nullable, inner.kind, inner.children)
        return self._branches_of(node, path, nullable)

    def _branches_of(self, node: model.Union, path: str, nullable: bool) -> AvroShape:
        plain: list[Any] = []
        children: list[tuple[str, AvroShape]] = []
        for name, each in zip(_branch_names(node), node.branches, strict=True):
            if name == "null":
                plain.append("null")
                continue
            shape = self.shape(each, f"{path}.{name}".lstrip("."))
            self._branches += 1
            plain.append(
                {
                    "type": "record",
                    "name": f"ottla__Branch{self._branches}",
                    "fields": [{"name": name, "type": shape.plain}],
                }
            )
            children.append((name, shape))
        return AvroShape(
            StructType([StructField(name, shape.spark) for name, shape in children]),
            pa.struct([pa.field(name, shape.arrow) for name, shape in children]),
            plain,
            nullable,
            "union",
            tuple(children),
        )


def _branch_names(node: model.Union) -> list[str]:
    """A name for each branch: the short ones if they differ, else the full ones."""
    short = [each.full_name.rpartition(".")[2] for each in node.branches]
    full = [each.full_name.replace(".", "_") for each in node.branches]
    return [name if short.count(name) == 1 else longer for name, longer in zip(short, full, strict=True)]


def _primitive(node: model.Primitive, path: str) -> AvroShape:
    logical = node.properties.get("logicalType")
    if logical == "decimal" and node.kind == "bytes":
        return _decimal(node.properties, {"type": "bytes"}, path) or _bare(node.kind)
    found = _LOGICAL.get((node.kind, str(logical)))
    if found is None:
        return _bare(node.kind)
    return AvroShape(*found, node.kind, False, str(logical))


def _bare(kind: str) -> AvroShape:
    spark, arrow = _PRIMITIVES[kind]
    return AvroShape(spark, arrow, kind, kind == "null", kind)


def _fixed(node: model.Fixed, path: str) -> AvroShape:
    plain = {"type": "fixed", "name": _flat(node.full_name), "size": node.size}
    if node.properties.get("logicalType") == "decimal":
        made = _decimal(node.properties, plain, path)
        if made is not None:
            return made
    return AvroShape(BinaryType(), pa.binary(), plain, False, "bytes")


def _decimal(properties: model.Properties, plain: dict[str, Any], path: str) -> AvroShape | None:
    """The shape of a decimal; None if the logical type is not valid, which Avro says to ignore."""
    precision, scale = properties.get("precision"), properties.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        return None
    if precision > MAX_PRECISION:
        raise FormatError(f"{_place(path)}: Spark has decimals of {MAX_PRECISION} digits, not {precision}")
    logical = {**plain, "logicalType": "decimal", "precision": precision, "scale": scale}
    return AvroShape(
        DecimalType(precision, scale), pa.decimal128(precision, scale), logical, False, "decimal"
    )


def _takes_no_bytes(shape: AvroShape) -> bool:
    if shape.kind == "record":
        return all(_takes_no_bytes(child) for _, child in shape.children)
    if shape.kind == "bytes" and isinstance(shape.plain, dict):
        return bool(shape.plain.get("size") == 0)
    return shape.kind == "null" and not isinstance(shape.plain, list)


def _flat(full_name: str) -> str:
    """The name without a namespace, for which fastavro has lookup rules of its own."""
    return full_name.replace(".", "__")


def _place(path: str) -> str:
    return path or "the root"


# -- from Spark to Avro

_AVRO_OF: Final[dict[type[DataType], Any]] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_schema_of(spark_type: DataType, name: str) -> str:
    """An Avro schema for a Spark type; a nullable one is a union with null as default. Raises FormatError."""
    return json.dumps(_avro_of(spark_type, name))


def _avro_of(spark_type: DataType, name: str) -> Any:
    match spark_type:
        case StructType():
            space, _, short = name.rpartition(".")
            fields = []
            for each in spark_type.fields:
                inner = _avro_of(each.dataType, f"{name}_{each.name}")
                field: dict[str, Any] = {
                    "name": each.name,
                    "type": ["null", inner] if each.nullable else inner,
                }
                if each.nullable:
                    field["default"] = None
                fields.append(field)
            named = {"type": "record", "name": short, "fields": fields}
            return {**named, "namespace": space} if space else named
        case ArrayType():
            items = _avro_of(spark_type.elementType, f"{name}_item")
            return {"type": "array", "items": ["null", items] if spark_type.containsNull else items}
        case MapType() if isinstance(spark_type.keyType, StringType):
            values = _avro_of(spark_type.valueType, f"{name}_value")
            return {"type": "map", "values": ["null", values] if spark_type.valueContainsNull else values}
        case DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": spark_type.precision,
                "scale": spark_type.scale,
            }
    found = _AVRO_OF.get(type(spark_type))
    if found is None:
        raise FormatError(f"Avro has no type for {spark_type.simpleString()}")
    return found
