"""Deleting versions, subjects and contexts: softly first, then for good, never one with referrers."""

from __future__ import annotations

import pytest

from ottla.registry.core.image import Deleted
from ottla.registry.core.reading import LATEST, SchemaRequest
from ottla.registry.core.records import (
    SchemaKey,
    SubjectKey,
    delete_subject_record,
    highest_id_record,
    schema_record,
)
from ottla.replicated.records import Record
from ottla.schemas.model import Reference, Schema, SchemaType
from support.registry.registry_core import InMemoryRegistry, avro_record, refused

A, AB, ABC = avro_record("a"), avro_record("a", "b?"), avro_record("a", "b?", "c?")
USES_R = '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}'


@pytest.fixture
def registry() -> InMemoryRegistry:
    """`s` has versions 1 and 2."""
    made = InMemoryRegistry()
    made.register("s", A)
    made.register("s", AB)
    return made


def refer(registry: InMemoryRegistry, subject: str, to: str, version: int) -> None:
    schema = Schema(SchemaType.AVRO, USES_R, (Reference("R", to, version),))
    registry.apply(registry.writes.register(subject, SchemaRequest(schema)))


def delete(registry: InMemoryRegistry, subject: str, version: int | None, permanent: bool = False) -> None:
    if version is None:
        registry.apply(registry.writes.delete_subject(subject, permanent))
    else:
        registry.apply(registry.writes.delete_version(subject, version, permanent))


# -- versions -----------------------------------------------------------------------------------------


def test_a_version_is_deleted_softly_by_writing_it_again(registry: InMemoryRegistry) -> None:
    decision = registry.writes.delete_version("s", 1)
    assert decision.answer == 1
    assert decision.records == (schema_record("s", 1, 1, Schema(SchemaType.AVRO, A), True),)
    registry.apply(decision)
    assert registry.reads.versions("s") == [2]
    assert registry.reads.versions("s", negative=True) == [-1, 2]
    assert registry.reads.by_id(1).schema.text == A


def test_the_latest_version_can_be_named_so(registry: InMemoryRegistry) -> None:
    assert registry.apply(registry.writes.delete_version("s", LATEST)) == 2
    assert registry.apply(registry.writes.delete_version("s", LATEST)) == 1
    with refused(40401, "Subject 's' not found."):
        registry.writes.delete_version("s", LATEST)
    assert registry.apply(registry.writes.delete_version("s", LATEST, permanent=True)) == 2


def test_a_version_goes_for_good_by_a_tombstone(registry: InMemoryRegistry) -> None:
    delete(registry, "s", 1)
    decision = registry.writes.delete_version("s", 1, permanent=True)
    assert decision.records == (Record(SchemaKey("s", 1).encode(), None),)
    registry.apply(decision)
    with refused(40403, "Schema 1 not found"):
        registry.reads.by_id(1)


def test_the_last_version_takes_the_settings_along_and_leaves_the_highest_id(
    registry: InMemoryRegistry,
) -> None:
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    registry.apply(registry.writes.set_mode("s", "READWRITE"))
    for permanent in (False, True):
        delete(registry, "s", 1, permanent)
    delete(registry, "s", 2)
    decision = registry.writes.delete_version("s", 2, permanent=True)
    assert decision.records == (
        highest_id_record(".", 2),
        Record(SchemaKey("s", 2).encode(), None),
        Record(SubjectKey("MODE", "s").encode(), None),
        Record(SubjectKey("CONFIG", "s").encode(), None),
    )


def test_the_highest_id_is_left_once(registry: InMemoryRegistry) -> None:
    registry.register("t", ABC)
    for permanent in (False, True):
        delete(registry, "t", 1, permanent)
    delete(registry, "s", 2)
    assert len(registry.writes.delete_version("s", 2, permanent=True).records) == 1


@pytest.mark.parametrize(
    ("subject", "version", "permanent", "code", "message"),
    [
        ("t", 1, False, 40401, "Subject 't' not found."),
        ("t", 1, True, 40401, "Subject 't' not found."),
        ("s", 3, False, 40402, "Version 3 not found."),
        ("s", 3, True, 40402, "Version 3 not found."),
        (
            "s",
            1,
            False,
            40406,
            "Subject 's' Version 1 was soft deleted.Set permanent=true to delete permanently",
        ),
        (
            "s",
            2,
            True,
            40407,
            "Subject 's' Version 2 was not deleted first before being permanently deleted",
        ),
    ],
)
def test_versions_that_can_not_be_deleted(
    registry: InMemoryRegistry, subject: str, version: int, permanent: bool, code: int, message: str
) -> None:
    delete(registry, "s", 1)
    with refused(code, message):
        registry.writes.delete_version(subject, version, permanent)


# -- subjects -----------------------------------------------------------------------------------------


def test_a_subject_is_deleted_softly_by_one_record(registry: InMemoryRegistry) -> None:
    delete(registry, "s", 1)
    decision = registry.writes.delete_subject("s")
    assert (decision.answer, decision.records) == ([2], (delete_subject_record("s", 2),))
    registry.apply(decision)
    assert registry.reads.subjects() == []
    assert registry.reads.subjects(show=Deleted.SHOW) == ["s"]
    assert registry.reads.subjects(show=Deleted.ONLY) == ["s"]


def test_a_subject_goes_for_good_from_its_newest_version_on(registry: InMemoryRegistry) -> None:
    registry.register("t", ABC)
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    delete(registry, "s", None)
    decision = registry.writes.delete_subject("s", permanent=True)
    assert decision.answer == [1, 2]
    assert [record.key for record in decision.records] == [
        SchemaKey("s", 2).encode(),
        SchemaKey("s", 1).encode(),
        SubjectKey("CONFIG", "s").encode(),
    ]
    registry.apply(decision)
    with refused(40401):
        registry.writes.delete_subject("s", permanent=True)
    assert registry.register("s", avro_record("z")) == 4
    assert registry.reads.versions("s") == [1]


@pytest.mark.parametrize(
    ("subject", "permanent", "code", "message"),
    [
        ("t", False, 40401, "Subject 't' not found."),
        ("gone", False, 40404, "Subject 'gone' was soft deleted.Set permanent=true to delete permanently"),
        ("s", True, 40405, "Subject 's' was not deleted first before being permanently deleted"),
    ],
)
def test_subjects_that_can_not_be_deleted(
    registry: InMemoryRegistry, subject: str, permanent: bool, code: int, message: str
) -> None:
    registry.register("gone", A)
    delete(registry, "gone", None)
    with refused(code, message):
        registry.writes.delete_subject(subject, permanent)


# -- references ---------------------------------------------------------------------------------------


def test_a_referenced_version_stays(registry: InMemoryRegistry) -> None:
    refer(registry, "u", "s", 1)
    message = "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=s,version=1}."
    with refused(42206, message):
        registry.writes.delete_version("s", 1)
    with refused(42206, message):
        registry.writes.delete_subject("s")
    assert registry.reads.referenced_by("s", 1) == [3]
    assert registry.apply(registry.writes.delete_version("s", 2)) == 2


def test_a_referrer_that_was_deleted_holds_nothing(registry: InMemoryRegistry) -> None:
    refer(registry, "u", "s", 1)
    delete(registry, "u", None)
    assert registry.reads.referenced_by("s", 1) == []
    assert registry.reads.referenced_by("s", 1, deleted=True) == [3]
    assert registry.apply(registry.writes.delete_subject("s")) == [1, 2]


def test_a_subject_whose_versions_refer_to_each_other_can_go(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_config("s", {"compatibility": "NONE"}))
    refer(registry, "s", "s", 1)
    with refused(42206):
        registry.writes.delete_version("s", 1)
    assert registry.apply(registry.writes.delete_subject("s")) == [1, 2, 3]


# -- read-only subjects, aliases, contexts ------------------------------------------------------------


def test_nothing_is_deleted_where_nothing_may_be_written(registry: InMemoryRegistry) -> None:
    registry.apply(registry.writes.set_mode("s", "READONLY"))
    with refused(42205, "is in read-only mode"):
        registry.writes.delete_version("s", 1)
    with refused(42205, "is in read-only mode"):
        registry.writes.delete_subject("s")


def test_a_context_without_subjects_is_forgotten(registry: InMemoryRegistry) -> None:
    registry.register(":.c:s", A)
    registry.apply(registry.writes.set_config(":.c:", {"compatibility": "FULL"}))
    registry.apply(registry.writes.set_mode(":.c:x", "READWRITE"))
    with refused(42211, "'.c' is not empty"):
        registry.writes.delete_context(".c")
    delete(registry, ":.c:s", None)
    with refused(42211):
        registry.writes.delete_context(".c")
    delete(registry, ":.c:s", None, permanent=True)
    assert registry.reads.contexts() == [".", ".c"]
    registry.apply(registry.writes.delete_context(".c"))
    assert registry.reads.contexts() == ["."]
    with refused(40408):
        registry.reads.config(":.c:")
    with refused(40409):
        registry.reads.mode(":.c:x")
    assert registry.register(":.c:s", AB) == 2, "ids of a context do not begin again"


def test_contexts_that_can_not_be_deleted(registry: InMemoryRegistry) -> None:
    with refused(42211):
        registry.writes.delete_context(".")
    with refused(404, "Context '.none' not found."):
        registry.writes.delete_context(".none")
