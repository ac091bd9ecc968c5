"""Versions that are deleted for good: their tombstones, and records that keep their ids from coming back."""

from __future__ import annotations

from collections.abc import Collection

from ottla.registry.core.contexts import context_of
from ottla.registry.core.image import RegistryImage, StoredSchema
from ottla.registry.core.records import SchemaKey, SubjectKey, highest_id_record
from ottla.replicated.records import Record


def erased(image: RegistryImage, versions: Collection[StoredSchema]) -> list[Record]:
    """The records that delete these versions for good, the newest first."""
    newest_first = sorted(versions, key=lambda one: (one.subject, one.version), reverse=True)
    tombstones = [
        record for one in newest_first for record in image.tombstones(SchemaKey(one.subject, one.version))
    ]
    return [*kept_highest_ids(image, versions), *tombstones]


def kept_highest_ids(image: RegistryImage, gone: Collection[StoredSchema]) -> list[Record]:
    """Records of contexts' highest ids that no other record will have once these versions are gone."""
    records: list[Record] = []
    keys = {(one.subject, one.version) for one in gone}
    for context in sorted({context_of(one.subject) for one in gone}):
        highest = image.highest_id(context)
        lost = all((one.subject, one.version) in keys for one in image.uses(context, highest))
        if lost and image.recorded_highest_id(context) < highest:
            records.append(highest_id_record(context, highest))
    return records


def erased_settings(image: RegistryImage, subject: str | None) -> list[Record]:
    """The tombstones of the configuration and the mode of a subject or context, if it has them."""
    records: list[Record] = []
    if image.mode(subject) is not None:
        records += image.tombstones(SubjectKey("MODE", subject))
    if image.config(subject) is not None:
        records += image.tombstones(SubjectKey("CONFIG", subject))
    return records
