"""What the image makes of records: deletions, ids that never come back, keys in other spellings."""

from __future__ import annotations

import random
from collections import Counter

from ottla.registry.core.contexts import in_context
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.records import (
    SchemaKey,
    SubjectKey,
    clear_subject_record,
    context_record,
    delete_subject_record,
    highest_id_record,
    noop,
    schema_record,
)
from ottla.replicated.records import Record
from ottla.schemas.model import Reference, Schema, SchemaType


def text(name: str) -> Schema:
    return Schema(SchemaType.AVRO, f'"{name}"')


def image_of(*records: Record) -> RegistryImage:
    image = RegistryImage()
    for record in records:
        image.replay(record.key, record.value, 0)
    return image


def tombstone(subject: str, version: int) -> Record:
    return Record(SchemaKey(subject, version).encode(), None)


def test_versions_are_ascending_in_any_order_of_records() -> None:
    image = image_of(*(schema_record("s", version, version, text("a"), False) for version in (3, 1, 5, 2)))
    assert list(image.versions("s")) == [1, 2, 3, 5]
    assert [one.version for one in image.newest_first("s")] == [5, 3, 2, 1]


def test_deleting_a_subject_reaches_up_to_its_version() -> None:
    image = image_of(
        schema_record("s", 1, 1, text("a"), False),
        schema_record("s", 2, 2, text("b"), False),
        delete_subject_record("s", 1),
        schema_record("s", 3, 3, text("c"), False),
    )
    assert [one.deleted for one in image.versions("s").values()] == [True, False, False]
    assert [one.version for one in image.newest_first("s")] == [3, 2]


def test_a_version_that_is_written_again_after_its_subject_was_deleted_lives() -> None:
    image = image_of(
        schema_record("s", 1, 1, text("a"), False),
        delete_subject_record("s", 1),
        tombstone("s", 1),
        schema_record("s", 1, 2, text("b"), False),
    )
    assert not image.versions("s")[1].deleted
    assert image.use(".", 1) is None


def test_clearing_a_subject_takes_its_softly_deleted_versions_alone() -> None:
    image = image_of(
        schema_record("s", 1, 1, text("a"), True),
        schema_record("s", 2, 2, text("b"), False),
        clear_subject_record("s"),
    )
    assert list(image.versions("s")) == [2]


def test_a_subject_without_versions_is_none() -> None:
    image = image_of(schema_record("s", 1, 1, text("a"), False), tombstone("s", 1), tombstone("s", 1))
    assert image.subjects() == []
    assert image.id_of(".", text("a")) is None
    assert image.ids_of_digest(text("a").digest()) == []


def test_one_schema_has_one_id_in_all_subjects_of_a_context() -> None:
    image = image_of(
        schema_record("s", 1, 1, text("a"), False),
        schema_record("t", 1, 1, text("a"), True),
        schema_record(":.c:s", 1, 5, text("a"), False),
        tombstone("s", 1),
    )
    assert image.id_of(".", text("a")) == 1
    assert image.id_of(".c", text("a")) == 5
    assert image.ids_of_digest(text("a").digest()) == [(".", 1), (".c", 5)]
    assert [one.subject for one in image.uses(".", 1)] == ["t"]


def test_a_digest_that_two_schemas_share_gives_each_its_own_id() -> None:
    """Fields of metadata follow each other without a mark between them in a digest."""
    one = Schema.from_json({"schema": "x", "metadata": {"properties": {"a": "bc"}}})
    other = Schema.from_json({"schema": "x", "metadata": {"properties": {"ab": "c"}}})
    assert one.digest() == other.digest()
    image = image_of(schema_record("s", 1, 1, one, False))
    assert (image.id_of(".", one), image.id_of(".", other)) == (1, None)


def test_a_live_use_of_an_id_is_preferred() -> None:
    image = image_of(
        schema_record("s", 1, 1, text("a"), True),
        schema_record("t", 1, 1, text("a"), False),
        schema_record("u", 1, 2, text("b"), True),
    )
    live, gone = image.use(".", 1), image.use(".", 2)
    assert live is not None and live.subject == "t"
    assert gone is not None and gone.subject == "u"


def test_the_highest_id_never_falls() -> None:
    image = image_of(
        schema_record("s", 1, 9, text("a"), False),
        tombstone("s", 1),
        schema_record(":.c:s", 1, 3, text("a"), False),
    )
    assert (image.highest_id("."), image.highest_id(".c"), image.highest_id(".d")) == (9, 3, 0)
    assert image_of(highest_id_record(".c", 12)).highest_id(".c") == 12


def test_an_overwritten_version_leaves_nothing_behind() -> None:
    referring = Schema(SchemaType.AVRO, '"b"', (Reference("n", "t", 1),))
    image = image_of(
        schema_record("s", 1, 1, referring, False),
        schema_record("s", 1, 2, text("a"), False),
    )
    assert image.use(".", 1) is None
    assert image.id_of(".", referring) is None
    assert list(image.referrers("t", 1)) == []


def test_references_are_found_backwards_in_the_context_of_the_referrer() -> None:
    plain = Schema(SchemaType.AVRO, '"a"', (Reference("n", "t", 1),))
    elsewhere = Schema(SchemaType.AVRO, '"a"', (Reference("n", ":.:t", 1),))
    image = image_of(
        schema_record("s", 1, 1, plain, False),
        schema_record(":.c:s", 1, 1, plain, False),
        schema_record(":.c:s", 2, 2, elsewhere, False),
    )
    assert [(one.subject, one.version) for one in image.referrers("t", 1)] == [("s", 1), (":.c:s", 2)]
    assert [(one.subject, one.version) for one in image.referrers(":.c:t", 1)] == [(":.c:s", 1)]


def test_contexts_are_those_that_are_recorded_or_have_subjects() -> None:
    image = image_of(
        context_record(".b"),
        schema_record(in_context(".a", "s"), 1, 1, text("a"), False),
        highest_id_record(".c", 1),
        noop(),
    )
    assert image.contexts() == [".", ".a", ".b"]
    image.replay(context_record(".b").key, None, 0)
    assert image.contexts() == [".", ".a"]
    image.replay(b'{"keytype":"CONTEXT","context":".d","magic":0}', b"{}", 0)
    image.replay(b'{"keytype":"CONTEXT","tenant":"other","context":".e","magic":0}', b"{}", 0)
    assert image.contexts() == [".", ".a", ".d"]


def test_another_registrys_spelling_of_a_key_gets_a_tombstone_of_its_own() -> None:
    """Else compaction would keep it, and the version would be back after a restart."""
    theirs = b'{"subject": "s", "version": 1, "magic": 1, "keytype": "SCHEMA"}'
    ours = SchemaKey("s", 1).encode()
    image = RegistryImage()
    image.replay(theirs, schema_record("s", 1, 1, text("a"), False).value, 0)
    assert image.tombstones(SchemaKey("s", 1)) == [Record(theirs, None), Record(ours, None)]
    image.replay(theirs, None, 0)
    assert image.tombstones(SchemaKey("s", 1)) == [Record(ours, None)]
    image.replay(b'{"keytype":"MODE","subject":null,"magic":0}', b'{"mode":"READONLY"}', 0)
    assert len(image.tombstones(SubjectKey("MODE", None))) == 2


def test_ten_thousand_versions_of_one_subject_in_the_worst_order() -> None:
    """Were anything sorted or searched for each record, this would not end in time."""
    records = [schema_record("s", 10_001 - n, n, text(f"a{n}"), False) for n in range(1, 10_001)]
    image = image_of(*records, delete_subject_record("s", 10_000), *records)
    assert len(image.versions("s")) == 10_000


def test_counts_are_those_of_a_walk_over_all_versions_in_any_history() -> None:
    dice = random.Random()
    types = list(SchemaType)
    for _ in range(40):
        image = RegistryImage()
        registered = 0
        for number in range(dice.randrange(80)):
            subject, version = f"s{dice.randrange(3)}", dice.randrange(1, 5)
            match dice.randrange(5):
                case 0 | 1:
                    schema = Schema(dice.choice(types), f'"{dice.randrange(4)}"')
                    before = image.versions(subject).get(version)
                    deleted = dice.random() < 0.3
                    registered += not deleted and (before is None or before.deleted)
                    record = schema_record(subject, version, number + 1, schema, deleted)
                case 2:
                    record = tombstone(subject, version)
                case 3:
                    record = delete_subject_record(subject, version)
                case _:
                    record = clear_subject_record(subject)
            image.replay(record.key, record.value, 0)
        every = [one for subject in image.subjects() for one in image.versions(subject).values()]
        for wanted, counted in ((False, image.counts.live), (True, image.counts.softly_deleted)):
            walked = Counter(one.schema.schema_type for one in every if one.deleted is wanted)
            assert +counted == walked
        assert image.counts.registered.total() == registered
        assert image.subject_count == len(image.subjects())


def test_a_record_that_can_t_be_read_is_counted() -> None:
    assert image_of(Record(b"no json", b"{}"), Record(b"{}", b"{}")).left_out == 2
