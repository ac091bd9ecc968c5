"""Decides the registration of a schema: the version that it has already, or a new one.

Rules. A schema that the subject has, live, is answered as it is, in any mode. A new one needs the mode
READWRITE, or IMPORT if it comes with an id; an imported schema need not pass the checks of new ones. The
subject's configured metadata and rules are laid under (default) and over (override) those of the request or,
where it has none, those of the newest version. The same schema has the same id in all
subjects of a context, softly deleted versions included; a new one gets the id after the highest that the
context ever had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.registry.core.completing import completed
from ottla.registry.core.contexts import context_of, is_subject, relative_to
from ottla.registry.core.erasing import kept_highest_ids
from ottla.registry.core.failures import (
    incompatible,
    invalid_rules,
    invalid_schema,
    invalid_subject,
    not_importing,
    not_permitted,
    not_read_write,
    other_id,
    out_of_ids,
    read_only,
)
from ottla.registry.core.image import RegistryImage, StoredSchema
from ottla.registry.core.matching import Prepared, find_registered, prepare
from ottla.registry.core.reading import Reads, SchemaRequest
from ottla.registry.core.records import MAX_ID, Mode, SchemaKey, context_record, schema_record
from ottla.registry.core.rules import check_rules, with_key_names
from ottla.registry.core.schema_tags import ALL, changed_text
from ottla.registry.core.tags import NO_CHANGES, TagChanges, TagRequest
from ottla.replicated.decision import Decision
from ottla.replicated.records import Record
from ottla.schemas.model import LATEST, MAX_VERSION, Metadata, RuleSet, Schema

VERSION_PROPERTY: Final = "confluent:version"
"""The property of metadata that holds a version's own number, so that equal schemas may be two versions."""
READ_ONLY_MODES: Final = (Mode.READONLY, Mode.READONLY_OVERRIDE, Mode.FORWARD)


class Registering:
    """Decisions about new versions."""

    def __init__(self, image: RegistryImage, reads: Reads) -> None:
        self._image = image
        self._reads = reads

    def register(
        self, subject: str, request: SchemaRequest, normalize: bool = False, force: bool = False
    ) -> Decision[StoredSchema]:
        """`force`: whatever the compatibility. 40901 as 409, 42201, 42205, 42207, 42208, 42210."""
        name = self._reads.scoped.actual(subject)
        if not is_subject(name):
            raise invalid_subject(name)
        config = self._reads.scoped.config(name)
        latest = next(self._image.newest_first(name), None)
        request = self._with_tags(name, request, latest)
        check_rules(request.schema.rule_set)
        rules = with_key_names(request.schema.rule_set)
        request = replace(request, schema=replace(request.schema, rule_set=rules))
        mode = self._reads.scoped.mode(name)
        normalize = normalize or bool(config.normalize)
        prepared = prepare(self._reads.parser, name, request.schema, normalize, new=False)
        found = self._existing(prepared, request)
        if found is not None:
            return Decision((), found)
        wanted_id = request.id if request.id is not None and request.id > 0 else None
        if mode in READ_ONLY_MODES:
            raise read_only(name)
        if wanted_id is not None:
            if mode is not Mode.IMPORT:
                raise not_importing(name)
            self._check_import_id(name, prepared.schema, wanted_id)
            return self._stored(prepared.schema, name, self._import_version(name, request), wanted_id)
        if mode is Mode.IMPORT:
            raise not_read_write(name)
        self._check_targets(name, prepared.schema)
        self._reads.parser.parse(
            name, replace(request.schema, references=prepared.schema.references), new=True
        )
        prepared = replace(prepared, schema=completed(prepared.schema, config, latest))
        check_rules(prepared.schema.rule_set)
        found = self._existing(prepared, request)
        if found is not None:
            return Decision((), found)
        version = self._next_version(name, request)
        if not force:
            messages = self._reads.compatibility.messages(prepared, self._image.newest_first(name))
            if messages:
                raise incompatible(name, messages)
        return self._stored(prepared.schema, name, version, self._id_for(name, prepared.schema))

    def change_tags(self, subject: str, version: int, request: TagRequest) -> Decision[StoredSchema]:
        """Register the version again, as the next one, with other tags; its metadata name its number."""
        stored = self._reads.version(subject, version)
        name = self._reads.scoped.actual(subject)
        number = (
            max(self._image.versions(name), default=0) + 1 if request.version is None else request.version
        )
        metadata = request.metadata or stored.schema.metadata or Metadata()
        properties = {**(metadata.properties or {}), VERSION_PROPERTY: str(number)}
        schema = replace(
            stored.schema,
            metadata=replace(metadata, properties=properties),
            rule_set=self._changed_rules(name, request),
        )
        return self.register(subject, SchemaRequest(schema, version=number, tags=request.tags))

    def _check_targets(self, subject: str, schema: Schema) -> None:
        """The subject of a strong association is its resource's own: no schema refers to it. 42205."""
        referred = {relative_to(subject, reference.subject) for reference in schema.references}
        for one in self._image.associations() if referred else ():
            if one.is_frozen and one.subject in referred:
                raise not_permitted(
                    f"Subject '{one.subject}' has a strong association and cannot be referenced"
                )

    def _changed_rules(self, subject: str, request: TagRequest) -> RuleSet | None:
        """None for the rules of the version before. 42210."""
        if request.rules_to_merge is None and request.rules_to_remove is None:
            return request.rule_set
        if request.rule_set is not None:
            raise invalid_rules("ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
        check_rules(request.rules_to_merge)
        versions = self._image.versions(subject)
        if request.version is None:
            before = next(self._image.newest_first(subject), None)
        else:
            before = versions.get(request.version - 1)
        rules = None if before is None or before.deleted else before.schema.rule_set
        if request.rules_to_merge is not None:
            rules = request.rules_to_merge.over(rules)
        return None if rules is None else rules.without(request.rules_to_remove or ())

    def _with_tags(self, subject: str, request: SchemaRequest, latest: StoredSchema | None) -> SchemaRequest:
        """The request with the tags that it adds and removes in its schema's text. 42201, PutOff."""
        tags = request.tags
        if request.keeps_tags and latest is not None:
            kept = self._reads.tagged(latest, (ALL,))
            tags = TagChanges((*kept, *tags.added), tags.removed)
        if not tags:
            return request
        schema = request.schema
        numbered = replace(schema, references=self._reads.parser.numbered(subject, schema.references))
        text = changed_text(self._reads.parser.parse(subject, numbered), tags)
        return replace(request, schema=replace(schema, text=text), tags=NO_CHANGES, keeps_tags=False)

    def _existing(self, prepared: Prepared, request: SchemaRequest) -> StoredSchema | None:
        """The live version that is this schema, unless the request wants another number. 42207."""
        live = self._image.newest_first(prepared.subject)
        if request.version is not None and request.version > 0:
            live = (one for one in live if one.version == request.version)
        found = find_registered(self._reads.parser, prepared, live)
        if found is not None and request.id is not None and request.id > 0 and request.id != found.id:
            raise other_id(found.id, request.id)
        return found

    def _next_version(self, subject: str, request: SchemaRequest) -> int:
        highest = max(self._image.versions(subject), default=0)
        if request.version not in (None, 0, LATEST, highest + 1):
            raise invalid_schema(
                f"version {request.version} is not one more than the previous version {highest} "
                f"of subject {subject}"
            )
        return highest + 1

    def _import_version(self, subject: str, request: SchemaRequest) -> int:
        versions = self._image.versions(subject)
        wanted = request.version if request.version is not None and request.version > 0 else None
        if wanted is None:
            return max(versions, default=0) + 1
        if wanted > MAX_VERSION:
            raise invalid_schema(f"no version has the number {wanted}")
        there = versions.get(wanted)
        if there is not None and not there.deleted:
            raise not_permitted(
                f"Overwrite version {wanted} of subject {subject}, which has id {there.id}, is not permitted."
            )
        return wanted

    def _check_import_id(self, subject: str, schema: Schema, wanted: int) -> None:
        """42201, 42205: an id stands for one schema only."""
        if wanted > MAX_ID:
            raise invalid_schema(f"no schema has the id {wanted}")
        there = self._image.use(context_of(subject), wanted)
        if there is not None and there.schema.as_json() != schema.as_json():
            raise not_permitted(f"Overwrite new schema with id {wanted} is not permitted.")

    def _id_for(self, subject: str, schema: Schema) -> int:
        context = context_of(subject)
        known = self._image.id_of(context, schema)
        if known is not None:
            return known
        highest = self._image.highest_id(context)
        if highest >= MAX_ID:
            raise out_of_ids(context)
        return highest + 1

    def _stored(self, schema: Schema, subject: str, version: int, schema_id: int) -> Decision[StoredSchema]:
        """The records of a new version."""
        context = context_of(subject)
        records: list[Record] = []
        if not self._image.is_recorded(context):
            records.append(context_record(context))
        replaced = self._image.versions(subject).get(version)
        if replaced is not None and replaced.id != schema_id:
            records += kept_highest_ids(self._image, [replaced])
        records.append(schema_record(subject, version, schema_id, schema, False))
        for older in self._image.versions(subject).values():
            same = older.deleted and older.id == schema_id and older.version != version
            if same and all(one.deleted for one in self._reads.referrers(older)):
                records += self._image.tombstones(SchemaKey(subject, older.version))
        return Decision(tuple(records), StoredSchema(subject, version, schema_id, schema, False, 0))
