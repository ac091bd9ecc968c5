"""confluent-kafka's SchemaRegistryClient on the registry: each of its methods, and its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
)

from support.servers.services import ServiceProcess


@pytest.fixture
def client(registry: ServiceProcess) -> Iterator[SchemaRegistryClient]:
    """It keeps answers: a test that asks again clears its caches first."""
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as opened:
        yield opened


def record(subject: str, *fields: str, optional: str = "") -> Schema:
    """An Avro record of ints that no other test has; the optional one has a default."""
    told: list[dict[str, Any]] = [{"name": name, "type": "int"} for name in fields]
    if optional:
        told.append({"name": optional, "type": "int", "default": 0})
    text = {"type": "record", "name": subject.replace("-", "_"), "fields": told}
    return Schema(json.dumps(text, separators=(",", ":")), "AVRO")


def refused(call: Callable[[], Any]) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as refusal:
        call()
    assert refusal.value.error_message
    return refusal.value.http_status_code, refusal.value.error_code


def test_a_schema_is_registered_and_found_in_every_way(
    client: SchemaRegistryClient, unique_name: str
) -> None:
    schema = record(unique_name, "a")
    full = client.register_schema_full_response(unique_name, schema)
    assert full.schema_id is not None and full.guid is not None
    assert (full.subject, full.version, full.schema.schema_str) == (unique_name, 1, schema.schema_str)
    client.clear_caches()
    assert client.register_schema(unique_name, schema) == full.schema_id
    assert client.register_schema(f"{unique_name}-b", schema) == full.schema_id
    client.clear_caches()
    assert client.get_schema(full.schema_id).schema_str == schema.schema_str
    assert client.get_schema(full.schema_id, unique_name, "resolved").schema_str == schema.schema_str
    assert client.get_schema_by_guid(full.guid).schema_str == schema.schema_str
    assert client.get_subjects_by_schema_id(full.schema_id) == [unique_name, f"{unique_name}-b"]
    assert [(one.subject, one.version) for one in client.get_schema_versions(full.schema_id)] == [
        (unique_name, 1),
        (f"{unique_name}-b", 1),
    ]
    found = client.lookup_schema(unique_name, schema, normalize_schemas=True)
    assert (found.schema_id, found.version, found.guid) == (full.schema_id, 1, full.guid)


def test_versions_of_a_subject(client: SchemaRegistryClient, unique_name: str) -> None:
    first, second = record(unique_name, "a"), record(unique_name, "a", optional="b")
    ids = [client.register_schema(unique_name, schema) for schema in (first, second)]
    assert client.get_versions(unique_name) == [1, 2]
    assert client.get_versions(unique_name, offset=1, limit=1) == [2]
    assert client.get_version(unique_name, 1).schema_id == ids[0]
    latest = client.get_latest_version(unique_name)
    assert (latest.version, latest.schema_id, latest.schema.schema_str) == (2, ids[1], second.schema_str)
    assert refused(lambda: client.get_version(unique_name, 3)) == (404, 40402)
    assert refused(lambda: client.get_version(unique_name, 0)) == (422, 42202)
    assert refused(lambda: client.get_latest_version(f"{unique_name}-none")) == (404, 40401)
    assert refused(lambda: client.get_schema(2**31 - 1)) == (404, 40403)


def test_subjects_are_listed(client: SchemaRegistryClient, unique_name: str) -> None:
    names = [f"{unique_name}-{letter}" for letter in "abc"]
    for name in names:
        client.register_schema(name, record(unique_name, "a"))
    client.delete_subject(names[2])
    assert client.get_subjects(unique_name) == names[:2]
    assert client.get_subjects(unique_name, deleted=True) == names
    assert client.get_subjects(unique_name, offset=1, limit=1) == names[1:2]
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert "." in client.get_contexts() and client.get_contexts(0, 1) == ["."]


def test_metadata_and_rules_are_kept(client: SchemaRegistryClient, unique_name: str) -> None:
    rule = Rule(
        name="positive",
        doc="what it is for",
        kind=RuleKind.CONDITION,
        mode=RuleMode.WRITE,
        type="CEL",
        tags=["PII"],
        params=RuleParams({"a": "b"}),
        expr="message.a > 0",
        on_success="NONE",
        on_failure="ERROR",
        disabled=False,
    )
    migration = Rule(
        name="up",
        doc=None,
        kind=RuleKind.TRANSFORM,
        mode=RuleMode.UPGRADE,
        type="JSONATA",
        tags=None,
        params=None,
        expr="$",
        on_success=None,
        on_failure=None,
        disabled=False,
    )
    plain = record(unique_name, "a")
    schema = Schema(
        plain.schema_str,
        "AVRO",
        [],
        Metadata(None, MetadataProperties({"owner": "me"}), ["owner"]),  # it fails on tags by itself
        RuleSet([migration], [rule], []),
    )
    schema_id = client.register_schema(unique_name, schema)
    client.clear_caches()
    found = client.get_schema(schema_id)
    assert (found.metadata, found.rule_set) == (schema.metadata, schema.rule_set)
    assert client.register_schema(f"{unique_name}-plain", plain) != schema_id
    with_metadata = client.get_latest_with_metadata(unique_name, {"owner": "me"})
    assert with_metadata.schema_id == schema_id
    assert refused(lambda: client.get_latest_with_metadata(unique_name, {"owner": "you"})) == (404, 40403)


def test_references(client: SchemaRegistryClient, unique_name: str) -> None:
    base = record(unique_name, "a")
    client.register_schema(unique_name, base)
    name = unique_name.replace("-", "_")
    array = Schema(f'{{"type":"array","items":"{name}"}}', "AVRO", [SchemaReference(name, unique_name, 1)])
    array_id = client.register_schema(f"{unique_name}-array", array)
    assert client.get_referenced_by(unique_name, 1) == [array_id]
    found = client.get_version(f"{unique_name}-array", 1).schema
    assert [(one.name, one.subject, one.version) for one in found.references] == [(name, unique_name, 1)]
    client.clear_caches()
    resolved = client.get_version(f"{unique_name}-array", 1, fmt="resolved").schema.schema_str
    assert json.loads(resolved)["items"] == json.loads(base.schema_str)
    assert refused(lambda: client.delete_version(unique_name, 1)) == (422, 42206)
    missing = Schema('{"type":"array","items":"Gone"}', "AVRO", [SchemaReference("Gone", "no-subject", 1)])
    assert refused(lambda: client.register_schema(f"{unique_name}-gone", missing)) == (422, 42201)


def test_deleting(client: SchemaRegistryClient, unique_name: str) -> None:
    first, second = record(unique_name, "a"), record(unique_name, "a", optional="b")
    schema_id = client.register_schema(unique_name, first)
    client.register_schema(unique_name, second)
    assert client.delete_version(unique_name, 1) == 1
    assert client.get_versions(unique_name, deleted=True) == [1, 2]
    assert refused(lambda: client.lookup_schema(unique_name, first)) == (404, 40403)
    assert client.lookup_schema(unique_name, first, deleted=True).version == 1
    assert client.get_version(unique_name, 1, deleted=True).schema_id == schema_id
    assert client.delete_version(unique_name, 1, permanent=True) == 1
    client.clear_caches()
    assert refused(lambda: client.get_schema(schema_id)) == (404, 40403)
    assert refused(lambda: client.delete_subject(unique_name, permanent=True)) == (404, 40405)
    assert client.delete_subject(unique_name) == [2]
    assert client.delete_subject(unique_name, permanent=True) == [2]
    assert refused(lambda: client.get_versions(unique_name, deleted=True)) == (404, 40401)


LEVELS: list[tuple[str, list[tuple[str, ...]], tuple[str, ...], bool]] = [
    # level, fields of the versions that are there ("b?" is optional), those of the one that is checked
    ("NONE", [("a",)], ("z",), True),
    ("BACKWARD", [("a",)], ("a", "b?"), True),
    ("BACKWARD", [("a",)], ("a", "b"), False),
    ("BACKWARD_TRANSITIVE", [("a",), ("a", "b?")], ("a", "b"), False),
    ("FORWARD", [("a",)], ("a", "b"), True),
    ("FORWARD", [("a", "b")], ("a",), False),
    ("FORWARD_TRANSITIVE", [("a", "b"), ("a", "b?")], ("a",), False),
    ("FULL", [("a", "b")], ("a",), False),
    ("FULL", [("a", "b"), ("a", "b?")], ("a",), True),
    ("FULL_TRANSITIVE", [("a", "b"), ("a", "b?")], ("a",), False),
    ("FULL_TRANSITIVE", [("a",)], ("a", "b?"), True),
]


@pytest.mark.parametrize(("level", "there", "checked", "fits"), LEVELS)
def test_compatibility(
    client: SchemaRegistryClient,
    unique_name: str,
    level: str,
    there: list[tuple[str, ...]],
    checked: tuple[str, ...],
    fits: bool,
) -> None:
    def schema(fields: tuple[str, ...]) -> Schema:
        required = [name for name in fields if not name.endswith("?")]
        return record(unique_name, *required, optional="b" if "b?" in fields else "")

    client.set_compatibility(unique_name, "NONE")
    for fields in there:
        client.register_schema(unique_name, schema(fields))
    assert client.set_compatibility(unique_name, level) == {"compatibility": level}
    assert client.get_compatibility(unique_name) == level
    assert client.test_compatibility_all_versions(unique_name, schema(checked), verbose=True) is fits
    if fits:
        assert client.register_schema(unique_name, schema(checked)) > 0
    else:
        assert refused(lambda: client.register_schema(unique_name, schema(checked)))[0] == 409


def test_compatibility_with_one_version(client: SchemaRegistryClient, unique_name: str) -> None:
    client.register_schema(unique_name, record(unique_name, "a"))
    client.register_schema(unique_name, record(unique_name, "a", optional="b"))
    both = record(unique_name, "a", "b")
    assert [client.test_compatibility(unique_name, both, version) for version in (1, 2, "latest")] == [
        False,
        True,
        True,
    ]
    assert refused(lambda: client.test_compatibility(unique_name, both, 9)) == (404, 40402)


def test_configuration(client: SchemaRegistryClient, unique_name: str) -> None:
    assert refused(lambda: client.get_config(unique_name)) == (404, 40408)
    told = client.set_config(
        unique_name, ServerConfig(ConfigCompatibilityLevel.FULL, compatibility_group="v")
    )
    assert told == {"compatibility": "FULL", "compatibilityGroup": "v"}
    found = client.get_config(unique_name)
    assert (found.compatibility_level, found.compatibility_group) == (ConfigCompatibilityLevel.FULL, "v")
    assert client.delete_config(unique_name).compatibility_level is ConfigCompatibilityLevel.FULL
    assert refused(lambda: client.delete_config(unique_name)) == (404, 40401)
    assert client.get_config().compatibility_level is ConfigCompatibilityLevel.BACKWARD
    assert client.get_compatibility() == "BACKWARD"
    assert refused(lambda: client.set_compatibility(unique_name, "SOMEWHAT")) == (422, 42203)


def test_modes(client: SchemaRegistryClient, unique_name: str) -> None:
    assert refused(lambda: client.get_mode(unique_name)) == (404, 40409)
    assert client.get_global_mode() == "READWRITE"
    assert client.update_mode(unique_name, "READONLY") == "READONLY"
    assert client.get_mode(unique_name) == "READONLY"
    schema = record(unique_name, "a")
    assert refused(lambda: client.register_schema(unique_name, schema)) == (422, 42205)
    assert client.delete_mode(unique_name) == "READONLY"
    client.register_schema(unique_name, schema)
    assert refused(lambda: client.update_mode(unique_name, "IMPORT")) == (422, 42205)
    assert client.update_mode(unique_name, "IMPORT", force=True) == "IMPORT"
    assert refused(lambda: client.update_mode(unique_name, "SLEEPING")) == (422, 42204)
    assert client.update_global_mode("READWRITE") == "READWRITE"


def test_a_text_that_is_no_schema_is_refused(client: SchemaRegistryClient, unique_name: str) -> None:
    for text, kind in (("{", "AVRO"), ('{"type":7}', "JSON"), ("message {", "PROTOBUF")):
        schema = Schema(text, kind)
        assert refused(lambda schema=schema: client.register_schema(unique_name, schema)) == (422, 42201)
    assert client.get_subjects(unique_name) == []


def test_associations_of_a_topic(client: SchemaRegistryClient, unique_name: str) -> None:
    # serializers ask for them first, and go on to their strategy's name when there are none
    assert client.get_associations_by_resource_name(unique_name, "-") == []
    wanted = AssociationCreateOrUpdateInfo(
        subject=None,
        association_type="value",
        lifecycle="STRONG",
        frozen=None,
        schema=Schema('"string"', "AVRO"),
        normalize=None,
    )
    made = client.create_association(
        AssociationCreateOrUpdateRequest(unique_name, "ns", f"id-{unique_name}", "topic", [wanted])
    )
    subject = f":.ns:{unique_name}-value"
    assert made.associations is not None
    (told,) = made.associations
    assert (told.subject, told.lifecycle, told.frozen) == (subject, "STRONG", True)
    (found,) = client.get_associations_by_resource_name(unique_name, "ns", association_types=["value"])
    assert (found.subject, found.resource_id, found.frozen) == (subject, f"id-{unique_name}", True)
    assert client.get_latest_version(subject).schema.schema_str == '"string"'
    assert refused(lambda: client.delete_associations(f"id-{unique_name}")) == (409, 40908)
    client.delete_associations(f"id-{unique_name}", cascade_lifecycle=True)
    assert client.get_associations_by_resource_name(unique_name, "ns") == []
    assert subject not in client.get_subjects()
