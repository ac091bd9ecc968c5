"""JsonSchemaConverter: JSON behind the frame of the Schema Registry, whose schema is a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ottla.config.setting import LOW, Table, boolean, integer
from ottla.connect.converters.json_converter import DECIMAL_FORMAT, DecimalFormat
from ottla.connect.converters.json_reading import JsonReading, Read, has_decimals
from ottla.connect.converters.json_schema_schemas import ONE_OF, JsonSchemaReading, root_text
from ottla.connect.converters.json_writing import JsonWriting, Write
from ottla.connect.converters.registry_schemas import REGISTRY_SETTINGS, VERSION, RegistrySchemas
from ottla.connect.converters.settings import table
from ottla.connect.data.caches import SchemaCache, keep
from ottla.connect.data.json_text import read_json, write_json
from ottla.connect.data.schema import DataError, Schema
from ottla.connect.data.values import schema_to_write
from ottla.connect.plugins.configuring import configured
from ottla.schemas import framing
from ottla.schemas.json_schema.json_schema_format import JsonSchema
from ottla.schemas.model import SchemaType

VALIDATE: Final = boolean(
    "json.fail.invalid.schema", False, "Whether values are checked against their JSON Schema.", importance=LOW
)
CACHE_SIZE: Final = integer(
    "schemas.cache.size", 1000, "The number of schemas that are kept ready.", importance=LOW
)
_MAX_CACHED: Final = 10_000


class JsonSchemaConverter:
    """See Converter. One thread uses an object."""

    TABLE: ClassVar[Table] = table(
        "JSON Schema converter", *REGISTRY_SETTINGS, VALIDATE, CACHE_SIZE, DECIMAL_FORMAT
    )
    VERSION: ClassVar[str] = VERSION

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        settings = configured(self.TABLE, properties)
        self._registry = RegistrySchemas(settings, SchemaType.JSON, is_key)
        self._validates = settings[VALIDATE]
        self._writing = JsonWriting(
            settings[DECIMAL_FORMAT] is DecimalFormat.NUMERIC, pairs_are_objects=True, one_of=ONE_OF
        )
        self._reading = JsonReading(pairs_are_objects=True, one_of=ONE_OF)
        self._limit = max(1, min(settings[CACHE_SIZE], _MAX_CACHED))
        self._texts: SchemaCache[tuple[str, Write]] = SchemaCache(self._text, self._limit)
        self._readers: dict[int, tuple[Schema, Read, bool]] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        schema = schema_to_write(schema, value, "JSON Schema")
        if schema is None:
            return None
        text, write = self._texts.get(schema)
        found = self._registry.to_write(topic, text, schema.name)
        body = write_json(write(value))
        if self._validates:
            self._check(found.parsed, body)
        return framing.frame(found.id, body)

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        if data is None:
            return None, None
        found, body = self._registry.to_read(data)
        kept = self._readers.get(found.id)
        if kept is None:
            root = json.loads(found.parsed.canonical_text)
            schema = JsonSchemaReading(root, self._reading).schema(root)
            kept = schema, self._reading.reader(schema), has_decimals(schema)
            keep(self._readers, found.id, kept, self._limit)
        schema, read, exact = kept
        text = bytes(body)
        if self._validates:
            self._check(found.parsed, text)
        return schema, read(read_json(text, exact=exact))

    def _text(self, schema: Schema) -> tuple[str, Write]:
        return json.dumps(root_text(schema, self._writing)), self._writing.writer(schema)

    def _check(self, parsed: Any, body: bytes) -> None:
        assert isinstance(parsed, JsonSchema)
        reasons = parsed.validate(read_json(body))
        if reasons:
            raise DataError(f"the value does not fit its JSON Schema: {'; '.join(reasons)}")
