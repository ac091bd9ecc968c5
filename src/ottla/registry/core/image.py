"""The state that the records of `_schemas` make, as tables to look up in. Changes only by replay.

Subjects are qualified names (contexts.py). Every lookup is one of a hash table: by subject and version, by
context and id, by context and digest, and backwards from a version to its referrers. Schemas are
taken from records as texts; nothing is parsed here. The highest id of a context never falls.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.registry.core.configuration import Config
from ottla.registry.core.contexts import DEFAULT_CONTEXT, context_of, relative_to
from ottla.registry.core.record_fields import UnreadableRecord
from ottla.registry.core.records import (
    DEFAULT_TENANT,
    HIGHEST_ID_TENANT,
    Association,
    AssociationKey,
    ContextKey,
    Key,
    Mode,
    NoopKey,
    SchemaKey,
    SubjectKey,
    read_association,
    read_config,
    read_deleted_version,
    read_highest_id,
    read_key,
    read_mode,
    read_schema,
)
from ottla.registry.core.version_counts import VersionCounts
from ottla.replicated.records import Record
from ottla.schemas.model import Schema, SchemaType

log = logging.getLogger("ottla.registry")


class Deleted(enum.Enum):
    """Whether a listing shows softly deleted versions and subjects."""

    HIDE = "hide"
    SHOW = "show"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject. The name is qualified (`:.context:subject`) but in the default context."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool
    timestamp_ms: int


@dataclass(slots=True)
class _Context:
    """The schemas of one context, by id and by digest."""

    uses: dict[int, dict[SchemaKey, StoredSchema]] = field(default_factory=dict)
    ids: dict[bytes, dict[int, Schema]] = field(default_factory=dict)
    highest_id: int = 0
    recorded_highest_id: int = 0
    recorded: bool = False


class RegistryImage:
    """All subjects, ids, configs and modes of this registry."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._subject_names: list[str] | None = []
        self._unordered: set[str] = set()
        self._contexts: dict[str, _Context] = {DEFAULT_CONTEXT: _Context(recorded=True)}
        self._referrers: dict[SchemaKey, dict[SchemaKey, None]] = {}
        self._configs: dict[str | None, Config] = {}
        self._modes: dict[str | None, Mode] = {}
        self._associations: dict[AssociationKey, Association] = {}
        self._other_keys: dict[Key, dict[bytes, None]] = {}
        self.counts = VersionCounts()
        self.left_out = 0
        """Records that could not be read."""

    def replay(self, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Take in the next record of `_schemas`. A record that can't be read is logged and left out."""
        try:
            parsed = read_key(key)
            self._note_spelling(parsed, key, value is not None)
            self._take(parsed, value, timestamp_ms)
        except UnreadableRecord as problem:
            self.left_out += 1
            log.warning("a record of the registry's topic is left out: %s (key %r)", problem, key[:200])

    @property
    def subject_count(self) -> int:
        """The number of subjects, softly deleted ones too."""
        return len(self._subjects)

    @property
    def context_count(self) -> int:
        """The number of contexts, those without subjects too."""
        return len(self._contexts)

    def subjects(self) -> Sequence[str]:
        """All subjects that have a version, softly deleted ones too; in order."""
        if self._subject_names is None:
            self._subject_names = sorted(self._subjects)
        return self._subject_names

    def versions(self, subject: str) -> Mapping[int, StoredSchema]:
        """All versions of a subject, softly deleted ones too; ascending."""
        return self._ordered(subject)

    def newest_first(self, subject: str, deleted: bool = False) -> Iterator[StoredSchema]:
        """The live versions of a subject; with `deleted` all."""
        versions = self._ordered(subject)
        return (one for one in reversed(versions.values()) if deleted or not one.deleted)

    def uses(self, context: str, schema_id: int) -> Sequence[StoredSchema]:
        """All versions of a context that have this id, softly deleted ones too; in no order."""
        found = self._contexts.get(context)
        return () if found is None else tuple(found.uses.get(schema_id, {}).values())

    def use(self, context: str, schema_id: int) -> StoredSchema | None:
        """One version that has this id: a live one if there is one."""
        found = self._contexts.get(context)
        uses = None if found is None else found.uses.get(schema_id)
        if uses is None:
            return None
        return next((use for use in uses.values() if not use.deleted), next(iter(uses.values())))

    def use_in(self, subject: str, schema_id: int) -> StoredSchema | None:
        """The newest version of a subject that has this id: a live one if there is one."""
        found = self._contexts.get(context_of(subject))
        if found is None or schema_id not in found.uses:
            return None
        own = [one for one in self.versions(subject).values() if one.id == schema_id]
        return max(own, key=lambda one: (not one.deleted, one.version), default=None)

    def id_of(self, context: str, schema: Schema) -> int | None:
        """The id that this very schema has in a context; the lowest, should imports have given it several."""
        found = self._contexts.get(context)
        same = None if found is None else found.ids.get(schema.digest())
        if same is None:
            return None
        content = schema.as_json()
        return min((other for other, its in same.items() if its.as_json() == content), default=None)

    def ids_of_digest(self, digest: bytes) -> list[tuple[str, int]]:
        """(context, id) of every context that has a schema with this digest; in order."""
        found = [
            (context, schema_id)
            for context, its in self._contexts.items()
            for schema_id in its.ids.get(digest, ())
        ]
        return sorted(found)

    def highest_id(self, context: str) -> int:
        """The highest id that a context ever had, by the records that were read; 0 where there is none."""
        found = self._contexts.get(context)
        return 0 if found is None else found.highest_id

    def recorded_highest_id(self, context: str) -> int:
        """The highest id of a context that a record of its own keeps; 0 where there is none."""
        found = self._contexts.get(context)
        return 0 if found is None else found.recorded_highest_id

    def referrers(self, subject: str, version: int) -> Iterator[StoredSchema]:
        """The versions that refer to this one by its number, softly deleted ones too."""
        for key in self._referrers.get(SchemaKey(subject, version), ()):
            yield self._subjects[key.subject][key.version]

    def contexts(self) -> list[str]:
        """The default one, and all that are recorded or have subjects; in order."""
        return sorted(name for name, its in self._contexts.items() if its.recorded or its.uses)

    def is_recorded(self, context: str) -> bool:
        """Whether a CONTEXT record was read for it; True for the default one."""
        found = self._contexts.get(context)
        return found is not None and found.recorded

    def config(self, scope: str | None) -> Config | None:
        """The configuration of this scope itself (contexts.scope_of), or None."""
        return self._configs.get(scope)

    def configs(self) -> Mapping[str | None, Config]:
        """All configurations, by scope."""
        return self._configs

    def mode(self, scope: str | None) -> Mode | None:
        """The mode that was set for this scope itself (contexts.scope_of)."""
        return self._modes.get(scope)

    def modes(self) -> Mapping[str | None, Mode]:
        """All modes, by scope."""
        return self._modes

    def associations(self) -> Collection[Association]:
        """All associations, in no order."""
        return self._associations.values()

    def tombstones(self, key: Key) -> list[Record]:
        """The records that delete this key, in every spelling in which other registries wrote it."""
        spellings = [*self._other_keys.get(key, ()), key.encode()]
        return [Record(spelling, None) for spelling in spellings]

    def _ordered(self, subject: str) -> dict[int, StoredSchema]:
        versions = self._subjects.get(subject)
        if versions is None:
            return {}
        if subject in self._unordered:
            self._unordered.discard(subject)
            versions = self._subjects[subject] = dict(sorted(versions.items()))
        return versions

    def _note_spelling(self, key: Key, data: bytes, has_value: bool) -> None:
        """Compaction goes by the bytes of keys: a spelling that is not ours needs a tombstone of its own."""
        if data == key.encode():
            return
        if has_value:
            self._other_keys.setdefault(key, {})[data] = None
        elif (spellings := self._other_keys.get(key)) is not None:
            spellings.pop(data, None)
            if not spellings:
                del self._other_keys[key]

    def _take(self, key: Key, value: bytes | None, timestamp_ms: int) -> None:
        match key:
            case SchemaKey() if value is None:
                self._remove(key)
            case SchemaKey():
                assert value is not None
                read = read_schema(value)
                self._put(
                    StoredSchema(key.subject, key.version, read.id, read.schema, read.deleted, timestamp_ms)
                )
            case SubjectKey("CONFIG", scope):
                if value is None:
                    self._configs.pop(scope, None)
                else:
                    self._configs[scope] = read_config(value)
            case SubjectKey("MODE", scope):
                if value is None:
                    self._modes.pop(scope, None)
                else:
                    self._modes[scope] = read_mode(value)
            case SubjectKey("DELETE_SUBJECT", str() as subject) if value is not None:
                self._delete_softly(subject, read_deleted_version(value))
            case SubjectKey("CLEAR_SUBJECT", str() as subject) if value is not None:
                for stored in [one for one in self.versions(subject).values() if one.deleted]:
                    self._remove(SchemaKey(subject, stored.version))
            case ContextKey(tenant, context) if tenant == DEFAULT_TENANT:
                self._context(context).recorded = value is not None or context == DEFAULT_CONTEXT
            case ContextKey(tenant, context) if tenant == HIGHEST_ID_TENANT and value is not None:
                self._raise_highest_id(context, read_highest_id(value))
            case AssociationKey() if value is None:
                self._associations.pop(key, None)
            case AssociationKey():
                assert value is not None
                self._associations[key] = read_association(key, value, timestamp_ms)
            case ContextKey() | SubjectKey() | NoopKey():
                pass

    def _put(self, stored: StoredSchema) -> None:
        versions = self._subjects.get(stored.subject)
        before = None
        if versions is None:
            versions = self._subjects[stored.subject] = {}
            self._subject_names = None
        elif (before := versions.get(stored.version)) is not None:
            self._forget_uses(before)
        elif stored.version < next(reversed(versions)):
            self._unordered.add(stored.subject)
        versions[stored.version] = stored
        self._note_uses(stored)
        self.counts.changed(*_state_of(before), *_state_of(stored))

    def _remove(self, key: SchemaKey) -> None:
        versions = self._subjects.get(key.subject)
        stored = None if versions is None else versions.pop(key.version, None)
        if versions is None or stored is None:
            return
        self._forget_uses(stored)
        self.counts.changed(*_state_of(stored), *_state_of(None))
        if not versions:
            del self._subjects[key.subject]
            self._subject_names = None
            self._unordered.discard(key.subject)

    def _note_uses(self, stored: StoredSchema) -> None:
        key = SchemaKey(stored.subject, stored.version)
        context = self._context(context_of(stored.subject))
        context.uses.setdefault(stored.id, {})[key] = stored
        context.ids.setdefault(stored.schema.digest(), {}).setdefault(stored.id, stored.schema)
        context.highest_id = max(context.highest_id, stored.id)
        for referred in _referred(stored):
            self._referrers.setdefault(referred, {})[key] = None

    def _forget_uses(self, stored: StoredSchema) -> None:
        key = SchemaKey(stored.subject, stored.version)
        context = self._context(context_of(stored.subject))
        uses = context.uses[stored.id]
        del uses[key]
        if not uses:
            del context.uses[stored.id]
        digest = stored.schema.digest()
        if not any(use.schema.digest() == digest for use in uses.values()):
            ids = context.ids[digest]
            del ids[stored.id]
            if not ids:
                del context.ids[digest]
        for referred in _referred(stored):
            referrers = self._referrers[referred]
            referrers.pop(key, None)
            if not referrers:
                del self._referrers[referred]

    def _delete_softly(self, subject: str, highest: int) -> None:
        for stored in list(self.versions(subject).values()):
            if stored.version <= highest and not stored.deleted:
                self._put(replace(stored, deleted=True))

    def _context(self, name: str) -> _Context:
        found = self._contexts.get(name)
        if found is None:
            found = self._contexts[name] = _Context()
        return found

    def _raise_highest_id(self, context: str, schema_id: int) -> None:
        found = self._context(context)
        found.highest_id = max(found.highest_id, schema_id)
        found.recorded_highest_id = schema_id


def _state_of(stored: StoredSchema | None) -> tuple[SchemaType | None, bool]:
    """Its format, None for no version, and whether it is softly deleted."""
    return (None, False) if stored is None else (stored.schema.schema_type, stored.deleted)


def _referred(stored: StoredSchema) -> set[SchemaKey]:
    return {
        SchemaKey(relative_to(stored.subject, reference.subject), reference.version)
        for reference in stored.schema.references
    }
