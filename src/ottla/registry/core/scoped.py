"""What holds for a subject: its own configuration and mode, else its context's, else that of all contexts."""

from __future__ import annotations

from dataclasses import fields, replace

from ottla.registry.core.configuration import Config
from ottla.registry.core.contexts import normal_subject, relative_to, scope_of, scopes_of, split_subject
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.records import Mode
from ottla.schemas.model import CompatibilityLevel, CompatibilityPolicy


class Scoped:
    """Settings in force. Field by field: a scope that says nothing of one leaves it to the next."""

    def __init__(self, image: RegistryImage, default_level: CompatibilityLevel) -> None:
        self._image = image
        self._default_level = default_level

    def config(self, subject: str | None) -> Config:
        """All that is configured for a subject or context, and the level in any case."""
        found = Config()
        own = scope_of(subject)
        for scope in scopes_of(subject):
            config = self._image.config(scope)
            if config is not None:
                if scope != own:
                    config = replace(config, alias=None, alias_for_deks=None)
                found = _completed(found, config)
        return _completed(found, Config(compatibility_level=self._default_level))

    def level(self, subject: str) -> CompatibilityLevel:
        """The compatibility level."""
        return self.config(subject).compatibility_level or self._default_level

    def policy(self, subject: str) -> CompatibilityPolicy:
        """How strictly JSON Schemas are compared."""
        return self.config(subject).compatibility_policy or CompatibilityPolicy.STRICT

    def mode(self, subject: str | None) -> Mode:
        """A context's READONLY_OVERRIDE, or that of all contexts, overrides what its subjects say."""
        modes = [mode for scope in scopes_of(subject) if (mode := self._image.mode(scope)) is not None]
        if Mode.READONLY_OVERRIDE in modes:
            return Mode.READONLY_OVERRIDE
        return modes[0] if modes else Mode.READWRITE

    def actual(self, subject: str) -> str:
        """The subject that this name stands for: itself, or what it is an alias of, in its own context.

        Aliases do not chain.
        """
        name = normal_subject(subject)
        if not split_subject(name)[1]:
            return name
        config = self._image.config(scope_of(name))
        return name if config is None or not config.alias else relative_to(name, config.alias)


def _completed(config: Config, other: Config) -> Config:
    absent = {
        field.name: getattr(other, field.name)
        for field in fields(Config)
        if getattr(config, field.name) is None
    }
    return replace(config, **absent)
