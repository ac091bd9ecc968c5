"""The registry's answers to queries, from its image, without I/O.

Subjects are qualified names (contexts.py). A subject that is an alias stands for another. A subject or id
without a context is looked for in the default context first, and in the others where it is not there at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.registry.core.compatibility_check import CompatibilityCheck
from ottla.registry.core.completing import completed
from ottla.registry.core.configuration import DEFAULT_CONFIG, Config
from ottla.registry.core.contexts import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    context_of,
    in_context,
    relative_to,
    scope_of,
    split_subject,
)
from ottla.registry.core.failures import (
    no_config,
    no_mode,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from ottla.registry.core.image import Deleted, RegistryImage, StoredSchema
from ottla.registry.core.matching import find_registered, prepare
from ottla.registry.core.schema_parsing import SchemaParser
from ottla.registry.core.schema_tags import tagged_entities
from ottla.registry.core.scoped import Scoped
from ottla.registry.core.tags import NO_CHANGES, EntityTags, TagChanges
from ottla.registry.workbench import Workbench
from ottla.schemas.format import SchemaFormat
from ottla.schemas.formats import format_of
from ottla.schemas.model import LATEST, Schema, SchemaType

__all__ = ["LATEST", "Reads", "SchemaRequest"]


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema to register, look up or check. `schema.text` is as it came.

    tags: changes of the tags in the text. keeps_tags: the tags of the newest version are added as well.
    """

    schema: Schema
    version: int | None = None
    id: int | None = None
    tags: TagChanges = NO_CHANGES
    keeps_tags: bool = False


class Reads:
    """Queries. All raise ApiError with Confluent's codes; those that parse or compare raise PutOff."""

    def __init__(
        self,
        image: RegistryImage,
        default: Config = DEFAULT_CONFIG,
        formats: Callable[[SchemaType], SchemaFormat] = format_of,
        validate_defaults: bool = False,
        workbench: Workbench | None = None,
    ) -> None:
        workbench = workbench or Workbench()
        self._image = image
        self.parser = SchemaParser(image, formats, validate_defaults, workbench)
        self.scoped = Scoped(image, default)
        self.compatibility = CompatibilityCheck(self.parser, self.scoped, workbench)

    # -- subjects and versions -------------------------------------------------------------------------

    def subjects(self, prefix: str = "", show: Deleted = Deleted.HIDE) -> list[str]:
        """Names in order; `:*:` stands for all contexts, a prefix without a context for the default one."""
        return [
            subject
            for subject in self._image.subjects()
            if _has_prefix(subject, prefix)
            and any(_shown(one, show) for one in self._image.versions(subject).values())
        ]

    def versions(self, subject: str, show: Deleted = Deleted.HIDE, negative: bool = False) -> list[int]:
        """Version numbers, ascending; with `negative` deleted ones are negative numbers. 40401."""
        actual = self.scoped.actual(subject)
        found = self._image.versions(actual).values()
        if not any(show is not Deleted.HIDE or negative or not one.deleted for one in found):
            raise subject_not_found(actual)
        if negative:
            return [-one.version if one.deleted else one.version for one in found]
        return [one.version for one in found if _shown(one, show)]

    def version(self, subject: str, version: int, deleted: bool = False) -> StoredSchema:
        """One version, or LATEST; through the subject's alias. 40401, 40402."""
        actual = self.scoped.actual(subject)
        name = self._where(actual, deleted)
        if version == LATEST:
            found = next(self._image.newest_first(name, deleted), None)
        else:
            found = self._image.versions(name).get(version)
        if found is None or (found.deleted and not deleted):
            raise version_not_found(version)
        return found

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], deleted: bool = False
    ) -> StoredSchema:
        """The highest version that has all these properties. 40401, 40403."""
        name = self._where(self.scoped.actual(subject), deleted)
        for stored in self._image.newest_first(name, deleted):
            metadata = stored.schema.metadata
            own = (metadata.properties if metadata is not None else None) or {}
            if all(own.get(key) == value for key, value in properties.items()):
                return stored
        raise schema_not_found()

    def schemas(
        self,
        prefix: str = "",
        aliases: bool = False,
        deleted: bool = False,
        latest_only: bool = False,
        rule_type: str | None = None,
    ) -> list[tuple[StoredSchema, Sequence[str]]]:
        """Versions in order of subject and version, each with the aliases of its subject (if asked for)."""
        names = self._aliases() if aliases else {}
        found: list[tuple[StoredSchema, Sequence[str]]] = []
        for subject in self._image.subjects():
            if not _has_prefix(subject, prefix):
                continue
            versions = [one for one in self._image.versions(subject).values() if deleted or not one.deleted]
            found += [
                (one, names.get(subject, ()))
                for one in (versions[-1:] if latest_only else versions)
                if rule_type is None or _has_rule(one.schema, rule_type)
            ]
        return found

    # -- ids -------------------------------------------------------------------------------------------

    def by_id(self, schema_id: int, subject: str | None = None) -> StoredSchema:
        """A schema by its id: in the context of `subject` and, where that is its default, in others. 40403.

        With a subject: its newest version of this id, if it has one.
        """
        if not subject:
            found = self._image.use(DEFAULT_CONTEXT, schema_id)
            if found is not None:
                return found
        name = self.scoped.actual(subject or "")
        if split_subject(name)[1]:
            for other in self._everywhere(name):
                found = self._image.use_in(other, schema_id)
                if found is not None:
                    return found
        for context in self._contexts_for(name):
            found = self._image.use(context, schema_id)
            if found is not None:
                return found
        raise schema_not_found(schema_id)

    def by_guid(self, guid: str) -> StoredSchema:
        """A schema by its guid. 40403."""
        for context, schema_id in self.ids_of_guid(guid):
            for stored in self._image.uses(context, schema_id):
                if stored.schema.guid == str(uuid.UUID(guid)):
                    return stored
        raise schema_not_found(guid)

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """(context, id) of each context that has the schema. 40403."""
        try:
            digest = uuid.UUID(guid).bytes
        except ValueError:
            raise schema_not_found(guid[:100]) from None
        found = self._image.ids_of_digest(digest)
        if not found:
            raise schema_not_found(guid)
        return found

    def uses_of_id(
        self, schema_id: int, subject: str | None = None, deleted: bool = False
    ) -> list[StoredSchema]:
        """Every version of every subject with this id (of `subject`'s context, or of `subject`). 40403."""
        name = self.scoped.actual(subject or "")
        wanted = split_subject(name)[1]
        for context in self._contexts_for(name):
            uses = self._image.uses(context, schema_id)
            if wanted:
                uses = [one for one in uses if one.subject == in_context(context, wanted)]
            if uses:
                shown = [one for one in uses if deleted or not one.deleted]
                return sorted(shown, key=lambda one: (one.subject, one.version))
        self.by_id(schema_id, in_context(context_of(name), ""))
        return []

    def max_id(self, context: str = DEFAULT_CONTEXT) -> int:
        """The highest id of a context; 0 where there is none."""
        return self._image.highest_id(context)

    def referenced_by(self, subject: str, version: int, deleted: bool = False) -> list[int]:
        """Ids of the schemas that refer to this version, ascending. 40401, 40402."""
        stored = self.version(subject, version, deleted=True)
        found = {one.id for one in self.referrers(stored) if deleted or not one.deleted}
        return sorted(found)

    def referrers(self, stored: StoredSchema) -> Iterator[StoredSchema]:
        """The versions that refer to this one, softly deleted ones too."""
        yield from self._image.referrers(stored.subject, stored.version)
        if next(self._image.newest_first(stored.subject, False), None) == stored:
            yield from self._image.referrers(stored.subject, LATEST)

    # -- schemas in requests ---------------------------------------------------------------------------

    def lookup(
        self, subject: str, request: SchemaRequest, normalize: bool = False, deleted: bool = False
    ) -> StoredSchema:
        """The version under which this schema is registered. 40401, 40403, 42201."""
        actual = self.scoped.actual(subject)
        normalize = normalize or bool(self.scoped.config(actual).normalize)
        name = self._where(actual, deleted)
        prepared = prepare(self.parser, name, request.schema, normalize, new=False)
        found = find_registered(self.parser, prepared, self._image.newest_first(name, deleted))
        if found is None:
            raise schema_not_found()
        return found

    def formatted(self, stored: StoredSchema, format_name: str, reference_format: str = "") -> Schema:
        """The schema with its text in another format, its references with qualified names if asked for."""
        schema = stored.schema
        if format_name:
            schema = replace(schema, text=self.parser.parse_stored(stored).formatted(format_name))
        if reference_format.lower() == "qualified":
            references = tuple(
                replace(one, subject=relative_to(stored.subject, one.subject)) for one in schema.references
            )
            schema = replace(schema, references=references)
        return schema

    def incompatibilities(
        self, subject: str, version: int | None, request: SchemaRequest, normalize: bool = False
    ) -> list[str]:
        """Confluent's messages, none when compatible. `version` None: by the subject's level. 40402, 42201.

        A subject without versions is compatible with everything, and so is its latest version.
        """
        actual = self.scoped.actual(subject)
        config = self.scoped.config(actual)
        against = list(self._image.newest_first(actual))
        latest = against[0] if against else None
        if version == LATEST:
            against = against[:1]
        elif version is not None:
            against = [one for one in against if one.version == version]
            if not against:
                raise version_not_found(version)
        normalize = normalize or bool(config.normalize)
        prepared = prepare(self.parser, actual, request.schema, normalize, new=True)
        prepared = replace(prepared, schema=completed(prepared.schema, config, latest))
        return self.compatibility.messages(prepared, against)

    def latest(self, subject: str) -> StoredSchema | None:
        """The newest live version of this very subject."""
        return next(self._image.newest_first(subject), None)

    def has_versions(self, subject: str, deleted: bool = False) -> bool:
        """Whether this very subject has a live version; with `deleted`, any version."""
        return next(self._image.newest_first(subject, deleted), None) is not None

    def tagged(self, stored: StoredSchema, wanted: Sequence[str]) -> list[EntityTags]:
        """The records and fields of a version that have one of these tags (`*`: any). 42201."""
        return tagged_entities(self.parser.parse_stored(stored), wanted)

    # -- configuration ---------------------------------------------------------------------------------

    def config(self, subject: str | None, default_to_global: bool = False) -> Mapping[str, Any]:
        """The configuration as GET answers it (`compatibilityLevel`…); None: the global one. 40408."""
        scope = scope_of(subject)
        if scope is None or default_to_global:
            return self.scoped.config(scope).as_json()
        found = self._image.config(scope)
        if found is None:
            raise no_config(scope)
        return found.as_json()

    def mode(self, subject: str | None, default_to_global: bool = False) -> str:
        """READWRITE, READONLY, READONLY_OVERRIDE, IMPORT or FORWARD. 40409."""
        scope = scope_of(subject)
        if scope is None or default_to_global:
            return self.scoped.mode(scope)
        found = self._image.mode(scope)
        if found is None:
            raise no_mode(scope)
        return found

    def contexts(self, prefix: str = "") -> list[str]:
        """The contexts, `.` first, in order."""
        return [name for name in self._image.contexts() if name.startswith(prefix)]

    def names_of(self, subject: str) -> Sequence[str]:
        """The subjects that a request for this one may read or write: another one, if it is an alias.

        A subject without a context may be one of another context, if only that has it.
        """
        actual = self.scoped.actual(subject)
        found: dict[str, None] = {}
        for deleted in (False, True):
            for name in self._everywhere(actual):
                if self.has_versions(name, deleted):
                    found[name] = None
                    break
        return tuple(found) or (actual,)

    # -- where to look ---------------------------------------------------------------------------------

    def _where(self, subject: str, deleted: bool) -> str:
        """The first subject of this name, in any context, that has a version to show. 40401."""
        for name in self._everywhere(subject):
            if next(self._image.newest_first(name, deleted), None) is not None:
                return name
        raise subject_not_found(subject)

    def _everywhere(self, subject: str) -> Iterator[str]:
        """The subject; without a context, also those of its name in other contexts."""
        yield subject
        if not subject.startswith(":."):
            for context in self._image.contexts():
                if context != DEFAULT_CONTEXT:
                    yield in_context(context, subject)

    def _contexts_for(self, subject: str) -> list[str]:
        if subject.startswith(":."):
            return [context_of(subject)]
        return [DEFAULT_CONTEXT, *(name for name in self._image.contexts() if name != DEFAULT_CONTEXT)]

    def _aliases(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for scope, config in self._image.configs().items():
            if scope is not None and config.alias:
                found.setdefault(relative_to(scope, config.alias), []).append(scope)
        return {subject: sorted(names) for subject, names in found.items()}


def _shown(stored: StoredSchema, show: Deleted) -> bool:
    match show:
        case Deleted.HIDE:
            return not stored.deleted
        case Deleted.SHOW:
            return True
        case Deleted.ONLY:
            return stored.deleted


def _has_prefix(subject: str, prefix: str) -> bool:
    """`:*:abc` is a prefix of names in any context."""
    if prefix.startswith(ALL_CONTEXTS):
        return split_subject(subject)[1].startswith(prefix.removeprefix(ALL_CONTEXTS))
    context, name = split_subject(prefix)
    own_context, own_name = split_subject(subject)
    return own_context == context and own_name.startswith(name)


def _has_rule(schema: Schema, rule_type: str) -> bool:
    rules = schema.rule_set
    if rules is None:
        return False
    every = (*(rules.migration_rules or ()), *(rules.domain_rules or ()), *(rules.encoding_rules or ()))
    return any(rule.type == rule_type for rule in every)
