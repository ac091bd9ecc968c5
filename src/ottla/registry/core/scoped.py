"""The settings in force for a subject: its own, else its context's, else those of all contexts."""

from __future__ import annotations

from dataclasses import fields, replace

from ottla.registry.core.configuration import Config
from ottla.registry.core.contexts import normal_subject, relative_to, scope_of, scopes_of, split_subject
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.records import Mode
from ottla.schemas.model import CompatibilityLevel, CompatibilityPolicy


class Scoped:
    """Settings in force, field by field: a field that a scope does not set is left to the next scope."""

    def __init__(self, image: RegistryImage, default: Config) -> None:
        """default: the fields that no scope sets; it has a level."""
        self._image = image
        self._default = default

    def config(self, subject: str | None) -> Config:
        """The configuration in force for a subject or context; it always has a level."""
        found = Config()
        own = scope_of(subject)
        for scope in scopes_of(subject):
            config = self._image.config(scope)
            if config is not None:
                if scope != own:
                    config = replace(config, alias=None, alias_for_deks=None)
                found = _completed(found, config)
        return _completed(found, self._default)

    def level(self, subject: str) -> CompatibilityLevel:
        """The compatibility level."""
        return self.config(subject).compatibility_level or CompatibilityLevel.BACKWARD

    def policy(self, subject: str) -> CompatibilityPolicy:
        """How strictly JSON Schemas are compared."""
        return self.config(subject).compatibility_policy or CompatibilityPolicy.STRICT

    def mode(self, subject: str | None) -> Mode:
        """A READONLY_OVERRIDE of the context, or of all contexts, overrides the subject's own mode."""
        modes = [mode for scope in scopes_of(subject) if (mode := self._image.mode(scope)) is not None]
        if Mode.READONLY_OVERRIDE in modes:
            return Mode.READONLY_OVERRIDE
        return modes[0] if modes else Mode.READWRITE

    def actual(self, subject: str) -> str:
        """The subject that this name means: itself, or the one that it is an alias of, in the same context.

        Aliases do not chain.
        """
        name = normal_subject(subject)
        if not split_subject(name)[1]:
            return name
        config = self._image.config(scope_of(name))
        return name if config is None or not config.alias else relative_to(name, config.alias)

    def actual_of_keys(self, subject: str) -> str:
        """The subject whose data encryption keys this name means; `aliasForDeks` goes before `alias`."""
        name = normal_subject(subject)
        config = self._image.config(scope_of(name)) if split_subject(name)[1] else None
        alias = None if config is None else config.alias_for_deks or config.alias
        return relative_to(name, alias) if alias else name


def _completed(config: Config, other: Config) -> Config:
    absent = {
        field.name: getattr(other, field.name)
        for field in fields(Config)
        if getattr(config, field.name) is None
    }
    return replace(config, **absent)
