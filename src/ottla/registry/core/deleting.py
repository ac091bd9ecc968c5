"""Decides the deletion of versions, subjects and contexts.

A version is first deleted softly: it stays readable by its id and keeps its number. Only then can it be
deleted for good. A version that a live schema refers to can't be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ottla.registry.core.associations import forgotten, require_no_associations
from ottla.registry.core.contexts import (
    DEFAULT_CONTEXT,
    context_of,
    in_context,
    normal_subject,
    split_subject,
)
from ottla.registry.core.erasing import erased, erased_settings
from ottla.registry.core.failures import (
    context_not_empty,
    context_not_found,
    read_only,
    referenced,
    subject_deleted,
    subject_not_deleted,
    subject_not_found,
    version_deleted,
    version_not_deleted,
    version_not_found,
)
from ottla.registry.core.image import RegistryImage, StoredSchema
from ottla.registry.core.reading import Reads
from ottla.registry.core.records import DEFAULT_TENANT, ContextKey, delete_subject_record, schema_record
from ottla.registry.core.registering import READ_ONLY_MODES
from ottla.replicated.decision import Decision
from ottla.replicated.records import Record
from ottla.schemas.model import LATEST


class Deleting:
    """Decisions about deletions."""

    def __init__(self, image: RegistryImage, reads: Reads) -> None:
        self._image = image
        self._reads = reads

    def delete_version(self, subject: str, version: int, permanent: bool = False) -> Decision[int]:
        """40401, 40402, 40406, 40407, 42205, 42206."""
        name = self._writable(subject)
        versions = self._image.versions(name)
        if version == LATEST:
            stored = next(self._image.newest_first(name, deleted=permanent), None)
        else:
            stored = versions.get(version)
        if not versions or (version == LATEST and stored is None):
            raise subject_not_found(name)
        if stored is None:
            raise version_not_found(version)
        if stored.deleted and not permanent:
            raise version_deleted(name, stored.version)
        if permanent and not stored.deleted:
            raise version_not_deleted(name, stored.version)
        self._check_references(stored)
        if not permanent:
            if all(one.deleted or one is stored for one in versions.values()):
                require_no_associations(self._image, name)
            return Decision((_softly(stored),), stored.version)
        records = erased(self._image, [stored])
        if len(versions) == 1:
            records += [*erased_settings(self._image, name), *forgotten(self._image, name)]
        return Decision(tuple(records), stored.version)

    def delete_subject(
        self, subject: str, permanent: bool = False, *, associated: bool = False
    ) -> Decision[Sequence[int]]:
        """`associated`: also one that has associations. 40401, 40404, 40405, 40907, 42205, 42206."""
        name = self._writable(subject)
        versions = list(self._image.versions(name).values())
        live = [one for one in versions if not one.deleted]
        if not versions:
            raise subject_not_found(name)
        if permanent and live:
            raise subject_not_deleted(name)
        if not permanent and not live:
            raise subject_deleted(name)
        gone = versions if permanent else live
        for stored in gone:
            self._check_references(stored, but_of=name)
        if not permanent:
            if not associated:
                require_no_associations(self._image, name)
            answer = [one.version for one in live]
            return Decision((delete_subject_record(name, answer[-1]),), answer)
        records = erased(self._image, versions)
        records += [*erased_settings(self._image, name), *forgotten(self._image, name)]
        return Decision(tuple(records), [one.version for one in versions])

    def delete_context(self, context: str) -> Decision[None]:
        """A context without subjects is forgotten, with its settings. 404, 42205, 42211."""
        scope = in_context(context, "")
        if context == DEFAULT_CONTEXT:
            raise context_not_empty(context)
        settings = [*self._image.configs(), *self._image.modes()]
        own = sorted({one for one in settings if one is not None and context_of(one) == context})
        subjects = any(context_of(subject) == context for subject in self._image.subjects())
        if subjects:
            raise context_not_empty(context)
        if not self._image.is_recorded(context) and not own:
            raise context_not_found(context)
        if self._reads.scoped.mode(scope) in READ_ONLY_MODES:
            raise read_only(scope)
        records: list[Record] = []
        for one in own:
            records += erased_settings(self._image, one)
        records += self._image.tombstones(ContextKey(DEFAULT_TENANT, context))
        return Decision(tuple(records), None)

    def leftovers(self, scope: str | None) -> tuple[list[StoredSchema], bool]:
        """The versions of all subjects of a scope without a live version; and whether others have one."""
        found: list[StoredSchema] = []
        some_live = False
        for subject in self._image.subjects():
            if not _in_scope(subject, scope):
                continue
            versions = self._image.versions(subject).values()
            if all(one.deleted for one in versions):
                found += versions
            else:
                some_live = True
        return found, some_live

    def _writable(self, subject: str) -> str:
        name = self._reads.scoped.actual(subject)
        if self._reads.scoped.mode(name) in READ_ONLY_MODES:
            raise read_only(name)
        return name

    def _check_references(self, stored: StoredSchema, but_of: str | None = None) -> None:
        for referrer in self._reads.referrers(stored):
            if not referrer.deleted and referrer.subject != but_of:
                raise referenced(stored.subject, stored.version)


def _softly(stored: StoredSchema) -> Record:
    gone = replace(stored, deleted=True)
    return schema_record(gone.subject, gone.version, gone.id, gone.schema, gone.deleted)


def _in_scope(subject: str, scope: str | None) -> bool:
    """Whether the scope is the subject, its context (None: the default one), or all contexts."""
    if scope is None:
        return context_of(subject) == DEFAULT_CONTEXT
    context, name = split_subject(normal_subject(scope))
    if context == ".__GLOBAL":
        return True
    return subject == scope if name else context_of(subject) == context
