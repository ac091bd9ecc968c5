"""The configuration of a subject, a context or the whole registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from ottla.schemas.model import CompatibilityLevel, CompatibilityPolicy, Metadata, RuleSet


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one scope; None is not set there. JSON names are the fields' in camel case."""

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: CompatibilityLevel | None = None
    compatibility_policy: CompatibilityPolicy | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    def as_json(self) -> dict[str, Any]:
        """Without the fields that are None."""
        found: dict[str, Any] = {}
        for attribute, name in JSON_NAMES.items():
            match getattr(self, attribute):
                case None:
                    pass
                case (Metadata() | RuleSet()) as part:
                    found[name] = part.as_json()
                case value:
                    found[name] = value
        return found

    def merged(self, update: Mapping[str, Any]) -> Config:
        """With the fields that `update` (JSON) names; null forgets one. Raises ValueError."""
        changes: dict[str, Any] = {}
        for attribute, name in JSON_NAMES.items():
            if name in update:
                value = update[name]
                changes[attribute] = None if value is None else _read(attribute, name, value)
        return replace(self, **changes)


def _read(attribute: str, name: str, value: Any) -> Any:
    match attribute:
        case "compatibility_level":
            if not isinstance(value, str) or value not in CompatibilityLevel.__members__:
                raise ValueError(f"{name} can't be {str(value)[:100]}")
            return CompatibilityLevel(value)
        case "compatibility_policy":
            if not isinstance(value, str) or value not in CompatibilityPolicy.__members__:
                raise ValueError(f"{name} can't be {str(value)[:100]}")
            return CompatibilityPolicy(value)
        case "default_metadata" | "override_metadata":
            return Metadata.from_json(value)
        case "default_rule_set" | "override_rule_set":
            return RuleSet.from_json(value)
        case "alias" | "alias_for_deks" | "compatibility_group":
            if not isinstance(value, str):
                raise ValueError(f"{name} must be a text")
            return value
        case _:
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false")
            return value


def json_name(attribute: str) -> str:
    """An attribute's name in JSON: `enable_at` is `enableAt`."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


JSON_NAMES: Final[Mapping[str, str]] = {field.name: json_name(field.name) for field in fields(Config)}
"""Field -> its JSON name; the body of PUT has `compatibility` for `compatibilityLevel`."""
DEFAULT_CONFIG: Final = Config(compatibility_level=CompatibilityLevel.BACKWARD)
"""The configuration of a registry that was given none."""
