"""What is read: versions, ids, lookups, listings, in contexts and through aliases."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.image import Deleted
from ottla.registry.core.reading import LATEST, SchemaRequest
from ottla.registry.core.records import schema_record
from ottla.schemas.model import Metadata, Reference, Schema, SchemaType
from support.registry.registry_core import InMemoryRegistry, avro_record, refused

A, AB, ABC = avro_record("a"), avro_record("a", "b?"), avro_record("a", "b?", "c?")


def request_of(text: str, **more: Any) -> SchemaRequest:
    return SchemaRequest(Schema.from_json({"schema": text, **more}))


@pytest.fixture
def registry() -> InMemoryRegistry:
    """`s`: 1 softly deleted, 2 and 3 live. `gone`: softly deleted. `:.c:s` and `:.c:only` in a context."""
    made = InMemoryRegistry()
    for subject, text in (("s", A), ("s", AB), ("s", ABC), ("gone", A), (":.c:s", AB), (":.c:only", ABC)):
        made.register(subject, text)
    made.apply(made.writes.delete_version("s", 1))
    made.apply(made.writes.delete_subject("gone"))
    return made


# -- subjects and versions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "show", "expected"),
    [
        ("", Deleted.HIDE, ["s"]),
        ("", Deleted.SHOW, ["gone", "s"]),
        ("", Deleted.ONLY, ["gone", "s"]),
        ("g", Deleted.SHOW, ["gone"]),
        (":*:", Deleted.HIDE, [":.c:only", ":.c:s", "s"]),
        (":*:s", Deleted.HIDE, [":.c:s", "s"]),
        (":.c:", Deleted.HIDE, [":.c:only", ":.c:s"]),
        (":.c:o", Deleted.HIDE, [":.c:only"]),
        (":.:", Deleted.HIDE, ["s"]),
        (":.d:", Deleted.HIDE, []),
    ],
)
def test_subjects(registry: InMemoryRegistry, prefix: str, show: Deleted, expected: list[str]) -> None:
    assert registry.reads.subjects(prefix, show) == expected


def test_versions(registry: InMemoryRegistry) -> None:
    assert registry.reads.versions("s") == [2, 3]
    assert registry.reads.versions("s", Deleted.SHOW) == [1, 2, 3]
    assert registry.reads.versions("s", Deleted.ONLY) == [1]
    assert registry.reads.versions("s", negative=True) == [-1, 2, 3]
    assert registry.reads.versions("gone", Deleted.SHOW) == [1]
    for subject in ("gone", "none"):
        with refused(40401, f"Subject '{subject}' not found."):
            registry.reads.versions(subject)


def test_a_version(registry: InMemoryRegistry) -> None:
    assert registry.reads.version("s", 2).schema.text == AB
    assert registry.reads.version("s", LATEST).version == 3
    assert registry.reads.version("s", 1, deleted=True).deleted
    assert registry.reads.version("gone", LATEST, deleted=True).version == 1
    with refused(40402, "Version 1 not found."):
        registry.reads.version("s", 1)
    with refused(40402, "Version 4 not found."):
        registry.reads.version("s", 4)
    with refused(40401):
        registry.reads.version("gone", LATEST)


def test_a_subject_is_looked_for_in_other_contexts(registry: InMemoryRegistry) -> None:
    assert registry.reads.version("only", LATEST).subject == ":.c:only"
    assert registry.reads.version(":.:s", 2).subject == "s"
    assert registry.reads.lookup("only", request_of(ABC)).subject == ":.c:only"
    with refused(40401):
        registry.reads.version(":.d:only", LATEST)
    with refused(40401):
        registry.reads.versions("only")


def test_the_latest_version_with_metadata() -> None:
    registry = InMemoryRegistry()
    for text, owner in ((A, "we"), (AB, "we"), (ABC, "they")):
        request = request_of(text, metadata={"properties": {"owner": owner, "x": "1"}})
        registry.apply(registry.writes.register("s", request))
    assert registry.reads.latest_with_metadata("s", {"owner": "we"}).version == 2
    assert registry.reads.latest_with_metadata("s", {"owner": "we", "x": "1"}).version == 2
    assert registry.reads.latest_with_metadata("s", {}).version == 3
    with refused(40403):
        registry.reads.latest_with_metadata("s", {"owner": "you"})
    with refused(40401):
        registry.reads.latest_with_metadata("t", {"owner": "we"})


def test_listing_schemas(registry: InMemoryRegistry) -> None:
    def listed(*args: Any) -> list[tuple[str, int]]:
        return [(stored.subject, stored.version) for stored, _ in registry.reads.schemas(*args)]

    assert listed() == [("s", 2), ("s", 3)]
    assert listed(":*:") == [(":.c:only", 1), (":.c:s", 1), ("s", 2), ("s", 3)]
    assert listed("", False, True) == [("gone", 1), ("s", 1), ("s", 2), ("s", 3)]
    assert listed("", False, False, True) == [("s", 3)]
    assert listed("", False, False, False, "CEL") == []


def test_listing_schemas_by_rule(registry: InMemoryRegistry) -> None:
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITE", "type": "ENCRYPT"}
    registry.apply(registry.writes.register("t", request_of(A, ruleSet={"encodingRules": [rule]})))
    assert [stored.subject for stored, _ in registry.reads.schemas(rule_type="ENCRYPT")] == ["t"]


# -- aliases ------------------------------------------------------------------------------------------


def test_an_alias_stands_for_its_subject(registry: InMemoryRegistry) -> None:
    for name, alias in (("short", "s"), ("shorter", "short"), (":.c:short", "s")):
        registry.apply(registry.writes.set_config(name, {"alias": alias}))
    reads = registry.reads
    assert reads.version("short", LATEST).subject == "s"
    assert reads.versions("short") == [2, 3]
    assert reads.lookup("short", request_of(AB)).version == 2
    assert reads.by_id(2, "short").subject == "s"
    assert reads.incompatibilities("short", LATEST, request_of(avro_record("z"))) != []
    assert reads.version(":.c:short", LATEST).subject == ":.c:s"
    assert registry.register("short", ABC) == 3
    with refused(40401):
        reads.versions("shorter")
    names = {stored.subject: list(aliases) for stored, aliases in reads.schemas(":*:", aliases=True)}
    assert names == {"s": ["short"], ":.c:s": [":.c:short"], ":.c:only": []}
    registry.apply(registry.writes.set_config(":.c:", {"alias": "s"}))
    assert reads.by_id(1, ":.c:").subject == ":.c:s", "a context is no subject"
    registry.apply(registry.writes.set_config("short", {"alias": ""}))
    with refused(40401):
        reads.versions("short")


# -- ids ----------------------------------------------------------------------------------------------


def test_ids(registry: InMemoryRegistry) -> None:
    reads = registry.reads
    assert reads.by_id(1).schema.text == A
    assert (reads.by_id(2).subject, reads.by_id(2, "s").version) == ("s", 2)
    assert reads.by_id(1, ":.c:").schema.text == AB
    assert reads.by_id(1, ":.c:s").subject == ":.c:s"
    assert reads.by_id(2, "only").subject == ":.c:only"
    assert reads.by_id(2, "unknown").subject == "s"
    with refused(40403, "Schema 9 not found"):
        reads.by_id(9)
    with refused(40403):
        reads.by_id(3, ":.c:")
    with refused(40403):
        reads.by_id(1, ":.d:s")


def test_an_id_that_only_another_context_has() -> None:
    registry = InMemoryRegistry()
    registry.register(":.c:s", A)
    assert registry.reads.by_id(1).subject == ":.c:s"
    assert [use.subject for use in registry.reads.uses_of_id(1)] == [":.c:s"]


def test_the_newest_version_of_an_id_is_told(registry: InMemoryRegistry) -> None:
    registry.replay(schema_record("s", 9, 2, Schema(SchemaType.AVRO, AB), False))
    registry.replay(schema_record("s", 10, 2, Schema(SchemaType.AVRO, AB), True))
    assert registry.reads.by_id(2, "s").version == 9


def test_uses_of_an_id(registry: InMemoryRegistry) -> None:
    def uses(*args: Any) -> list[tuple[str, int]]:
        return [(stored.subject, stored.version) for stored in registry.reads.uses_of_id(*args)]

    registry.register("t", AB)
    assert uses(2) == [("s", 2), ("t", 1)]
    assert uses(2, "t") == [("t", 1)]
    assert uses(1) == []
    assert uses(1, None, True) == [("gone", 1), ("s", 1)]
    assert uses(1, ":.c:") == [(":.c:s", 1)]
    assert uses(2, "none") == []
    with refused(40403):
        uses(9)
    with refused(40403):
        uses(3, ":.c:")


def test_guids(registry: InMemoryRegistry) -> None:
    guid = Schema(SchemaType.AVRO, AB).guid
    assert registry.reads.by_guid(guid).schema.text == AB
    assert registry.reads.by_guid(guid.upper()).id == 2
    assert registry.reads.ids_of_guid(guid) == [(".", 2), (".c", 1)]
    for unknown in ("", "x", "00000000-0000-0000-0000-000000000000"):
        with refused(40403):
            registry.reads.by_guid(unknown)


def test_the_highest_id(registry: InMemoryRegistry) -> None:
    assert [registry.reads.max_id(context) for context in (".", ".c", ".d")] == [3, 2, 0]


def test_contexts(registry: InMemoryRegistry) -> None:
    assert registry.reads.contexts() == [".", ".c"]
    assert registry.reads.contexts(".c") == [".c"]


# -- lookups ------------------------------------------------------------------------------------------


def test_lookups(registry: InMemoryRegistry) -> None:
    spread = AB.replace(":", " : ")
    assert registry.reads.lookup("s", request_of(spread)).version == 2
    assert registry.reads.lookup("s", request_of(A), deleted=True).version == 1
    with refused(40403, "Schema not found"):
        registry.reads.lookup("s", request_of(A))
    with refused(40403):
        registry.reads.lookup("s", request_of('"int"'))
    with refused(40401, "Subject 'gone' not found."):
        registry.reads.lookup("gone", request_of(A))
    with refused(42201):
        registry.reads.lookup("s", request_of("{"))
    assert registry.reads.lookup("gone", request_of(A), deleted=True).id == 1


def test_a_lookup_heeds_the_type_of_the_schema(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.register("j", request_of('"string"')))
    with refused(40403):
        registry.reads.lookup("j", request_of("true", schemaType="JSON"))


def test_a_lookup_heeds_references_and_metadata(registry: InMemoryRegistry) -> None:
    text = '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}'

    def request(version: int, **more: Any) -> SchemaRequest:
        return request_of(text, references=[{"name": "R", "subject": "s", "version": version}], **more)

    metadata = {"properties": {"a": "1"}}
    registry.apply(registry.writes.register("u", request(2, metadata=metadata)))
    assert registry.reads.lookup("u", request(2)).schema.metadata == Metadata(properties={"a": "1"})
    assert registry.reads.lookup("u", request(2, metadata=metadata)).version == 1
    with refused(40403):
        registry.reads.lookup("u", request(3))
    with refused(40403):
        registry.reads.lookup("u", request(2, metadata={"properties": {"a": "2"}}))
    with refused(42201, "No schema reference found"):
        registry.reads.lookup("u", request(9))


def test_a_reference_to_the_latest_version_is_one_to_the_newest(registry: InMemoryRegistry) -> None:
    """Registries before ours stored such references as they came."""
    schema = Schema(SchemaType.AVRO, "{}", (Reference("R", "s", LATEST),))
    registry.replay(schema_record("u", 1, 50, schema, False))
    assert registry.reads.referenced_by("s", 3) == [50]
    assert registry.reads.referenced_by("s", LATEST) == [50]
    assert registry.reads.referenced_by("s", 2) == []
    with refused(40402):
        registry.reads.referenced_by("s", 9)
    with refused(40401):
        registry.reads.referenced_by("none", 1)


def test_as_many_parsed_schemas_are_kept_as_were_used_last() -> None:
    parser = InMemoryRegistry().reads.parser
    often = Schema(SchemaType.AVRO, A)
    first = parser.parse("s", often)
    for n in range(2_500):
        parser.parse("s", Schema(SchemaType.AVRO, avro_record(f"a{n}")))
        assert n % 1_000 or parser.parse("s", often) is first
    assert len(parser._kept) == 2_000


def test_parsed_schemas_are_bounded_by_the_length_of_their_texts() -> None:
    parser = InMemoryRegistry().reads.parser

    def fixed(size: int, length: int) -> Schema:
        return Schema(SchemaType.AVRO, f'{{"type":"fixed","name":"F","size":{size},"doc":"{"x" * length}"}}')

    for n in range(20):
        parser.parse("s", fixed(n, 2 << 20))
    assert len(parser._kept) == 15
    parser.parse("s", fixed(1, 4_000_000))
    assert len(parser._kept) == 15, "one that is too long is not kept, and costs no other its place"
