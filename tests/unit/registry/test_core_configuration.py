"""Configurations and modes: their scopes, merges and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.reading import SchemaRequest
from ottla.registry.core.records import Mode, SchemaKey, SubjectKey, clear_subject_record, mode_record
from ottla.replicated.records import Record
from ottla.schemas.model import Schema, SchemaType
from support.registry.registry_core import InMemoryRegistry, avro_record, refused

A, AB = avro_record("a"), avro_record("a", "b?")


@pytest.fixture
def registry() -> InMemoryRegistry:
    return InMemoryRegistry()


def configure(registry: InMemoryRegistry, subject: str | None, **update: Any) -> None:
    registry.apply(registry.writes.set_config(subject, update))


# -- configurations -----------------------------------------------------------------------------------


def test_without_any_configuration_the_level_is_the_settings(registry: InMemoryRegistry) -> None:
    assert registry.reads.config(None) == {"compatibilityLevel": "BACKWARD"}
    other = InMemoryRegistry({"schema.compatibility.level": "FULL"})
    assert other.reads.config(None) == {"compatibilityLevel": "FULL"}
    assert other.reads.config("s", default_to_global=True) == {"compatibilityLevel": "FULL"}


def test_a_subject_has_no_configuration_of_its_own_at_first(registry: InMemoryRegistry) -> None:
    configure(registry, None, compatibility="NONE")
    with refused(40408, "Subject 's' does not have subject-level compatibility configured"):
        registry.reads.config("s")
    assert registry.reads.config("s", default_to_global=True) == {"compatibilityLevel": "NONE"}


def test_updates_are_merged_and_null_takes_a_field_away(registry: InMemoryRegistry) -> None:
    configure(registry, "s", compatibility="FULL", alias="t", normalize=True)
    configure(registry, "s", compatibility="NONE", alias=None)
    assert registry.reads.config("s") == {"normalize": True, "compatibilityLevel": "NONE"}


def test_the_answer_has_the_fields_of_the_request(registry: InMemoryRegistry) -> None:
    configure(registry, "s", normalize=True)
    decision = registry.writes.set_config("s", {"compatibility": "FULL", "validateFields": False})
    assert decision.answer == {"validateFields": False, "compatibility": "FULL"}
    assert registry.apply(decision) == {"validateFields": False, "compatibility": "FULL"}


def test_every_field_is_kept(registry: InMemoryRegistry) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "disabled": False}
    update = {
        "alias": "t",
        "aliasForDeks": "d",
        "normalize": True,
        "validateFields": True,
        "validateNewSchemas": True,
        "validateRules": False,
        "compatibilityPolicy": "LENIENT",
        "compatibilityGroup": "major",
        "defaultMetadata": {"properties": {"a": "1"}},
        "overrideMetadata": {"tags": {"x": ["y"]}},
        "defaultRuleSet": {"domainRules": [rule]},
        "overrideRuleSet": {"migrationRules": []},
    }
    registry.apply(registry.writes.set_config("s", update))
    assert registry.reads.config("s") == update
    assert registry.restarted(compacted=True).reads.config("s") == update


@pytest.mark.parametrize(
    "update", [{"compatibility": "BEST"}, {"compatibility": 5}, {"compatibility": []}, {}]
)
def test_levels_that_there_are_not(registry: InMemoryRegistry, update: dict[str, Any]) -> None:
    with refused(
        42203,
        "Invalid compatibility level. Valid values are none, backward, backward_transitive, forward, "
        "forward_transitive, full, and full_transitive",
    ):
        registry.writes.set_config("s", update)


@pytest.mark.parametrize(
    "update",
    [
        {"normalize": "yes"},
        {"alias": 5},
        {"compatibilityPolicy": "MILD"},
        {"compatibilityPolicy": {}},
        {"defaultMetadata": []},
        {"defaultMetadata": {"properties": {"a": {}}}},
        {"overrideRuleSet": {"domainRules": [{}]}},
    ],
)
def test_fields_of_a_wrong_kind(registry: InMemoryRegistry, update: dict[str, Any]) -> None:
    with refused(42203, "Invalid configuration"):
        registry.writes.set_config("s", update)


@pytest.mark.parametrize("subject", [":c:s", ":.__GLOBAL:s", "__GLOBAL", "a\nb"])
def test_settings_of_a_name_that_is_no_subject_are_refused(registry: InMemoryRegistry, subject: str) -> None:
    with refused(42208):
        registry.writes.set_config(subject, {"compatibility": "NONE"})
    with refused(42208):
        registry.writes.set_mode(subject, "READONLY")


def test_a_configuration_is_deleted_and_told(registry: InMemoryRegistry) -> None:
    with refused(40401, "Subject 's' not found."):
        registry.writes.delete_config("s")
    configure(registry, "s", compatibility="FULL")
    decision = registry.writes.delete_config("s")
    assert decision.answer == {"compatibilityLevel": "FULL"}
    assert decision.records == (Record(SubjectKey("CONFIG", "s").encode(), None),)
    registry.apply(decision)
    with refused(40408):
        registry.reads.config("s")


def test_the_global_configuration_can_be_deleted_even_if_there_is_none(registry: InMemoryRegistry) -> None:
    assert registry.apply(registry.writes.delete_config(None)) == {"compatibilityLevel": "BACKWARD"}
    configure(registry, None, compatibility="FULL")
    assert registry.apply(registry.writes.delete_config(None)) == {"compatibilityLevel": "FULL"}
    assert registry.reads.config(None) == {"compatibilityLevel": "BACKWARD"}


def test_scopes_from_the_narrowest_to_the_widest(registry: InMemoryRegistry) -> None:
    def levels() -> list[Any]:
        subjects = ["s", "t", ":.c:s", ":.c:t"]
        return [registry.reads.config(one, default_to_global=True)["compatibilityLevel"] for one in subjects]

    configure(registry, ":.__GLOBAL:", compatibility="FULL")
    assert levels() == ["FULL", "FULL", "FULL", "FULL"]
    configure(registry, None, compatibility="FORWARD")
    assert levels() == ["FORWARD", "FORWARD", "FULL", "FULL"]
    configure(registry, ":.c:", compatibility="NONE")
    assert levels() == ["FORWARD", "FORWARD", "NONE", "NONE"]
    configure(registry, "s", compatibility="BACKWARD")
    configure(registry, ":.c:s", compatibility="BACKWARD_TRANSITIVE")
    assert levels() == ["BACKWARD", "FORWARD", "BACKWARD_TRANSITIVE", "NONE"]


def test_a_field_that_a_narrow_scope_leaves_out_is_of_the_wider_one(registry: InMemoryRegistry) -> None:
    configure(registry, None, compatibility="NONE", alias="x")
    configure(registry, "s", normalize=True)
    assert registry.reads.config("s", default_to_global=True) == {
        "normalize": True,
        "compatibilityLevel": "NONE",
    }


def test_the_default_context_can_be_named(registry: InMemoryRegistry) -> None:
    configure(registry, ":.:", compatibility="NONE")
    assert registry.reads.config(None) == {"compatibilityLevel": "NONE"}
    configure(registry, ":.:s", compatibility="FULL")
    assert registry.reads.config("s") == {"compatibilityLevel": "FULL"}


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_configurations_are_not_changed_where_nothing_may_be_written(
    registry: InMemoryRegistry, mode: str
) -> None:
    configure(registry, "s", compatibility="FULL")
    registry.apply(registry.writes.set_mode(None, mode))
    with refused(42205, "Subject s in context . is in read-only mode"):
        registry.writes.set_config("s", {"compatibility": "NONE"})
    with refused(42205):
        registry.writes.delete_config("s")
    with refused(42205, "Subject null in context . is in read-only mode"):
        registry.writes.set_config(None, {"compatibility": "NONE"})


# -- modes --------------------------------------------------------------------------------------------


def test_a_new_registry_is_read_and_written(registry: InMemoryRegistry) -> None:
    assert registry.reads.mode(None) == "READWRITE"
    assert registry.reads.mode("s", default_to_global=True) == "READWRITE"
    with refused(40409, "Subject 's' does not have subject-level mode configured"):
        registry.reads.mode("s")


def test_a_mode_is_set_and_deleted(registry: InMemoryRegistry) -> None:
    decision = registry.writes.set_mode("s", "READONLY")
    assert (decision.answer, len(decision.records)) == ("READONLY", 1)
    registry.apply(decision)
    assert registry.reads.mode("s") == "READONLY"
    assert registry.apply(registry.writes.delete_mode("s")) == "READONLY"
    with refused(40409):
        registry.reads.mode("s")
    with refused(40401):
        registry.writes.delete_mode("s")


def test_a_mode_that_there_is_not(registry: InMemoryRegistry) -> None:
    with refused(42204, "Invalid mode."):
        registry.writes.set_mode("s", "READ")
    with refused(42204):
        registry.writes.set_mode(None, "")


def test_modes_that_may_not_be_changed() -> None:
    registry = InMemoryRegistry({"mode.mutability": "false"})
    with refused(42205, "Mode changes are not allowed"):
        registry.writes.set_mode(None, "READONLY")
    with refused(42205):
        registry.writes.delete_mode(None)


def test_a_subjects_mode_wins_but_over_an_override(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "READWRITE"))
    registry.apply(registry.writes.set_mode(None, "READONLY"))
    assert registry.register("s", A) == 1
    with refused(42205):
        registry.register("t", A)
    assert registry.register(":.c:t", A) == 1
    registry.apply(registry.writes.set_mode(None, "READONLY_OVERRIDE"))
    with refused(42205):
        registry.register("s", AB)
    registry.apply(registry.writes.set_mode(":.__GLOBAL:", "READONLY_OVERRIDE"))
    with refused(42205):
        registry.register(":.c:t", AB)


def test_an_import_needs_a_place_without_live_subjects(registry: InMemoryRegistry) -> None:
    registry.register("s", A)
    registry.register(":.c:s", A)
    for scope in ("s", None, ":.c:", ":.__GLOBAL:"):
        with refused(42205, "Cannot import since found existing subjects"):
            registry.writes.set_mode(scope, "IMPORT")
    assert registry.writes.set_mode("t", "IMPORT").records == (mode_record("t", Mode.IMPORT),)
    assert len(registry.writes.set_mode("s", "IMPORT", force=True).records) == 1


def test_an_import_clears_softly_deleted_versions(registry: InMemoryRegistry) -> None:
    for subject, text in (("s", A), ("s", AB), ("t", AB)):
        registry.register(subject, text)
    registry.apply(registry.writes.delete_subject("s"))
    decision = registry.writes.set_mode("s", "IMPORT")
    assert decision.records == (
        Record(SchemaKey("s", 2).encode(), None),
        Record(SchemaKey("s", 1).encode(), None),
        clear_subject_record("s"),
        mode_record("s", Mode.IMPORT),
    )
    registry.apply(decision)
    with refused(40401):
        registry.reads.versions("s", negative=True)
    assert registry.writes.set_mode("s", "IMPORT").records == (mode_record("s", Mode.IMPORT),)


def test_an_import_under_way_can_be_declared_again(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "IMPORT"))
    request = SchemaRequest(Schema(SchemaType.AVRO, A), id=5)
    registry.apply(registry.writes.register("s", request))
    assert registry.writes.set_mode("s", "IMPORT").records == (mode_record("s", Mode.IMPORT),)
    registry.apply(registry.writes.set_mode("s", "READWRITE"))
    with refused(42205):
        registry.writes.set_mode("s", "IMPORT")


def test_the_modes_of_a_contexts_subjects_are_deleted_together(registry: InMemoryRegistry) -> None:
    for subject in (None, "s", "t", ":.c:", ":.c:s"):
        registry.apply(registry.writes.set_mode(subject, "READONLY"))
    assert registry.apply(registry.writes.delete_mode(None, recursive=True)) == "READONLY"
    assert set(registry.image.modes()) == {":.c:", ":.c:s"}
    assert registry.apply(registry.writes.delete_mode(":.c:", recursive=True)) == "READONLY"
    assert registry.image.modes() == {}
    assert registry.apply(registry.writes.delete_mode(None)) == "READWRITE"
