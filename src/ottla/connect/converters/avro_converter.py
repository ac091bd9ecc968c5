"""AvroConverter: Avro behind the frame of the Schema Registry."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import fastavro

from ottla.client.registry.lookups import RegisteredSchema
from ottla.config.setting import LOW, Table, boolean, integer
from ottla.connect.converters.avro_schemas import AvroReading, AvroWriting, bare
from ottla.connect.converters.avro_values import Convert, from_avro, to_avro
from ottla.connect.converters.registry_schemas import REGISTRY_SETTINGS, VERSION, RegistrySchemas
from ottla.connect.converters.settings import table
from ottla.connect.data.caches import SchemaCache, keep
from ottla.connect.data.schema import DataError, Schema
from ottla.connect.data.values import schema_to_write
from ottla.connect.plugins.configuring import configured
from ottla.schemas import framing
from ottla.schemas.model import SchemaType

METADATA: Final = boolean(
    "connect.meta.data",
    True,
    "Whether Avro schemas keep names, versions and types of Connect's.",
    importance=LOW,
)
CACHE_SIZE: Final = integer(
    "schemas.cache.config", 1000, "The number of schemas that are kept ready.", importance=LOW
)
_MAX_CACHED: Final = 10_000


class AvroConverter:
    """See Converter. One thread uses an object."""

    TABLE: ClassVar[Table] = table("Avro converter", *REGISTRY_SETTINGS, METADATA, CACHE_SIZE)
    VERSION: ClassVar[str] = VERSION

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        settings = configured(self.TABLE, properties)
        self._registry = RegistrySchemas(settings, SchemaType.AVRO, is_key)
        self._metadata = settings[METADATA]
        self._limit = max(1, min(settings[CACHE_SIZE], _MAX_CACHED))
        self._texts: SchemaCache[tuple[str, str | None, Convert]] = SchemaCache(self._text, self._limit)
        self._writers: dict[tuple[str, int], tuple[bytes, Any]] = {}
        self._readers: dict[int, tuple[Any, Schema, Convert]] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        schema = schema_to_write(schema, value, "Avro")
        if schema is None:
            return None
        text, name, convert = self._texts.get(schema)
        found = self._registry.to_write(topic, text, name)
        prefix, parsed = self._writer(text, found)
        stream = io.BytesIO()
        stream.write(prefix)
        try:
            fastavro.schemaless_writer(stream, parsed, convert(value))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as problem:
            raise DataError(f"Failed to serialize Avro data from topic {topic}: {problem}") from None
        return stream.getvalue()

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        if data is None:
            return None, None
        found, body = self._registry.to_read(data)
        parsed, schema, convert = self._reader(found)
        stream = io.BytesIO(body)
        try:
            value = fastavro.schemaless_reader(stream, parsed, None, return_named_type=False)
            return schema, convert(value)
        except (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, MemoryError) as problem:
            raise DataError(
                f"Failed to deserialize data for topic {topic} to Avro: {type(problem).__name__} {problem}"
            ) from None

    def _text(self, schema: Schema) -> tuple[str, str | None, Convert]:
        node = AvroWriting(self._metadata).avro(schema)
        return json.dumps(node), schema.name, to_avro(schema)

    def _writer(self, text: str, found: RegisteredSchema) -> tuple[bytes, Any]:
        key = text, found.id
        kept = self._writers.get(key)
        if kept is None:
            kept = framing.frame(found.id, b""), _parsed(found)
            keep(self._writers, key, kept, self._limit)
        return kept

    def _reader(self, found: RegisteredSchema) -> tuple[Any, Schema, Convert]:
        kept = self._readers.get(found.id)
        if kept is None:
            schema = AvroReading(self._metadata).schema(json.loads(found.parsed.formatted("resolved")))
            kept = _parsed(found), schema, from_avro(schema)
            keep(self._readers, found.id, kept, self._limit)
        return kept


def _parsed(found: RegisteredSchema) -> Any:
    return fastavro.parse_schema(bare(json.loads(found.parsed.formatted("resolved"))))
