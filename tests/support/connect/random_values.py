"""Random schemas and values of Connect's, and records of them."""

from __future__ import annotations

import random
from typing import Any

from ottla.connect.data.building import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, decimal_schema
from ottla.connect.data.java_text import float32
from ottla.connect.data.logical import DAY_MS, from_unscaled
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    Field,
    Moment,
    Schema,
    Struct,
    Type,
)

NAMES = ("a", "b", "c", "a.b", "id", "Zeit", "x:y", "d`e")
SCALARS = (
    Type.INT8,
    Type.INT16,
    Type.INT32,
    Type.INT64,
    Type.FLOAT32,
    Type.FLOAT64,
    Type.BOOLEAN,
    Type.STRING,
    Type.BYTES,
)
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_TEXTS = (
    "",
    "a",
    "12",
    "-7",
    "3.5",
    "true",
    "TRUE",
    "1e3",
    "2026-01-31",
    "ü€😀",
    '"q"',
    "null",
    "NaN",
    "0x1p3",
)
_FLOATS = (
    5e-324,
    1.401298464324817e-45,
    1e-40,
    2e23,
    0.0,
    -0.0,
    1.5,
    1e-9,
    3.4e38,
    1e20,
    float("inf"),
    float("nan"),
    -123456.789,
    0.1,
)


class RandomValues:
    """Makes them from one source of randomness."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def schema(self, depth: int = 2, *, defaults: bool = True) -> Schema:
        """A schema with other ones at most `depth` levels below it."""
        kind = self.random.random()
        if depth > 0 and kind < 0.15:
            return self.struct_schema(depth - 1, defaults=defaults)
        if depth > 0 and kind < 0.22:
            items = self.schema(depth - 1, defaults=False)
            return Schema(Type.ARRAY, self.maybe(), values=items)
        if depth > 0 and kind < 0.28:
            keys = Schema(self.random.choice((Type.STRING, Type.INT32)))
            return Schema(Type.MAP, self.maybe(), keys=keys, values=self.schema(depth - 1, defaults=False))
        return self.scalar_schema(defaults=defaults)

    def scalar_schema(self, *, defaults: bool = True) -> Schema:
        """A schema of a scalar, logical ones among them."""
        if self.maybe(0.25):
            base = self.random.choice(
                (DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, decimal_schema(self.random.randint(0, 4)))
            )
        else:
            base = Schema(self.random.choice(SCALARS))
        schema = Schema(
            base.type, self.maybe(), name=base.name, version=base.version, parameters=base.parameters
        )
        if defaults and self.maybe(0.25):
            default = self.value(schema)
            return Schema(
                base.type,
                schema.optional,
                default,
                base.name,
                base.version,
                parameters=base.parameters,
            )
        return schema

    def struct_schema(self, depth: int = 1, *, defaults: bool = True, optional: bool | None = None) -> Schema:
        """A schema of a STRUCT."""
        names = self.random.sample(NAMES, self.random.randint(1, 5))
        fields = tuple(Field(name, self.schema(depth, defaults=defaults)) for name in names)
        return Schema(
            Type.STRUCT,
            self.maybe() if optional is None else optional,
            name="my.Record" if self.maybe(0.3) else None,
            version=3 if self.maybe(0.2) else None,
            doc="words" if self.maybe(0.2) else None,
            parameters={"p": "q"} if self.maybe(0.2) else {},
            fields=fields,
        )

    def value(self, schema: Schema, *, null: float = 0.3) -> Any:
        """A value of a schema; one that may be null, or has a default, is null with this chance."""
        if (schema.optional or schema.default is not None) and self.maybe(null):
            return None
        match schema.name:
            case str() if schema.name == DECIMAL:
                return from_unscaled(self.random.randint(-(10**12), 10**12), int(schema.parameters[SCALE]))
            case str() if schema.name == DATE:
                return Moment(self.random.randint(-3000, 30000) * DAY_MS)
            case str() if schema.name == TIME:
                return Moment(self.random.randrange(DAY_MS))
            case str() if schema.name == TIMESTAMP:
                return Moment(self.random.randint(-(10**12), 3 * 10**12))
        match schema.type:
            case Type.STRUCT:
                return Struct(schema, {each.name: self.value(each.schema) for each in schema.fields})
            case Type.ARRAY:
                assert schema.values is not None
                # The elements of an array can't be left to their defaults.
                return [self._element(schema.values) for _ in range(self.random.randint(0, 3))]
            case Type.MAP:
                assert schema.keys is not None
                assert schema.values is not None
                values = schema.values
                return {
                    self.value(schema.keys): self._element(values) for _ in range(self.random.randint(0, 3))
                }
        return self.scalar(schema.type)

    def _element(self, schema: Schema) -> Any:
        return self.value(schema, null=0.3 if schema.optional else 0.0)

    def scalar(self, type_: Type) -> Any:
        """A value of a scalar type."""
        match type_:
            case Type.FLOAT32:
                return float32(self._float())
            case Type.FLOAT64:
                return self._float()
            case Type.BOOLEAN:
                return self.maybe()
            case Type.STRING:
                return self.random.choice(_TEXTS)
            case Type.BYTES:
                return self.random.randbytes(self.random.randint(0, 6))
        limit = 1 << (_BITS[type_] - 1)
        if self.maybe():
            return self.random.randint(-5, 5)
        # Halfway between two floats lie only numbers of more bits than these.
        return self.random.choice((limit - 1, -limit, self.random.randint(-limit, limit - 1) >> 12))

    def _float(self) -> float:
        if self.maybe():
            return self.random.choice(_FLOATS)
        return self.random.uniform(-1, 1) * 10.0 ** self.random.randint(-12, 25)

    def plain(self, depth: int = 2) -> Any:
        """A value without a schema."""
        kind = self.random.random()
        if depth > 0 and kind < 0.15:
            return self.plain_map(depth - 1)
        if depth > 0 and kind < 0.25:
            return [self.plain(depth - 1) for _ in range(self.random.randint(0, 3))]
        if kind < 0.35:
            return None
        return self.scalar(self.random.choice((Type.INT64, Type.FLOAT64, Type.STRING, Type.BOOLEAN)))

    def plain_map(self, depth: int = 1) -> dict[str, Any]:
        """A map without a schema."""
        return {name: self.plain(depth) for name in self.random.sample(NAMES, self.random.randint(0, 5))}

    def side(self) -> tuple[Schema | None, Any]:
        """A schema and a value, most of them structs or maps."""
        kind = self.random.random()
        if kind < 0.6:
            schema = self.struct_schema(2)
            return schema, self.value(schema, null=0.05)
        if kind < 0.9:
            return None, self.plain_map(2) if self.maybe(0.9) else None
        if kind < 0.95:
            return None, self.plain(0)
        schema = self.schema(1)
        return schema, self.value(schema)

    def record(self) -> Record:
        """A record as from Kafka."""
        key_schema, key = self.side()
        value_schema, value = self.side()
        return Record(
            self.random.choice(("orders", "a-b", "x.y.z", "Foo_2026")),
            self.random.randint(0, 9),
            key,
            key_schema,
            value,
            value_schema,
            None if self.maybe(0.1) else self.random.randint(-(10**11), 3 * 10**12),
            tuple(self._header() for _ in range(self.random.randint(0, 3))),
            self.random.randint(0, 1 << 40),
        )

    def _header(self) -> Header:
        schema = self.scalar_schema()
        value = self.value(schema, null=0.3 if schema.optional else 0.0)
        return Header(self.random.choice(("h", "k", "a")), value, schema)
