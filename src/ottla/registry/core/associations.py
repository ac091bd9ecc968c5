"""Associations: which subject holds the schemas of a resource's keys or values (a topic's, so far).

A strong association is the topic's own: made with the topic and its first schema, its subject belongs to it
alone and can't be referred to, and it never changes. A weak one names a subject that others may use too. A
subject with associations keeps an active version.

Built from the public client library and the shapes of requests and answers; without a server to compare with.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.registry.core.contexts import in_context, is_subject, normal_subject
from ottla.registry.core.failures import (
    association_frozen,
    association_not_found,
    invalid_association,
    invalid_subject,
    no_active_version,
    read_only,
    resource_associated,
    strongly_associated,
    subject_associated,
    subject_referenced,
)
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.matching import find_registered, prepare
from ottla.registry.core.reading import Reads, SchemaRequest
from ottla.registry.core.records import Association, Lifecycle, Mode, association_record
from ottla.registry.core.registering import READ_ONLY_MODES
from ottla.replicated.decision import Decision
from ottla.replicated.records import Record

TOPIC: Final = "topic"
ANY_NAME: Final = "-"
"""In place of a resource's name or namespace: all of them."""


class AssociationType(enum.StrEnum):
    """The part of a record whose schemas a subject holds."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One association of a request. schema: to be registered with it. frozen: None if it is not said."""

    type: AssociationType
    subject: str | None = None
    lifecycle: Lifecycle | None = None
    frozen: bool | None = None
    schema: SchemaRequest | None = None
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A request to make (`creates`) or to change the associations of a resource."""

    name: str
    namespace: str
    resource_id: str
    wanted: tuple[Wanted, ...]
    creates: bool
    context: str = "."

    def own_subject(self, kind: AssociationType) -> str:
        """The subject of a strong association."""
        return f":.{self.namespace}:{self.name}-{kind}"


class Associations:
    """Queries and decisions about associations. All raise ApiError with Confluent's codes."""

    def __init__(self, image: RegistryImage, reads: Reads) -> None:
        self._image = image
        self._reads = reads

    def of_subject(
        self, subject: str, resource_type: str = TOPIC, types: Collection[str] = (), lifecycle: str = ""
    ) -> list[Association]:
        """Those of one subject, in order."""
        name = self._reads.scoped.actual(subject)
        return [one for one in self._all(resource_type, types, lifecycle) if one.subject == name]

    def of_resource(
        self, resource_id: str, resource_type: str = TOPIC, types: Collection[str] = (), lifecycle: str = ""
    ) -> list[Association]:
        """Those of the resource with this id, in order."""
        return [one for one in self._all(resource_type, types, lifecycle) if one.resource_id == resource_id]

    def of_name(
        self,
        name: str,
        namespace: str,
        resource_type: str = TOPIC,
        types: Collection[str] = (),
        lifecycle: str = "",
    ) -> list[Association]:
        """Those of the resources of this name, in order; ANY_NAME for all names, or namespaces."""
        return [
            one
            for one in self._all(resource_type, types, lifecycle)
            if name in (ANY_NAME, one.resource_name) and namespace in (ANY_NAME, one.resource_namespace)
        ]

    def associate(self, request: ResourceRequest, guids: Sequence[str]) -> Decision[tuple[Association, ...]]:
        """Make or change a resource's associations; their schemas are registered before.

        The answer is those that were made or changed. guids: one for each that may be new. 40401, 40903 to
        40908, 42205, 42206, 42208, 42212.
        """
        done: list[Association] = []
        for wanted, guid in zip(self.checked(request), guids, strict=True):
            before = self._of(request, wanted.type)
            assert wanted.subject is not None
            assert wanted.lifecycle is not None
            if before is not None and before.lifecycle is wanted.lifecycle:
                continue
            if before is None:
                after = Association(
                    wanted.subject,
                    guid,
                    request.name,
                    request.namespace,
                    request.resource_id,
                    TOPIC,
                    wanted.type,
                    wanted.lifecycle,
                )
            else:
                after = replace(before, lifecycle=wanted.lifecycle)
            done.append(after)
        return Decision(tuple(association_record(one) for one in done), tuple(done))

    def checked(self, request: ResourceRequest) -> tuple[Wanted, ...]:
        """The request with what it leaves out, if it may be carried out. As `associate`."""
        types = [one.type for one in request.wanted]
        if len(set(types)) < len(types):
            raise invalid_association("associationType", "may only appear once per request")
        wanted = tuple(self._completed(request, one) for one in request.wanted)
        lifecycles = {one.association_type: one.lifecycle for one in self.of_resource(request.resource_id)}
        lifecycles |= {one.type: one.lifecycle for one in wanted if one.lifecycle is not None}
        if len(set(lifecycles.values())) > 1:
            told = ", ".join(f"{kind}={lifecycle}" for kind, lifecycle in lifecycles.items())
            raise invalid_association(
                "lifecycle", f"all associations for a resource must have the same lifecycle, but got {told}"
            )
        for one in wanted:
            self._check(request, one)
        return wanted

    def delete(self, association: Association) -> Decision[None]:
        """Forget one association."""
        return Decision(tuple(self._image.tombstones(association.key)), None)

    def deletable(
        self, resource_id: str, resource_type: str, types: Collection[str], cascades: bool
    ) -> list[Association]:
        """The associations that a deletion takes away. 40410, 40908, 42205."""
        found = self.of_resource(resource_id, resource_type, types)
        if not found:
            raise association_not_found(resource_id)
        for one in found:
            if self._reads.scoped.mode(one.subject) in READ_ONLY_MODES:
                raise read_only(one.subject)
            if one.is_frozen and not cascades:
                raise association_frozen(one.association_type, one.subject)
        return found

    def _all(self, resource_type: str, types: Collection[str], lifecycle: str) -> Iterable[Association]:
        for one in sorted(self._image.associations(), key=Association.order):
            if (
                one.resource_type == (resource_type or TOPIC)
                and (not types or one.association_type in types)
                and lifecycle in ("", one.lifecycle)
            ):
                yield one

    def _of(self, request: ResourceRequest, kind: AssociationType) -> Association | None:
        return next(iter(self.of_resource(request.resource_id, types=(kind,))), None)

    def _completed(self, request: ResourceRequest, wanted: Wanted) -> Wanted:
        """With its subject and lifecycle, which fit each other and the association that is there. 42212."""
        before = self._of(request, wanted.type)
        own = request.own_subject(wanted.type)
        lifecycle = wanted.lifecycle
        if not request.creates and wanted.schema is not None:
            raise invalid_association("schema", "an association with a schema must be created with the topic")
        if wanted.schema is not None:
            if lifecycle is Lifecycle.WEAK:
                raise invalid_association("lifecycle", "cannot be WEAK when schema is provided")
            lifecycle = Lifecycle.STRONG
        if lifecycle is None:
            lifecycle = Lifecycle.WEAK if before is None else before.lifecycle
        if wanted.frozen is not None and wanted.frozen != (lifecycle is Lifecycle.STRONG):
            word = str(wanted.frozen).lower()
            raise invalid_association(
                "frozen", f"association with lifecycle of {lifecycle} cannot be frozen={word}"
            )
        subject = wanted.subject
        if subject is None:
            if before is not None:
                subject = before.subject
            elif lifecycle is Lifecycle.STRONG:
                subject = own
            else:
                raise invalid_association("subject", "must be provided for WEAK associations")
        elif not subject.startswith(":."):
            subject = in_context(request.context, subject)
        subject = self._reads.scoped.actual(normal_subject(subject))
        if not is_subject(subject):
            raise invalid_subject(subject)
        if lifecycle is Lifecycle.STRONG and subject != normal_subject(own):
            raise invalid_association("subject", f"frozen associations must use subject '{own}'")
        if lifecycle is Lifecycle.WEAK and subject == normal_subject(own):
            raise invalid_association("subject", f"WEAK associations cannot use subject '{own}'")
        return replace(wanted, subject=subject, lifecycle=lifecycle)

    def _check(self, request: ResourceRequest, wanted: Wanted) -> None:
        """Whether the association fits those that are there, and its subject. As `associate`."""
        subject, kind, before = wanted.subject, wanted.type, self._of(request, wanted.type)
        assert subject is not None
        mode = self._reads.scoped.mode(subject)
        if mode in READ_ONLY_MODES:
            raise read_only(subject)
        if before is not None:
            if before.subject != subject:
                if request.creates:
                    raise resource_associated(kind, request.name)
                raise invalid_association(
                    "subject", f"cannot be changed from '{before.subject}' to '{subject}'"
                )
            if before.lifecycle is not wanted.lifecycle:
                if request.creates:
                    raise resource_associated(kind, request.name)
                if before.is_frozen:
                    raise association_frozen(kind, subject)
            if request.creates and wanted.schema is not None and not self._has(subject, wanted):
                raise resource_associated(kind, request.name)
        elif wanted.lifecycle is Lifecycle.STRONG and mode is not Mode.IMPORT:
            self._check_new_strong(request, wanted, subject)
        if wanted.schema is not None and mode is Mode.IMPORT:
            raise invalid_association(
                "schema", f"cannot be provided while subject '{subject}' is in IMPORT mode"
            )
        if wanted.schema is None and next(self._image.newest_first(subject), None) is None:
            raise no_active_version(subject)
        others = [one for one in self.of_subject(subject) if before is None or one.key != before.key]
        if wanted.lifecycle is Lifecycle.STRONG:
            if others:
                raise subject_associated(subject)
            if self._is_referenced(request, subject):
                raise subject_referenced(subject)
        elif any(one.lifecycle is Lifecycle.STRONG for one in others):
            raise strongly_associated(subject)

    def _check_new_strong(self, request: ResourceRequest, wanted: Wanted, subject: str) -> None:
        if not request.creates:
            raise invalid_association(
                "lifecycle",
                "cannot be STRONG when creating an association; "
                "STRONG associations must be created with the topic",
            )
        if wanted.schema is None:
            raise invalid_association("schema", "schema must be provided when creating a frozen association")
        latest = next(self._image.newest_first(subject), None)
        if latest is not None and (latest.version != 1 or not self._has(subject, wanted)):
            raise invalid_association(
                "frozen", "cannot create a frozen association when schemas already exist in the subject"
            )

    def _has(self, subject: str, wanted: Wanted) -> bool:
        """Whether the subject has the schema of the request. 42201, PutOff."""
        assert wanted.schema is not None
        prepared = prepare(self._reads.parser, subject, wanted.schema.schema, wanted.normalize, new=False)
        return find_registered(self._reads.parser, prepared, self._image.newest_first(subject)) is not None

    def _is_referenced(self, request: ResourceRequest, subject: str) -> bool:
        schemas = [one.schema.schema for one in request.wanted if one.schema is not None]
        if any(normal_subject(ref.subject) == subject for schema in schemas for ref in schema.references):
            return True
        return any(
            not referrer.deleted
            for stored in self._image.newest_first(subject)
            for referrer in self._reads.referrers(stored)
        )


def require_no_associations(image: RegistryImage, subject: str) -> None:
    """A subject with associations keeps an active version. 40907."""
    if any(one.subject == subject for one in image.associations()):
        raise no_active_version(subject)


def forgotten(image: RegistryImage, subject: str) -> list[Record]:
    """The records that forget the associations of a subject that is gone for good."""
    gone = [one for one in image.associations() if one.subject == subject]
    return [record for one in gone for record in image.tombstones(one.key)]
