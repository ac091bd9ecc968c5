"""The schema formats by their types. Each is imported when it is first needed, for a fast start."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Final

from ottla.schemas.format import SchemaFormat
from ottla.schemas.model import SchemaType

_MODULES: Final = {
    SchemaType.AVRO: ("ottla.schemas.avro.avro_format", "AvroFormat"),
    SchemaType.JSON: ("ottla.schemas.json_schema.json_schema_format", "JsonSchemaFormat"),
    SchemaType.PROTOBUF: ("ottla.schemas.protobuf.protobuf_format", "ProtobufFormat"),
}


@lru_cache(maxsize=len(_MODULES))
def format_of(schema_type: SchemaType) -> SchemaFormat:
    """The implementation of a format."""
    module, name = _MODULES[schema_type]
    found: SchemaFormat = getattr(importlib.import_module(module), name)()
    return found
