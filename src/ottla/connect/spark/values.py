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
from ottla.connect.spark.types import merged, spark_type_of_connect
from ottla.pipeline.formats import BOOLEAN, BYTES, FLOAT32, FLOAT64, INT16, INT32, INT64, TEXT
from ottla.pipeline.formats.avro import AvroFormat
from ottla.pipeline.formats.connect_json import ConnectJsonFormat
from ottla.pipeline.formats.format import Format
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

FormatOf = Callable[["DataFrame", "DataType | None", str | None], Format]
"""The format of a batch: its records (Kafka's columns), the type that the target wishes for, the topic if
one.
"""


@dataclass(frozen=True, slots=True)
class Values:
    """How one side of records (key or value) is converted. native: whether Python is not needed for it."""

    column: str
    class_name: str
    format_of: FormatOf

    @property
    def is_key(self) -> bool:
        return self.column == "key"


def values_of(column: str, config: Mapping[str, str], worker: Mapping[str, str], ddl: str | None) -> Values:
    """How a side is converted, by the connector's configuration, else the worker's. Raises ConfigError."""
    name = f"{column}.converter"
    from_ = config if config.get(name) else worker
    class_name = from_.get(name) or _JSON
    properties = {
        key.removeprefix(f"{name}."): value for key, value in from_.items() if key.startswith(f"{name}.")
    }
    return Values(column, class_name, _format_of(name, class_name, properties, column, ddl))


def _format_of(
    name: str, class_name: str, properties: Mapping[str, str], column: str, ddl: str | None
) -> FormatOf:
    found = {each: each for each in (*_SIMPLE, *_REGISTERED, _JSON)}
    found |= {each.rpartition(".")[2]: each for each in tuple(found)}
    known = found.get(class_name)
    if known is None:
        all_known = ", ".join(sorted(set(found.values())))
        raise ConfigError(f"{name}={class_name}: connectors on Spark have the converters {all_known}")
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
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    schemas = F.get_json_object(F.col(column).cast("string"), "$.schema").alias("schema")
    found = frame.select(schemas).where("schema IS NOT NULL").distinct().limit(MAX_SCHEMAS + 1).collect()
    if len(found) > MAX_SCHEMAS:
        raise ConfigError(f"a batch has more than {MAX_SCHEMAS} different schemas")
    kind: Any = None
    for row in sorted(found, key=lambda each: str(each.schema)):
        try:
            each = spark_type_of_connect(json.loads(row.schema))
        except ValueError:
            continue  # its records become errors
        kind = each if kind is None else merged(kind, each)
    return StructType() if kind is None else kind


def _inferred_type(frame: DataFrame, column: str, wish: DataType | None) -> DataType:
    """The type of all JSON objects of a batch, and of the target where both have a field."""
    from pyspark import SparkContext
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    jvm: Any = SparkContext._jvm
    texts = frame.select(F.col(column).cast("string").alias("value")).where("value IS NOT NULL")
    java_frame: Any = texts._jdf
    typed = getattr(java_frame, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    reader = frame.sparkSession._jsparkSession.read().option("dropFieldIfAllNull", "true")
    java_schema = reader.option("columnNameOfCorruptRecord", "_corrupt of ottla").json(typed).schema()
    found = StructType.fromJson(json.loads(java_schema.json()))
    found = StructType([each for each in found.fields if each.name != "_corrupt of ottla"])
    return found if wish is None else merged(wish, found)
