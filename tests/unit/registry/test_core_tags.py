"""Tags in the texts of schemas of each format: put, found again, and taken away without a trace."""

from __future__ import annotations

import random

import pytest

from ottla.registry.core.schema_tags import ALL, changed_text, tagged_entities
from ottla.registry.core.tags import FIELD, RECORD, Entity, EntityTags, TagChanges
from ottla.schemas.format import ParsedSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType
from support.registry.registry_core import refused

AVRO = """{"type":"record","name":"R","namespace":"n.m","fields":[
  {"name":"a","type":"double","default":1E+3,"confluent:tags":["OLD"]},
  {"name":"b","type":["null",{"type":"record","name":"o.S","fields":[{"name":"c","type":"string"}]}]},
  {"name":"d","type":{"type":"map","values":{"type":"array","items":{"type":"record","name":"T","fields":[
    {"name":"e","type":"o.S"}]}}}}]}"""
JSON = """{"type":"object","properties":{"a":{"type":"number","maximum":1.50},
  "b.c":{"type":"object","properties":{"d":{"type":"string"}}},
  "e":{"type":"array","items":{"type":"object","properties":{"f":{"type":"string"}}}},
  "g":{"oneOf":[{"type":"null"},{"type":"object","properties":{"h":{"type":"string"}}}]}},
  "$defs":{"K":{"type":"object","properties":{"l":{"type":"integer"}}}}}"""
PROTOBUF = """syntax = "proto3";
package p;
import "confluent/meta.proto";
message M {
  option deprecated = true;
  string a = 1 [(confluent.field_meta) = {doc: "kept", tags: ["OLD"]}, deprecated = true];
  message N { int32 b = 1; }
  oneof c { N d = 2; string e = 3; }
  map<string, N> f = 4;
}
enum E { X = 0; }
"""
ENTITIES = {
    SchemaType.AVRO: [
        (RECORD, ["n.m.R", "o.S", "n.m.T"]),
        (FIELD, ["n.m.R.a", "n.m.R.b", "o.S.c", "n.m.R.d", "n.m.T.e"]),
    ],
    SchemaType.JSON: [
        (RECORD, ["object", "object.e.array.object", "object.g.oneof.1.object", "object.$defs.K.object"]),
        (
            FIELD,
            ["object.a", "object.b.c", "object.b.c.object.d", "object.e", "object.e.array.object.f"],
        ),
        (FIELD, ["object.g", "object.g.oneof.1.object.h", "object.$defs.K.object.l"]),
    ],
    SchemaType.PROTOBUF: [(RECORD, ["M", "M.N"]), (FIELD, ["M.a", "M.d", "M.e", "M.f", "M.N.b"])],
}
TEXTS = {SchemaType.AVRO: AVRO, SchemaType.JSON: JSON, SchemaType.PROTOBUF: PROTOBUF}


def parsed(schema_type: SchemaType, text: str) -> ParsedSchema:
    return format_of(schema_type).parse(text, {})


def entities(schema_type: SchemaType) -> list[Entity]:
    return [Entity(path, kind) for kind, paths in ENTITIES[schema_type] for path in paths]


@pytest.mark.parametrize("schema_type", SchemaType)
def test_drawn_changes_are_found_again_and_undone(schema_type: SchemaType) -> None:
    dice = random.Random(5)
    before = parsed(schema_type, TEXTS[schema_type])
    has = {each.entity: each.tags for each in tagged_entities(before, [ALL])}
    for _ in range(25):
        chosen = dice.sample(entities(schema_type), dice.randint(1, 4))
        words = ["PII", "GDPR", "ü \"'\\", "x"]
        added = [EntityTags(each, tuple(dice.sample(words, 2))) for each in chosen]
        after = parsed(schema_type, changed_text(before, TagChanges(added)))
        found = {each.entity: each.tags for each in tagged_entities(after, [ALL])}
        assert found == has | {each.entity: (*has.get(each.entity, ()), *each.tags) for each in added}
        again = parsed(schema_type, changed_text(after, TagChanges(removed=added)))
        if schema_type is SchemaType.PROTOBUF:
            assert again.formatted("serialized") == before.formatted("serialized")
        assert again.canonical_text == before.canonical_text


def test_the_file_with_the_options_is_imported_where_it_is_not() -> None:
    plain = parsed(SchemaType.PROTOBUF, 'syntax = "proto3"; message M { string a = 1; }')
    text = changed_text(plain, TagChanges([EntityTags(Entity("M.a", FIELD), ("PII",))]))
    canonical = parsed(SchemaType.PROTOBUF, text).canonical_text
    assert 'import "confluent/meta.proto"' in canonical
    assert "PII" in canonical


@pytest.mark.parametrize(
    ("schema_type", "path", "kind"),
    [
        (SchemaType.AVRO, "R.a", FIELD),
        (SchemaType.AVRO, "S", RECORD),
        (SchemaType.PROTOBUF, "N.b", FIELD),
    ],
)
def test_a_namespace_may_be_left_out(schema_type: SchemaType, path: str, kind: str) -> None:
    before = parsed(schema_type, TEXTS[schema_type])
    changed_text(before, TagChanges([EntityTags(Entity(path, kind), ("x",))]))


@pytest.mark.parametrize("schema_type", SchemaType)
@pytest.mark.parametrize("entity", [Entity("R.z", FIELD), Entity("", RECORD), Entity("n.m.R.a", RECORD)])
def test_an_entity_that_is_not_there_is_refused(schema_type: SchemaType, entity: Entity) -> None:
    before = parsed(schema_type, TEXTS[schema_type])
    with refused(42201, "No matching path"):
        changed_text(before, TagChanges([EntityTags(entity, ("x",))]))
