"""Decides changes of configuration and mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.registry.core.configuration import JSON_NAMES, Config
from ottla.registry.core.contexts import GLOBAL_SCOPE, context_of, is_subject, scope_of, split_subject
from ottla.registry.core.deleting import Deleting
from ottla.registry.core.erasing import erased
from ottla.registry.core.failures import (
    invalid_config,
    invalid_level,
    invalid_mode,
    invalid_subject,
    not_permitted,
    read_only,
    subject_not_found,
)
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.reading import Reads
from ottla.registry.core.records import Mode, SubjectKey, clear_subject_record, config_record, mode_record
from ottla.registry.core.registering import READ_ONLY_MODES
from ottla.registry.core.rules import check_rules
from ottla.replicated.decision import Decision
from ottla.replicated.records import Record
from ottla.schemas.model import CompatibilityLevel


class Adjusting:
    """Decisions about settings."""

    def __init__(self, image: RegistryImage, reads: Reads, deleting: Deleting, mode_mutability: bool) -> None:
        self._image = image
        self._reads = reads
        self._deleting = deleting
        self._mode_mutability = mode_mutability

    def set_config(self, subject: str | None, update: Mapping[str, Any]) -> Decision[Mapping[str, Any]]:
        """Fields of PUT's body, null to take one away. 42203, 42205, 42208, 42210."""
        scope = self._writable(subject)
        named = _with_record_names(update)
        known = [name for name in JSON_NAMES.values() if name in named]
        level = named.get("compatibilityLevel", "NONE")
        if not known or level not in (None, *CompatibilityLevel.__members__):
            raise invalid_level()
        try:
            config = (self._image.config(scope) or Config()).merged(named)
        except ValueError as problem:
            raise invalid_config(str(problem)) from None
        check_rules(config.default_rule_set)
        check_rules(config.override_rule_set)
        told = {name: value for name, value in config.as_json().items() if name in known}
        answer = {"compatibility" if name == "compatibilityLevel" else name: told[name] for name in told}
        return Decision((config_record(scope, config),), answer)

    def delete_config(self, subject: str | None) -> Decision[Mapping[str, Any]]:
        """The answer is the configuration that was deleted, as GET answers it. 40401, 42205."""
        scope = self._writable(subject)
        config = self._image.config(scope)
        if config is None:
            if scope is not None:
                raise subject_not_found(scope)
            return Decision((), self._reads.config(None))
        return Decision(tuple(self._image.tombstones(SubjectKey("CONFIG", scope))), config.as_json())

    def set_mode(self, subject: str | None, mode: str, force: bool = False) -> Decision[str]:
        """IMPORT needs a scope without live subjects, or `force`; it erases deleted ones. 42204, 42205."""
        scope = self._mutable(subject)
        if mode not in Mode.__members__:
            raise invalid_mode()
        records: list[Record] = []
        if mode == Mode.IMPORT and self._reads.scoped.mode(scope) is not Mode.IMPORT:
            leftovers, some_live = self._deleting.leftovers(scope)
            if some_live and not force:
                raise not_permitted("Cannot import since found existing subjects")
            records += erased(self._image, leftovers)
            records += [clear_subject_record(name) for name in sorted({one.subject for one in leftovers})]
        return Decision((*records, mode_record(scope, Mode(mode))), mode)

    def delete_mode(self, subject: str | None, recursive: bool = False) -> Decision[str]:
        """`recursive`: the modes of all subjects of the context too. The answer is the mode before. 40401."""
        scope = self._mutable(subject)
        own = self._image.mode(scope)
        gone = [] if own is None else [scope]
        if recursive:
            gone += [one for one in self._image.modes() if one != scope and _below(one, scope)]
        if own is None and scope is not None and not gone:
            raise subject_not_found(scope)
        before = self._reads.scoped.mode(scope) if own is None else own
        records = [record for one in gone for record in self._image.tombstones(SubjectKey("MODE", one))]
        return Decision(tuple(records), before)

    def _writable(self, subject: str | None) -> str | None:
        scope = _checked_scope(subject)
        if self._reads.scoped.mode(scope) in READ_ONLY_MODES:
            raise read_only(scope)
        return scope

    def _mutable(self, subject: str | None) -> str | None:
        if not self._mode_mutability:
            raise not_permitted("Mode changes are not allowed")
        return _checked_scope(subject)


def _checked_scope(subject: str | None) -> str | None:
    """The scope of a subject or context. 42208 for a name that is neither."""
    scope = scope_of(subject)
    if scope is None or scope == GLOBAL_SCOPE:
        return scope
    context, name = split_subject(scope)
    if not is_subject(scope if name else f":{context}:any"):
        raise invalid_subject(scope)
    return scope


def _with_record_names(update: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: value for name, value in update.items() if name != "compatibility"}
    if "compatibility" in update:
        named["compatibilityLevel"] = update["compatibility"]
    if named.get("alias") == "":
        named["alias"] = None
    return named


def _below(one: str | None, scope: str | None) -> bool:
    """Whether a scope is a subject in the context that `scope` is."""
    if one is None or one == GLOBAL_SCOPE:
        return False
    if scope == GLOBAL_SCOPE:
        return True
    context, name = split_subject(scope or "")
    return not name and context_of(one) == context
