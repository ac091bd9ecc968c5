"""The primary's decisions, without I/O: a request becomes records to append and an answer.

Nothing changes until the records are replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.registry.core.adjusting import Adjusting
from ottla.registry.core.associations import Associations
from ottla.registry.core.deleting import Deleting
from ottla.registry.core.image import RegistryImage, StoredSchema
from ottla.registry.core.reading import Reads, SchemaRequest
from ottla.registry.core.registering import Registering
from ottla.registry.core.tags import TagRequest
from ottla.replicated.decision import Decision


class Writes:
    """Decisions. All raise ApiError with Confluent's codes."""

    def __init__(self, image: RegistryImage, reads: Reads, mode_mutability: bool = True) -> None:
        self._registering = Registering(image, reads)
        self._deleting = Deleting(image, reads)
        self.associations = Associations(image, reads)
        self._adjusting = Adjusting(image, reads, self._deleting, mode_mutability)

    def register(
        self, subject: str, request: SchemaRequest, normalize: bool = False, force: bool = False
    ) -> Decision[StoredSchema]:
        """Register a schema; one that was there, softly deleted or not, keeps its id. 409, 42201, 42205…

        `force`: also one that is incompatible.
        """
        return self._registering.register(subject, request, normalize, force)

    def change_tags(self, subject: str, version: int, request: TagRequest) -> Decision[StoredSchema]:
        """Register the version again, as the next one, with other tags. As `register`; 40401, 40402."""
        return self._registering.change_tags(subject, version, request)

    def delete_version(self, subject: str, version: int, permanent: bool = False) -> Decision[int]:
        """Delete a version, softly first. 40401, 40402, 40406, 40407, 42206."""
        return self._deleting.delete_version(subject, version, permanent)

    def delete_subject(
        self, subject: str, permanent: bool = False, *, associated: bool = False
    ) -> Decision[Sequence[int]]:
        """Delete all versions of a subject, softly first. 40401, 40404, 40405, 40907, 42206.

        `associated`: also if associations name it.
        """
        return self._deleting.delete_subject(subject, permanent, associated=associated)

    def set_config(self, subject: str | None, update: Mapping[str, Any]) -> Decision[Mapping[str, Any]]:
        """Merge the fields of PUT's body; the answer is as PUT's (`compatibility`…). 42203, 42205."""
        return self._adjusting.set_config(subject, update)

    def delete_config(self, subject: str | None) -> Decision[Mapping[str, Any]]:
        """The answer is the deleted configuration, as GET answers it. 40401."""
        return self._adjusting.delete_config(subject)

    def set_mode(self, subject: str | None, mode: str, force: bool = False) -> Decision[str]:
        """Set the mode of a subject or context. 42204, 42205."""
        return self._adjusting.set_mode(subject, mode, force)

    def delete_mode(self, subject: str | None, recursive: bool = False) -> Decision[str]:
        """Delete a mode; the answer is the mode before. 40401."""
        return self._adjusting.delete_mode(subject, recursive)

    def delete_context(self, context: str) -> Decision[None]:
        """Forget a context without subjects. 404, 42211."""
        return self._deleting.delete_context(context)
