"""Converters on Spark: which columns make values of a topic's bytes.

A connector's `value.converter` and `key.converter` name Connect's classes; each becomes a format of the
pipeline. Formats whose types are in the data (JSON without and with schemas) are made anew for each batch,
so that a new field is a new column from its first record on; those of the registry take the subject's
newest schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.client.registry.wire import RegistryAccess
from ottla.config.errors import ConfigError
from ottla.connect.converters.json_reading import JsonReading
from ottla.connect.data.building import OPTIONAL
from ottla.connect.data.schema import Schema, Type
from ottla.connect.spark.types import merged, spark_type_of_connect
from ottla.pipeline.formats import BOOLEAN, BYTES, FLOAT32, FLOAT64, INT16, INT32, INT64, TEXT
from ottla.pipeline.formats.avro import AvroFormat
from ottla.pipeline.formats.connect_json import ConnectJsonFormat, connect_schema
from ottla.pipeline.formats.format import Format, FormatError
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.json_schema import JsonSchemaFormat
from ottla.pipeline.formats.protobuf import ProtobufFormat
from ottla.pipeline.formats.python_types import spark_type
from ottla.pipeline.formats.subjects import SubjectStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

MAX_SCHEMAS: Final = 1_000
"""The most different schemas of a batch of JSON with schemas."""
_STORAGE: Final = "org.apache.kafka.connect.storage."
_CONVERTERS: Final = "org.apache.kafka.connect.converters."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SIMPLE: Final[dict[str, Format]] = {
    f"{_STORAGE}StringConverter": TEXT,
    f"{_CONVERTERS}ByteArrayConverter": BYTES,
    f"{_CONVERTERS}BooleanConverter": BOOLEAN,
    f"{_CONVERTERS}ShortConverter": INT16,
    f"{_CONVERTERS}IntegerConverter": INT32,
    f"{_CONVERTERS}LongConverter": INT64,
    f"{_CONVERTERS}FloatConverter": FLOAT32,
    f"{_CONVERTERS}DoubleConverter": FLOAT64,
}
_REGISTERED: Final[dict[str, Callable[[RegistryAccess], Format]]] = {
    "io.confluent.connect.avro.AvroConverter": lambda registry: AvroFormat.of(
        registry, None, None, SubjectStrategy.TOPIC, False, "Record"
    ),
    "io.confluent.connect.json.JsonSchemaConverter": lambda registry: JsonSchemaFormat.of(
        registry, None, None, SubjectStrategy.TOPIC, False, False, "Record"
    ),
    "io.confluent.connect.protobuf.ProtobufConverter": lambda registry: ProtobufFormat.of(
        registry, None, None, None, SubjectStrategy.TOPIC, False
    ),
}
_REGISTRY_URL: Final = "schema.registry.url"
_REGISTRY_PROPERTIES: Final = (
    _REGISTRY_URL,
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)

_SCHEMAS: Final = {
    f"{_STORAGE}StringConverter": Type.STRING,
    f"{_CONVERTERS}ByteArrayConverter": Type.BYTES,
    f"{_CONVERTERS}BooleanConverter": Type.BOOLEAN,
    f"{_CONVERTERS}ShortConverter": Type.INT16,
    f"{_CONVERTERS}IntegerConverter": Type.INT32,
    f"{_CONVERTERS}LongConverter": Type.INT64,
    f"{_CONVERTERS}FloatConverter": Type.FLOAT32,
    f"{_CONVERTERS}DoubleConverter": Type.FLOAT64,
}
_NO_SCHEMA: Final = "null"
_EMPTY_TEXT: Final = r'([:\[,]\s*)""'
"""An empty text in JSON, as a value: within a text no two quotes follow each other without a backslash."""

FormatOf = Callable[["DataFrame", "DataType | None", str | None], Format]
"""The format of a batch: its records (Kafka's columns), the type that the target wishes for, the topic if
one.
"""


@dataclass(frozen=True, slots=True)
class Known:
    """A side of a batch whose records have one schema, and how they are converted.

    is_json: whether a record without bytes has no schema, as in JSON.
    """

    schema: Schema
    format: Format
    is_json: bool

    def decoded(self, frame: DataFrame, side: str) -> DataFrame:
        """The frame with the side's bytes as STRUCT<value, error>."""
        return decoded_side(frame, side, self.format)


@dataclass(frozen=True, slots=True)
class Values:
    """How one side of records (key or value) is converted.

    given: the type of JSON without schemas, if it was configured. has_schemas: whether it is JSON with
    schemas. simple: the schema of a converter that always has the same.
    """

    column: str
    class_name: str
    format_of: FormatOf
    given: DataType | None = None
    has_schemas: bool = False
    simple: Schema | None = None

    @property
    def is_key(self) -> bool:
        return self.column == "key"

    def known(self, frame: DataFrame) -> Known | None:
        """The one schema of a batch's records, None if there are several, or it is not known beforehand."""
        if self.simple is not None:
            return Known(self.simple, self.format_of(frame, None, None), False)
        try:
            if self.given is not None:
                schema = JsonReading().schema(connect_schema(self.given, nullable=True))
                return None if schema is None else Known(schema, JsonFormat.of(self.given), True)
            if not self.has_schemas:
                return None
            texts = _schema_texts(frame, self.column)
            node = json.loads(texts[0]) if len(texts) == 1 else None
            schema = JsonReading().schema(node)
            if schema is None:
                return None
            return Known(schema, connect_json_of(spark_type_of_connect(node)), True)
        except (ValueError, FormatError):
            return None


def decoded_side(frame: DataFrame, side: str, made: Format) -> DataFrame:
    """The frame with a side's bytes as STRUCT<value, error>."""
    from pyspark.sql import functions as F

    if isinstance(made, JsonFormat) and made.type is not None:
        return made.decode_in_steps(frame, side, side)
    return frame.withColumn(side, made.decode(F.col(side), F.col("topic"), side == "key"))


def connect_json_of(kind: DataType) -> Format:
    """The format of JSON with schemas. Raises FormatError."""
    return ConnectJsonFormat.of(kind)


def values_of(column: str, config: Mapping[str, str], worker: Mapping[str, str], ddl: str | None) -> Values:
    """How a side is converted, by the connector's configuration, else the worker's. Raises ConfigError."""
    name = f"{column}.converter"
    from_ = config if config.get(name) else worker
    class_name = from_.get(name) or _JSON
    properties = {
        key.removeprefix(f"{name}."): value for key, value in from_.items() if key.startswith(f"{name}.")
    }
    known = _known_converter(name, class_name)
    has_schemas = known == _JSON and properties.get("schemas.enable", "true").strip().lower() == "true"
    is_typed = known == _JSON and not has_schemas and ddl is not None
    simple = _SCHEMAS.get(known)
    return Values(
        column,
        class_name,
        _format_of(name, known, properties, column, ddl),
        spark_type(ddl) if is_typed and ddl is not None else None,
        has_schemas,
        None if simple is None else OPTIONAL[simple],
    )


def _known_converter(name: str, class_name: str) -> str:
    found = {each: each for each in (*_SIMPLE, *_REGISTERED, _JSON)}
    found |= {each.rpartition(".")[2]: each for each in tuple(found)}
    known = found.get(class_name)
    if known is None:
        all_known = ", ".join(sorted(set(found.values())))
        raise ConfigError(f"{name}={class_name}: connectors on Spark have the converters {all_known}")
    return known


def _format_of(
    name: str, known: str, properties: Mapping[str, str], column: str, ddl: str | None
) -> FormatOf:
    if known in _SIMPLE:
        simple = _SIMPLE[known]
        return lambda frame, wish, topic: simple
    if known in _REGISTERED:
        if _REGISTRY_URL not in properties:
            raise ConfigError(f'Missing required configuration "{_REGISTRY_URL}" of {name}')
        made = _REGISTERED[known](_registry(properties))
        return lambda frame, wish, topic: made.bind(topic, column == "key")
    if properties.get("schemas.enable", "true").strip().lower() == "true":
        return lambda frame, wish, topic: ConnectJsonFormat.of(_embedded_type(frame, column))
    if ddl is not None:
        given = spark_type(ddl)
        return lambda frame, wish, topic: JsonFormat.of(given)
    return lambda frame, wish, topic: JsonFormat.of(_inferred_type(frame, column, wish))


def _registry(properties: Mapping[str, str]) -> RegistryAccess:
    return RegistryAccess.from_properties(
        {name: value for name, value in properties.items() if name in _REGISTRY_PROPERTIES}
    )


def _embedded_type(frame: DataFrame, column: str) -> DataType:
    """The type of all records of a batch of JSON with schemas, as these say. Raises ConfigError."""
    from pyspark.sql.types import StructType

    return _type_of_schemas(_schema_texts(frame, column)) or StructType()


def _schema_texts(frame: DataFrame, column: str) -> list[str]:
    """The schemas of a batch of JSON with schemas; `null` among them for records without one."""
    from pyspark.sql import functions as F

    found = F.get_json_object(F.col(column).cast("string"), "$.schema")
    schemas = F.coalesce(found, F.lit(_NO_SCHEMA)).alias("schema")
    there = frame.where(F.col(column).isNotNull())
    rows = there.select(schemas).distinct().limit(MAX_SCHEMAS + 1).collect()
    if len(rows) > MAX_SCHEMAS:
        raise ConfigError(f"a batch has more than {MAX_SCHEMAS} different schemas")
    return sorted(str(each.schema) for each in rows)


def _type_of_schemas(texts: list[str]) -> DataType | None:
    kind: DataType | None = None
    for text in texts:
        try:
            each = spark_type_of_connect(json.loads(text))
        except ValueError:
            continue  # its records become errors
        kind = each if kind is None else merged(kind, each)
    return kind


def written_type(frame: DataFrame, column: str, wish: DataType | None) -> DataType:
    """The type of JSON of which some records may have schemas, and others none. Raises ConfigError."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    texts = _schema_texts(frame, column)
    kind = _type_of_schemas(texts)
    if _NO_SCHEMA in texts:
        text = F.col(column).cast("string")
        bare = frame.where(text.startswith('{"schema":null,')).select(column)
        found = _inferred_type(bare, column, None)
        if isinstance(found, StructType) and "payload" in found.fieldNames():
            payload = found["payload"].dataType
            kind = payload if kind is None else merged(kind, payload)
        if isinstance(wish, StructType) and isinstance(kind, StructType | None):
            kind = wish if kind is None else merged(wish, kind)
    return StructType() if kind is None else kind


def _inferred_type(frame: DataFrame, column: str, wish: DataType | None) -> DataType:
    """The type of all JSON objects of a batch, and of the target where both have a field."""
    from pyspark import SparkContext
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    jvm: Any = SparkContext._jvm
    # an empty text is no text to Spark: a batch with nothing else would lose the column
    text = F.regexp_replace(F.col(column).cast("string"), _EMPTY_TEXT, '$1"-"')
    texts = frame.select(text.alias("value")).where("value IS NOT NULL")
    java_frame: Any = texts._jdf
    typed = getattr(java_frame, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    reader = frame.sparkSession._jsparkSession.read().option("dropFieldIfAllNull", "true")
    java_schema = reader.option("columnNameOfCorruptRecord", "_corrupt of ottla").json(typed).schema()
    found = StructType.fromJson(json.loads(java_schema.json()))
    found = StructType([each for each in found.fields if each.name != "_corrupt of ottla"])
    return found if wish is None else merged(wish, found)
