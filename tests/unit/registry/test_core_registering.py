"""Registering: ids and versions, equal schemas, metadata, rules, modes, imports."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ottla.registry.core.reading import LATEST, SchemaRequest
from ottla.registry.core.records import SchemaKey, context_record, schema_record
from ottla.registry.core.tags import FIELD, RECORD, Entity, EntityTags, TagChanges, TagRequest
from ottla.replicated.records import Record
from ottla.schemas.model import Metadata, Reference, Rule, RuleSet, Schema, SchemaType
from support.registry.registry_core import InMemoryRegistry, avro_record, refused

A, AB, ABC = avro_record("a"), avro_record("a", "b?"), avro_record("a", "b?", "c?")
RULE = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
UPGRADE = Rule("up", kind="TRANSFORM", mode="UPGRADE", type="JSONATA")


def request_of(text: str, **more: Any) -> SchemaRequest:
    """`version` and `id` are the request's, the rest the schema's, in JSON."""
    version, schema_id = more.pop("version", None), more.pop("id", None)
    return SchemaRequest(Schema.from_json({"schema": text, **more}), version, schema_id)


@pytest.fixture
def registry() -> InMemoryRegistry:
    return InMemoryRegistry()


def register(registry: InMemoryRegistry, subject: str, text: str, **more: Any) -> tuple[int, int]:
    """The version and the id."""
    stored = registry.apply(registry.writes.register(subject, request_of(text, **more)))
    return stored.version, stored.id


def rule(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", **more}


# -- ids and versions ---------------------------------------------------------------------------------


def test_versions_and_ids_count_from_one(registry: InMemoryRegistry) -> None:
    assert register(registry, "s", A) == (1, 1)
    assert register(registry, "s", AB) == (2, 2)
    assert register(registry, "t", ABC) == (1, 3)


def test_the_records_of_a_new_version(registry: InMemoryRegistry) -> None:
    decision = registry.writes.register("s", request_of(A))
    assert decision.records == (schema_record("s", 1, 1, Schema(SchemaType.AVRO, A), False),)


def test_the_first_schema_of_a_context_is_preceded_by_its_record(registry: InMemoryRegistry) -> None:
    decision = registry.writes.register(":.c:s", request_of(A))
    assert decision.records[0] == context_record(".c")
    registry.apply(decision)
    assert len(registry.writes.register(":.c:t", request_of(AB)).records) == 1


def test_a_schema_that_is_there_is_answered_without_a_record(registry: InMemoryRegistry) -> None:
    register(registry, "s", A)
    register(registry, "s", AB)
    spread = A.replace(":", " : ").replace(",", " ,\n")
    for text in (A, spread):
        decision = registry.writes.register("s", request_of(text))
        assert (decision.answer.version, decision.answer.id, decision.records) == (1, 1, ())


def test_the_same_schema_has_the_same_id_in_all_subjects_of_a_context(registry: InMemoryRegistry) -> None:
    register(registry, "s", A)
    register(registry, "s", AB)
    assert register(registry, "t", AB) == (1, 2)
    assert register(registry, ":.c:s", AB) == (1, 1)


def test_a_schema_that_was_deleted_softly_comes_back_with_its_id(registry: InMemoryRegistry) -> None:
    """As the next version; the old one goes for good."""
    register(registry, "s", A)
    register(registry, "s", AB)
    registry.apply(registry.writes.delete_version("s", 1))
    decision = registry.writes.register("s", request_of(A))
    assert (decision.answer.version, decision.answer.id) == (3, 1)
    assert decision.records[1:] == (Record(SchemaKey("s", 1).encode(), None),)
    registry.apply(decision)
    assert registry.reads.versions("s") == [2, 3]


def test_a_schema_that_is_softly_deleted_elsewhere_keeps_its_id(registry: InMemoryRegistry) -> None:
    register(registry, "s", A)
    registry.apply(registry.writes.delete_subject("s"))
    assert register(registry, "t", A) == (1, 1)


def test_the_id_of_a_schema_that_was_deleted_for_good_is_not_given_again(registry: InMemoryRegistry) -> None:
    register(registry, "s", A)
    register(registry, "t", AB)
    registry.apply(registry.writes.delete_subject("t"))
    registry.apply(registry.writes.delete_subject("t", permanent=True))
    for other in (registry.restarted(), registry.restarted(compacted=True)):
        assert register(other, "t", AB) == (1, 3)


@pytest.mark.parametrize("version", [None, 0, LATEST, 2])
def test_a_version_may_be_named_if_it_is_the_next(registry: InMemoryRegistry, version: int | None) -> None:
    register(registry, "s", A)
    assert register(registry, "s", AB, version=version) == (2, 2)


@pytest.mark.parametrize("version", [1, 3, 2**31 - 1])
def test_no_other_version_may_be_named(registry: InMemoryRegistry, version: int) -> None:
    register(registry, "s", A)
    with refused(42201, "is not one more than the previous version"):
        register(registry, "s", AB, version=version)


@pytest.mark.parametrize(
    "name", ["", " ", "__GLOBAL", "__EMPTY", ":.c:", ":.__GLOBAL:s", "a\0b", ":c:s", "x" * 5000]
)
def test_a_reserved_or_unprintable_name_is_no_subject(registry: InMemoryRegistry, name: str) -> None:
    with refused(42208):
        register(registry, name, A)


@pytest.mark.parametrize("text", ["", "  ", '{"type":"recor"}', "{", '"nothing"'])
def test_a_text_that_is_no_schema_is_refused(registry: InMemoryRegistry, text: str) -> None:
    with refused(42201):
        register(registry, "s", text)
    with refused(42201):
        registry.reads.incompatibilities("s", None, request_of(text))


def test_normal_forms_are_stored_when_asked_for(registry: InMemoryRegistry) -> None:
    spread = '{"fields":[{"type":{"type":"string"},"name":"a"}],"name":"R","type":"record"}'
    stored = registry.apply(registry.writes.register("s", request_of(spread), normalize=True))
    again = registry.writes.register("s", request_of(stored.schema.text))
    assert (again.records, again.answer.id) == ((), stored.id)


def test_a_subject_that_is_configured_to_normalize_does_so(registry: InMemoryRegistry) -> None:
    one = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"string"}]}'
    other = '{"type":"record","name":"n.R","fields":[{"name":"a","type":"string"}]}'
    registry.apply(registry.writes.set_config(None, {"normalize": True}))
    assert register(registry, "s", one) == register(registry, "s", other) == (1, 1)


def test_a_schema_that_was_stored_as_it_came_is_found_by_its_normal_form(registry: InMemoryRegistry) -> None:
    one = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"string"}]}'
    other = '{"type":"record","name":"n.R","fields":[{"name":"a","type":"string"}]}'
    register(registry, "s", one)
    stored = registry.apply(registry.writes.register("s", request_of(other), normalize=True))
    assert stored.version == 1
    assert registry.reads.lookup("s", request_of(other), normalize=True).version == 1


# -- references ---------------------------------------------------------------------------------------


def using(*names: str) -> str:
    fields = ",".join(f'{{"name":"f{n}","type":"{name}"}}' for n, name in enumerate(names))
    return f'{{"type":"record","name":"U","fields":[{fields}]}}'


def reference(subject: str = "r", version: int = 1, name: str = "R") -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


def test_a_reference_to_the_latest_version_is_stored_with_its_number(registry: InMemoryRegistry) -> None:
    register(registry, "r", A)
    register(registry, "r", AB)
    assert register(registry, "s", using("R"), references=[reference(version=LATEST)]) == (1, 3)
    assert registry.reads.version("s", 1).schema.references == (Reference("R", "r", 2),)
    assert register(registry, "s", using("R"), references=[reference(version=2)]) == (1, 3)


def test_a_deleted_version_that_is_referred_to_stays_when_its_schema_comes_back(
    registry: InMemoryRegistry,
) -> None:
    register(registry, "r", A)
    register(registry, "r", AB)
    registry.apply(registry.writes.delete_version("r", 1))
    register(registry, "s", using("R"), references=[reference()])
    assert register(registry, "r", A) == (3, 1)
    assert '"name":"a"' in registry.reads.formatted(registry.reads.version("s", 1), "resolved").text


def test_references_are_followed(registry: InMemoryRegistry) -> None:
    register(registry, "r", A)
    register(registry, "u", using("R"), references=[reference()])
    text = '{"type":"record","name":"V","fields":[{"name":"u","type":"U"},{"name":"r","type":"R"}]}'
    assert register(registry, "v", text, references=[reference("u", 1, "U"), reference()])[0] == 1
    stored = registry.reads.version("v", 1)
    assert '"name":"a"' in registry.reads.formatted(stored, "resolved").text


def test_references_are_meant_in_the_context_of_the_referrer(registry: InMemoryRegistry) -> None:
    register(registry, ":.c:r", A)
    with refused(42201, 'No schema reference found for subject "r" and version 1'):
        register(registry, "s", using("R"), references=[reference()])
    assert register(registry, ":.c:s", using("R"), references=[reference()]) == (1, 2)
    assert register(registry, "s", using("R"), references=[reference(":.c:r")]) == (1, 1)
    stored = registry.reads.version(":.c:s", 1)
    (qualified,) = registry.reads.formatted(stored, "", "qualified").references
    assert qualified.subject == ":.c:r"


def test_references_that_lead_in_a_circle_are_told(registry: InMemoryRegistry) -> None:
    """No request makes one, but the topic may have one from elsewhere."""
    for name, other in (("x", "y"), ("y", "x")):
        schema = Schema(SchemaType.AVRO, using(other), (Reference(other, other, 1),))
        registry.replay(schema_record(name, 1, ord(name), schema, False))
    with refused(42201, "the reference x leads back to itself: x -> y -> x"):
        register(registry, "s", using("x"), references=[reference("x", 1, "x")])


def test_references_are_bounded_in_depth(registry: InMemoryRegistry) -> None:
    for n in range(100):
        references = (Reference(f"r{n - 1}", f"r{n - 1}", 1),) if n else ()
        registry.replay(schema_record(f"r{n}", 1, n + 1, Schema(SchemaType.AVRO, A, references), False))
    with refused(42201, "one too many"):
        register(registry, "s", using("r99"), references=[reference("r99", 1, "r99")])


def test_references_are_bounded_in_number(registry: InMemoryRegistry) -> None:
    register(registry, "r", A)
    with refused(42201, "one too many"):
        register(registry, "s", '"int"', references=[reference(name=f"n{n}") for n in range(2000)])


def test_the_order_of_references_does_not_count_in_normal_forms(registry: InMemoryRegistry) -> None:
    register(registry, "r", A)
    register(registry, "u", using("R"), references=[reference()])
    text = '{"type":"record","name":"V","fields":[{"name":"u","type":"U"},{"name":"r","type":"R"}]}'
    some = [reference("u", 1, "U"), reference(), reference()]
    one = registry.apply(registry.writes.register("v", request_of(text, references=some), normalize=True))
    other = request_of(text, references=list(reversed(some[:2])))
    assert registry.writes.register("w", other, normalize=True).answer.id == one.id
    assert one.schema.references == (Reference("R", "r", 1), Reference("U", "u", 1))


# -- metadata and rules -------------------------------------------------------------------------------


def metadata(**properties: str) -> dict[str, Any]:
    return {"properties": properties}


def stored_metadata(registry: InMemoryRegistry, subject: str = "s") -> Metadata | None:
    return registry.reads.version(subject, LATEST).schema.metadata


def test_the_same_text_with_other_metadata_is_another_schema(registry: InMemoryRegistry) -> None:
    assert register(registry, "s", A, metadata=metadata(owner="we")) == (1, 1)
    assert register(registry, "s", A, metadata=metadata(owner="they")) == (2, 2)
    assert register(registry, "s", A, metadata=metadata(owner="we")) == (1, 1)


def test_a_request_without_metadata_finds_a_version_with_some(registry: InMemoryRegistry) -> None:
    register(registry, "s", A, metadata=metadata(owner="we"))
    assert register(registry, "s", A) == (1, 1)


def test_metadata_and_rules_go_on_to_the_next_version(registry: InMemoryRegistry) -> None:
    register(registry, "s", A, metadata=metadata(owner="we"), ruleSet={"domainRules": [rule("r")]})
    register(registry, "s", AB)
    stored = registry.reads.version("s", LATEST).schema
    assert stored.metadata == Metadata(properties={"owner": "we"})
    assert stored.rule_set == RuleSet.from_json({"domainRules": [rule("r")]})


def test_defaults_lie_under_and_overrides_over_the_sent_metadata(registry: InMemoryRegistry) -> None:
    update = {
        "defaultMetadata": {"properties": {"owner": "default", "team": "default"}, "tags": {"a": ["T"]}},
        "overrideMetadata": {"properties": {"env": "override"}, "sensitive": ["x"]},
        "defaultRuleSet": {"domainRules": [rule("first"), rule("second", expr="default")]},
        "overrideRuleSet": {"domainRules": [rule("third", expr="override")]},
    }
    registry.apply(registry.writes.set_config("s", update))
    rules = {"domainRules": [rule("second", expr="sent"), rule("third", expr="sent")]}
    sent = {"properties": {"owner": "sent", "env": "sent"}, "sensitive": ["y"]}
    for _ in range(2):
        assert register(registry, "s", A, metadata=sent, ruleSet=rules) == (1, 1)
    stored = registry.reads.version("s", 1).schema
    assert stored.metadata is not None and stored.rule_set is not None
    assert stored.metadata.as_json() == {
        "tags": {"a": ["T"]},
        "properties": {"env": "override", "owner": "sent", "team": "default"},
        "sensitive": ["x", "y"],
    }
    told = [(one.name, one.expr) for one in stored.rule_set.domain_rules or ()]
    assert told == [("first", None), ("second", "sent"), ("third", "override")]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"domainRules": [rule("")]}, "empty name"),
        ({"domainRules": [rule("r"), rule("r")]}, "two rules are called r"),
        ({"domainRules": [rule("r", kind="WISH")]}, "the kind of r"),
        ({"domainRules": [rule("r", kind=None)]}, "the kind of r"),
        ({"domainRules": [rule("r", mode="UPGRADE")]}, "the mode of r"),
        ({"migrationRules": [rule("r", mode="WRITE")]}, "the mode of r"),
        ({"encodingRules": [rule("r", type="")]}, "r has no type"),
        ({"domainRules": [rule(f"r{n}") for n in range(2000)]}, "more than"),
    ],
)
def test_rules_that_no_client_could_carry_out(
    registry: InMemoryRegistry, rules: dict[str, Any], reason: str
) -> None:
    with refused(42210, reason):
        register(registry, "s", A, ruleSet=rules)
    with refused(42210, reason):
        registry.writes.set_config("s", {"overrideRuleSet": rules})
    with refused(42210, reason):
        registry.writes.set_config(None, {"defaultRuleSet": rules})


def test_migration_rules_have_modes_of_their_own(registry: InMemoryRegistry) -> None:
    rules = {"migrationRules": [rule("r", kind="TRANSFORM", mode="UPGRADE")]}
    assert register(registry, "s", A, ruleSet=rules) == (1, 1)


def test_tags_are_added_and_removed_in_the_text_of_a_next_version(registry: InMemoryRegistry) -> None:
    register(registry, "s", A, metadata={"properties": {"owner": "me"}})
    field = Entity("R.a", FIELD)
    for tags, told in (
        (TagChanges([EntityTags(field, ("PII", "GDPR"))]), ["PII", "GDPR"]),
        (TagChanges([EntityTags(field, ("NEW",))], [EntityTags(field, ("PII",))]), ["GDPR", "NEW"]),
    ):
        latest = max(registry.image.versions("s"))
        stored = registry.apply(registry.writes.change_tags("s", latest, TagRequest(tags)))
        assert orjson.loads(stored.schema.text)["fields"][0]["confluent:tags"] == told
        properties = {"owner": "me", "confluent:version": str(latest + 1)}
        assert (stored.version, stored.schema.metadata) == (latest + 1, Metadata(properties=properties))
    with refused(40402):
        registry.writes.change_tags("s", 9, TagRequest())
    with refused(42201, "No matching path 'R.b' found"):
        tags = TagChanges([EntityTags(Entity("R.b", FIELD), ("x",))])
        registry.writes.change_tags("s", 1, TagRequest(tags))
    with refused(42201, "version 9 is not one more"):
        registry.writes.change_tags("s", 1, TagRequest(version=9))


def test_rules_are_merged_and_removed_with_tags(registry: InMemoryRegistry) -> None:
    rules = [RULE, {**RULE, "name": "other"}]
    register(registry, "s", A, ruleSet={"domainRules": rules})
    changed = Rule.from_json({**RULE, "expr": "changed"})
    request = TagRequest(
        version=2,
        rules_to_merge=RuleSet(domain_rules=(changed,), migration_rules=(UPGRADE,)),
        rules_to_remove=("other",),
    )
    stored = registry.apply(registry.writes.change_tags("s", 1, request))
    assert stored.schema.rule_set == RuleSet(domain_rules=(changed,), migration_rules=(UPGRADE,))
    with refused(42210, "ruleSet should be omitted"):
        registry.writes.change_tags("s", 1, TagRequest(rule_set=RuleSet(), rules_to_remove=("other",)))
    # none at all, which is not the same as those of the version before
    request = TagRequest(rules_to_remove=(changed.name, UPGRADE.name))
    assert registry.apply(registry.writes.change_tags("s", 2, request)).schema.rule_set == RuleSet()


def test_tags_of_the_newest_version_are_kept_where_that_is_asked_for(registry: InMemoryRegistry) -> None:
    register(registry, "s", A)
    tags = TagChanges([EntityTags(Entity("R", RECORD), ("PII",))])
    registry.apply(registry.writes.change_tags("s", 1, TagRequest(tags)))
    more = A.replace('"fields":[', '"fields":[{"name":"z","type":"int","default":0},')
    request = SchemaRequest(Schema(SchemaType.AVRO, more), keeps_tags=True)
    stored = registry.apply(registry.writes.register("s", request))
    assert orjson.loads(stored.schema.text)["confluent:tags"] == ["PII"]


def test_force_registers_an_incompatible_schema(registry: InMemoryRegistry) -> None:
    register(registry, "s", A)
    request = SchemaRequest(Schema(SchemaType.AVRO, '"int"'))
    with refused(409):
        registry.writes.register("s", request)
    assert registry.apply(registry.writes.register("s", request, force=True)).version == 2


# -- modes and imports --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE", "FORWARD"])
def test_a_subject_that_is_read_only_takes_no_new_schema(registry: InMemoryRegistry, mode: str) -> None:
    register(registry, "s", A)
    registry.apply(registry.writes.set_mode("s", mode))
    assert register(registry, "s", A) == (1, 1)
    with refused(42205, "Subject s in context . is in read-only mode"):
        register(registry, "s", AB)
    assert register(registry, "t", AB) == (1, 2)


def test_an_id_is_given_by_the_registry_but_in_an_import(registry: InMemoryRegistry) -> None:
    with refused(42205, "Subject s in context .c is not in import mode"):
        register(registry, ":.c:s", A, id=5)


def test_an_import_needs_an_id(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    with refused(42205, "Subject s in context . is not in read-write mode"):
        register(registry, "s", A)


def test_an_import_keeps_ids_and_versions_and_checks_nothing(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    assert register(registry, "s", avro_record("b"), id=40, version=7) == (7, 40)
    assert register(registry, "s", A, id=30, version=3) == (3, 30)
    assert register(registry, "s", ABC, id=20) == (8, 20)
    assert register(registry, "s", A, id=30) == (3, 30)
    assert registry.reads.versions("s") == [3, 7, 8]
    registry.apply(registry.writes.set_mode("s", "READWRITE"))
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    assert register(registry, "s", AB) == (9, 41)


def test_an_import_can_not_give_an_id_to_two_schemas(registry: InMemoryRegistry) -> None:
    register(registry, "t", AB)
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    with refused(42205, "Overwrite new schema with id 1 is not permitted."):
        register(registry, "s", A, id=1)
    assert register(registry, "s", AB, id=1) == (1, 1)
    with refused(42207, "Schema already registered with id 1 instead of input id 2"):
        register(registry, "s", AB, id=2)
    with refused(42205, "Overwrite version 1"):
        register(registry, "s", A, id=3, version=1)
    with refused(42201, "no schema has the id"):
        register(registry, "s", A, id=2**31)


def test_a_schema_that_an_import_overwrites_keeps_its_id_for_itself(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    register(registry, "s", A, id=9, version=1)
    registry.apply(registry.writes.delete_subject("s"))
    register(registry, "s", AB, id=2, version=1)
    assert registry.reads.max_id() == 9
    assert registry.restarted(compacted=True).reads.max_id() == 9


def test_a_default_may_be_of_another_type_as_confluents_registry_has_it(registry: InMemoryRegistry) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":["string","null"],"default":null}]}'
    assert register(registry, "s", text) == (1, 1)


def test_an_import_takes_a_schema_that_another_registry_let_in() -> None:
    """Where it is asked for, a default that does not fit its type is refused in new schemas only."""
    registry = InMemoryRegistry({"schema.providers.avro.validate.defaults": "true"})
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
    with refused(42201):
        register(registry, "s", text)
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    assert register(registry, "s", text, id=4) == (1, 4)
    registry.apply(registry.writes.set_mode("s", "READWRITE"))
    assert register(registry, "s", text) == (1, 4), "a producer that has it already may go on"


def test_an_import_brings_back_a_deleted_version(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    register(registry, "s", A, id=9, version=4)
    registry.apply(registry.writes.delete_version("s", 4))
    assert register(registry, "s", A, id=9, version=4) == (4, 9)
    assert registry.reads.versions("s") == [4]


def test_rules_are_checked_in_imports_too(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    with refused(42210):
        register(registry, "s", A, id=9, ruleSet={"domainRules": [rule("r"), rule("r")]})


def test_a_rule_that_names_a_key_of_a_key_service_gets_a_name_for_it(registry: InMemoryRegistry) -> None:
    arn = "arn:aws:kms:eu:1:key/a-b_c"
    for subject, params, added in (
        ("arn", {"encrypt.kms.key.id": arn}, {"encrypt.kek.name": "aws-kms-eu-1-key-a-b_c"}),
        ("named", {"encrypt.kms.key.id": arn, "encrypt.kek.name": "k"}, {}),
        ("other", {"encrypt.kms.key.id": "a b"}, {"encrypt.kek.name": "a-b"}),
        ("none", {"encrypt.kek.name": "k"}, {}),
    ):
        rule = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "params": params}
        for _ in range(2):
            stored = registry.apply(
                registry.writes.register(
                    subject, request_of(avro_record("a"), ruleSet={"domainRules": [rule]})
                )
            )
            assert stored.version == 1, "registered again it is the same"
        assert stored.schema.rule_set is not None and stored.schema.rule_set.domain_rules is not None
        of_aws = {"encrypt.kms.type": "aws-kms"} if "arn:" in str(params) else {}
        assert stored.schema.rule_set.domain_rules[0].params == {**params, **added, **of_aws}
