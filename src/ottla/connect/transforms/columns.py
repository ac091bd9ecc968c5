"""A chain as column expressions: Spark makes the same records without a Python function for each.

A frame has the columns `COLUMNS`; key and value have the Spark types of their schemas (`spark_type`). What a
chain makes of it follows from the schemas and the topics alone. There is none for a chain with something that
columns can't do as the row path does: headers, values without a schema, defaults, patterns of dates, casts
of texts to numbers. Where the row path refuses a record, `apply` gives null; `judged` tells which ones and
why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.data.building import struct_schema
from ottla.connect.data.checking import BITS
from ottla.connect.data.logical import decimal_scale
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Schema, Type
from ottla.connect.transforms.cast import Cast
from ottla.connect.transforms.chain import Stage, TransformChain
from ottla.connect.transforms.flatten import Flatten
from ottla.connect.transforms.insert_field import InsertField
from ottla.connect.transforms.mask_field import MaskField
from ottla.connect.transforms.predicates import RecordIsTombstone, TopicNameMatches
from ottla.connect.transforms.replace_field import ReplaceField
from ottla.connect.transforms.routers import Filter, RegexRouter
from ottla.connect.transforms.schema_metadata import SetSchemaMetadata
from ottla.connect.transforms.sides import KEY, VALUE, Side
from ottla.connect.transforms.whole_fields import ExtractField, HoistField, ValueToKey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
"""The columns of a frame; the timestamp is a TIMESTAMP of Spark's."""
KEPT: Final = "kept"
REFUSED: Final = "refused"
BARE_KEY: Final = "bare_key"
BARE_VALUE: Final = "bare_value"
MAX_TOPICS: Final = 1_000
_SQL_TYPES: Final = {
    Type.INT8: "tinyint",
    Type.INT16: "smallint",
    Type.INT32: "int",
    Type.INT64: "bigint",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "binary",
}
_MAX_PRECISION: Final = 38


@dataclass(frozen=True, slots=True)
class Frame:
    """The columns of a record as expressions. kept: whether a record is not dropped.

    refused: the index of the refusal that ended its way through the chain, null where none has. bare_key,
    bare_value: whether a null has no schema.
    """

    topic: Column
    partition: Column
    offset: Column
    timestamp: Column
    key: Column
    value: Column
    kept: Column
    refused: Column
    bare_key: Column
    bare_value: Column

    def of(self, side: Side) -> Column:
        """The key or the value."""
        return self.key if side is KEY else self.value

    def replaced(self, side: Side, column: Column) -> Frame:
        """The frame with another key or value."""
        return replace(self, key=column) if side is KEY else replace(self, value=column)


Step = Callable[[Frame], Frame]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the row path refuses a null: which transform, and its exception."""

    class_name: str
    problem: Exception


@dataclass(frozen=True, slots=True)
class ColumnChain:
    """A chain as columns. key_schema, value_schema: of the records that it gives.

    refusals: what the column REFUSED of `judged` counts.
    """

    steps: tuple[Step, ...]
    key_schema: Schema | None
    value_schema: Schema | None
    refusals: tuple[Refusal, ...] = ()

    def apply(self, frame: DataFrame) -> DataFrame:
        """The records of a frame as the chain changes them, without those that it drops."""
        return self.judged(frame).where("kept").select(*COLUMNS)

    def judged(self, frame: DataFrame, others: Collection[str] = ()) -> DataFrame:
        """All records, with KEPT (false: the chain drops it) and REFUSED (an index of refusals, or null).

        others: further columns of the frame, which stay as they are. BARE_KEY and BARE_VALUE among them tell
        whether the key or value of a record has no schema; otherwise those that are null have none.
        """
        from pyspark.sql import functions as F

        given = {name: frame[name] for name in COLUMNS}
        bare = {
            name: frame[name] if name in others else frame[name.removeprefix("bare_")].isNull()
            for name in (BARE_KEY, BARE_VALUE)
        }
        columns = Frame(**given, **bare, kept=F.lit(True), refused=F.lit(None).cast("int"))
        for step in self.steps:
            columns = step(columns)
        made = [getattr(columns, name).alias(name) for name in (*COLUMNS, KEPT, REFUSED)]
        return frame.select(*made, *others)


def compiled(
    chain: TransformChain,
    key_schema: Schema | None,
    value_schema: Schema | None,
    topics: Collection[str] = (),
) -> ColumnChain | None:
    """The chain for records of these schemas and topics, None if columns can't do it. Raises DataError.

    topics: all that the records can be of before the chain; for transforms and predicates that look at them.
    """
    schemas: dict[str, Schema | None] = {"key": key_schema, "value": value_schema}
    if any(each is not None and _has_default(each) for each in schemas.values()):
        return None
    known = frozenset(topics) if len(topics) <= MAX_TOPICS else frozenset()
    steps: list[Step] = []
    refusals: list[Refusal] = []
    hoisted = False
    for stage in chain.stages:
        found = _step(stage, schemas, known)
        if found is None or (hoisted and isinstance(stage.transform, SetSchemaMetadata)):
            return None
        # of a tombstone they make a map without a schema, which only that one refuses
        hoisted = hoisted or isinstance(stage.transform, HoistField | ValueToKey)
        made = _conditional(
            stage, replace(found, step=_refusing(stage, found.step, schemas, refusals)), known
        )
        if made is None or (stage.predicate is not None and found.schemas != schemas):
            return None
        steps.append(made)
        schemas, known = found.schemas, known | found.topics
    return ColumnChain(tuple(steps), schemas["key"], schemas["value"], tuple(refusals))


def _refusing(stage: Stage, step: Step, schemas: dict[str, Schema | None], refusals: list[Refusal]) -> Step:
    """The step, which marks records whose null the row path refuses.

    Whether it does is asked of the transform itself, since nulls are all that a value of a schema can be
    refused for here. A null has the schema where a transform before has made it, and none where it is the
    whole key or value of a record (a tombstone); the row path may refuse one and not the other.
    """
    transform: Any = stage.transform
    side = VALUE if isinstance(transform, ValueToKey) else getattr(transform, "side", None)
    if side is None:
        return step
    numbers: list[int | None] = []
    for schema in (None, schemas[side.name]):
        problem = _refused(transform, side, schema)
        numbers.append(None if problem is None else len(refusals))
        if problem is not None:
            refusals.append(Refusal(stage.class_name, problem))
    bare, made = numbers
    if bare is None and made is None:
        return step

    def refusing(frame: Frame) -> Frame:
        from pyspark.sql import functions as F

        is_bare = frame.bare_key if side is KEY else frame.bare_value
        number = F.when(is_bare, F.lit(bare).cast("int")).otherwise(F.lit(made).cast("int"))
        found = F.when(frame.of(side).isNull() & frame.kept, number)
        return replace(step(frame), refused=F.coalesce(frame.refused, found))

    return refusing


def _refused(transform: Any, side: Side, schema: Schema | None) -> Exception | None:
    """What a transform raises for a null of a schema."""
    record = side.replaced(Record("topic", 0, timestamp_ms=0, offset=0), schema, None)
    try:
        transform.apply(record)
    except Exception as problem:
        return problem
    return None


@dataclass(frozen=True, slots=True)
class _Found:
    """A step, and the schemas and further topics of the records behind it."""

    step: Step
    schemas: dict[str, Schema | None]
    topics: frozenset[str] = frozenset()


def _step(stage: Stage, schemas: dict[str, Schema | None], topics: frozenset[str]) -> _Found | None:
    transform: Any = stage.transform
    match transform:
        case Filter():
            return _Found(_dropped, schemas)
        case RegexRouter():
            return _router(transform, schemas, topics)
        case ValueToKey():
            return _value_to_key(transform, schemas)
        case (
            InsertField()
            | ReplaceField()
            | MaskField()
            | HoistField()
            | ExtractField()
            | Cast()
            | Flatten()
            | SetSchemaMetadata()
        ):
            schema = schemas[transform.side.name]
            changed = None if schema is None else _changed(transform, schema)
            if changed is None:
                return None
            of_side, expression = changed
            side = transform.side

            def step(frame: Frame) -> Frame:
                return frame.replaced(side, expression(frame, frame.of(side)))

            return _Found(step, schemas | {side.name: of_side})
    return None


def _conditional(stage: Stage, found: _Found, topics: frozenset[str]) -> Step | None:
    """The step for the records of the stage's predicate alone."""
    if stage.predicate is None:
        return found.step
    holds: Callable[[Frame], Column]
    match stage.predicate:
        case RecordIsTombstone():
            holds = _is_tombstone
        case TopicNameMatches() as predicate if topics:
            holds = _is_one_of(sorted(topic for topic in topics if predicate.matches(topic)))
        case _:
            return None

    def step(frame: Frame) -> Frame:
        from pyspark.sql import functions as F

        condition = ~holds(frame) if stage.negate else holds(frame)
        changed = found.step(frame)
        names = (*COLUMNS, KEPT, REFUSED)
        pairs = {name: (getattr(changed, name), getattr(frame, name)) for name in names}
        chosen = {
            name: old if new is old else F.when(condition, new).otherwise(old)
            for name, (new, old) in pairs.items()
        }
        return replace(frame, **chosen)

    return step


def _is_one_of(topics: list[str]) -> Callable[[Frame], Column]:
    return lambda frame: frame.topic.isin(topics)


def _is_tombstone(frame: Frame) -> Column:
    return frame.value.isNull()


def _dropped(frame: Frame) -> Frame:
    from pyspark.sql import functions as F

    return replace(frame, kept=F.lit(False))


def _router(router: RegexRouter, schemas: dict[str, Schema | None], topics: frozenset[str]) -> _Found | None:
    if not topics:
        return None
    routed = {topic: router.routed(topic) for topic in sorted(topics)}

    def step(frame: Frame) -> Frame:
        from pyspark.sql import functions as F

        entries = [F.lit(text) for pair in routed.items() for text in pair]
        found = F.try_element_at(F.create_map(*entries), frame.topic)
        return replace(frame, topic=F.coalesce(found, frame.topic))

    return _Found(step, schemas, frozenset(routed.values()))


def _value_to_key(transform: ValueToKey, schemas: dict[str, Schema | None]) -> _Found | None:
    schema = schemas["value"]
    if schema is None or schema.type is not Type.STRUCT:
        return None
    fields = transform.key_fields(schema)
    key_schema = struct_schema((each.name, each.schema) for each in fields)

    def step(frame: Frame) -> Frame:
        from pyspark.sql import functions as F

        made = F.struct(*(frame.value.getField(each.name).alias(each.name) for each in fields))
        return replace(frame, key=F.when(frame.value.isNotNull(), made))

    return _Found(step, schemas | {"key": key_schema})


Expression = Callable[[Frame, "Column"], "Column"]


def _changed(transform: Any, schema: Schema) -> tuple[Schema, Expression] | None:
    """The schema that a transform makes of one, and the expression of its values."""
    if isinstance(transform, SetSchemaMetadata):
        return transform.changed_schema(schema), lambda frame, column: column
    if isinstance(transform, HoistField):
        return transform.changed_schema(schema), lambda frame, column: _struct([(transform.field, column)])
    if isinstance(transform, Cast) and transform.whole is not None:
        whole = _cast(schema, transform.whole)
        return (
            None if whole is None else (transform.changed_schema(schema), lambda frame, column: whole(column))
        )
    if schema.type is not Type.STRUCT:
        return None
    match transform:
        case ExtractField():
            return transform.field(schema).schema, lambda frame, column: _at(column, transform.steps)
        case InsertField():
            return transform.changed_schema(schema), _insertion(transform, schema)
        case ReplaceField():
            changed, kept = transform.plan(schema)
            names = [(each.field.name, each.source.name) for each in kept]
            if not names:
                return None
            return changed, lambda frame, column: _when_present(
                column, [(name, column.getField(source)) for name, source in names]
            )
        case MaskField():
            return _masked(transform, schema)
        case Cast():
            return _cast_fields(transform, schema)
        case Flatten():
            return _flattened(transform, schema)
    return None


def _struct(fields: list[tuple[str, Column]]) -> Column:
    from pyspark.sql import functions as F

    return F.struct(*(column.alias(name) for name, column in fields))


def _when_present(column: Column, fields: list[tuple[str, Column]]) -> Column:
    """A struct of fields where a struct is not null, else null."""
    from pyspark.sql import functions as F

    return F.when(column.isNotNull(), _struct(fields))


def _at(column: Column, steps: tuple[str, ...]) -> Column:
    for step in steps:
        column = column.getField(step)
    return column


def _insertion(transform: InsertField, schema: Schema) -> Expression:
    def expression(frame: Frame, column: Column) -> Column:
        from pyspark.sql import functions as F

        fields = [(each.name, column.getField(each.name)) for each in schema.fields]
        for each in transform.insertions:
            found = F.lit(each.text) if each.source is None else getattr(frame, each.source)
            fields.append((each.name, found.cast(spark_type(each.schema))))
        return _when_present(column, fields)

    return expression


def _masked(transform: MaskField, schema: Schema) -> tuple[Schema, Expression] | None:
    literals: dict[str, Any] = {}
    for each in schema.fields:
        if each.name in transform.fields:
            if each.schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT) or each.schema.name is not None:
                return None
            zero: Any = {Type.STRING: "", Type.BOOLEAN: False, Type.FLOAT32: 0.0, Type.FLOAT64: 0.0}.get(
                each.schema.type, 0
            )
            try:
                literals[each.name] = transform.masked(zero, each.schema)
            except DataError:
                return None
            if each.schema.type is Type.BYTES:
                return None

    def expression(frame: Frame, column: Column) -> Column:
        from pyspark.sql import functions as F

        fields = []
        for each in schema.fields:
            found = column.getField(each.name)
            if each.name in literals:
                mask = F.lit(literals[each.name]).cast(spark_type(each.schema))
                found = F.when(found.isNotNull(), mask)
            fields.append((each.name, found))
        return _when_present(column, fields)

    return schema, expression


def _cast_fields(transform: Cast, schema: Schema) -> tuple[Schema, Expression] | None:
    casts: dict[str, Callable[[Column], Column]] = {}
    for each in schema.fields:
        target = transform.casts.get(each.name)
        if target is not None:
            cast = _cast(each.schema, target)
            if cast is None:
                return None
            casts[each.name] = cast

    def expression(frame: Frame, column: Column) -> Column:
        fields = []
        for each in schema.fields:
            found = column.getField(each.name)
            fields.append((each.name, casts[each.name](found) if each.name in casts else found))
        return _when_present(column, fields)

    return transform.changed_schema(schema), expression


def _cast(schema: Schema, target: Type) -> Callable[[Column], Column] | None:
    """The expression of a cast, None for one that columns do otherwise."""
    if schema.name is not None:
        return None
    name = _SQL_TYPES[target]
    match schema.type, target:
        case (source, _) if source is target:
            return lambda column: column
        case (Type.BOOLEAN, _) if target in BITS or target in (Type.FLOAT32, Type.FLOAT64):
            return lambda column: column.cast("int").cast(name)
        case (Type.BOOLEAN, Type.STRING):
            return lambda column: column.cast("string")
        case (Type.STRING, Type.BOOLEAN):
            return _is_true
        case (Type.BYTES, Type.STRING):
            return _base64
        case (source, Type.STRING) if source in BITS:
            return lambda column: column.cast("string")
        case (source, Type.BOOLEAN) if source in BITS:
            return lambda column: column != 0
        case (source, Type.FLOAT64) if source in BITS:
            return lambda column: column.cast("double")
        case (source, _) if source in BITS and target in BITS:
            return lambda column: _narrowed(column, BITS[target]).cast(name)
        case (Type.FLOAT32, Type.FLOAT64):
            return lambda column: column.cast("double")
    return None


def _is_true(column: Column) -> Column:
    from pyspark.sql import functions as F

    return F.lower(column) == "true"


def _base64(column: Column) -> Column:
    from pyspark.sql import functions as F

    return F.base64(column)


def _narrowed(column: Column, bits: int) -> Column:
    """A whole number cut to its lowest bits: Spark's own casts refuse what does not fit."""
    from pyspark.sql import functions as F

    return F.shiftright(F.shiftleft(column.cast("bigint"), 64 - bits), 64 - bits)


def _flattened(transform: Flatten, schema: Schema) -> tuple[Schema, Expression]:
    changed = transform.changed_schema(schema)
    paths = list(_paths(schema, ()))

    def expression(frame: Frame, column: Column) -> Column:
        pairs = zip(changed.fields, paths, strict=True)
        return _when_present(column, [(each.name, _at(column, path)) for each, path in pairs])

    return changed, expression


def _paths(schema: Schema, above: tuple[str, ...]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for each in schema.fields:
        path = (*above, each.name)
        found += _paths(each.schema, path) if each.schema.type is Type.STRUCT else [path]
    return found


def _has_default(schema: Schema) -> bool:
    below = [each.schema for each in schema.fields]
    below += [each for each in (schema.keys, schema.values) if each is not None]
    return schema.default is not None or any(map(_has_default, below))


def spark_type(schema: Schema) -> DataType:
    """The Spark type of a schema's values; a Time is its milliseconds. Raises DataError."""
    from pyspark.sql import types as T

    match schema.name:
        case str() if schema.name == DECIMAL:
            scale = decimal_scale(schema)
            if not 0 <= scale <= _MAX_PRECISION:
                raise DataError(f"Spark has no decimals with {scale} digits after the point")
            return T.DecimalType(_MAX_PRECISION, scale)
        case str() if schema.name == DATE:
            return T.DateType()
        case str() if schema.name == TIMESTAMP:
            return T.TimestampType()
        case str() if schema.name == TIME:
            return T.IntegerType()
    match schema.type:
        case Type.STRUCT:
            fields = [T.StructField(each.name, spark_type(each.schema)) for each in schema.fields]
            return T.StructType(fields)
        case Type.ARRAY:
            assert schema.values is not None
            return T.ArrayType(spark_type(schema.values))
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            return T.MapType(spark_type(schema.keys), spark_type(schema.values))
    found: DataType = getattr(T, _CLASSES[schema.type])()
    return found


_CLASSES: Final = {
    Type.INT8: "ByteType",
    Type.INT16: "ShortType",
    Type.INT32: "IntegerType",
    Type.INT64: "LongType",
    Type.FLOAT32: "FloatType",
    Type.FLOAT64: "DoubleType",
    Type.BOOLEAN: "BooleanType",
    Type.STRING: "StringType",
    Type.BYTES: "BinaryType",
}
