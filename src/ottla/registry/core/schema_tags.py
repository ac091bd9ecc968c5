"""Tags within a schema's text, of records and of fields: found, added and removed.

Avro and JSON Schema have them as `confluent:tags`, Protobuf in the options of `confluent/meta.proto`
(protobuf_tags.py). An entity is named by its path: `n.Record.field` in Avro (the namespace may be left out),
`Message.Nested.field` in Protobuf, `object.property` in JSON Schema, with `array`, `allof.0` and the like
between; its type says whether the path is that of a record or of a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ottla.registry.core.failures import invalid_schema
from ottla.registry.core.tags import FIELD, RECORD, Entity, EntityTags, Place, TagChanges
from ottla.schemas.avro import json_text
from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.json_schema import documents
from ottla.schemas.model import SchemaType

PROPERTY: Final = "confluent:tags"
ALL: Final = "*"
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_DEFINITIONS: Final = ("definitions", "$defs")
_CONDITIONS: Final = ("if", "then", "else")


def changed_text(parsed: ParsedSchema, changes: TagChanges) -> str:
    """The schema's text with other tags. Raises ApiError 42201 for an entity that the schema lacks."""
    if parsed.schema_type is SchemaType.PROTOBUF:
        from ottla.registry.core.protobuf_tags import TaggedFile

        file = TaggedFile(parsed.formatted("serialized"))
        _change(file.places(), changes)
        return file.text()
    root = _read(parsed)
    _change(_places(parsed.schema_type, root), changes)
    write = json_text.write_json if parsed.schema_type is SchemaType.AVRO else documents.write_json
    return write(root)


def tagged_entities(parsed: ParsedSchema, wanted: Iterable[str]) -> list[EntityTags]:
    """The entities that have one of the wanted tags (ALL: any tag), with all of their tags."""
    if parsed.schema_type is SchemaType.PROTOBUF:
        from ottla.registry.core.protobuf_tags import TaggedFile

        places: Iterable[tuple[Entity, Place]] = TaggedFile(parsed.formatted("serialized")).places()
    else:
        places = _places(parsed.schema_type, _read(parsed))
    names = set(wanted)
    return [
        EntityTags(entity, tuple(place.tags))
        for entity, place in places
        if place.tags and (ALL in names or not names.isdisjoint(place.tags))
    ]


def _change(places: Iterable[tuple[Entity, Place]], changes: TagChanges) -> None:
    found: dict[Entity, Place] = {}
    for entity, place in places:
        found.setdefault(entity, place)
        if entity.type == FIELD:  # without its namespace or package
            found.setdefault(Entity(".".join(entity.path.split(".")[-2:]), FIELD), place)
        else:
            found.setdefault(Entity(entity.path.rpartition(".")[2], RECORD), place)
    for entity in changes.entities():
        if entity not in found:
            raise invalid_schema(f"No matching path '{entity.path}' found in the schema")
        place = found[entity]
        place.put(changes.of(entity, place.tags))


def _places(schema_type: SchemaType, root: Any) -> Iterator[tuple[Entity, Place]]:
    if schema_type is SchemaType.AVRO:
        return _of_avro(root, "")
    return _of_json(root, "", in_field=False)


def _of_avro(node: Any, namespace: str) -> Iterator[tuple[Entity, Place]]:
    match node:
        case list():
            for branch in node:
                yield from _of_avro(branch, namespace)
        case {"type": "record" | "error", "name": str(name), "fields": list(fields)}:
            if "." in name:
                namespace = name.rpartition(".")[0]
            else:
                namespace = node.get("namespace", namespace)
                name = f"{namespace}.{name}" if namespace else name
            yield Entity(name, RECORD), _property(node)
            for field in fields:
                yield Entity(f"{name}.{field['name']}", FIELD), _property(field)
                yield from _of_avro(field["type"], namespace)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            yield from _of_avro(inner, namespace)
        case {"type": (dict() | list()) as inner}:
            yield from _of_avro(inner, namespace)


def _of_json(node: Any, scope: str, in_field: bool) -> Iterator[tuple[Entity, Place]]:
    if not isinstance(node, dict):
        return
    for keyword in _COMBINED:
        branches = node.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield from _of_json(branch, f"{scope}{keyword.lower()}.{index}.", in_field=False)
    if isinstance(node.get("items"), dict):
        yield from _of_json(node["items"], f"{scope}array.", in_field=False)
    for keyword in _CONDITIONS:
        yield from _of_json(node.get(keyword), f"{scope}conditional.{keyword}.", in_field=False)
    yield from _of_json(node.get("not"), f"{scope}not.", in_field=False)
    name = f"{scope}object"
    properties = node.get("properties")
    if isinstance(properties, dict) or node.get("type") == "object":
        if not in_field:
            yield Entity(name, RECORD), _property(node)
        for key, inner in (properties if isinstance(properties, dict) else {}).items():
            if isinstance(inner, dict):
                yield Entity(f"{name}.{key}", FIELD), _property(inner)
                yield from _of_json(inner, f"{name}.{key}.", in_field=True)
    for keyword in _DEFINITIONS:
        definitions = node.get(keyword)
        for key, inner in (definitions if isinstance(definitions, dict) else {}).items():
            yield from _of_json(inner, f"{name}.{keyword}.{key}.", in_field=False)


def _property(node: dict[str, Any]) -> Place:
    def put(tags: Sequence[str]) -> None:
        if tags:
            node[PROPERTY] = list(tags)
        else:
            node.pop(PROPERTY, None)

    given = node.get(PROPERTY)
    return Place([tag for tag in given if isinstance(tag, str)] if isinstance(given, list) else [], put)


def _read(parsed: ParsedSchema) -> Any:
    """The JSON of an Avro or JSON Schema, with its numbers as they are written."""
    read = json_text.read_json if parsed.schema_type is SchemaType.AVRO else documents.read_json
    try:
        return read(parsed.canonical_text)
    except InvalidSchema as problem:
        raise invalid_schema(str(problem)) from None
