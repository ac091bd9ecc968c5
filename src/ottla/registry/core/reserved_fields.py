"""Names that a schema's metadata reserves in `confluent:reserved`: no field may have them.

Checked where `validateFields` is configured. Only fields at the top count: of an Avro record, of a JSON
object, of the first message of a Protobuf file.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from ottla.schemas.format import Incompatibility, ParsedSchema
from ottla.schemas.model import Metadata, SchemaType

PROPERTY: Final = "confluent:reserved"


def reserved_field_problems(
    parsed: ParsedSchema, metadata: Metadata | None, before: Metadata | None
) -> list[Incompatibility]:
    """Conflicts of a schema's fields with reserved names. `before`: the last version's metadata."""
    reserved = _reserved(metadata)
    problems = [
        Incompatibility(
            "RESERVED_FIELD_REMOVED",
            f"The new schema has reserved field {name} removed from its metadata which is present in the old "
            "schema's metadata",
            name,
        )
        for name in _reserved(before)
        if name not in reserved
    ]
    fields = _field_names(parsed) if reserved else ()
    return problems + [
        Incompatibility(
            "FIELD_CONFLICTS_WITH_RESERVED_FIELD",
            f"The new schema has field that conflicts with the reserved field {name}",
            name,
        )
        for name in reserved
        if name in fields
    ]


def _reserved(metadata: Metadata | None) -> list[str]:
    text = "" if metadata is None or metadata.properties is None else metadata.properties.get(PROPERTY, "")
    return [name.strip() for name in text.split(",") if name.strip()]


def _field_names(parsed: ParsedSchema) -> set[str]:
    match parsed.schema_type:
        case SchemaType.AVRO:
            root = _json(parsed.canonical_text)
            fields = root.get("fields", ()) if isinstance(root, dict) else ()
            return {field["name"] for field in fields}
        case SchemaType.JSON:
            root = _json(parsed.canonical_text)
            properties = root.get("properties") if isinstance(root, dict) else None
            return set(properties) if isinstance(properties, dict) else set()
        case SchemaType.PROTOBUF:
            from google.protobuf.descriptor_pb2 import FileDescriptorProto

            file = FileDescriptorProto.FromString(base64.b64decode(parsed.formatted("serialized")))
            return {field.name for message in file.message_type[:1] for field in message.field}


def _json(text: str) -> Any:
    """The parsed text; None for one that is nested too deep, whose fields can't be told."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
