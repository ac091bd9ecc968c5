"""The seven levels, through the registry: which versions count, in which direction, and the messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.core.reading import LATEST, SchemaRequest
from ottla.registry.core.records import schema_record
from ottla.schemas.model import CompatibilityLevel, Schema, SchemaType
from support.registry.registry_core import InMemoryRegistry, avro_record, refused

A, B, AB, AB_DEFAULT = avro_record("a"), avro_record("b"), avro_record("a", "b"), avro_record("a", "b?")
ALL = frozenset(CompatibilityLevel)


def levels(*names: str) -> frozenset[CompatibilityLevel]:
    return frozenset(CompatibilityLevel(name) for name in names)


NONE = levels("NONE")
BACKWARD = levels("BACKWARD", "BACKWARD_TRANSITIVE")
FORWARD = levels("FORWARD", "FORWARD_TRANSITIVE")

TABLE = [
    ("nothing is there", [], A, ALL),
    ("a field with a default is new: both can read each other", [A], AB_DEFAULT, ALL),
    ("a field without a default is new: only the old can read the new", [A], AB, NONE | FORWARD),
    ("a field without a default is gone: only the new can read the old", [AB], A, NONE | BACKWARD),
    ("a field with a default is gone", [AB_DEFAULT], A, ALL),
    ("one field for another", [A], B, NONE),
    # the last version would allow it, the first does not
    (
        "b without its default can follow AB?, not A",
        [A, AB_DEFAULT],
        AB,
        levels("NONE", "BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"),
    ),
    (
        "b is gone: the last version can read that, the first can't",
        [AB, AB_DEFAULT],
        A,
        levels("NONE", "FORWARD", "BACKWARD", "BACKWARD_TRANSITIVE", "FULL"),
    ),
    (
        "the last version would do, the first does not: it has no a",
        [B, A],
        AB_DEFAULT,
        ALL - levels("BACKWARD_TRANSITIVE", "FULL_TRANSITIVE"),
    ),
]


@pytest.fixture
def registry() -> InMemoryRegistry:
    return InMemoryRegistry()


def request_of(text: str, **more: Any) -> SchemaRequest:
    return SchemaRequest(Schema.from_json({"schema": text, **more}))


def versions_are(registry: InMemoryRegistry, texts: list[str]) -> None:
    """However they follow each other."""
    for version, text in enumerate(texts, 1):
        registry.replay(schema_record("s", version, version, Schema(SchemaType.AVRO, text), False))


@pytest.mark.parametrize("level", list(CompatibilityLevel))
@pytest.mark.parametrize(("story", "before", "new", "allowed"), TABLE, ids=[row[0] for row in TABLE])
def test_the_changes_that_a_level_allows(
    registry: InMemoryRegistry,
    story: str,
    before: list[str],
    new: str,
    allowed: frozenset[CompatibilityLevel],
    level: CompatibilityLevel,
) -> None:
    versions_are(registry, before)
    registry.apply(registry.writes.set_config("s", {"compatibility": level}))
    messages = registry.reads.incompatibilities("s", None, request_of(new))
    assert (messages == []) == (level in allowed), story
    if level in allowed:
        assert registry.register("s", new) == len(before) + 1
    else:
        assert messages[-1] == f"{{validateFields: 'false', compatibility: '{level}'}}"
        with refused(409, messages[0]):
            registry.register("s", new)


def closed(**properties: str) -> str:
    told = {name: {"type": kind} for name, kind in properties.items()}
    return json.dumps({"type": "object", "properties": told, "additionalProperties": False})


def proto(*messages: str) -> str:
    return "\n".join(('syntax = "proto3";', *(f"message {one}" for one in messages)))


FORMATS = {
    # a schema, and others that can follow it in both directions, backward only, forward only, not at all
    SchemaType.AVRO: (AB, avro_record("a", "b", "c?"), A, avro_record("a", "b", "c"), avro_record("z")),
    SchemaType.JSON: (
        closed(a="string", b="string"),
        closed(b="string", a="string"),
        closed(a="string", b="string", c="string"),
        closed(a="string"),
        closed(a="boolean", b="string"),
    ),
    SchemaType.PROTOBUF: (
        proto("M { string a = 1; }", "N {}"),
        proto("M { string a = 1; string b = 2; }", "N {}"),
        proto("M { string a = 1; }", "N {}", "O {}"),
        proto("M { string a = 1; }"),
        proto("M { double a = 1; }", "N {}"),
    ),
}
ALLOWED = (ALL, NONE | BACKWARD, NONE | FORWARD, NONE)


@pytest.mark.parametrize("schema_type", list(SchemaType))
@pytest.mark.parametrize("level", list(CompatibilityLevel))
def test_every_level_with_every_format(
    registry: InMemoryRegistry, schema_type: SchemaType, level: CompatibilityLevel
) -> None:
    before, *followers = FORMATS[schema_type]
    registry.register("s", before, schema_type)
    registry.apply(registry.writes.set_config("s", {"compatibility": level}))
    for follower, allowed in zip(followers, ALLOWED, strict=True):
        request = request_of(follower, schemaType=schema_type)
        messages = registry.reads.incompatibilities("s", None, request)
        assert (messages == []) == (level in allowed), (follower, messages)
        assert (registry.reads.incompatibilities("s", 1, request) == []) == (level in allowed)


@pytest.mark.parametrize("schema_type", list(SchemaType))
@pytest.mark.parametrize("level", list(CompatibilityLevel))
def test_transitive_levels_look_at_all_versions(
    registry: InMemoryRegistry, schema_type: SchemaType, level: CompatibilityLevel
) -> None:
    last, new, *_, first = FORMATS[schema_type]
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    registry.register("s", first, schema_type)
    registry.register("s", last, schema_type)
    registry.apply(registry.writes.set_config("s", {"compatibility": level}))
    messages = registry.reads.incompatibilities("s", None, request_of(new, schemaType=schema_type))
    if level.endswith("_TRANSITIVE"):
        assert "{oldSchemaVersion: 1}" in messages
    else:
        assert messages == []


def test_the_message_of_a_schema_that_does_not_fit(registry: InMemoryRegistry) -> None:
    versions_are(registry, [A])
    start = (
        'Schema being registered is incompatible with an earlier schema for subject "s", details: ['
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'"
    )
    with refused(409, start):
        registry.register("s", AB)
    messages = registry.reads.incompatibilities("s", None, request_of(AB))
    assert messages[1:] == [
        "{oldSchemaVersion: 1}",
        f"{{oldSchema: '{A}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


def test_a_check_against_one_version(registry: InMemoryRegistry) -> None:
    versions_are(registry, [A, B, AB])
    assert registry.reads.incompatibilities("s", 1, request_of(AB)) != []
    assert registry.reads.incompatibilities("s", 3, request_of(A)) == []
    assert registry.reads.incompatibilities("s", LATEST, request_of(A)) == []
    assert registry.reads.incompatibilities("s", LATEST, request_of(avro_record("c"))) != []
    with refused(40402, "Version 4 not found."):
        registry.reads.incompatibilities("s", 4, request_of(A))
    with refused(40402):
        registry.reads.incompatibilities("none", 1, request_of(A))
    assert registry.reads.incompatibilities("none", LATEST, request_of(A)) == []


def test_a_check_against_the_latest_version_is_against_that_one_only(registry: InMemoryRegistry) -> None:
    versions_are(registry, [B, A])
    registry.apply(registry.writes.set_config("s", {"compatibility": "BACKWARD_TRANSITIVE"}))
    assert registry.reads.incompatibilities("s", LATEST, request_of(A)) == []
    assert registry.reads.incompatibilities("s", None, request_of(A)) != []


def test_softly_deleted_versions_do_not_count(registry: InMemoryRegistry) -> None:
    versions_are(registry, [A, B])
    registry.apply(registry.writes.delete_version("s", 2))
    assert registry.reads.incompatibilities("s", None, request_of(AB_DEFAULT)) == []
    with refused(40402):
        registry.reads.incompatibilities("s", 2, request_of(A))
    registry.apply(registry.writes.delete_subject("s"))
    assert registry.register("s", avro_record("z")) == 3


def test_another_format_can_not_follow(registry: InMemoryRegistry) -> None:
    versions_are(registry, [A])
    with refused(409, "a schema of type JSON can't follow one of type AVRO"):
        registry.register("s", '{"type":"object"}', SchemaType.JSON)
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    assert registry.register("s", '{"type":"object"}', SchemaType.JSON) == 2


def test_only_versions_of_the_same_group_are_compared(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_config("s", {"compatibilityGroup": "major"}))

    def register(text: str, **more: Any) -> int:
        return registry.apply(registry.writes.register("s", request_of(text, **more))).version

    def major(value: str) -> dict[str, Any]:
        return {"properties": {"major": value}}

    assert register(A) == 1
    assert register(B, metadata=major("2")) == 2
    assert register(avro_record("b", "c?"), metadata=major("2")) == 3
    with refused(409):
        register(A, metadata=major("2"))
    assert registry.reads.incompatibilities("s", None, request_of(A, metadata=major("1"))) == []
    assert registry.reads.incompatibilities("s", None, request_of(A)) != [], "that would be of group 2"
    assert register(AB_DEFAULT, metadata=major("3")) == 4
    assert register(AB_DEFAULT, metadata={}) == 5
    with refused(409):
        register(avro_record("c"), metadata={})


def test_json_schemas_are_compared_as_strictly_as_is_configured(registry: InMemoryRegistry) -> None:
    """To give an open content model an optional property is no contradiction only to the lenient."""
    before = '{"type":"object","properties":{"a":{"type":"string"}}}'
    after = '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}'
    registry.register("s", before, SchemaType.JSON)
    with refused(409, "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"):
        registry.register("s", after, SchemaType.JSON)
    registry.apply(registry.writes.set_config("s", {"compatibilityPolicy": "LENIENT"}))
    assert registry.register("s", after, SchemaType.JSON) == 2


def test_protobuf_schemas_are_compared(registry: InMemoryRegistry) -> None:
    before = 'syntax = "proto3"; message M { string a = 1; }'
    registry.register("s", before, SchemaType.PROTOBUF)
    with refused(409, "FIELD_SCALAR_KIND_CHANGED"):
        registry.register("s", before.replace("string", "double"), SchemaType.PROTOBUF)
    assert registry.register("s", before.replace("}", "string b = 2; }"), SchemaType.PROTOBUF) == 2


def test_long_answers_are_cut(registry: InMemoryRegistry) -> None:
    many = [f"f{n}" for n in range(2_000)]
    versions_are(registry, [avro_record(*many)])
    messages = registry.reads.incompatibilities(
        "s", None, request_of(avro_record(*many, *(f"{n}x" for n in many)))
    )
    assert len(messages) <= 103
    assert all(len(message) < 20_000 for message in messages)


def test_an_old_version_that_is_no_schema_any_more(registry: InMemoryRegistry) -> None:
    versions_are(registry, ["{"])
    with refused(42201):
        registry.register("s", A)
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    assert registry.register("s", A) == 2


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        (SchemaType.AVRO, AB),
        (SchemaType.JSON, '{"type":"object","properties":{"a":{},"b":{}}}'),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message M { string a = 1; string b = 2; }'),
    ],
)
def test_reserved_names_are_kept_free_where_that_is_configured(
    registry: InMemoryRegistry, schema_type: SchemaType, text: str
) -> None:
    def register(reserved: str) -> int:
        request = request_of(
            text, schemaType=schema_type, metadata={"properties": {"confluent:reserved": reserved}}
        )
        return registry.apply(registry.writes.register("s", request)).version

    assert register("a") == 1
    registry.apply(registry.writes.set_config("s", {"validateFields": True}))
    with refused(409, "conflicts with the reserved field b', additionalInfo:'b'}, {validateFields: 'true'"):
        register("a, b")
    with refused(409, "has reserved field a removed from its metadata"):
        register("c")
    registry.apply(registry.writes.set_config("s", {"validateFields": False}))
    assert register("c, d") == 2
    registry.apply(registry.writes.set_config("s", {"validateFields": True}))
    assert register("d,c , e") == 3


def test_forward_it_is_the_old_schema_that_reads() -> None:
    with_field, without = avro_record("a", "b"), avro_record("a")
    registry = InMemoryRegistry()
    registry.register("s", with_field)
    registry.apply(registry.writes.set_config("s", {"compatibility": "FORWARD"}))
    (problem, *_) = registry.reads.incompatibilities(
        "s", None, SchemaRequest(Schema(SchemaType.AVRO, without))
    )
    assert "in the old schema has no default value and is missing in the new schema" in problem
