"""The schemas of Debezium's semantic types (io.debezium.time, io.debezium.data), required ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.connect.data.building import OPTIONAL, REQUIRED, struct_schema
from ottla.connect.data.schema import DECIMAL, SCALE, Schema, Type

PRECISION: Final = "connect.decimal.precision"

DATE: Final = Schema(Type.INT32, name="io.debezium.time.Date", version=1)
TIME: Final = Schema(Type.INT32, name="io.debezium.time.Time", version=1)
MICRO_TIME: Final = Schema(Type.INT64, name="io.debezium.time.MicroTime", version=1)
NANO_TIME: Final = Schema(Type.INT64, name="io.debezium.time.NanoTime", version=1)
TIMESTAMP: Final = Schema(Type.INT64, name="io.debezium.time.Timestamp", version=1)
MICRO_TIMESTAMP: Final = Schema(Type.INT64, name="io.debezium.time.MicroTimestamp", version=1)
NANO_TIMESTAMP: Final = Schema(Type.INT64, name="io.debezium.time.NanoTimestamp", version=1)
ISO_DATE: Final = Schema(Type.STRING, name="io.debezium.time.IsoDate", version=1)
ISO_TIME: Final = Schema(Type.STRING, name="io.debezium.time.IsoTime", version=1)
ISO_TIMESTAMP: Final = Schema(Type.STRING, name="io.debezium.time.IsoTimestamp", version=1)
ZONED_TIME: Final = Schema(Type.STRING, name="io.debezium.time.ZonedTime", version=1)
ZONED_TIMESTAMP: Final = Schema(Type.STRING, name="io.debezium.time.ZonedTimestamp", version=1)
INTERVAL: Final = Schema(Type.STRING, name="io.debezium.time.Interval", version=1)
MICRO_DURATION: Final = Schema(Type.INT64, name="io.debezium.time.MicroDuration", version=1)

JSON: Final = Schema(Type.STRING, name="io.debezium.data.Json", version=1)
UUID: Final = Schema(Type.STRING, name="io.debezium.data.Uuid", version=1)
XML: Final = Schema(Type.STRING, name="io.debezium.data.Xml", version=1)
LTREE: Final = Schema(Type.STRING, name="io.debezium.data.Ltree", version=1)
TSVECTOR: Final = Schema(Type.STRING, name="io.debezium.data.Tsvector", version=1)
VARIABLE_SCALE_DECIMAL: Final = Schema(
    Type.STRUCT,
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
    fields=struct_schema((("scale", REQUIRED[Type.INT32]), ("value", REQUIRED[Type.BYTES]))).fields,
)
DOUBLE_VECTOR: Final = Schema(
    Type.ARRAY, name="io.debezium.data.DoubleVector", version=1, values=REQUIRED[Type.FLOAT64]
)
FLOAT_VECTOR: Final = Schema(
    Type.ARRAY, name="io.debezium.data.FloatVector", version=1, values=REQUIRED[Type.FLOAT32]
)
SPARSE_DOUBLE_VECTOR: Final = Schema(
    Type.STRUCT,
    name="io.debezium.data.SparseDoubleVector",
    version=1,
    doc="Sparse double vector",
    fields=struct_schema(
        (
            ("dimensions", REQUIRED[Type.INT16]),
            ("vector", Schema(Type.MAP, keys=REQUIRED[Type.INT16], values=REQUIRED[Type.FLOAT64])),
        )
    ).fields,
)
POINT: Final = Schema(
    Type.STRUCT,
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
    fields=struct_schema(
        (
            ("x", REQUIRED[Type.FLOAT64]),
            ("y", REQUIRED[Type.FLOAT64]),
            ("wkb", OPTIONAL[Type.BYTES]),
            ("srid", OPTIONAL[Type.INT32]),
        )
    ).fields,
)
_GEOMETRY_FIELDS: Final = struct_schema(
    (("wkb", REQUIRED[Type.BYTES]), ("srid", OPTIONAL[Type.INT32]))
).fields
GEOMETRY: Final = Schema(
    Type.STRUCT,
    optional=True,
    name="io.debezium.data.geometry.Geometry",
    version=1,
    doc="Geometry",
    fields=_GEOMETRY_FIELDS,
)
GEOGRAPHY: Final = Schema(
    Type.STRUCT,
    optional=True,
    name="io.debezium.data.geometry.Geography",
    version=1,
    doc="Geography",
    fields=_GEOMETRY_FIELDS,
)
"""Debezium's geometries may be null whatever their columns say."""


def bits(length: int) -> Schema:
    """The schema of so many bits, as bytes with the lowest first."""
    return Schema(Type.BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": str(length)})


def enumeration(values: Iterable[str]) -> Schema:
    """The schema of one of some texts."""
    return Schema(
        Type.STRING, name="io.debezium.data.Enum", version=1, parameters={"allowed": ",".join(values)}
    )


def decimal_of_precision(precision: int, scale: int) -> Schema:
    """Connect's Decimal, with the column's digits in all."""
    return Schema(
        Type.BYTES, name=DECIMAL, version=1, parameters={SCALE: str(scale), PRECISION: str(precision)}
    )
