"""What an operation asks of its caller's grants, and the names that a request's subject stands for.

The check is of actual names: a subject may be an alias, and one without a context may be found in another
context, so the name in the path alone would open what it does not name. A schema by its id may be read by
those who may read a subject that has it; for all others there is no such schema.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from ottla.registry.core.contexts import context_of, in_context, relative_to
from ottla.registry.core.failures import schema_not_found, subject_not_found
from ottla.registry.core.image import StoredSchema
from ottla.registry.core.reading import SchemaRequest
from ottla.registry.registry import Registry
from ottla.registry.routes.parameters import path_text, subject_of
from ottla.web.access_rules import UNLIMITED, Action
from ottla.web.callers import denied, grants_of


class Extent(enum.Enum):
    """The things that the action of an operation is done to."""

    NOTHING = enum.auto()
    """To nothing that has an owner: any caller may."""
    SUBJECT = enum.auto()
    """To the path's subject, or the subject that it stands for."""
    SCOPE = enum.auto()
    """To the configuration or mode of the path's very subject or context."""
    CONTEXT = enum.auto()
    """To the path's context."""
    KEK = enum.auto()
    """To the path's key encryption key, whose name counts as a subject's does."""
    DEK = enum.auto()
    """To the data encryption keys of the path's subject, or of the subject that it stands for there."""
    SOME = enum.auto()
    """To the things that the caller may have: the endpoint leaves the others out."""
    ALL = enum.auto()
    """To everything."""


@dataclass(frozen=True, slots=True)
class Need:
    """The action of an operation, and the things that it is done to."""

    action: Action
    extent: Extent


ANYBODY: Final = Need(Action.READ, Extent.NOTHING)
READ_SOME: Final = Need(Action.READ, Extent.SOME)
READ_SUBJECT: Final = Need(Action.READ, Extent.SUBJECT)
WRITE_SUBJECT: Final = Need(Action.WRITE, Extent.SUBJECT)
ADMIN_SUBJECT: Final = Need(Action.ADMIN, Extent.SUBJECT)
READ_SCOPE: Final = Need(Action.READ, Extent.SCOPE)
ADMIN_SCOPE: Final = Need(Action.ADMIN, Extent.SCOPE)
WRITE_SOME: Final = Need(Action.WRITE, Extent.SOME)
WRITE_KEK: Final = Need(Action.WRITE, Extent.KEK)
ADMIN_KEK: Final = Need(Action.ADMIN, Extent.KEK)
READ_DEK: Final = Need(Action.READ, Extent.DEK)
WRITE_DEK: Final = Need(Action.WRITE, Extent.DEK)
ADMIN_DEK: Final = Need(Action.ADMIN, Extent.DEK)
ADMIN_CONTEXT: Final = Need(Action.ADMIN, Extent.CONTEXT)
ADMIN_ALL: Final = Need(Action.ADMIN, Extent.ALL)


def require(request: Request, registry: Registry, need: Need) -> None:
    """Raises ApiError 40301 if the caller may not have the operation done."""
    grants, action = grants_of(request.scope), need.action
    if grants is UNLIMITED:
        return
    match need.extent:
        case Extent.NOTHING:
            return
        case Extent.SOME if grants.allow_some(action):
            return
        case Extent.ALL if grants.allow_all(action):
            return
        case Extent.SUBJECT:
            _require_subject(request, registry, action, subject_of(request))
            return
        case Extent.SCOPE:
            scope = subject_of(request)
            # A context's own configuration and mode hold for all of its subjects.
            allowed = grants.allow_prefix if scope.endswith(":") else grants.allow
            if allowed(action, scope):
                return
        case Extent.KEK:
            require_name(request, action, path_text(request, "kek"))
            return
        case Extent.DEK:
            require_name(request, action, key_subject_of(request, registry))
            return
        case Extent.CONTEXT:
            context = path_text(request, "context").strip(":")
            if grants.allow_prefix(action, in_context(context, "")):
                return
    raise denied(request.scope, action, "this")


def _require_subject(request: Request, registry: Registry, action: Action, subject: str) -> None:
    """Raises ApiError 40301 if the caller may not do this to all that the subject stands for.

    40401 for a subject that the caller may read and that only other contexts have.
    """
    grants, reads = grants_of(request.scope), registry.reads
    actual, names = reads.scoped.actual(subject), reads.names_of(subject)
    if action is not Action.READ and not grants.allow(action, actual):  # where a new version goes
        raise denied(request.scope, action, f"subject {subject}")
    if all(grants.allow(action, name) for name in names):
        return
    if action is Action.READ and actual not in names and grants.allow(action, actual):
        raise subject_not_found(subject)
    raise denied(request.scope, action, f"subject {subject}")


def require_name(request: Request, action: Action, name: str) -> None:
    """Raises ApiError 40301 if the caller may not do this to the subject, or the key, of this very name."""
    if not grants_of(request.scope).allow(action, name):
        raise denied(request.scope, action, name)


def require_all(request: Request, action: Action, purpose: str) -> None:
    """Raises ApiError 40301 if the caller may not do this to everything, as `purpose` takes."""
    if not grants_of(request.scope).allow_all(action):
        raise denied(request.scope, action, f"everything, which {purpose} takes")


def key_subject_of(request: Request, registry: Registry) -> str:
    """The subject whose data encryption keys the path's subject means."""
    return registry.reads.scoped.actual_of_keys(subject_of(request))


def require_references(request: Request, registry: Registry, subject: str, wanted: SchemaRequest) -> None:
    """Raises ApiError 40301 if the caller may not read a subject that the schema refers to."""
    if grants_of(request.scope) is UNLIMITED:
        return
    for reference in wanted.schema.references:
        _require_subject(request, registry, Action.READ, relative_to(subject, reference.subject))


def may_read(request: Request, subject: str) -> bool:
    """Whether the caller may read this very subject."""
    return grants_of(request.scope).allow(Action.READ, subject)


def readable(request: Request, registry: Registry, stored: StoredSchema) -> StoredSchema:
    """The schema, as a version of a subject that the caller may read. Raises ApiError 40403."""
    if may_read(request, stored.subject):
        return stored
    for other in registry.image.uses(context_of(stored.subject), stored.id):
        if may_read(request, other.subject):
            return other
    raise schema_not_found(stored.id)
